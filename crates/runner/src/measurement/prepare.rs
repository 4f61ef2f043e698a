//! Brings up the bed of a run, and prepares the programs of its workloads.

use super::idle::IdleTimeouts;
use super::{Measurement, Times, capture};
use crate::bed::faults::Faults;
use crate::bed::{Bed, BedOptions, Topology, netem};
use crate::controller::Controller;
use crate::error::Error;
use crate::folder::Folder;
use crate::full_disk::preallocate_events;
use crate::interaction::interactions;
use crate::interaction::port_down;
use crate::options::Options;
use crate::programs::jobs;
use crate::progress::ProgressSink;
use experiment::{Backend, Clock, Plan};
use measure::{Accounting, Decisions, FullDisk, IntervalLog};
use record::InteractionPattern;
use std::sync::Arc;

impl<'a> Measurement<'a, Bed<'a>> {
    /// Brings up the bed of `plan` and prepares its programs, with their files in `folder`.
    ///
    /// # Errors
    /// The failed step; nothing of the bed is left then.
    pub fn prepare(
        plan: &Plan,
        folder: &Folder,
        options: &'a Options<'a>,
        watch: &'a mut dyn ProgressSink,
    ) -> Result<Self, Error> {
        let phases = vec![("up", clock::now())];
        let disk = Arc::<FullDisk>::default();
        let of_bed = BedOptions {
            tool: options.tool,
            workload: options.workload,
            home: options.home,
            frame_path: options.frame_path,
            threads: options.threads,
            spin: options.spin,
            is_measured: true,
            watches_output: options.clock == Clock::Real,
            disk: Some(disk.clone()),
            interrupted: options.interrupted,
        };
        let observe = |topology: &mut Topology| observe(plan, folder, options, topology, &disk);
        let bed = Bed::up(plan, folder, of_bed, observe)?;
        let logs = bed.design().programs.clone();
        let workloads = jobs(plan, options.workload, options.home, &logs)?;
        if options.clock == Clock::Real {
            // In real time only, as the reserve of space: a guest has no disk.
            preallocate_events(plan, &workloads);
        }
        let faults = Faults::of(plan);
        let mut controller =
            Controller::new(bed, workloads, faults, logs, options.interrupted, watch);
        controller.expected = expected(plan);
        let (set_up, duration, drain) = (plan.setup_limit, plan.duration, plan.drain);
        let times = Times { set_up, duration, drain, idle: idle_timeouts(plan) };
        Ok(Self { controller, times, phases })
    }
}

/// Begins the capture and the record of decisions; for a replay, reads the recorded ones.
fn observe(
    plan: &Plan,
    folder: &Folder,
    options: &Options<'_>,
    topology: &mut Topology,
    disk: &Arc<FullDisk>,
) -> Result<Accounting, Error> {
    replay(plan, options, topology)?;
    let capture = capture::begin(plan, options, topology, folder, disk)?;
    let mut accounting = Accounting::new(topology.owners.clone(), pgm_ports(plan), capture);
    let path = folder.path().join("decisions.parquet");
    accounting.keep_decisions(Decisions::begin(&path, disk.clone())?);
    let intervals = IntervalLog::begin(folder.path()).map_err(Error::write(folder.path()))?;
    accounting.keep_intervals(intervals);
    Ok(accounting)
}

/// Gives the segments the decisions of the run to replay, if there is one.
fn replay(plan: &Plan, options: &Options<'_>, topology: &mut Topology) -> Result<(), Error> {
    let Some(recorded) = options.replay else { return Ok(()) };
    // The kernel's decisions are not recorded.
    if let Some(network) = plan.networks.iter().find(|n| n.backend == Backend::Netem) {
        return Err(Error::ReplayOfNetem { network: network.name.clone() });
    }
    let counts: Vec<usize> = topology.owners.iter().map(Vec::len).collect();
    let replay = measure::read_decisions(&recorded.join("decisions.parquet"), &counts)?;
    for (segment, replay) in topology.segments.iter_mut().zip(replay) {
        segment.replay = Some(replay);
    }
    Ok(())
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
        .map(|(_, exchange)| exchange.timeout + exchange.pause)
        .max();
    // So does a request.
    let requests = crate::load::workloads(plan).map(|(_, load)| load.max_overrun());
    if let Some(longest) = longest.into_iter().chain(requests).max() {
        return IdleTimeouts::at_least(longest);
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
