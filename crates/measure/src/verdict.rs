//! Whether the numbers are the system's or the test machine's.
//!
//! Each piece of evidence has two limits that were set before any run: at the
//! first a figure may be coloured by the machine, at the second it is the
//! machine's. The worst piece decides.

use crate::host::HostUse;
use crate::latency::{Latency, Summary};
use serde::{Deserialize, Serialize};

/// How far a run can be trusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The machine kept up.
    Valid,
    /// The machine may have coloured the figures.
    Suspect,
    /// The figures are the machine's.
    Invalid,
}

/// One thing looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// What it is.
    pub name: String,
    /// What was found.
    pub value: f64,
    /// The unit of value and limits.
    pub unit: String,
    /// Above this a run is suspect; nothing for what is only told.
    pub limit_suspect: Option<f64>,
    /// Above this it is invalid.
    pub limit_invalid: Option<f64>,
    /// What follows from it.
    pub status: Status,
    /// What it means for the figures.
    pub meaning: String,
}

/// The outcome, with all that it rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The worst of the evidence.
    pub status: Status,
    /// Why it is not valid; empty when it is.
    pub reasons: Vec<String>,
    /// All that was looked at.
    pub evidence: Vec<Evidence>,
}

/// What a verdict is drawn from.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The smallest delay that a link with any asks for, in ns; 0 when none does.
    pub smallest_delay_ns: u64,
    /// How late frames left that a link was to hold back.
    pub held: Latency,
    /// How late frames left that were to be passed on at once.
    pub passed: Latency,
    /// Round trips, from the time a message was meant to be sent, in ms.
    pub rtd_ms: Option<Summary>,
    /// How late messages were sent, in ms.
    pub slip_ms: Option<Summary>,
    /// Messages that were scheduled and never sent.
    pub unsent: u64,
    /// The host's use while the run was measured.
    pub host: Vec<HostUse>,
    /// Spans in which messages were under way, ns of CLOCK_MONOTONIC.
    pub under_way: Vec<(u64, u64)>,
    /// Frames that the kernel dropped between a node and the medium.
    pub kernel_drops: u64,
    /// Datagrams that the nodes' sockets had no room for.
    pub socket_drops: u64,
    /// When the machine did not let the medium run.
    pub stalls: medium::Stalls,
    /// Frames that the medium carried.
    pub frames: u64,
    /// Frames that a capture lacks.
    pub capture_missed: u64,
    /// Intervals of links in which what was asked was not given.
    pub broken: Vec<Broken>,
    /// Intervals of links in which frames came.
    pub intervals: usize,
    /// What went wrong with the run itself, e.g. a program that died.
    pub failures: Vec<String>,
}

/// An interval of a link in which what was asked was not given.
#[derive(Debug, Clone, PartialEq)]
pub struct Broken {
    /// Whose link, and which way.
    pub link: String,
    /// When it was, in seconds since offset 0.
    pub from_s: f64,
    /// See `from_s`.
    pub to_s: f64,
    /// What was not given.
    pub what: &'static str,
    /// What was asked, what was got, and how far they may be apart.
    pub asked: f64,
    /// See `asked`.
    pub got: f64,
    /// See `asked`.
    pub tolerance: f64,
    /// The unit of these.
    pub unit: &'static str,
}

/// A frame that is to be passed on at once has no delay to be held against. Its
/// lateness is held against what the reader looks at, the median round trip; and
/// against a local network's 20 ms where that is shorter, on which a millisecond
/// (5 %) is noticed and 10 ms (50 %) are not local any more.
const LOCAL_NS: f64 = 20_000_000.0;
/// Schedules are held to this share of a typical figure of 10 ms.
const SLIP_SUSPECT_MS: f64 = 1.0;
const SLIP_INVALID_MS: f64 = 10.0;
/// A second in which the CPUs were this busy was saturated.
const SATURATED: f64 = 0.95;

/// Draws the verdict.
pub fn judge(facts: &Facts) -> Verdict {
    let mut evidence = Vec::new();
    let mut look =
        |name: &str, value: f64, unit: &str, limits: Option<(f64, f64)>, meaning: &str| {
            let status = match limits {
                Some((_, invalid)) if value > invalid => Status::Invalid,
                Some((suspect, _)) if value > suspect => Status::Suspect,
                _ => Status::Valid,
            };
            evidence.push(Evidence {
                name: name.to_owned(),
                value,
                unit: unit.to_owned(),
                limit_suspect: limits.map(|l| l.0),
                limit_invalid: limits.map(|l| l.1),
                status,
                meaning: meaning.to_owned(),
            });
        };

    let median_ns = facts.rtd_ms.map_or(0.0, |rtd| rtd.p50 * 1e6);
    let at_once_us = median_ns.max(LOCAL_NS) / 1e3;
    let held_us = match facts.smallest_delay_ns {
        0 => at_once_us,
        delay => delay as f64 / 1e3,
    };
    let kinds = [
        (
            "held back",
            &facts.held,
            held_us,
            "how much later than meant frames left a link that delays them, against the smallest \
             delay asked for",
        ),
        (
            "passed on",
            &facts.passed,
            at_once_us,
            "how long the medium took for frames that were not to be delayed, against the median \
             round trip or 20 ms; a multicast is written to one member after the other",
        ),
    ];
    for (which, late, of_us, what) in kinds.into_iter().filter(|kind| kind.1.count() > 0) {
        look(
            &format!("release error of frames {which}, p99"),
            late.quantile_ns(0.99) as f64 / 1e3,
            "us",
            Some((0.05 * of_us, 0.5 * of_us)),
            &format!("{what}: limits are 5 % and 50 % of it"),
        );
        look(
            &format!("release error of frames {which}, max"),
            late.max_ns() as f64 / 1e3,
            "us",
            Some((of_us, 10.0 * of_us)),
            &format!("{what}: limits are once and ten times it"),
        );
    }
    let stalled = facts.stalls;
    look(
        "longest stall of the medium",
        stalled.longest_ns as f64 / 1e3,
        "us",
        Some((held_us, f64::INFINITY)),
        &format!(
            "{} times the machine did not let the medium run for over a millisecond: another \
             thread had the processor or, on a virtual machine, its host; the limit is once the \
             smallest delay asked for",
            stalled.count
        ),
    );
    look(
        "frames taken in late, max",
        stalled.behind_ns as f64 / 1e3,
        "us",
        Some((held_us, 10.0 * held_us)),
        "the most that a frame waited for the medium before its delay began: limits are once and \
         ten times the smallest delay asked for",
    );
    if let Some(slip) = facts.slip_ms {
        look(
            "schedule slip of the senders, p99",
            slip.p99,
            "ms",
            Some((SLIP_SUSPECT_MS, SLIP_INVALID_MS)),
            "how much later than meant messages were sent; round trips from the intended time \
             hold it, so it is the senders' or the machine's",
        );
    }
    let scheduled = facts.unsent;
    look(
        "messages never sent",
        scheduled as f64,
        "messages",
        Some((0.0, 0.0)),
        "scheduled messages that no sender sent: the load was not what was asked for",
    );
    let seconds = by_second(&facts.host);
    let saturated = seconds.iter().filter(|busy| **busy > SATURATED).count();
    look(
        "seconds with the CPUs saturated",
        100.0 * saturated as f64 / seconds.len().max(1) as f64,
        "%",
        Some((10.0, 50.0)),
        "share of the seconds in which over 95 % of all CPU time was used: programs then waited \
         for the machine",
    );
    let mean = |of: &dyn Fn(&HostUse) -> f64| {
        let total: f64 = facts.host.iter().map(|h| h.seconds).sum();
        facts.host.iter().map(|h| of(h) * h.seconds).sum::<f64>() / total.max(1e-9) * 100.0
    };
    look(
        "steal",
        mean(&|h| h.steal),
        "%",
        Some((1.0, 10.0)),
        "share of CPU time that the hypervisor gave to others",
    );
    if facts.host.iter().any(|h| h.pressure.is_some()) {
        look(
            "CPU pressure",
            mean(&|h| h.pressure.unwrap_or(0.0)),
            "%",
            Some((25.0, 60.0)),
            "share of the time in which some task waited for a CPU",
        );
    }
    if let Some(busy) = busy_under_way(&facts.host, &facts.under_way) {
        look(
            "CPUs busy while messages were under way",
            100.0 * busy,
            "%",
            None,
            "told, not judged: near 100 %, the programs' own work on this machine makes the \
             delays, and a faster machine would have shorter ones",
        );
    }
    look(
        "frames dropped by the kernel",
        100.0 * facts.kernel_drops as f64 / facts.frames.max(1) as f64,
        "%",
        Some((0.0, 0.1)),
        "frames lost between a node and the medium, which nobody asked for",
    );
    look(
        "datagrams dropped at full sockets",
        facts.socket_drops as f64,
        "datagrams",
        Some((0.0, f64::INFINITY)),
        "a program did not read or the kernel did not send in time: on a faster machine it might",
    );
    let worst = facts.broken.iter().max_by(|a, b| {
        let off = |broken: &Broken| (broken.got - broken.asked).abs() / broken.tolerance;
        off(a).total_cmp(&off(b))
    });
    let worst = worst.map_or(String::new(), |worst| {
        let Broken { link, from_s, to_s, what, asked, got, unit, .. } = worst;
        let (asked, got) = (short(*asked), short(*got));
        format!("; the worst: {link}, {from_s:.0} s to {to_s:.0} s, {what} of {asked} {unit} asked, {got} got")
    });
    look(
        "links that did not give what was asked",
        100.0 * facts.broken.len() as f64 / facts.intervals.max(1) as f64,
        "%",
        Some((0.0, 10.0)),
        &format!(
            "share of the intervals of links in which delay, loss or rate were further from what \
             was asked than chance and the limits of lateness allow{worst}"
        ),
    );
    look(
        "frames missing in the capture",
        facts.capture_missed as f64,
        "frames",
        Some((0.0, f64::INFINITY)),
        "the disk was slower than the network; the figures are whole, the capture is not",
    );

    let mut reasons: Vec<String> = facts.failures.clone();
    let worst = evidence.iter().map(|e| e.status).max().unwrap_or(Status::Valid);
    let status = if facts.failures.is_empty() { worst } else { Status::Invalid };
    for found in evidence.iter().filter(|e| e.status != Status::Valid) {
        let limit = match found.status {
            Status::Invalid => found.limit_invalid,
            _ => found.limit_suspect,
        };
        reasons.push(format!(
            "{}: {} {unit}, over {} {unit}: {}",
            found.name,
            short(found.value),
            short(limit.unwrap_or(0.0)),
            found.meaning,
            unit = found.unit,
        ));
    }
    Verdict { status, reasons, evidence }
}

/// A number with about three digits that matter.
fn short(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 || v == v.round() => format!("{value:.0}"),
        v if v >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

/// How busy the host was, second by second.
fn by_second(host: &[HostUse]) -> Vec<f64> {
    let mut seconds = Vec::new();
    let (mut time, mut busy) = (0.0, 0.0);
    for interval in host {
        time += interval.seconds;
        busy += interval.busy * interval.seconds;
        if time >= 0.999 {
            seconds.push(busy / time);
            (time, busy) = (0.0, 0.0);
        }
    }
    // A run shorter than a second is one interval.
    if seconds.is_empty() && time > 0.0 {
        seconds.push(busy / time);
    }
    seconds
}

/// How busy the host was on average over the spans in which messages were
/// under way; nothing when there were none.
fn busy_under_way(host: &[HostUse], spans: &[(u64, u64)]) -> Option<f64> {
    let (mut time, mut busy) = (0.0, 0.0);
    for interval in host {
        let end = interval.at_ns;
        let begin = end.saturating_sub((interval.seconds * 1e9) as u64);
        let overlap: u64 =
            spans.iter().map(|(from, to)| (*to).min(end).saturating_sub((*from).max(begin))).sum();
        time += overlap as f64;
        busy += interval.busy * overlap as f64;
    }
    (time > 0.0).then(|| busy / time)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calm() -> Facts {
        Facts {
            smallest_delay_ns: 30_000_000,
            held: [20_000; 100].into_iter().collect(),
            passed: [20_000; 100].into_iter().collect(),
            rtd_ms: Some(Summary { p50: 100.0, ..Summary::default() }),
            slip_ms: Some(Summary { p99: 0.1, ..Summary::default() }),
            host: vec![used(0.3, 1.0); 20],
            frames: 1000,
            ..Facts::default()
        }
    }

    fn used(busy: f64, seconds: f64) -> HostUse {
        HostUse { seconds, busy, pressure: Some(0.05), ..HostUse::default() }
    }

    #[test]
    fn a_calm_run_is_valid_and_shows_its_evidence() {
        let verdict = judge(&calm());
        assert_eq!((verdict.status, verdict.reasons.len()), (Status::Valid, 0));
        assert!(verdict.evidence.len() >= 8);
    }

    #[test]
    fn each_thing_can_spoil_it() {
        let spoilt = |change: &dyn Fn(&mut Facts)| {
            let mut facts = calm();
            change(&mut facts);
            let verdict = judge(&facts);
            assert_eq!(verdict.reasons.len(), 1, "{:?}", verdict.reasons);
            verdict.status
        };
        let late = |us: u64| -> Latency { [us * 1000; 9].into_iter().collect() };
        // The smallest delay is 30 ms, the median round trip 100 ms.
        assert_eq!(spoilt(&|f| f.held = late(2_000)), Status::Suspect);
        assert_eq!(spoilt(&|f| f.held = late(20_000)), Status::Invalid);
        assert_eq!(spoilt(&|f| f.passed = late(6_000)), Status::Suspect);
        assert_eq!(spoilt(&|f| f.passed = late(60_000)), Status::Invalid);
        assert_eq!(spoilt(&|f| f.slip_ms.as_mut().unwrap().p99 = 3.0), Status::Suspect);
        assert_eq!(spoilt(&|f| f.stalls.longest_ns = 31_000_000), Status::Suspect);
        assert_eq!(spoilt(&|f| f.stalls.behind_ns = 31_000_000), Status::Suspect);
        assert_eq!(spoilt(&|f| f.stalls.behind_ns = 301_000_000), Status::Invalid);
        assert_eq!(spoilt(&|f| f.unsent = 1), Status::Invalid);
        assert_eq!(spoilt(&|f| f.host[..4].fill(used(1.0, 1.0))), Status::Suspect);
        assert_eq!(spoilt(&|f| f.host.fill(used(1.0, 1.0))), Status::Invalid);
        assert_eq!(spoilt(&|f| f.host[0].steal = 0.5), Status::Suspect);
        assert_eq!(spoilt(&|f| f.host[0].pressure = Some(20.0)), Status::Invalid);
        assert_eq!(spoilt(&|f| f.kernel_drops = 1), Status::Suspect);
        assert_eq!(spoilt(&|f| f.socket_drops = 1), Status::Suspect);
        assert_eq!(spoilt(&|f| f.capture_missed = 1), Status::Suspect);
        let broken = || Broken {
            link: "meter-1:eth0 up".into(),
            from_s: 0.0,
            to_s: 10.0,
            what: "loss",
            asked: 30.0,
            got: 20.0,
            tolerance: 1.0,
            unit: "%",
        };
        assert_eq!(spoilt(&|f| (f.broken, f.intervals) = (vec![broken()], 100)), Status::Suspect);
        assert_eq!(spoilt(&|f| (f.broken, f.intervals) = (vec![broken()], 5)), Status::Invalid);
        assert_eq!(spoilt(&|f| f.failures.push("meter-1 died".into())), Status::Invalid);
    }

    #[test]
    fn a_short_round_trip_is_held_to_a_local_networks() {
        let mut facts = calm();
        facts.rtd_ms = Some(Summary { p50: 0.5, ..Summary::default() });
        facts.passed = [900_000; 9].into_iter().collect();
        assert_eq!(judge(&facts).status, Status::Valid);
        facts.passed = [1_100_000; 9].into_iter().collect();
        assert_eq!(judge(&facts).status, Status::Suspect);
    }

    #[test]
    fn a_second_is_saturated_by_its_mean() {
        let burst: Vec<_> = (0..20).map(|i| used(if i < 5 { 1.0 } else { 0.1 }, 0.1)).collect();
        let seconds = by_second(&burst);
        assert_eq!(seconds.len(), 2);
        assert!((seconds[0] - 0.55).abs() < 1e-9);
    }

    #[test]
    fn busy_while_under_way_looks_at_those_spans_alone() {
        let host = [
            HostUse { at_ns: 1_000_000_000, ..used(1.0, 1.0) },
            HostUse { at_ns: 2_000_000_000, ..used(0.0, 1.0) },
        ];
        assert_eq!(busy_under_way(&host, &[(0, 500_000_000)]), Some(1.0));
        assert_eq!(busy_under_way(&host, &[(0, 2_000_000_000)]), Some(0.5));
        assert_eq!(busy_under_way(&host, &[]), None);
    }
}
