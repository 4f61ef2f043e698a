//! Whether the numbers are the system's or the test machine's.
//!
//! Each piece of evidence has two limits that were set before any run: at the
//! first a figure may be coloured by the machine, at the second it is the
//! machine's. The worst piece decides.

use crate::evidence::{evidence, short};
use crate::facts::Facts;
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

/// Draws the verdict.
pub fn judge(facts: &Facts) -> Verdict {
    let evidence = evidence(facts);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::{Broken, Contended, Count, Submitted};
    use crate::host::HostUse;
    use crate::latency::{Latency, Summary};

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
        let load = Submitted {
            node: "gateway".to_owned(),
            open: true,
            unsent: 0,
            scheduled: 1_000,
            expected_us: 5_000.0,
            submitted_us: 5_010.0,
            slip_p99_us: 400.0,
        };
        let sent = |change: &dyn Fn(&mut Submitted)| {
            let mut load = load.clone();
            change(&mut load);
            spoilt(&|f| f.loads = vec![load.clone()])
        };
        assert_eq!(sent(&|l| l.unsent = 1), Status::Suspect);
        assert_eq!(sent(&|l| l.unsent = 20), Status::Invalid);
        assert_eq!(sent(&|l| l.submitted_us = 5_100.0), Status::Suspect);
        assert_eq!(sent(&|l| l.slip_p99_us = 600.0), Status::Suspect);
        assert_eq!(sent(&|l| l.slip_p99_us = 6_000.0), Status::Invalid);
        let probed = |mean: f64, over_pct: f64| {
            let (mode, median, worst_s) = ("busy".to_owned(), 0.0, 1.0);
            let probes = Contended { core: 1, mode, mean, median, over_pct, worst_s };
            spoilt(&|f| f.probes = vec![probes.clone()])
        };
        assert_eq!(probed(0.08, 4.0), Status::Suspect);
        assert_eq!(probed(0.8, 30.0), Status::Invalid);
        assert_eq!(probed(0.8, 2.0), Status::Suspect, "one that was very late");
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
        let count = |medium| Count {
            node: "meter-1".into(),
            way: "sent",
            kernel: 10_000,
            medium,
            capture: None,
        };
        assert_eq!(judge(&Facts { counts: vec![count(9_810)], ..calm() }).status, Status::Valid);
        assert_eq!(spoilt(&|f| f.counts = vec![count(10_000), count(9_700)]), Status::Suspect);
        assert_eq!(spoilt(&|f| f.counts = vec![count(9_000)]), Status::Invalid);
        let lacking = Count { capture: Some(9_500), ..count(10_000) };
        assert_eq!(spoilt(&|f| f.counts = vec![lacking.clone()]), Status::Invalid);
        assert_eq!(spoilt(&|f| f.failures.push("meter-1 died".into())), Status::Invalid);
    }

    #[test]
    fn what_netem_did_is_told_and_not_judged() {
        let told = |facts: &Facts| {
            let verdict = judge(facts);
            let names = verdict.evidence.iter().map(|found| found.name.as_str());
            (verdict.status, names.filter(|name| name.contains("netem")).count())
        };
        assert_eq!(told(&calm()), (Status::Valid, 0));
        assert_eq!(told(&Facts { unmeasured: 4, ..calm() }), (Status::Valid, 1));
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
}
