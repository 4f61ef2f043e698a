//! One run, from a plan to its run folder.

use crate::capture;
use crate::controller::{Phase, Progress, ProgressSink, RunController};
use crate::error::Error;
use crate::exchange_rows::Passed;
use crate::faults::Faults;
use crate::folder::{Folder, Results};
use crate::frame_path::SelectedPath;
use crate::hardware;
use crate::host_cpu::HostCpu;
use crate::idle::IdleTimeouts;
use crate::jobs::{Job, State, jobs, port_down};
use crate::kernel_counts;
use crate::link_rows::{link_rows, with_netem};
use crate::live::{ControlSocket, Inventory, NodeApi};
use crate::netem::{self, Impairments};
use crate::pinning::{Affinity, Pinning};
use crate::roots::Roots;
use crate::rows::Rows;
use crate::topology::Topology;
use crate::uplink::Uplink;
use crate::waits::Waits;
use experiment::{Backend, Clock, Cpu, Interaction, InteractionPattern, Plan, Workload};
use lab::Lab;
use measure::{
    Accounting, Count, Decisions, Facts, Failure, LinkRow, Sampler, Tolerances, Verdict, Written,
};
use medium::{Engine, FramePath};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use units::Span;

/// Options of a run.
#[derive(Debug)]
pub struct Options<'a> {
    /// A program whose `main` serves as the fork server: the tool itself.
    pub tool: &'a Path,
    /// The program that implements the interaction models.
    pub workload: &'a Path,
    /// Working directory of user programs: the experiment file's folder.
    pub home: &'a Path,
    /// The requested frame path; `None` for the best that works.
    pub frame_path: Option<FramePath>,
    /// Whether the medium busy-waits shortly before frames are due.
    pub spin: bool,
    /// Whether to write `capture.pcapng` in any case: the frames that the plan selects, or all.
    pub capture: bool,
    /// The folder of the run whose impairment decisions are replayed.
    pub replay: Option<&'a Path>,
    /// Set when the user stops the run; partial results are reported.
    pub interrupted: &'a AtomicBool,
    /// The clock of the run.
    pub clock: Clock,
    /// The CPU model of programs in virtual time.
    pub cpu: Cpu,
    /// The version of the tool.
    pub version: &'a str,
    /// The commit that it was built from; empty if unknown.
    pub commit: &'a str,
}

impl Options<'_> {
    /// Whether programs take no CPU time.
    pub(crate) fn is_costless(&self) -> bool {
        self.clock == Clock::Virtual && self.cpu.is_infinite()
    }
}

/// A finished run with its results.
#[derive(Debug)]
pub struct Finished {
    /// Its folder.
    pub folder: PathBuf,
    /// The content of `summary.json`.
    pub summary: serde_json::Value,
    /// Whether its results can be trusted.
    pub verdict: Verdict,
    /// Whether the user stopped it.
    pub interrupted: bool,
}

/// Busy-wait time before a frame is due: the lateness of a timer.
const SPIN_NS: u64 = 60_000;

/// A phase of a run: its name and start time.
pub(crate) type Begun = (&'static str, u64);

/// Runs `plan` and writes its results into `folder`, which must be empty.
///
/// # Errors
/// The failed step; nothing of the lab is left then.
pub fn run(
    plan: &Plan,
    folder: &Folder,
    options: &Options<'_>,
    watch: &mut dyn ProgressSink,
) -> Result<Finished, Error> {
    watch.progress(&Progress::creating());
    folder.write_plan(plan)?;
    let mut phases: Vec<Begun> = vec![("up", medium::monotonic_now())];
    let started = std::time::SystemTime::now();
    let programs = folder.programs()?;
    let roots = Roots::of(plan)?;
    crate::tls::make(plan, &programs)?;
    let jobs = jobs(plan, &roots, options.workload, options.home, &programs)?;
    let carrying = SelectedPath::of(plan, options.frame_path)?;
    let mut topology = Topology::of(plan, &roots, carrying.super_frames());
    let host_cpu = HostCpu::here();
    let by_host = host_cpu.limit(plan, &mut topology.members)?;
    let placement = Pinning::apply(plan, &mut topology.members);
    let apart = placement.as_ref().and_then(|placement| placement.as_ref().ok());
    if let Some(recorded) = options.replay {
        refuse_netem(plan)?;
        let counts: Vec<usize> = topology.owners.iter().map(Vec::len).collect();
        let replay = measure::read_decisions(&recorded.join("decisions.parquet"), &counts)?;
        for (segment, replay) in topology.segments.iter_mut().zip(replay) {
            segment.replay = Some(replay);
        }
    }
    let capture = capture::begin(plan, options, &topology, folder)?;
    let (mut lab, mut ends) =
        Lab::up(options.tool, &topology.members, &topology.hosts, carrying.link)?;
    hardware::attach(plan, &mut ends)?;
    let ends: Vec<_> = ends.into_iter().flatten().collect();
    let impairments = Impairments::of(plan, &topology.places, &ends)
        .map_err(Error::io("save the state of links"))?;
    let carrier = carrying.carrier(&mut lab, ends, &topology.uncut)?;
    let (frame_path, why_path) = (carrier.path(), carrying.why());
    let refused = carrier.refused().map_err(Error::io(
        "count the frames that nodes' interfaces \
                                                       dropped",
    ))?;
    let waker = carrier.waker();
    let mut accounting = Accounting::new(topology.owners.clone(), pgm_ports(plan), capture);
    accounting.keep_decisions(Decisions::begin(&folder.path().join("decisions.parquet"))?);
    let counts = accounting.counts();
    let carried = counts.clone();
    // Threads inherit the affinity.
    let affinity = apart.and_then(|apart| Affinity::on(apart.medium));
    let engine = Engine::start_spinning(
        carrier,
        waker,
        topology.segments.clone(),
        topology.places.clone(),
        accounting,
        if options.spin { SPIN_NS } else { 0 },
    )
    .map_err(Error::io("start forwarding"))?;
    drop(affinity);

    let uplinks = Uplink::all(plan, &lab)?;
    // A run does not need a control socket to work.
    let inventory = Inventory::of(plan, &topology);
    let (socket, requests) = ControlSocket::open(&inventory, engine.remote()).ok().unzip();
    let node_api = NodeApi {
        inventory: inventory.clone(),
        folder: folder.path().to_owned(),
        run: true,
        since: phases[0].1,
        interrupted: options.interrupted,
        counts: carried,
        scale_up: None,
    };
    let mut controller = RunController {
        lab: &mut lab,
        engine: &engine,
        inventory,
        jobs,
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
    phases.push(("set-up", medium::monotonic_now()));
    controller.set_up(plan.setup_limit, &programs)?;
    let names = topology.members.iter().map(|m| m.spec.name.clone()).collect();
    let sampler = Sampler::begin(names, controller.lab.meter(), counts)
        .map_err(Error::io("start sampling"))?;
    let before = lab::scheduled(controller.lab.pids());
    let backlog_before = kernel_counts::backlog_drops();
    phases.push(("load", medium::monotonic_now()));
    impairments.begin(controller.lab)?;
    let start_ns = controller.begin()?;
    controller.last(plan.duration, plan.drain, idle_timeouts(plan))?;
    phases.push(("drain", (start_ns + plan.duration.as_ns()).min(medium::monotonic_now())));
    engine.end();
    let after = lab::scheduled(controller.lab.pids());
    let backlog_drops = kernel_counts::backlog_drops().saturating_sub(backlog_before);
    let done = impairments.done(controller.lab);
    let made = socket.map(ControlSocket::close).unwrap_or_default();
    let usage = match options.is_costless() {
        false => sampler.end(),
        true => sampler.end().without_cpu(),
    };
    phases.push(("stop", medium::monotonic_now()));
    controller.stop()?;
    phases.push(("write", medium::monotonic_now()));
    controller.phase = Phase::Write;
    let RunController { jobs, mut failures, faults, .. } = controller;
    let done = done.unwrap_or_else(|error| {
        failures.push(Failure::Bed(error.to_string()));
        Vec::new()
    });

    let kernel = kernel_counts::settled(&engine, || kernel_counts::read(&lab, &topology, &refused));
    drop(refused);
    let socket_drops = lab.pids().iter().map(|pid| lab::socket_drops(*pid)).sum();
    let outcome = engine.stop().map_err(Error::io("forward frames"))?;
    drop(uplinks);
    let uncounted = lab.uncounted().map(str::to_owned);
    drop(lab);
    let mut accounting = outcome.observer;
    let captured = match accounting.take_capture() {
        Some(capture) => capture.end().unwrap_or_else(|error| {
            failures.push(Failure::Bed(error.to_string()));
            Written::default()
        }),
        None => Written::default(),
    };

    let decisions_missed = match accounting.take_decisions() {
        Some(decisions) => decisions.end()?,
        None => 0,
    };

    let Rows { messages, clients, sections, passed } = crate::rows::rows(plan, &jobs, start_ns)?;
    let loads = crate::load_figures::collect(plan, &jobs);
    failures.extend(loads.failures.iter().cloned().map(Failure::Program));
    let probes = crate::probe_figures::collect(plan, &jobs);
    let schedule_ns = plan.duration.as_ns() as i64;
    let outcomes = measure::outcomes(&messages, schedule_ns);
    let absolute = |ns: i64| (start_ns as i64 + ns) as u64;
    let under_way = measure::under_way(&messages);
    let refused = outcome.refused.iter();
    failures.extend(refused.map(|why| Failure::Bed(format!("could not change a link: {why}"))));
    let (links, intervals) =
        link_rows(plan, &topology, &outcome.totals, &outcome.intervals, start_ns);
    let (links, intervals) = with_netem(links, intervals, &topology, &done);
    let tolerances = Tolerances::of(&intervals);
    let deviations = intervals.iter().filter_map(|row| tolerances.deviation(row));
    let deviations = deviations.chain(tolerances.group_deviations(&intervals));
    let excused = netem::excused(&done);
    let frames = accounting.nodes().iter().map(|node| node.tx.frames).sum();
    let scheduled = Waits::between(plan, before, &after, &usage);
    let verdict = measure::judge(&Facts {
        configured_cpu: options.clock == Clock::Virtual,
        costless: options.is_costless(),
        smallest_delay_ns: smallest_delay(plan),
        held: accounting.held().clone(),
        passed: accounting.passed().clone(),
        rtd_ms: outcomes.rtd_ms,
        slip_ms: outcomes.slip_ms,
        unsent: outcomes.unsent,
        host: usage.host.clone(),
        under_way: under_way.iter().map(|(a, b)| (absolute(*a), absolute(*b))).collect(),
        // A kernel drops frames that a configured bit error made invalid.
        kernel_drops: (kernel.iter().flatten().map(|c| c.tx_dropped + c.rx_dropped).sum::<u64>()
            + accounting.nodes().iter().map(|node| node.refused).sum::<u64>())
        .saturating_sub(links.iter().map(|row| row.got.corrupted).sum())
        .saturating_sub(excused.kernel),
        rejected: rejected(&links),
        socket_drops: u64::saturating_sub(socket_drops, excused.sockets),
        stalls: outcome.stalls,
        frames,
        capture_missed: captured.missed,
        deviations: deviations.collect(),
        compared: intervals.iter().filter(|row| row.got.frames > 0).count(),
        unmeasured: done.len(),
        backlog_drops,
        run_delay_pct: Waits::share_pct(&scheduled),
        run_delay_per_message_ms: Waits::per_message_ms(&scheduled, &usage, outcomes.sent),
        loads: loads.submitted.clone(),
        probes: probes.contended.clone(),
        counts: counts_of(plan, &passed, &accounting, &topology, &captured),
        failures,
    });
    let results = Results {
        plan,
        options,
        started,
        phases: &phases,
        start_ns,
        topology: &topology,
        jobs: &jobs,
        messages: &messages,
        clients: &clients,
        sections: &sections,
        loads: &loads.figures,
        probes: &probes,
        outcomes: &outcomes,
        usage: &usage,
        uncounted: uncounted.as_deref(),
        host_cpu: by_host.then_some(&host_cpu),
        scheduled: &scheduled,
        accounting: &accounting,
        links: &links,
        intervals: &intervals,
        tolerances: &tolerances,
        made: &made,
        injected: &faults.made,
        decisions_missed,
        priority: outcome.priority,
        frame_path,
        why_path: why_path.as_deref(),
        stalls: outcome.stalls,
        placement: placement.as_ref(),
        kernel: &kernel,
        verdict: &verdict,
    };
    let summary = folder.write(&results)?;
    let interrupted = options.interrupted.load(std::sync::atomic::Ordering::Relaxed);
    Ok(Finished { folder: folder.path().to_owned(), summary, verdict, interrupted })
}

/// Number of frames that networks rejected, and the source of most of them.
fn rejected(links: &[LinkRow]) -> (u64, String) {
    let worst = links.iter().max_by_key(|row| row.got.rejected);
    let name = worst.map_or(String::new(), |row| format!("{}:{}", row.node, row.interface));
    (links.iter().map(|row| row.got.rejected).sum(), name)
}

/// The frame counts of nodes that drove exchanges, together with the medium's and the capture's.
/// Skips nodes on several networks, because they count on one only, and nodes on networks that
/// netem impairs, because they count on its other side.
fn counts_of(
    plan: &Plan,
    passed: &[Passed],
    accounting: &Accounting,
    topology: &Topology,
    captured: &Written,
) -> Vec<Count> {
    let mut counts = Vec::new();
    for (node, out_bytes, in_bytes) in passed {
        let (planned, Some(medium)) = (&plan.nodes[*node], accounting.nodes().get(*node)) else {
            continue;
        };
        let by_netem = |link: &experiment::PlannedLink| {
            plan.network(&link.network).is_some_and(|n| n.backend == Backend::Netem)
        };
        if planned.links.len() != 1 || planned.links.iter().any(by_netem) {
            continue;
        }
        let own = |place: &&medium::Place| topology.owners[place.segment][place.endpoint] == *node;
        let place = topology.places.iter().find(own);
        let in_capture =
            place.and_then(|place| *captured.bytes.get(place.segment)?.get(place.endpoint)?);
        // Frames missed because of a slow disk are reported separately.
        let in_capture = in_capture.filter(|_| captured.missed == 0);
        for (number, way, kernel, medium) in
            [(0, "sent", *out_bytes, medium.tx.bytes), (1, "received", *in_bytes, medium.rx.bytes)]
        {
            let capture = in_capture.map(|bytes| bytes[number]);
            counts.push(Count { node: planned.name.clone(), way, kernel, medium, capture });
        }
    }
    counts
}

/// Refuses to replay plans with netem: the kernel's decisions are not recorded.
fn refuse_netem(plan: &Plan) -> Result<(), Error> {
    match plan.networks.iter().find(|network| network.backend == Backend::Netem) {
        Some(network) => Err(Error::ReplayOfNetem { network: network.name.clone() }),
        None => Ok(()),
    }
}

/// The interactions of a plan with their workload numbers.
pub(crate) fn interactions(plan: &Plan) -> impl Iterator<Item = (usize, &Interaction)> {
    plan.workloads.iter().enumerate().filter_map(|(number, workload)| match workload {
        Workload::Interaction(interaction) => Some((number, interaction)),
        _ => None,
    })
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

/// The smallest configured delay above 0 of any link, in ns.
fn smallest_delay(plan: &Plan) -> u64 {
    let links = plan.nodes.iter().flat_map(|node| &node.links);
    let delays = links.flat_map(|link| [link.up.delay, link.down.delay]);
    delays.filter(|delay| *delay > Span::ZERO).map(Span::as_ns).min().unwrap_or(0)
}

/// Resource usage of an ended job.
pub(crate) fn used(job: &Job) -> lab::Usage {
    match job.state {
        State::Ended { usage, .. } => usage,
        _ => lab::Usage::default(),
    }
}
