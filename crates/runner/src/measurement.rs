//! Runs a plan's programs in a lab, and takes everything that was counted.

use crate::controller::{Phase, ProgressSink, RunController};
use crate::error::Error;
use crate::faults::{Faults, InjectedFault};
use crate::folder::Folder;
use crate::hardware;
use crate::idle::IdleTimeouts;
use crate::interaction::port_down;
use crate::jobs::Job;
use crate::kernel_counts;
use crate::live::{ControlSocket, Inventory, ManualChange, NodeApi};
use crate::netem::{self, Impairments};
use crate::pinning::Affinity;
use crate::prepare::Prepared;
use crate::run::{Begun, Options, interactions};
use crate::uplink::Uplink;
use engine::{Engine, FramePath, Outcome, Refused};
use experiment::Plan;
use lab::{Lab, Scheduled};
use measure::{Accounting, Counts, Decisions, Failure, Sampler, Usage, Written};
use record::InteractionPattern;
use std::sync::Arc;
use units::Span;

/// Busy-wait time before a frame is due: the lateness of a timer.
const SPIN_NS: u64 = 60_000;

/// What a run measured; the lab is gone.
pub(crate) struct Measured {
    pub phases: Vec<Begun>,
    /// Offset 0, as a monotonic time in ns.
    pub start_ns: u64,
    pub jobs: Vec<Job>,
    pub failures: Vec<Failure>,
    pub faults: Vec<InjectedFault>,
    /// Changes made by hand during the run.
    pub changes: Vec<ManualChange>,
    pub usage: Usage,
    /// Run and wait time of each node's programs, at the start and at the end.
    pub scheduled: [Vec<Scheduled>; 2],
    /// Frames that the kernel dropped before its backlog.
    pub backlog_drops: u64,
    /// Impairments that the kernel made.
    pub by_netem: Vec<netem::Done>,
    /// The kernel's counters of each node's interfaces.
    pub kernel: Vec<Option<lab::Counters>>,
    pub socket_drops: u64,
    /// Why resource usage does not come from control groups, if so.
    pub uncounted: Option<String>,
    pub frame_path: FramePath,
    /// Why the frame path is not the fastest, or that it was requested.
    pub why_path: Option<String>,
    pub outcome: Outcome<Accounting>,
    pub captured: Written,
    /// Number of decisions missing in `decisions.parquet`.
    pub decisions_missed: u64,
}

/// A lab whose frames are forwarded. Fields are dropped in this order.
struct Bench {
    uplinks: Vec<Uplink>,
    engine: Engine<Accounting>,
    refused: Refused,
    impairments: Impairments,
    lab: Lab,
    counts: Arc<Counts>,
    frame_path: FramePath,
}

/// What the controller leaves.
struct Conducted {
    phases: Vec<Begun>,
    start_ns: u64,
    jobs: Vec<Job>,
    failures: Vec<Failure>,
    faults: Vec<InjectedFault>,
    changes: Vec<ManualChange>,
    usage: Usage,
    scheduled: [Vec<Scheduled>; 2],
    backlog_drops: u64,
    by_netem: Vec<netem::Done>,
}

/// Brings the lab up, runs the programs in it, and takes it down.
///
/// # Errors
/// The failed step; nothing of the lab is left then.
pub(crate) fn measure(
    plan: &Plan,
    folder: &Folder,
    options: &Options<'_>,
    prepared: &mut Prepared,
    watch: &mut dyn ProgressSink,
    up: Begun,
) -> Result<Measured, Error> {
    let mut bench = Bench::start(plan, folder, options, prepared)?;
    let conducted = bench.conduct(plan, folder, options, prepared, watch, up)?;
    bench.take_down(prepared, conducted)
}

impl Bench {
    fn start(
        plan: &Plan,
        folder: &Folder,
        options: &Options<'_>,
        prepared: &mut Prepared,
    ) -> Result<Self, Error> {
        let capture = prepared.capture.take();
        let (topology, path) = (&prepared.topology, &prepared.path);
        let (mut lab, mut ends) =
            Lab::up(options.tool, &topology.members, &topology.hosts, path.link)?;
        hardware::attach(plan, &mut ends)?;
        let ends: Vec<_> = ends.into_iter().flatten().collect();
        let impairments = Impairments::of(plan, &topology.places, &ends)
            .map_err(Error::io("save the state of links"))?;
        let backend = path.carrier(&mut lab, ends)?;
        let frame_path = backend.path();
        let refused =
            backend.refused().map_err(Error::io("count the frames that interfaces dropped"))?;
        let waker = backend.waker();
        let mut accounting = Accounting::new(topology.owners.clone(), pgm_ports(plan), capture);
        accounting.keep_decisions(Decisions::begin(&folder.path().join("decisions.parquet"))?);
        let counts = accounting.counts();
        // Threads inherit the affinity.
        let affinity = prepared.pinning().and_then(|pinning| Affinity::on(pinning.medium));
        let spin_ns = if options.spin { SPIN_NS } else { 0 };
        let (segments, places) = (topology.segments.clone(), topology.places.clone());
        let engine = Engine::start_spinning(backend, waker, segments, places, accounting, spin_ns)
            .map_err(Error::io("start forwarding"))?;
        drop(affinity);
        let uplinks = Uplink::all(plan, &lab)?;
        Ok(Self { uplinks, engine, refused, impairments, lab, counts, frame_path })
    }

    /// From the programs' start to their end.
    fn conduct(
        &mut self,
        plan: &Plan,
        folder: &Folder,
        options: &Options<'_>,
        prepared: &mut Prepared,
        watch: &mut dyn ProgressSink,
        up: Begun,
    ) -> Result<Conducted, Error> {
        let Self { engine, impairments, lab, counts, .. } = self;
        let mut phases = vec![up];
        // A run does not need a control socket to work.
        let inventory = Inventory::of(plan, &prepared.topology);
        let (socket, requests) = ControlSocket::open(&inventory, engine.remote()).ok().unzip();
        let node_api = NodeApi {
            inventory: inventory.clone(),
            folder: folder.path().to_owned(),
            run: true,
            since: up.1,
            interrupted: options.interrupted,
            counts: counts.clone(),
            scale_up: None,
        };
        let mut controller = RunController {
            lab,
            engine,
            inventory,
            jobs: std::mem::take(&mut prepared.jobs),
            interrupted: options.interrupted,
            watch,
            expected: expected(plan),
            failures: Vec::new(),
            contended: None,
            start_ns: None,
            phase: Phase::Up,
            until_ns: None,
            faults: Faults::new(&plan.faults),
            clients: requests.map(|requests| (requests, node_api)),
        };
        phases.push(("set-up", engine::monotonic_now()));
        controller.set_up(plan.setup_limit, &prepared.programs)?;
        let names = prepared.topology.members.iter().map(|m| m.spec.name.clone()).collect();
        let sampler = Sampler::begin(names, controller.lab.meter(), counts.clone())
            .map_err(Error::io("start sampling"))?;
        let before = lab::scheduled(&controller.lab.pids());
        let backlog_before = kernel_counts::backlog_drops();
        phases.push(("load", engine::monotonic_now()));
        impairments.begin(controller.lab)?;
        let start_ns = controller.begin()?;
        controller.last(plan.duration, plan.drain, idle_timeouts(plan))?;
        phases.push(("drain", (start_ns + plan.duration.as_ns()).min(engine::monotonic_now())));
        engine.end();
        let scheduled = [before, lab::scheduled(&controller.lab.pids())];
        let backlog_drops = kernel_counts::backlog_drops().saturating_sub(backlog_before);
        let by_netem = impairments.done(controller.lab);
        let changes = socket.map(ControlSocket::close).unwrap_or_default();
        let usage = sampler.end();
        let usage = if options.is_costless() { usage.without_cpu() } else { usage };
        phases.push(("stop", engine::monotonic_now()));
        controller.stop()?;
        phases.push(("write", engine::monotonic_now()));
        controller.phase = Phase::Write;
        let RunController { jobs, mut failures, faults, .. } = controller;
        let by_netem = by_netem.unwrap_or_else(|error| {
            failures.push(Failure::Bed(error.to_string()));
            Vec::new()
        });
        Ok(Conducted {
            phases,
            start_ns,
            jobs,
            failures,
            faults: faults.made,
            changes,
            usage,
            scheduled,
            backlog_drops,
            by_netem,
        })
    }

    /// Reads the kernel's counters, ends forwarding and removes the lab.
    fn take_down(self, prepared: &Prepared, conducted: Conducted) -> Result<Measured, Error> {
        let Self { uplinks, engine, refused, lab, frame_path, .. } = self;
        let Conducted {
            phases,
            start_ns,
            jobs,
            mut failures,
            faults,
            changes,
            usage,
            scheduled,
            backlog_drops,
            by_netem,
        } = conducted;
        let topology = &prepared.topology;
        let kernel =
            kernel_counts::settled(&engine, || kernel_counts::read(&lab, topology, &refused));
        drop(refused);
        let socket_drops = lab.pids().into_iter().map(lab::socket_drops).sum();
        let mut outcome = engine.stop().map_err(Error::io("forward frames"))?;
        drop(uplinks);
        let uncounted = lab.uncounted().map(str::to_owned);
        drop(lab);
        let captured = match outcome.observer.take_capture() {
            Some(capture) => capture.end().unwrap_or_else(|error| {
                failures.push(Failure::Bed(error.to_string()));
                Written::default()
            }),
            None => Written::default(),
        };
        let decisions_missed = match outcome.observer.take_decisions() {
            Some(decisions) => decisions.end()?,
            None => 0,
        };
        Ok(Measured {
            phases,
            start_ns,
            jobs,
            failures,
            faults,
            changes,
            usage,
            scheduled,
            backlog_drops,
            by_netem,
            kernel,
            socket_drops,
            uncounted,
            frame_path,
            why_path: prepared.path.why(),
            outcome,
            captured,
            decisions_missed,
        })
    }
}

/// Number of answers that the schedules should produce.
fn expected(plan: &Plan) -> u64 {
    let answers: u64 = interactions(plan).map(|(_, interaction)| interaction.replies()).sum();
    answers + crate::mqtt::expected(plan) + crate::exchange::expected(plan)
}

fn idle_timeouts(plan: &Plan) -> IdleTimeouts {
    let unreliable = interactions(plan).all(|(_, i)| {
        [i.down, i.up].iter().all(|way| *way == InteractionPattern::UdpRequestResponse)
    });
    // An exchange ends by itself, at the latest after its timeout.
    let longest = crate::exchange::workloads(plan)
        .map(|(_, exchange)| exchange.timeout.as_ns() + exchange.pause.as_ns())
        .max();
    // So does a request.
    let requests = crate::load::workloads(plan).map(|(_, load)| load.may_be_late().as_ns());
    if let Some(longest) = longest.into_iter().chain(requests).max() {
        return IdleTimeouts::at_least(Span::from_ns(longest));
    }
    // Frames in netem's queue are not visible, so a short time without frames proves little.
    if unreliable && !netem::is_used(plan) {
        IdleTimeouts::UNRELIABLE
    } else {
        IdleTimeouts::RELIABLE
    }
}

fn pgm_ports(plan: &Plan) -> Vec<u16> {
    let pgm = interactions(plan).filter(|(_, i)| i.down == InteractionPattern::PgmPublishSubscribe);
    pgm.map(|(number, _)| port_down(number)).collect()
}
