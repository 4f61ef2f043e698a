//! The pieces of evidence for a verdict, computed from a run's facts.

use crate::facts::{Contended, Count, Facts, Lost, Overflows, Submitted};
use crate::tolerance::{Deviation, LOCAL_NS};
use record::{Evidence, Subject, short};
use units::Span;

/// Limits of schedule slip: 10 % and 100 % of a typical value of 10 ms.
const SLIP_SUSPECT_MS: f64 = 1.0;
const SLIP_INVALID_MS: f64 = 10.0;
/// Allowed slip of a load's requests, as a fraction of the time between two, and its minimum.
const SLIP_SHARE: f64 = 0.1;
const SLIP_LEAST_US: f64 = 100.0;
/// Limits of the probes' mean lateness, in percent of their service time: fitted on one half of a
/// labelled set of runs and tested on the other (docs/results/contention.md).
const PROBES_SUSPECT: f64 = 5.0;
const PROBES_INVALID: f64 = 50.0;
/// Below this percentage of probes over their limit, late probes count as outliers.
const PROBES_FEW: f64 = 5.0;
/// Maximum CPU wait of programs per message, as a fraction of the median round trip, that does not
/// matter: the level at which the verdict's other limits say suspect.
const UNHURT: f64 = 0.05;

/// All evidence, in display order.
pub(crate) fn evidence(facts: &Facts) -> Vec<Evidence> {
    // Most limits were set before any run, from what a reader would notice (decision 7).
    let mut found = Found(Vec::new());
    found.lateness(facts);
    if !facts.costless {
        found.stalls(facts);
    }
    found.schedule(facts);
    found.requests(facts);
    found.probes(facts);
    if !facts.costless {
        found.processors(facts);
    }
    found.drops(facts);
    found.links(facts);
    found.counts(facts);
    // Never invalid: no figure depends on the capture.
    found.look(Subject::CaptureMissed, facts.capture_missed as f64, Some((0.0, f64::INFINITY)));
    found.full_disk(facts);
    let (emulated, groups) = &facts.emulated;
    if *emulated > 0 {
        found.look(Subject::EmulatedNodes, *emulated as f64, None).detail.clone_from(groups);
    }
    found.0
}

/// The reference for the lateness of frames that are forwarded at once, in us.
fn at_once_us(facts: &Facts) -> f64 {
    let median_ns = facts.rtd_ms.map_or(0.0, |rtd| rtd.p50 * 1e6);
    median_ns.max(LOCAL_NS) / 1e3
}

/// The reference for the lateness of delayed frames, in us: the smallest delay.
fn held_us(facts: &Facts) -> f64 {
    facts.smallest_delay.map_or_else(|| at_once_us(facts), Span::as_us)
}

/// Whether the nodes' programs hardly waited for a CPU, however busy other programs are: less than
/// a twentieth of the median round trip per message.
fn is_unhurt(facts: &Facts) -> bool {
    let share = |waited: f64| waited < UNHURT * facts.rtd_ms.map_or(0.0, |rtd| rtd.p50);
    facts.run_delay_per_message_ms.is_some_and(share)
}

/// Tolerance of byte counts in each direction: endpoints and medium start and stop counting within
/// some ms of each other, and an acknowledgement or two may pass meanwhile.
const AT_THE_ENDS: u64 = 200;

/// Difference between two counts, in percent of the medium's.
fn apart_pct(count: &Count) -> f64 {
    let other = |bytes: u64| bytes.abs_diff(count.medium);
    let apart = other(count.kernel).max(count.capture.map_or(0, other));
    let bytes = apart.saturating_sub(AT_THE_ENDS);
    100.0 * bytes as f64 / count.medium.max(1) as f64
}

/// The evidence collected so far.
struct Found(Vec<Evidence>);

impl Found {
    /// Adds a piece; without limits it is informational.
    fn look(&mut self, subject: Subject, value: f64, limits: Option<(f64, f64)>) -> &mut Evidence {
        self.0.push(Evidence::new(subject, value, limits));
        let last = self.0.len() - 1;
        &mut self.0[last]
    }

    fn lateness(&mut self, facts: &Facts) {
        // Judged separately: a multicast to hundreds of members is late by milliseconds at the last
        // one, which matters only for its round trip (decision 11).
        let kinds = [
            (
                [Subject::DelayedLatenessP99, Subject::DelayedLatenessMax],
                &facts.delayed,
                held_us(facts),
                "5 % and 50 % of the smallest configured delay",
                "the smallest configured delay and 10 times it",
            ),
            (
                [Subject::UndelayedLatenessP99, Subject::UndelayedLatenessMax],
                &facts.undelayed,
                at_once_us(facts),
                "5 % and 50 % of the median round trip, at least of 20 ms",
                "the median round trip, at least 20 ms, and 10 times it",
            ),
        ];
        for ([p99, max], late, of_us, of_p99, of_max) in
            kinds.into_iter().filter(|kind| kind.1.count() > 0)
        {
            // Decisions 7 and 11 have these shares.
            let limits = Some((0.05 * of_us, 0.5 * of_us));
            self.look(p99, late.quantile_ns(0.99) as f64 / 1e3, limits).detail =
                format!("limits are {of_p99}");
            let limits = Some((of_us, 10.0 * of_us));
            self.look(max, late.max_ns() as f64 / 1e3, limits).detail =
                format!("limits are {of_max}");
        }
    }

    fn stalls(&mut self, facts: &Facts) {
        let (stalled, held_us) = (facts.stalls, held_us(facts));
        self.look(Subject::LongestStall, stalled.longest.as_us(), Some((held_us, f64::INFINITY)))
            .detail = format!("{} stalls of over a millisecond", stalled.count);
        self.look(Subject::FramesReadLate, stalled.behind.as_us(), Some((held_us, 10.0 * held_us)));
    }

    fn schedule(&mut self, facts: &Facts) {
        if let Some(slip) = facts.slip_ms {
            self.look(Subject::ScheduleSlip, slip.p99, Some((SLIP_SUSPECT_MS, SLIP_INVALID_MS)));
        }
        // A single one is invalid: the load was not the configured one.
        self.look(Subject::MessagesNeverSent, facts.unsent as f64, Some((0.0, 0.0)));
    }

    /// Checks whether loads were as configured.
    fn requests(&mut self, facts: &Facts) {
        let open: Vec<&Submitted> = facts.loads.iter().filter(|load| load.open).collect();
        if open.is_empty() {
            return;
        }
        let worst = |of: &dyn Fn(&Submitted) -> f64| {
            let worst = open.iter().map(|load| (of(load), load.node.as_str()));
            worst.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or((0.0, ""))
        };
        let (unsent, node) =
            worst(&|load| 100.0 * load.unsent as f64 / load.scheduled.max(1) as f64);
        self.look(Subject::RequestsNeverSent, unsent, Some((0.0, 1.0))).detail =
            format!("worst: {node}");
        let (off, node) = worst(&|load| {
            100.0 * (load.submitted_us - load.expected_us).abs() / load.expected_us.max(1e-3)
        });
        self.look(Subject::RequestInterval, off, Some((1.0, 10.0))).detail =
            format!("worst: {node}");
        let (late, node) = worst(&|load| {
            100.0 * load.slip_p99_us / (SLIP_SHARE * load.expected_us).max(SLIP_LEAST_US)
        });
        self.look(Subject::RequestSlip, late, Some((100.0, 1_000.0))).detail =
            format!("worst: {node}");
        let waits = open.iter().filter_map(|load| Some((load.wait_p99_us?, load.node.as_str())));
        if let Some((wait, node)) = waits.max_by(|a, b| a.0.total_cmp(&b.0)) {
            // Without limits: that time is the target's, not this machine's (decision 39).
            self.look(Subject::ConnectionWait, wait / 1e3, None).detail =
                format!("longest: {node}");
        }
    }

    /// Checks whether probes with a known service time took longer.
    fn probes(&mut self, facts: &Facts) {
        let worst = facts.probes.iter().max_by(|a, b| a.mean.total_cmp(&b.mean));
        let Some(Contended { core, mode, mean, median, over_pct, worst_s }) = worst else { return };
        // A few very late probes among many affect only themselves, not the run.
        let mean = if *over_pct < PROBES_FEW { mean.min(PROBES_INVALID / 100.0) } else { *mean };
        self.look(Subject::ProbeContention, 100.0 * mean, Some((PROBES_SUSPECT, PROBES_INVALID)))
            .detail = format!(
            "worst: core {core}, {mode}; median {:.1} %, {over_pct:.1} % of the probes over their \
             limit, the longest at {worst_s:.1} s",
            100.0 * median
        );
    }

    fn processors(&mut self, facts: &Facts) {
        // A busy machine alone does no harm: what counts is how long programs waited (decision 41).
        let unhurt = is_unhurt(facts);
        let (judged, what) = match (facts.configured_cpu, unhurt) {
            (true, _) => (None, "informational, since this is the configured CPU: "),
            (_, true) => (None, "informational, since the nodes' programs hardly waited: "),
            _ => (Some(()), ""),
        };
        self.look(
            Subject::SaturatedCpus,
            100.0 * facts.host.saturated as f64 / facts.host.seconds.max(1) as f64,
            // Decision 7 has these limits, and those of the two subjects below.
            judged.map(|()| (10.0, 50.0)),
        )
        .meaning
        .insert_str(0, what);
        // Judged in any case: time that another virtual machine takes is never configured.
        self.look(Subject::CpuSteal, 100.0 * facts.host.steal(), Some((1.0, 10.0)));
        if let Some(pressure) = facts.host.pressure() {
            let limits = judged.map(|()| (25.0, 60.0));
            self.look(Subject::CpuPressure, 100.0 * pressure, limits).meaning.insert_str(0, what);
        }
        if let Some(waited) = facts.run_delay_pct {
            self.look(Subject::RunDelay, waited, None);
        }
        if let Some(waited) = facts.run_delay_per_message_ms {
            self.look(Subject::RunDelayPerMessage, waited, None);
        }
        if let Some(busy) = facts.host.busy_in_flight() {
            self.look(Subject::BusyInFlight, 100.0 * busy, None);
        }
    }

    fn drops(&mut self, facts: &Facts) {
        self.look(
            Subject::KernelDrops,
            100.0 * facts.kernel_drops as f64 / facts.frames.max(1) as f64,
            // Decision 7: one frame is suspect, and one in a thousand makes the run invalid.
            Some((0.0, 0.1)),
        );
        let (rejected, worst) = &facts.rejected;
        let found =
            self.look(Subject::FramesRejected, *rejected as f64, Some((0.0, f64::INFINITY)));
        if *rejected > 0 {
            found.detail = format!("most of them from {worst}");
        }
        self.overflows(facts);
        self.look(Subject::BacklogDrops, facts.backlog_drops as f64, Some((0.0, f64::INFINITY)));
        self.look(Subject::SocketDrops, facts.socket_drops as f64, Some((0.0, f64::INFINITY)));
    }

    /// Tables that nodes filled. Rare, so only listed if it happened.
    fn overflows(&mut self, facts: &Facts) {
        let Overflows { groups, addresses, flows, connections, output } = &facts.overflows;
        for (subject, (count, worst)) in [
            (Subject::GroupsBeyond, groups),
            (Subject::AddressesForgotten, addresses),
            (Subject::FlowsForgotten, flows),
            (Subject::ConnectionsForgotten, connections),
            (Subject::OutputDropped, output),
        ] {
            if *count > 0 {
                // Output in MB; all others are numbers.
                let scale = if subject == Subject::OutputDropped { 1e6 } else { 1.0 };
                // Informational: beyond a limit, delivery stays correct (decision 59).
                self.look(subject, *count as f64 / scale, None).detail =
                    format!("most of them: {worst}");
            }
        }
    }

    /// What a full disk did not take. Rare, so only listed if it happened.
    fn full_disk(&mut self, facts: &Facts) {
        if facts.lost.is_empty() {
            return;
        }
        let text = |lost: &Lost| match lost.from_ms {
            Some(ms) => format!("{} from {:.1} s on", lost.what, ms as f64 / 1e3),
            None => lost.what.clone(),
        };
        let texts: Vec<String> = facts.lost.iter().map(text).collect();
        let limits = Some((0.0, f64::INFINITY));
        // Never invalid: what is given up changes no figure (decision 61).
        self.look(Subject::LostToFullDisk, facts.lost.len() as f64, limits).detail =
            texts.join("; ");
    }

    /// Checks whether endpoints and medium agree on byte counts.
    fn counts(&mut self, facts: &Facts) {
        let worst = facts.counts.iter().max_by(|a, b| apart_pct(a).total_cmp(&apart_pct(b)));
        let Some(worst) = worst else { return };
        let Count { node, way, kernel, medium, capture } = worst;
        let found = self.look(Subject::ByteCounts, apart_pct(worst), Some((0.5, 2.0)));
        let captured = capture.map_or(String::new(), |bytes| format!(", the capture {bytes} B"));
        found.detail = format!(
            "worst: {node} {way} {kernel} B, Thingbed forwarded {medium} B{captured}; \
             {AT_THE_ENDS} B are tolerated"
        );
    }

    fn links(&mut self, facts: &Facts) {
        let found = self.look(
            Subject::LinksOutside,
            100.0 * facts.deviations.len() as f64 / facts.compared.max(1) as f64,
            // A single one is suspect: chance exceeds a tolerance in one valid run of a thousand.
            Some((0.0, 10.0)),
        );
        let off = |one: &Deviation| (one.measured - one.configured).abs() / one.tolerance;
        let worst = facts.deviations.iter().max_by(|a, b| off(a).total_cmp(&off(b)));
        if let Some(Deviation {
            link, from_s, to_s, quantity, configured, measured, unit, ..
        }) = worst
        {
            found.detail = format!(
                "worst: {link}, {from_s:.0} s to {to_s:.0} s: {quantity} configured {} {unit}, \
                 measured {} {unit}",
                short(*configured),
                short(*measured)
            );
        }
        if facts.unmeasured > 0 {
            self.look(Subject::NetemLinks, facts.unmeasured as f64, None);
        }
    }
}
