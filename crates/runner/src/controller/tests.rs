use super::Controller;
use super::fake::{Behaviour, Deed, FakeBed, S, job, second};
use crate::bed::environment::News;
use crate::bed::faults::Faults;
use crate::bed::jobs::{Job, Role, State};
use crate::error::Error;
use experiment::{PlannedFault, PlannedFaultKind as Kind};
use lab::{Event, Exit, Failure};
use std::sync::atomic::AtomicBool;
use units::{Instant, Span};

const LIMIT: Span = Span::from_s(60);

fn ready() -> Behaviour {
    Behaviour { ready: Some(S / 2), ..Behaviour::default() }
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
fn a_program_starts_when_those_that_it_waits_for_are_ready() {
    let node = |node, after: &[usize]| Job { after: after.to_vec(), ..job(node, Role::Node) };
    let ready = || Behaviour { found_ready: S / 2, ..Behaviour::default() };
    // One that ends is no longer waited for.
    let ends = Behaviour {
        ends: Some((S, Exit::Status(0))),
        found_ready: Span::from_s(1000),
        ..Behaviour::default()
    };
    let setup = Job { may_end: true, ..node(3, &[]) };
    let jobs = vec![node(0, &[2, 3]), node(1, &[]), node(2, &[1]), setup];
    with(vec![ready(), ready(), ready(), ends], jobs, &[], |controller| {
        controller.set_up(LIMIT).unwrap();
        let start = |id| {
            let found = controller.bed.deeds.iter().find(|(_, deed)| *deed == Deed::Started(id));
            found.unwrap().0
        };
        let [first, second, third, fourth] = [1, 3, 2, 0].map(start);
        assert!(first == second, "nothing to wait for");
        assert!(third >= first + S / 2 && fourth >= third + S / 2 && fourth >= second + S);
    });
}

#[test]
fn of_programs_that_are_not_ready_those_that_others_wait_for_are_named() {
    let never = Behaviour { found_ready: Span::from_s(1000), ..Behaviour::default() };
    let waits = Job { after: vec![1], ..job(0, Role::Node) };
    with(vec![ready(), never], vec![waits, job(1, Role::Node)], &[], |controller| {
        match controller.set_up(LIMIT) {
            Err(Error::NotReady { missing, names, .. }) => {
                assert_eq!((missing, names.starts_with("n-1, ...")), (2, true), "{names}");
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(controller.bed.deeds(|deed| *deed == Deed::Started(0)), []);
    });
}

/// A server's socket does not hold the questions of hundreds of clients.
#[test]
fn not_all_clients_ask_at_once() {
    let asks = Behaviour { ends: Some((S, Exit::Status(0))), ..Behaviour::default() };
    let client = |node| Job { may_end: true, ..job(node, Role::Client) };
    let jobs = (0..100).map(client).collect();
    with(vec![asks; 100], jobs, &[], |controller| {
        controller.set_up(LIMIT).unwrap();
        let is_start = |deed: &&(Instant, Deed)| matches!(deed.1, Deed::Started(_));
        let started: Vec<Instant> =
            controller.bed.deeds.iter().filter(is_start).map(|(at, _)| *at).collect();
        assert_eq!(started.len(), 100);
        let together = |at: Instant| started.iter().filter(|s| (at..at + S).contains(*s)).count();
        assert_eq!(started.iter().map(|at| together(*at)).max(), Some(super::CLIENTS));
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
        let lasted = controller.bed.now - second(100);
        assert!(lasted < 2 * S, "{lasted}, though it failed after 1 s");
        assert!(controller.bed.deeds(|deed| *deed == Deed::Begun).is_empty());
    });
}

#[test]
fn a_program_that_cannot_be_executed_ends_the_set_up() {
    with(vec![Behaviour::default()], vec![job(0, Role::Source)], &[], |controller| {
        let failure = Failure { tried: "start x".to_owned(), errno: libc::ENOENT };
        let event = lab::Event::NotStarted { id: 0, failure };
        let news = crate::bed::environment::News::Event(event);
        controller.bed.coming.push((second(101), news));
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
        let waited = controller.bed.now - second(100);
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
    PlannedFault { at: Span::from_s(at_s), what, nodes: vec!["n-0".to_owned()] }
}

/// Lets `seconds` pass after the start.
fn pass(controller: &mut Controller<'_, FakeBed>, seconds: u64) {
    let start = controller.start.unwrap();
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
        assert!((3 * S..3 * S + S / 5).contains(&(*at - start)), "{}", *at - start);
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

#[test]
fn a_fault_while_another_program_still_starts_waits_for_the_start() {
    // Faults count from offset 0: one at 0 s is not injected into programs of the set-up.
    let faults = [fault(0, Kind::Kill)];
    let slow = Behaviour { ready: Some(30 * S), ..Behaviour::default() };
    let jobs = vec![job(0, Role::Node), job(1, Role::Source)];
    with(vec![ready(), slow], jobs, &faults, |controller| {
        controller.set_up(LIMIT).unwrap();
        assert!(controller.jobs[0].is_alive() && !controller.faults.is_over());
        let start = controller.begin().unwrap();
        pass(controller, 1);
        let kill = Deed::SignalledAll(0, libc::SIGKILL);
        let (at, _) = controller.bed.deeds.iter().find(|(_, deed)| *deed == kill).unwrap();
        assert!(*at >= start && !controller.jobs[0].is_alive());
        assert!(controller.failures.is_empty(), "a planned kill is no failure");
    });
}

/// Counts the starts of programs.
fn starts(controller: &Controller<'_, FakeBed>) -> usize {
    controller.bed.deeds(|deed| matches!(deed, Deed::Started(_))).len()
}

#[test]
fn a_program_that_is_started_while_it_stops_restarts_once() {
    let faults = [fault(1, Kind::Stop), fault(1, Kind::Start), fault(1, Kind::Start)];
    with(vec![ready()], vec![job(0, Role::Node)], &faults, |controller| {
        controller.set_up(LIMIT).unwrap();
        controller.begin().unwrap();
        pass(controller, 3);
        assert_eq!(starts(controller), 2, "once at first, once again");
        assert_eq!(controller.jobs.iter().filter(|job| job.is_alive()).count(), 1);
        assert!(controller.faults.is_over() && controller.failures.is_empty());
    });
}

/// What failed: services of a node that was killed and started at once, such as its gateway of MQTT, did
/// not start again.
#[test]
fn services_of_a_node_that_is_killed_and_started_at_once_start_again() {
    let faults = [fault(1, Kind::Kill), fault(1, Kind::Start)];
    let jobs = [Role::Service, Role::Node].map(|role| job(0, role)).to_vec();
    with(vec![ready(); 2], jobs, &faults, |controller| {
        controller.set_up(LIMIT).unwrap();
        controller.begin().unwrap();
        pass(controller, 4);
        let alive = controller.jobs.iter().filter(|job| job.is_alive()).map(|job| job.role);
        let mut alive: Vec<Role> = alive.collect();
        alive.sort_by_key(|role| *role == Role::Node);
        assert_eq!(alive, [Role::Service, Role::Node]);
        assert!(controller.faults.is_over() && controller.failures.is_empty());
    });
}

#[test]
fn a_program_that_was_stopped_starts_again_and_a_running_one_does_not() {
    let faults = [fault(1, Kind::Start), fault(2, Kind::Stop), fault(4, Kind::Start)];
    with(vec![ready()], vec![job(0, Role::Node)], &faults, |controller| {
        controller.set_up(LIMIT).unwrap();
        controller.begin().unwrap();
        pass(controller, 2);
        assert_eq!(starts(controller), 1, "it was running");
        pass(controller, 3);
        assert!(!controller.jobs[0].is_alive());
        pass(controller, 5);
        assert_eq!(starts(controller), 2);
        assert!(controller.jobs[1].is_alive() && controller.failures.is_empty());
    });
}

#[test]
fn radios_are_off_from_a_kill_to_a_start_and_while_a_machine_does_not_run() {
    let faults = [fault(1, Kind::Kill), fault(2, Kind::Start), fault(3, Kind::Stop)];
    with(vec![ready()], vec![job(0, Role::Node)], &faults, |controller| {
        controller.set_up(LIMIT).unwrap();
        controller.begin().unwrap();
        pass(controller, 5);
        let power = &controller.bed.power;
        assert_eq!(power.first(), Some(&(0, false)));
        // A node without its program is on.
        assert_eq!(power.last(), Some(&(0, true)));
    });
    let machine = Job { is_machine: true, ..job(0, Role::Node) };
    let faults = [fault(1, Kind::Stop), fault(3, Kind::Restart)];
    with(vec![ready()], vec![machine], &faults, |controller| {
        let started = News::Event(Event::Started { id: 0 });
        controller.bed.coming.push((second(100), started));
        controller.set_up(LIMIT).unwrap();
        controller.begin().unwrap();
        pass(controller, 5);
        assert_eq!(controller.bed.power, [(0, false), (0, true)]);
    });
}

#[test]
fn a_kill_during_a_restart_cancels_it() {
    let stubborn = Behaviour { is_stubborn: true, ..ready() };
    let faults = [fault(1, Kind::Restart), fault(2, Kind::Kill)];
    with(vec![stubborn], vec![job(0, Role::Node)], &faults, |controller| {
        controller.set_up(LIMIT).unwrap();
        controller.begin().unwrap();
        pass(controller, 5);
        assert_eq!(starts(controller), 1, "it was killed while it stopped");
        assert!(!controller.jobs[0].is_alive() && controller.faults.is_over());
        assert!(controller.failures.is_empty());
    });
}

#[test]
fn a_pause_and_its_end_reach_all_programs_of_a_node() {
    let faults = [fault(1, Kind::Pause), fault(3, Kind::Resume)];
    let jobs = vec![job(0, Role::Node), job(0, Role::Background), job(1, Role::Node)];
    with(vec![ready(); 3], jobs, &faults, |controller| {
        controller.set_up(LIMIT).unwrap();
        controller.begin().unwrap();
        pass(controller, 2);
        let paused = |controller: &Controller<'_, FakeBed>| -> Vec<bool> {
            controller.jobs.iter().map(|job| job.is_paused).collect()
        };
        assert_eq!(paused(controller), [true, true, false]);
        pass(controller, 4);
        assert_eq!(paused(controller), [false; 3]);
        let signals = controller.bed.deeds(|deed| matches!(deed, Deed::SignalledAll(..)));
        assert_eq!(signals, [libc::SIGSTOP, libc::SIGCONT].map(|s| Deed::SignalledAll(0, s)));
    });
}

/// A second program that dies is as good a reason as the first, but the first is reported.
#[test]
fn a_program_that_ends_unplanned_after_the_start_is_a_failure_and_the_others_go_on() {
    let dies = Behaviour { ends: Some((10 * S, Exit::Signal(libc::SIGSEGV))), ..ready() };
    let jobs = vec![job(0, Role::Sink), job(1, Role::Source)];
    with(vec![dies, ready()], jobs, &[], |controller| {
        controller.set_up(LIMIT).unwrap();
        controller.begin().unwrap();
        pass(controller, 12);
        assert!(!controller.jobs[0].is_alive() && controller.jobs[1].is_alive());
        let texts: Vec<_> = controller.failures.iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), 1, "{texts:?}");
        assert!(texts[0].contains("n-0"), "{texts:?}");
    });
}
