use super::Controller;
use super::fake::{Behaviour, Deed, FakeBed, S, job};
use crate::bed::faults::Faults;
use crate::bed::jobs::{Job, Role, State};
use crate::error::Error;
use experiment::{PlannedFault, PlannedFaultKind as Kind};
use lab::{Exit, Failure};
use std::sync::atomic::AtomicBool;
use units::Span;

const LIMIT: Span = Span::from_ns(60 * S);

fn ready() -> Behaviour {
    Behaviour { ready_ns: Some(S / 2), ..Behaviour::default() }
}

/// Runs `test` with a controller of `jobs`, which behave as said, and planned `faults`.
fn with(
    behaviours: Vec<Behaviour>,
    jobs: Vec<Job>,
    faults: &[PlannedFault],
    test: impl FnOnce(&mut Controller<'_, FakeBed>),
) {
    let (interrupted, mut watch) = (AtomicBool::new(false), ());
    let faults = Faults::new(faults, |name| name.strip_prefix("n-")?.parse().ok());
    let logs = "/logs".into();
    let bed = FakeBed::of(behaviours);
    test(&mut Controller::new(bed, jobs, faults, logs, &interrupted, &mut watch));
}

#[test]
fn services_start_first_and_stop_last() {
    let roles = [Role::Source, Role::Node, Role::Service];
    let jobs = roles.map(|role| job(0, role)).to_vec();
    with(vec![ready(); 3], jobs, &[], |controller| {
        controller.set_up(LIMIT).unwrap();
        controller.begin().unwrap();
        controller.stop().unwrap();
        let deeds = controller.bed.deeds(|deed| !matches!(deed, Deed::Sent(..)));
        let term = libc::SIGTERM;
        let stops = [Deed::Signalled(1, term), Deed::Signalled(2, term)];
        let starts = [2, 1, 0].map(Deed::Started).to_vec();
        assert_eq!(deeds, [starts, vec![Deed::Begun], stops.to_vec()].concat());
        assert!(controller.failures.is_empty());
    });
}

#[test]
fn a_program_that_fails_at_its_start_ends_the_set_up() {
    let fails = Behaviour { ends: Some((S, Exit::Status(3))), ..Behaviour::default() };
    with(vec![ready(), fails], vec![job(0, Role::Sink), job(1, Role::Source)], &[], |controller| {
        match controller.set_up(LIMIT) {
            Err(Error::Died { node, how, .. }) => {
                assert_eq!((node.as_str(), how.as_str()), ("n-1", "ended with status 3"));
            }
            other => panic!("{other:?}"),
        }
        let lasted = controller.bed.now - 100 * S;
        assert!(lasted < 2 * S, "{lasted} ns, though it failed after 1 s");
        assert!(controller.bed.deeds(|deed| *deed == Deed::Begun).is_empty());
    });
}

#[test]
fn a_program_that_cannot_be_executed_ends_the_set_up() {
    with(vec![Behaviour::default()], vec![job(0, Role::Source)], &[], |controller| {
        let failure = Failure { tried: "start x".to_owned(), errno: libc::ENOENT };
        let event = lab::Event::NotStarted { id: 0, failure };
        let news = crate::bed::environment::News::Event(event);
        controller.bed.coming.push((101 * S, news));
        let error = controller.set_up(LIMIT).unwrap_err();
        assert!(matches!(error, Error::NotStarted { .. }), "{error}");
    });
}

#[test]
fn a_source_that_never_becomes_ready_is_named_after_the_limit() {
    let jobs = vec![job(0, Role::Sink), job(1, Role::Source)];
    with(vec![ready(), Behaviour::default()], jobs, &[], |controller| {
        match controller.set_up(LIMIT) {
            Err(Error::NotReady { missing: 1, all: 2, names, .. }) => assert_eq!(names, "n-1"),
            other => panic!("{other:?}"),
        }
        let waited = controller.bed.now - 100 * S;
        assert!((60 * S..61 * S).contains(&waited), "{waited}");
    });
}

#[test]
fn a_program_that_ignores_everything_is_killed_and_reported() {
    let stubborn = Behaviour { is_stubborn: true, ..ready() };
    with(vec![stubborn], vec![job(0, Role::Source)], &[], |controller| {
        controller.set_up(LIMIT).unwrap();
        controller.begin().unwrap();
        controller.stop().unwrap();
        let signals = controller.bed.deeds(|deed| matches!(deed, Deed::Signalled(..)));
        assert_eq!(signals, [libc::SIGTERM, libc::SIGKILL].map(|s| Deed::Signalled(0, s)));
        assert!(!controller.jobs[0].is_alive());
        let texts: Vec<_> = controller.failures.iter().map(ToString::to_string).collect();
        assert!(texts.iter().any(|text| text.contains("ignored SIGTERM")), "{texts:?}");
    });
}

/// A paused program handles no signal but SIGKILL and SIGCONT.
#[test]
fn a_program_that_is_still_paused_at_the_end_stops_at_once_and_that_is_no_failure() {
    let faults = [fault(1, Kind::Pause)];
    with(vec![ready()], vec![job(0, Role::Node)], &faults, |controller| {
        controller.set_up(LIMIT).unwrap();
        controller.begin().unwrap();
        pass(controller, 2);
        let before = controller.bed.now;
        controller.stop().unwrap();
        assert!(controller.bed.now < before + S, "no grace period passes");
        assert!(controller.failures.is_empty() && !controller.jobs[0].is_alive());
    });
}

fn fault(at_s: u64, what: Kind) -> PlannedFault {
    PlannedFault { at: Span::from_ns(at_s * S), what, nodes: vec!["n-0".to_owned()] }
}

/// Lets `seconds` pass after the start.
fn pass(controller: &mut Controller<'_, FakeBed>, seconds: u64) {
    let start = controller.start_ns.unwrap();
    while controller.bed.now < start + seconds * S {
        controller.look().unwrap();
        controller.inject_due_faults().unwrap();
    }
}

#[test]
fn a_restarted_program_runs_again_and_that_is_no_failure() {
    let faults = [fault(3, Kind::Restart)];
    with(vec![ready()], vec![job(0, Role::Node)], &faults, |controller| {
        controller.set_up(LIMIT).unwrap();
        let start = controller.begin().unwrap();
        pass(controller, 5);
        let deeds = &controller.bed.deeds;
        let (at, _) = deeds.iter().find(|(_, d)| *d == Deed::Signalled(0, libc::SIGTERM)).unwrap();
        assert!((3 * S..3 * S + S / 5).contains(&(at - start)), "{}", at - start);
        assert!(deeds.iter().any(|(_, deed)| *deed == Deed::Started(1)));
        assert!(!controller.jobs[0].is_alive() && controller.jobs[1].is_alive());
        assert!(controller.faults.is_over() && controller.failures.is_empty());
        assert_eq!(controller.faults.made.len(), 1);
    });
}

#[test]
fn the_last_fault_wins_and_a_pause_ends_with_the_program() {
    let faults = [fault(1, Kind::Pause), fault(2, Kind::Restart), fault(2, Kind::Stop)];
    with(vec![ready()], vec![job(0, Role::Node)], &faults, |controller| {
        controller.set_up(LIMIT).unwrap();
        controller.begin().unwrap();
        pass(controller, 1);
        controller.inject_due_faults().unwrap();
        assert!(controller.jobs[0].is_paused);
        pass(controller, 4);
        assert!(!controller.jobs[0].is_paused);
        assert_eq!(controller.jobs.len(), 1, "stopped, not restarted");
        assert!(matches!(controller.jobs[0].state, State::Ended { .. }));
        assert!(controller.faults.is_over() && controller.failures.is_empty());
    });
}
