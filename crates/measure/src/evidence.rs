//! The pieces of evidence for a verdict, computed from a run's facts.

use crate::busy;
use crate::facts::{Contended, Count, Facts, Submitted};
use crate::host::HostUse;
use crate::tolerance::Deviation;
use crate::verdict::{Evidence, Status, short};

/// Reference for the lateness of frames that are forwarded at once, which have no delay to compare
/// with: the median round trip, but at least 20 ms, that of a local network. There 1 ms (5 %) is
/// noticeable, and with 10 ms more (50 %) it is no longer local.
pub(crate) const LOCAL_NS: f64 = 20_000_000.0;
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
/// CPU load from which a second counts as saturated.
const SATURATED: f64 = 0.95;

/// Prefixes of the names of evidence that a busy or slow machine causes.
pub(crate) const OF_MACHINE: [&str; 11] = [
    "forwarding lateness",
    "frames read late",
    "schedule slip",
    "requests never sent",
    "request interval",
    "request slip",
    "contention at the probes",
    "seconds with saturated CPUs",
    "CPU steal",
    "CPU pressure",
    "packets dropped at kernel backlogs",
];

/// All evidence, in display order.
pub(crate) fn evidence(facts: &Facts) -> Vec<Evidence> {
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
    found.look(
        "frames missing from the capture",
        facts.capture_missed as f64,
        "frames",
        Some((0.0, f64::INFINITY)),
        "the disk was slower than the network; all figures are complete, the capture is not",
    );
    found.0
}

/// The reference for the lateness of frames that are forwarded at once, in us.
fn at_once_us(facts: &Facts) -> f64 {
    let median_ns = facts.rtd_ms.map_or(0.0, |rtd| rtd.p50 * 1e6);
    median_ns.max(LOCAL_NS) / 1e3
}

/// The reference for the lateness of delayed frames, in us: the smallest delay.
fn held_us(facts: &Facts) -> f64 {
    match facts.smallest_delay_ns {
        0 => at_once_us(facts),
        delay => delay as f64 / 1e3,
    }
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
    fn look(
        &mut self,
        name: &str,
        value: f64,
        unit: &str,
        limits: Option<(f64, f64)>,
        meaning: &str,
    ) {
        let status = match limits {
            Some((_, invalid)) if value > invalid => Status::Invalid,
            Some((suspect, _)) if value > suspect => Status::Suspect,
            _ => Status::Valid,
        };
        self.0.push(Evidence {
            name: name.to_owned(),
            value,
            unit: unit.to_owned(),
            limit_suspect: limits.map(|l| l.0),
            limit_invalid: limits.map(|l| l.1),
            status,
            meaning: meaning.to_owned(),
            detail: String::new(),
        });
    }

    /// Adds to the last piece where it was worst in this run.
    fn detail(&mut self, detail: String) {
        if let Some(last) = self.0.last_mut() {
            last.detail = detail;
        }
    }

    fn lateness(&mut self, facts: &Facts) {
        let kinds = [
            (
                "delayed links",
                &facts.held,
                held_us(facts),
                "delays may be longer than configured by this much: the machine did not let \
                 Thingbed forward frames in time. Use fewer nodes, close other programs, or run \
                 as root for real-time priority",
                "5 % and 50 % of the smallest configured delay",
                "the smallest configured delay and 10 times it",
            ),
            (
                "undelayed links",
                &facts.passed,
                at_once_us(facts),
                "round trips may be longer by this much: the machine did not let Thingbed forward \
                 frames in time, or a multicast went to many members one after the other",
                "5 % and 50 % of the median round trip, at least of 20 ms",
                "the median round trip, at least 20 ms, and 10 times it",
            ),
        ];
        for (which, late, of_us, meaning, of_p99, of_max) in
            kinds.into_iter().filter(|kind| kind.1.count() > 0)
        {
            self.look(
                &format!("forwarding lateness ({which}), p99"),
                late.quantile_ns(0.99) as f64 / 1e3,
                "us",
                Some((0.05 * of_us, 0.5 * of_us)),
                meaning,
            );
            self.detail(format!("limits are {of_p99}"));
            self.look(
                &format!("forwarding lateness ({which}), max"),
                late.max_ns() as f64 / 1e3,
                "us",
                Some((of_us, 10.0 * of_us)),
                meaning,
            );
            self.detail(format!("limits are {of_max}"));
        }
    }

    fn stalls(&mut self, facts: &Facts) {
        let (stalled, held_us) = (facts.stalls, held_us(facts));
        self.look(
            "longest stall of the forwarding thread",
            stalled.longest_ns as f64 / 1e3,
            "us",
            Some((held_us, f64::INFINITY)),
            "some frames may have been delayed by this much more: another program or, on a \
             virtual machine, its host had the processor. Run again at a quieter time",
        );
        self.detail(format!("{} stalls of over a millisecond", stalled.count));
        self.look(
            "frames read late, max",
            stalled.behind_ns as f64 / 1e3,
            "us",
            Some((held_us, 10.0 * held_us)),
            "a frame waited this long before its delay began: more frames came than this \
             machine forwards. Lower the rate",
        );
    }

    fn schedule(&mut self, facts: &Facts) {
        if let Some(slip) = facts.slip_ms {
            self.look(
                "schedule slip of senders, p99",
                slip.p99,
                "ms",
                Some((SLIP_SUSPECT_MS, SLIP_INVALID_MS)),
                "messages were sent later than scheduled, and round trips include that: the \
                 sender or the machine was too slow. Lower the rate, or use fewer nodes",
            );
        }
        self.look(
            "messages never sent",
            facts.unsent as f64,
            "messages",
            Some((0.0, 0.0)),
            "the load was not the configured one: senders did not send all scheduled messages",
        );
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
        self.look(
            "requests never sent",
            unsent,
            "%",
            Some((0.0, 1.0)),
            "the load was lower than configured: this machine could not send the rate. Lower \
             it, or configure more `senders`",
        );
        self.detail(format!("worst: {node}"));
        let (off, node) = worst(&|load| {
            100.0 * (load.submitted_us - load.expected_us).abs() / load.expected_us.max(1e-3)
        });
        self.look(
            "request interval, measured against configured",
            off,
            "%",
            Some((1.0, 10.0)),
            "the mean time between two requests differs by this much: the load was not the \
             configured one",
        );
        self.detail(format!("worst: {node}"));
        let (late, node) = worst(&|load| {
            100.0 * load.slip_p99_us / (SLIP_SHARE * load.expected_us).max(SLIP_LEAST_US)
        });
        self.look(
            "request slip, p99, share of its allowance",
            late,
            "%",
            Some((100.0, 1_000.0)),
            "requests were sent later than scheduled, and response times include that. Allowed \
             is a tenth of the time between two requests, at least 100 us",
        );
        self.detail(format!("worst: {node}"));
        let waits = open.iter().filter_map(|load| Some((load.wait_p99_us?, load.node.as_str())));
        if let Some((wait, node)) = waits.max_by(|a, b| a.0.total_cmp(&b.0)) {
            self.look(
                "wait of requests for a connection, p99",
                wait / 1e3,
                "ms",
                None,
                "for information: how long requests waited for a free connection to the target. \
                 Response times include it; it is the target's, not this machine's",
            );
            self.detail(format!("longest: {node}"));
        }
    }

    /// Checks whether probes with a known service time took longer.
    fn probes(&mut self, facts: &Facts) {
        let worst = facts.probes.iter().max_by(|a, b| a.mean.total_cmp(&b.mean));
        let Some(Contended { core, mode, mean, median, over_pct, worst_s }) = worst else { return };
        // A few very late probes among many affect only themselves, not the run.
        let mean = if *over_pct < PROBES_FEW { mean.min(PROBES_INVALID / 100.0) } else { *mean };
        self.look(
            "contention at the probes",
            100.0 * mean,
            "%",
            Some((PROBES_SUSPECT, PROBES_INVALID)),
            "probes with a known service time took this much longer: programs waited for the \
             machine. Use fewer nodes, place them on other cores, or lower the rate",
        );
        self.detail(format!(
            "worst: core {core}, {mode}; median {:.1} %, {over_pct:.1} % of the probes over their \
             limit, the longest at {worst_s:.1} s",
            100.0 * median
        ));
    }

    fn processors(&mut self, facts: &Facts) {
        let seconds = busy::by_second(&facts.host);
        let saturated = seconds.iter().filter(|busy| **busy > SATURATED).count();
        let unhurt = is_unhurt(facts);
        let (judged, what) = match (facts.configured_cpu, unhurt) {
            (true, _) => (None, "informational, since this is the configured CPU: "),
            (_, true) => (None, "informational, since the nodes' programs hardly waited: "),
            _ => (Some(()), ""),
        };
        self.look(
            "seconds with saturated CPUs",
            100.0 * saturated as f64 / seconds.len().max(1) as f64,
            "%",
            judged.map(|()| (10.0, 50.0)),
            &format!(
                "{what}programs waited for the machine: over 95 % of all CPU time was used. Use \
                 fewer nodes, close other programs, or use a larger machine"
            ),
        );
        let mean = |of: &dyn Fn(&HostUse) -> f64| {
            let total: f64 = facts.host.iter().map(|h| h.seconds).sum();
            facts.host.iter().map(|h| of(h) * h.seconds).sum::<f64>() / total.max(1e-9) * 100.0
        };
        self.look(
            "CPU steal",
            mean(&|h| h.steal),
            "%",
            Some((1.0, 10.0)),
            "the hypervisor gave this share of CPU time to other virtual machines. Run again at a \
             quieter time, or on a machine of your own",
        );
        if facts.host.iter().any(|h| h.pressure.is_some()) {
            self.look(
                "CPU pressure",
                mean(&|h| h.pressure.unwrap_or(0.0)),
                "%",
                judged.map(|()| (25.0, 60.0)),
                &format!(
                    "{what}programs waited for a CPU in this share of the time. Use fewer nodes, \
                     or close other programs"
                ),
            );
        }
        if let Some(waited) = facts.run_delay_pct {
            self.look(
                "run delay of programs",
                waited,
                "%",
                None,
                "informational: how long the nodes' programs waited for a CPU, as a share of the \
                 time in which they ran or waited; throttling by limits is not included",
            );
        }
        if let Some(waited) = facts.run_delay_per_message_ms {
            self.look(
                "run delay of programs per message",
                waited,
                "ms",
                None,
                "informational: by at most this much did waiting for a CPU make a message slower, \
                 on average",
            );
        }
        if let Some(busy) = busy::under_way(&facts.host, &facts.under_way) {
            self.look(
                "CPUs busy while messages were in flight",
                100.0 * busy,
                "%",
                None,
                "informational: near 100 %, delays come from the programs' own work on this \
                 machine, and a faster machine has shorter ones",
            );
        }
    }

    fn drops(&mut self, facts: &Facts) {
        self.look(
            "frames dropped by the kernel",
            100.0 * facts.kernel_drops as f64 / facts.frames.max(1) as f64,
            "%",
            Some((0.0, 0.1)),
            "frames were lost between a node and the emulated network, in addition to the \
             configured loss: more came than this machine forwards. Lower the rate",
        );
        let (rejected, worst) = &facts.rejected;
        self.look(
            "frames rejected",
            *rejected as f64,
            "frames",
            Some((0.0, f64::INFINITY)),
            "networks did not forward these: they were longer than the MTU allows, or came from \
             another node's Ethernet address (or, with `source_addresses: own`, any but the \
             interface's own)",
        );
        if *rejected > 0 {
            self.detail(format!("most of them from {worst}"));
        }
        self.look(
            "packets dropped at kernel backlogs",
            facts.backlog_drops as f64,
            "packets",
            Some((0.0, f64::INFINITY)),
            "queues of the kernel's network work were full, possibly with other traffic of this \
             machine",
        );
        self.look(
            "datagrams dropped at full sockets",
            facts.socket_drops as f64,
            "datagrams",
            Some((0.0, f64::INFINITY)),
            "a program did not read in time, so that messages were lost in addition to the \
             configured loss; on a faster machine it might. Larger socket buffers help",
        );
    }

    /// Checks whether endpoints and medium agree on byte counts.
    fn counts(&mut self, facts: &Facts) {
        let worst = facts.counts.iter().max_by(|a, b| apart_pct(a).total_cmp(&apart_pct(b)));
        let Some(worst) = worst else { return };
        let Count { node, way, kernel, medium, capture } = worst;
        self.look(
            "byte counts of endpoints against Thingbed's",
            apart_pct(worst),
            "%",
            Some((0.5, 2.0)),
            "bytes of exchanges may be wrong by this much: the nodes' kernels, or the capture, \
             counted other bytes than Thingbed forwarded",
        );
        let captured = capture.map_or(String::new(), |bytes| format!(", the capture {bytes} B"));
        self.detail(format!(
            "worst: {node} {way} {kernel} B, Thingbed forwarded {medium} B{captured}; \
             {AT_THE_ENDS} B are tolerated"
        ));
    }

    fn links(&mut self, facts: &Facts) {
        self.look(
            "links outside tolerance",
            100.0 * facts.deviations.len() as f64 / facts.compared.max(1) as f64,
            "%",
            Some((0.0, 10.0)),
            "in this share of their intervals, links had another delay, loss or rate than \
             configured, by more than chance and the allowed lateness explain",
        );
        let off = |one: &Deviation| (one.measured - one.configured).abs() / one.tolerance;
        let worst = facts.deviations.iter().max_by(|a, b| off(a).total_cmp(&off(b)));
        if let Some(Deviation {
            link, from_s, to_s, quantity, configured, measured, unit, ..
        }) = worst
        {
            self.detail(format!(
                "worst: {link}, {from_s:.0} s to {to_s:.0} s: {quantity} configured {} {unit}, \
                 measured {} {unit}",
                short(*configured),
                short(*measured)
            ));
        }
        if facts.unmeasured > 0 {
            self.look(
                "link directions impaired by netem",
                facts.unmeasured as f64,
                "directions",
                None,
                "informational: the kernel made these impairments; losses are those that it \
                 counted, and delays were not measured",
            );
        }
    }
}
