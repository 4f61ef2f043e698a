use super::*;
use crate::busy::HostLoad;
use crate::facts::{Contended, Count, Lost, Overflows, Submitted};
use crate::tolerance::Deviation;
use crate::usage::HostUse;
use record::{Status, Subject, Times};
use units::{Histogram, Instant, Span};

fn calm() -> Facts {
    Facts {
        smallest_delay: Some(Span::from_ms(30)),
        delayed: [20_000; 100].into_iter().collect(),
        undelayed: [20_000; 100].into_iter().collect(),
        rtd_ms: Some(Times { p50: 100.0, ..Times::default() }),
        slip_ms: Some(Times { p99: 0.1, ..Times::default() }),
        host: host_load(&[used(0.3, 1.0); 20]),
        frames: 1000,
        ..Facts::default()
    }
}

fn used(busy: f64, seconds: f64) -> HostUse {
    HostUse { seconds, busy, pressure: Some(0.05), ..HostUse::default() }
}

fn host_load(host: &[HostUse]) -> HostLoad {
    HostLoad::of(host.iter().copied().map(Ok), &[(Instant::START, Instant::from_ns(1_000_000_000))])
        .unwrap()
}

fn submitted() -> Submitted {
    Submitted {
        node: "gateway".to_owned(),
        open: true,
        unsent: 0,
        scheduled: 1_000,
        expected_us: 5_000.0,
        submitted_us: 5_010.0,
        slip_p99_us: 400.0,
        wait_p99_us: None,
    }
}

/// With a CPU model of virtual time, programs that wait for it are part of the configuration.
#[test]
fn a_configured_cpu_may_be_busy() {
    let busy =
        HostUse { at: Instant::START, seconds: 2.0, busy: 1.0, steal: 0.0, pressure: Some(0.9) };
    let facts = Facts { host: host_load(&[busy]), ..Facts::default() };
    assert_eq!(judge(&facts).status, Status::Invalid);
    let configured = Facts { configured_cpu: true, ..facts.clone() };
    assert_eq!(judge(&configured).status, Status::Valid);
    let names =
        |facts: &Facts| judge(facts).evidence.into_iter().map(|e| e.name).collect::<Vec<_>>();
    assert!(names(&configured).contains(&Subject::CpuPressure));
    let costless = Facts { costless: true, ..facts };
    assert!(
        !names(&costless).iter().any(|name| name.name().contains("CPU")),
        "{:?}",
        names(&costless)
    );
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
    let late = |us: u64| -> Histogram { [us * 1000; 9].into_iter().collect() };
    // The smallest delay is 30 ms, the median round trip 100 ms.
    assert_eq!(spoilt(&|f| f.delayed = late(2_000)), Status::Suspect);
    assert_eq!(spoilt(&|f| f.delayed = late(20_000)), Status::Invalid);
    assert_eq!(spoilt(&|f| f.undelayed = late(6_000)), Status::Suspect);
    assert_eq!(spoilt(&|f| f.undelayed = late(60_000)), Status::Invalid);
    assert_eq!(spoilt(&|f| f.slip_ms.as_mut().unwrap().p99 = 3.0), Status::Suspect);
    assert_eq!(spoilt(&|f| f.stalls.longest = Span::from_ms(31)), Status::Suspect);
    assert_eq!(spoilt(&|f| f.stalls.behind = Span::from_ms(31)), Status::Suspect);
    assert_eq!(spoilt(&|f| f.stalls.behind = Span::from_ms(301)), Status::Invalid);
    assert_eq!(spoilt(&|f| f.unsent = 1), Status::Invalid);
    let load = submitted();
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
    let first = |count: usize, host: HostUse| {
        let mut all = [used(0.3, 1.0); 20];
        all[..count].fill(host);
        spoilt(&|f| f.host = host_load(&all))
    };
    assert_eq!(first(4, used(1.0, 1.0)), Status::Suspect);
    assert_eq!(first(20, used(1.0, 1.0)), Status::Invalid);
    assert_eq!(first(1, HostUse { steal: 0.5, ..used(0.3, 1.0) }), Status::Suspect);
    assert_eq!(first(1, HostUse { pressure: Some(20.0), ..used(0.3, 1.0) }), Status::Invalid);
    assert_eq!(spoilt(&|f| f.kernel_drops = 1), Status::Suspect);
    assert_eq!(spoilt(&|f| f.rejected = (1, "a:eth0".into())), Status::Suspect);
    assert_eq!(spoilt(&|f| f.socket_drops = 1), Status::Suspect);
    assert_eq!(spoilt(&|f| f.capture_missed = 1), Status::Suspect);
    let deviation = || Deviation {
        link: "meter-1:eth0 up".into(),
        from_s: 0.0,
        to_s: 10.0,
        quantity: "loss",
        configured: 30.0,
        measured: 20.0,
        tolerance: 1.0,
        unit: "%",
    };
    let spoilt_links =
        |compared| spoilt(&|f| (f.deviations, f.compared) = (vec![deviation()], compared));
    assert_eq!(spoilt_links(100), Status::Suspect);
    assert_eq!(spoilt_links(5), Status::Invalid);
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
    assert_eq!(spoilt(&|f| f.failures.push(Failure::Program("x".into()))), Status::Failed);
    assert_eq!(spoilt(&|f| f.failures.push(Failure::Bed("x".into()))), Status::Invalid);
}

#[test]
fn what_netem_did_is_told_and_not_judged() {
    let judged = |facts: &Facts| {
        let verdict = judge(facts);
        let names = verdict.evidence.iter().map(|found| &found.name);
        (verdict.status, names.filter(|name| **name == Subject::NetemLinks).count())
    };
    assert_eq!(judged(&calm()), (Status::Valid, 0));
    assert_eq!(judged(&Facts { unmeasured: 4, ..calm() }), (Status::Valid, 1));
}

#[test]
fn a_short_round_trip_is_held_to_a_local_networks() {
    let mut facts = calm();
    facts.rtd_ms = Some(Times { p50: 0.5, ..Times::default() });
    facts.undelayed = [900_000; 9].into_iter().collect();
    assert_eq!(judge(&facts).status, Status::Valid);
    facts.undelayed = [1_100_000; 9].into_iter().collect();
    assert_eq!(judge(&facts).status, Status::Suspect);
}

#[test]
fn each_reason_has_its_own_status_and_the_worst_is_first() {
    let mut facts = calm();
    facts.stalls.longest = Span::from_ms(31);
    facts.unsent = 3;
    facts.failures.push(Failure::Program("meter-1 ended with status 1".into()));
    let verdict = judge(&facts);
    let found: Vec<_> = verdict.reasons.iter().map(|r| (r.status, r.name.name())).collect();
    let expected = [
        (Status::Invalid, "messages never sent"),
        (Status::Failed, "a program failed"),
        (Status::Suspect, "longest stall of the forwarding thread"),
    ];
    assert_eq!(found, expected);
    assert_eq!(verdict.status, Status::Invalid);
    let text = verdict.reasons[2].to_string();
    let begin = "longest stall of the forwarding thread: 31 ms (limit 30 ms); some frames";
    assert!(text.starts_with(begin), "{text}");
}

#[test]
fn a_program_that_fails_does_not_make_the_machine_bad() {
    let mut facts = calm();
    facts.stalls.longest = Span::from_ms(31);
    facts.failures.push(Failure::Program("meter-1 ended with status 1".into()));
    assert_eq!(judge(&facts).status, Status::Failed);
}

/// A report of `load` about a server that is slower than the schedule: requests wait for seconds,
/// although this machine was ready to send each in time. `thingbed capacity` then trusts the run
/// and takes the limit for the system's.
#[test]
fn a_wait_for_a_slow_target_does_not_spoil_a_run() {
    let load = |slip_p99_us, wait_p99_us| Submitted {
        node: "gateway".to_owned(),
        open: true,
        unsent: 0,
        scheduled: 1_000,
        expected_us: 5_000.0,
        submitted_us: 5_001.0,
        slip_p99_us,
        wait_p99_us,
    };
    let verdict = judge(&Facts { loads: vec![load(60.0, Some(2e6))], ..calm() });
    assert_eq!((verdict.status, verdict.reasons.len()), (Status::Valid, 0));
    let wait = verdict.evidence.iter().find(|found| found.name == Subject::ConnectionWait).unwrap();
    assert_eq!((wait.value, wait.limit_invalid), (Some(2_000.0), None));
    // The same delay on this machine is one.
    let own = judge(&Facts { loads: vec![load(2e6, Some(0.0))], ..calm() });
    assert_eq!(own.status, Status::Invalid);
    let none = judge(&Facts { loads: vec![load(60.0, None)], ..calm() });
    assert!(none.evidence.iter().all(|found| found.name != Subject::ConnectionWait));
}

#[test]
fn a_busy_machine_is_told_from_other_causes() {
    let blames =
        |facts: Facts| judge(&facts).reasons.iter().any(|reason| reason.name.is_of_machine());
    assert!(blames(Facts { host: host_load(&[used(1.0, 1.0); 20]), ..calm() }));
    assert!(!blames(Facts { unsent: 1, ..calm() }), "a program may have ended");
}

/// Each piece of evidence of a run is about something else, whatever the run has.
#[test]
fn no_two_pieces_of_evidence_have_the_same_label() {
    let (mode, mean, median, over_pct, worst_s) = ("busy".to_owned(), 0.0, 0.0, 0.0, 1.0);
    let one = || (1, "meter-1".to_owned());
    let count = Count { node: "meter-1".into(), way: "sent", kernel: 1, medium: 1, capture: None };
    let facts = Facts {
        loads: vec![Submitted { wait_p99_us: Some(0.0), ..submitted() }],
        probes: vec![Contended { core: 1, mode, mean, median, over_pct, worst_s }],
        counts: vec![count],
        overflows: Overflows {
            groups: one(),
            addresses: one(),
            flows: one(),
            connections: one(),
            output: one(),
        },
        unmeasured: 1,
        emulated: (1, "board".into()),
        lost: vec![Lost { what: "the capture has no frames".into(), from_ms: Some(1) }],
        run_delay_pct: Some(1.0),
        run_delay_per_message_ms: Some(1.0),
        host: host_load(&[HostUse { at: Instant::from_ns(1_000_000_000), ..used(0.3, 1.0) }]),
        ..calm()
    };
    let mut found: Vec<Subject> = judge(&facts).evidence.into_iter().map(|e| e.name).collect();
    found.extend([Subject::ProgramFailed, Subject::RunFailed]);
    let all: Vec<Subject> = Subject::ALL.to_vec();
    for subject in &all {
        let times = found.iter().filter(|found| *found == subject).count();
        assert_eq!(times, 1, "{subject}");
    }
}

/// Two busy loops next to a run on two CPUs: programs of the nodes get a CPU first often enough.
#[test]
fn a_busy_machine_that_keeps_no_program_waiting_does_not_spoil_a_run() {
    let busy = |waited_ms, p50| {
        let busy = HostUse { pressure: Some(0.9), ..used(1.0, 1.0) };
        judge(&Facts {
            host: host_load(&[busy; 20]),
            run_delay_per_message_ms: waited_ms,
            rtd_ms: Some(Times { p50, ..Times::default() }),
            ..calm()
        })
    };
    let unhurt = busy(Some(2.0), 100.0);
    assert_eq!(unhurt.status, Status::Valid, "{:?}", unhurt.reasons);
    let shown = unhurt.evidence.iter().find(|found| found.name == Subject::SaturatedCpus).unwrap();
    assert!(shown.value == Some(100.0) && shown.meaning.starts_with("informational"));
    assert_eq!(busy(Some(2.0), 10.0).status, Status::Invalid, "a fifth of the round trip");
    assert_eq!(busy(None, 100.0).status, Status::Invalid, "nothing is known of it");
}
