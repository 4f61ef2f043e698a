//! The pieces of evidence that a verdict rests on, drawn from a run's facts.

use crate::busy;
use crate::facts::{Broken, Contended, Count, Facts, Submitted};
use crate::host::HostUse;
use crate::verdict::{Evidence, Status};

/// A frame that is to be passed on at once has no delay to be held against. Its
/// lateness is held against what the reader looks at, the median round trip; and
/// against a local network's 20 ms where that is shorter, on which a millisecond
/// (5 %) is noticed and 10 ms (50 %) are not local any more.
pub(crate) const LOCAL_NS: f64 = 20_000_000.0;
/// Schedules are held to this share of a typical figure of 10 ms.
const SLIP_SUSPECT_MS: f64 = 1.0;
const SLIP_INVALID_MS: f64 = 10.0;
/// A load's requests may be late by this share of the time between two, and by this
/// much in any case.
const SLIP_SHARE: f64 = 0.1;
const SLIP_LEAST_US: f64 = 100.0;
/// By so many percent of their service time probes may be late on average: set on one half
/// of a labelled set of runs and tried on the other (docs/results/contention.md).
const PROBES_SUSPECT: f64 = 5.0;
const PROBES_INVALID: f64 = 50.0;
/// Fewer percent of the probes than this over their limit are a few.
const PROBES_FEW: f64 = 5.0;
/// A second in which the CPUs were this busy was saturated.
const SATURATED: f64 = 0.95;

/// All that there is to look at, in the order in which it is shown.
pub(crate) fn evidence(facts: &Facts) -> Vec<Evidence> {
    let mut found = Found(Vec::new());
    found.releases(facts);
    found.stalls(facts);
    found.load(facts);
    found.requests(facts);
    found.probes(facts);
    found.processors(facts);
    found.drops(facts);
    found.links(facts);
    found.counts(facts);
    found.look(
        "frames missing in the capture",
        facts.capture_missed as f64,
        "frames",
        Some((0.0, f64::INFINITY)),
        "the disk was slower than the network; the figures are whole, the capture is not",
    );
    found.0
}

/// What lateness is held against where nothing was to be held back, in us.
fn at_once_us(facts: &Facts) -> f64 {
    let median_ns = facts.rtd_ms.map_or(0.0, |rtd| rtd.p50 * 1e6);
    median_ns.max(LOCAL_NS) / 1e3
}

/// The same where something was, in us.
fn held_us(facts: &Facts) -> f64 {
    match facts.smallest_delay_ns {
        0 => at_once_us(facts),
        delay => delay as f64 / 1e3,
    }
}

/// The two begin and end to count within some ms of each other, in which an
/// acknowledgement or two may pass: bytes that are forgiven, each way.
const AT_THE_ENDS: u64 = 200;

/// How far apart two counts are, in percent of the medium's.
fn apart_pct(count: &Count) -> f64 {
    let other = |bytes: u64| bytes.abs_diff(count.medium);
    let apart = other(count.kernel).max(count.capture.map_or(0, other));
    let bytes = apart.saturating_sub(AT_THE_ENDS);
    100.0 * bytes as f64 / count.medium.max(1) as f64
}

/// What was found so far.
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
        });
    }

    fn releases(&mut self, facts: &Facts) {
        let kinds = [
            (
                "held back",
                &facts.held,
                held_us(facts),
                "how much later than meant frames left a link that delays them, against the \
                 smallest delay asked for",
            ),
            (
                "passed on",
                &facts.passed,
                at_once_us(facts),
                "how long the medium took for frames that were not to be delayed, against the \
                 median round trip or 20 ms; a multicast is written to one member after the other",
            ),
        ];
        for (which, late, of_us, what) in kinds.into_iter().filter(|kind| kind.1.count() > 0) {
            self.look(
                &format!("release error of frames {which}, p99"),
                late.quantile_ns(0.99) as f64 / 1e3,
                "us",
                Some((0.05 * of_us, 0.5 * of_us)),
                &format!("{what}: limits are 5 % and 50 % of it"),
            );
            self.look(
                &format!("release error of frames {which}, max"),
                late.max_ns() as f64 / 1e3,
                "us",
                Some((of_us, 10.0 * of_us)),
                &format!("{what}: limits are once and ten times it"),
            );
        }
    }

    fn stalls(&mut self, facts: &Facts) {
        let (stalled, held_us) = (facts.stalls, held_us(facts));
        self.look(
            "longest stall of the medium",
            stalled.longest_ns as f64 / 1e3,
            "us",
            Some((held_us, f64::INFINITY)),
            &format!(
                "{} times the machine did not let the medium run for over a millisecond: another \
                 thread had the processor or, on a virtual machine, its host; the limit is once \
                 the smallest delay asked for",
                stalled.count
            ),
        );
        self.look(
            "frames taken in late, max",
            stalled.behind_ns as f64 / 1e3,
            "us",
            Some((held_us, 10.0 * held_us)),
            "the most that a frame waited for the medium before its delay began: limits are once \
             and ten times the smallest delay asked for",
        );
    }

    fn load(&mut self, facts: &Facts) {
        if let Some(slip) = facts.slip_ms {
            self.look(
                "schedule slip of the senders, p99",
                slip.p99,
                "ms",
                Some((SLIP_SUSPECT_MS, SLIP_INVALID_MS)),
                "how much later than meant messages were sent; round trips from the intended time \
                 hold it, so it is the senders' or the machine's",
            );
        }
        self.look(
            "messages never sent",
            facts.unsent as f64,
            "messages",
            Some((0.0, 0.0)),
            "scheduled messages that no sender sent: the load was not what was asked for",
        );
    }

    /// Whether loads were what was asked for.
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
            &format!(
                "share of a schedule's requests that its sender did not send, {node} the worst: \
                 this machine could not make the rate; ask for less, or for more `senders`"
            ),
        );
        let (off, node) = worst(&|load| {
            100.0 * (load.submitted_us - load.expected_us).abs() / load.expected_us.max(1e-3)
        });
        self.look(
            "time between requests, sent against asked for",
            off,
            "%",
            Some((1.0, 10.0)),
            &format!("how far the mean time between two requests was off, {node} the worst"),
        );
        let (late, node) = worst(&|load| {
            100.0 * load.slip_p99_us / (SLIP_SHARE * load.expected_us).max(SLIP_LEAST_US)
        });
        self.look(
            "slip of requests, p99, of what is allowed",
            late,
            "%",
            Some((100.0, 1_000.0)),
            &format!(
                "how much later than meant requests were sent, {node} the worst; allowed are a \
                 tenth of the time between two and 100 us in any case; response times hold it"
            ),
        );
    }

    /// Whether answers of known service time took longer.
    fn probes(&mut self, facts: &Facts) {
        let worst = facts.probes.iter().max_by(|a, b| a.mean.total_cmp(&b.mean));
        let Some(Contended { core, mode, mean, median, over_pct, worst_s }) = worst else { return };
        // A few very late ones among many spoil what they met, and not the run.
        let mean = if *over_pct < PROBES_FEW { mean.min(PROBES_INVALID / 100.0) } else { *mean };
        self.look(
            "contention at the probes",
            100.0 * mean,
            "%",
            Some((PROBES_SUSPECT, PROBES_INVALID)),
            &format!(
                "by how much longer than their service time probes took on average, on the worst \
                 core {core}, {mode}; there the median is {:.1} %, {over_pct:.1} % are over their \
                 limit, and the longest was at {worst_s:.1} s: programs waited for the machine; take \
                 fewer nodes, place them otherwise, or lower the rate",
                100.0 * median
            ),
        );
    }

    fn processors(&mut self, facts: &Facts) {
        let seconds = busy::by_second(&facts.host);
        let saturated = seconds.iter().filter(|busy| **busy > SATURATED).count();
        self.look(
            "seconds with the CPUs saturated",
            100.0 * saturated as f64 / seconds.len().max(1) as f64,
            "%",
            Some((10.0, 50.0)),
            "share of the seconds in which over 95 % of all CPU time was used: programs then \
             waited for the machine",
        );
        let mean = |of: &dyn Fn(&HostUse) -> f64| {
            let total: f64 = facts.host.iter().map(|h| h.seconds).sum();
            facts.host.iter().map(|h| of(h) * h.seconds).sum::<f64>() / total.max(1e-9) * 100.0
        };
        self.look(
            "steal",
            mean(&|h| h.steal),
            "%",
            Some((1.0, 10.0)),
            "share of CPU time that the hypervisor gave to others",
        );
        if facts.host.iter().any(|h| h.pressure.is_some()) {
            self.look(
                "CPU pressure",
                mean(&|h| h.pressure.unwrap_or(0.0)),
                "%",
                Some((25.0, 60.0)),
                "share of the time in which some task waited for a CPU",
            );
        }
        if let Some(waited) = facts.run_delay_pct {
            self.look(
                "run delay of programs",
                waited,
                "%",
                None,
                "told, not judged: what programs that were there from the start to the end waited \
                 for a CPU, of what they ran and waited; what limits kept from them is no part of it",
            );
        }
        if let Some(busy) = busy::under_way(&facts.host, &facts.under_way) {
            self.look(
                "CPUs busy while messages were under way",
                100.0 * busy,
                "%",
                None,
                "told, not judged: near 100 %, the programs' own work on this machine makes the \
                 delays, and a faster machine would have shorter ones",
            );
        }
    }

    fn drops(&mut self, facts: &Facts) {
        self.look(
            "frames dropped by the kernel",
            100.0 * facts.kernel_drops as f64 / facts.frames.max(1) as f64,
            "%",
            Some((0.0, 0.1)),
            "frames lost between a node and the medium, which nobody asked for",
        );
        self.look(
            "packets dropped at the kernel's backlogs",
            facts.backlog_drops as f64,
            "packets",
            Some((0.0, f64::INFINITY)),
            "queues of the kernel's network work were full, of this machine's other traffic perhaps",
        );
        self.look(
            "datagrams dropped at full sockets",
            facts.socket_drops as f64,
            "datagrams",
            Some((0.0, f64::INFINITY)),
            "a program did not read or the kernel did not send in time: on a faster machine it \
             might",
        );
    }

    /// Whether endpoints and medium agree on what passed.
    fn counts(&mut self, facts: &Facts) {
        let worst = facts.counts.iter().max_by(|a, b| apart_pct(a).total_cmp(&apart_pct(b)));
        let Some(worst) = worst else { return };
        let Count { node, way, kernel, medium, capture } = worst;
        let captured = capture.map_or(String::new(), |bytes| format!(" and the capture {bytes} B"));
        self.look(
            "bytes counted by endpoints beside the medium's",
            apart_pct(worst),
            "%",
            Some((0.5, 2.0)),
            &format!(
                "how far the bytes of frames that the kernels of nodes with exchanges counted, and \
                 the capture if there is one, are from those that the medium counted, \
                 {AT_THE_ENDS} B forgiven; the worst: {node} \
                 {way} {kernel} B, of which the medium saw {medium} B{captured}"
            ),
        );
    }

    fn links(&mut self, facts: &Facts) {
        let worst = facts.broken.iter().max_by(|a, b| {
            let off = |broken: &Broken| (broken.got - broken.asked).abs() / broken.tolerance;
            off(a).total_cmp(&off(b))
        });
        let worst = worst.map_or(String::new(), |worst| {
            let Broken { link, from_s, to_s, what, asked, got, unit, .. } = worst;
            let (asked, got) = (short(*asked), short(*got));
            format!("; the worst: {link}, {from_s:.0} s to {to_s:.0} s, {what} of {asked} {unit} asked, {got} got")
        });
        self.look(
            "links that did not give what was asked",
            100.0 * facts.broken.len() as f64 / facts.intervals.max(1) as f64,
            "%",
            Some((0.0, 10.0)),
            &format!(
                "share of the intervals of links in which delay, loss or rate were further from \
                 what was asked than chance and the limits of lateness allow{worst}"
            ),
        );
        if facts.unmeasured > 0 {
            self.look(
                "ways of links impaired by netem",
                facts.unmeasured as f64,
                "ways",
                None,
                "told, not judged: the kernel made these impairments; the losses are those that it \
                 counted, and nobody measured the delays",
            );
        }
    }
}

/// A number with about three digits that matter.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 || v == v.round() => format!("{value:.0}"),
        v if v >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}
