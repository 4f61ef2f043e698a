//! What the controller makes of the ends and messages of programs and nodes, by tables.

use super::Controller;
use super::fake::{Behaviour, Deed, FakeBed, S, job, second};
use crate::bed::environment::News;
use crate::bed::faults::Faults;
use crate::bed::jobs::{Files, Job, Role, State};
use crate::error::Error;
use crate::progress::{Phase, Progress, ProgressSink};
use experiment::{ProgramCheck, Ready};
use lab::{Event, Exit, Usage};
use measure::Failure;
use record::control::{Command, Status};
use std::fs;
use std::sync::atomic::AtomicBool;
use units::{Instant, Span};

const LIMIT: Span = Span::from_s(60);

/// Runs `test` with a controller of `jobs`, which are ready at once and last.
fn with(bed: FakeBed, jobs: Vec<Job>, test: impl FnOnce(&mut Controller<'_, FakeBed>)) {
    let (interrupted, mut watch) = (AtomicBool::new(false), ());
    let logs = "/logs".into();
    let faults = Faults::default();
    test(&mut Controller::new(bed, jobs, faults, logs, &interrupted, &mut watch));
}

fn bed() -> FakeBed {
    FakeBed::of(vec![Behaviour { ready: Some(Span::ZERO), ..Behaviour::default() }])
}

/// Gives the controller `news` now.
fn hear(controller: &mut Controller<'_, FakeBed>, news: News) -> Result<(), Error> {
    let now = controller.bed.now;
    controller.bed.coming.insert(0, (now, news));
    controller.look()
}

fn ended(id: u64, exit: Exit) -> News {
    News::Event(Event::Ended { id, exit, usage: Usage::default() })
}

fn texts(controller: &Controller<'_, FakeBed>) -> Vec<String> {
    controller.failures.iter().map(ToString::to_string).collect()
}

fn exits(statuses: &[i32]) -> ProgramCheck {
    ProgramCheck { exit: statuses.to_vec(), ..ProgramCheck::default() }
}

/// A program that ends: its role, whether it may end, the statuses that it should end with, whether
/// a user stopped it, how it ends, and what that is reported as.
type Case = (Role, bool, &'static [i32], bool, Exit, Option<&'static str>);

const SEGV: Exit = Exit::Signal(libc::SIGSEGV);
const OK: Exit = Exit::Status(0);

const CASES: [Case; 15] = [
    (Role::Command, true, &[], false, OK, None),
    (Role::Command, true, &[], false, Exit::Status(3), Some("ended with status 3")),
    (Role::Command, true, &[3, 4], false, Exit::Status(3), None),
    (Role::Command, true, &[3, 4], false, OK, Some("ended with status 0 instead of 3 or 4")),
    (Role::Command, true, &[3], false, SEGV, Some("was killed by signal 11 instead of 3")),
    (Role::Background, true, &[], false, Exit::Status(1), Some("ended with status 1")),
    (Role::Node, true, &[], false, OK, None),
    (Role::Node, false, &[], false, OK, Some("ended with status 0")),
    (Role::Node, false, &[], false, SEGV, Some("was killed by signal 11")),
    (Role::Node, false, &[], true, SEGV, None),
    (Role::Service, false, &[], false, OK, Some("ended with status 0")),
    (Role::Collector, false, &[], false, OK, Some("ended with status 0")),
    (Role::Source, false, &[], false, OK, Some("ended with status 0")),
    (Role::Sink, false, &[], false, SEGV, Some("was killed by signal 11")),
    (Role::Mqtt, false, &[], true, Exit::Status(1), None),
];

fn of(case: &Case) -> Job {
    let (role, may_end, statuses, asked_to_end, ..) = *case;
    Job { may_end, asked_to_end, check: exits(statuses), ..job(0, role) }
}

#[test]
fn an_end_after_the_start_is_a_failure_unless_it_was_expected() {
    for case in CASES {
        let (.., asked_to_end, exit, expected) = case;
        with(bed(), vec![Job { asked_to_end: false, ..of(&case) }], |controller| {
            controller.set_up(LIMIT).unwrap();
            controller.begin().unwrap();
            controller.jobs[0].asked_to_end = asked_to_end;
            hear(controller, ended(0, exit)).unwrap();
            let texts = texts(controller);
            let expected = expected.map(|how| format!("the program of n-0 {how}"));
            assert_eq!(texts, expected.into_iter().collect::<Vec<_>>(), "{case:?}");
            assert!(!controller.jobs[0].is_alive() && controller.jobs[0].ended.is_some());
        });
    }
}

#[test]
fn an_end_before_the_start_ends_the_set_up_unless_it_was_expected() {
    for case in CASES {
        let (.., exit, expected) = case;
        with(bed(), vec![of(&case)], |controller| {
            let found = match hear(controller, ended(0, exit)) {
                Ok(()) => None,
                Err(Error::Died { node, how, .. }) if node == "n-0" => Some(how),
                Err(other) => panic!("{case:?}: {other}"),
            };
            assert_eq!(found.as_deref(), expected, "{case:?}");
            assert!(controller.failures.is_empty());
        });
    }
}

/// At the end most programs die of SIGTERM. Those with a control connection should not.
#[test]
fn an_end_while_programs_stop_is_a_failure_only_of_our_own() {
    for case in CASES {
        let (role, _, statuses, asked_to_end, exit, _) = case;
        with(bed(), vec![Job { asked_to_end: false, ..of(&case) }], |controller| {
            controller.set_up(LIMIT).unwrap();
            controller.begin().unwrap();
            controller.jobs[0].asked_to_end = asked_to_end;
            controller.phase = Phase::Stop;
            hear(controller, ended(0, exit)).unwrap();
            let is_own = matches!(role, Role::Source | Role::Sink | Role::Mqtt | Role::Collector);
            let is_good = exit == OK && statuses.is_empty();
            let fails = is_own && !is_good && !asked_to_end;
            assert_eq!(controller.failures.len(), usize::from(fails), "{case:?}");
        });
    }
}

#[test]
fn what_the_kernel_killed_for_memory_is_named_with_the_limit() {
    let cases = [
        (Exit::Signal(libc::SIGKILL), "was killed: out of memory, limit 1 MiB"),
        (Exit::Status(137), "ended with status 137 after the kernel had killed one: out of memory"),
        (Exit::Signal(6), "was killed by signal 6 after the kernel had killed one: out of memory"),
    ];
    for (exit, expected) in cases {
        with(FakeBed { starved: vec![0], ..bed() }, vec![job(0, Role::Command)], |controller| {
            controller.set_up(LIMIT).unwrap();
            controller.begin().unwrap();
            hear(controller, ended(0, exit)).unwrap();
            assert!(texts(controller)[0].contains(expected), "{:?}", texts(controller));
        });
    }
    // A program that ended well did not need the memory.
    let command = Job { may_end: true, ..job(0, Role::Command) };
    with(FakeBed { starved: vec![0], ..bed() }, vec![command], |controller| {
        controller.set_up(LIMIT).unwrap();
        controller.begin().unwrap();
        hear(controller, ended(0, OK)).unwrap();
        assert!(controller.failures.is_empty());
        assert!(matches!(controller.jobs[0].state, State::Ended { starved: None, .. }));
    });
}

#[test]
fn a_failure_has_the_last_three_lines_of_the_programs_output() {
    let dir = tempfile::tempdir().unwrap();
    let files = Files::of(dir.path(), "n-0", Some(0));
    fs::write(&files.err, b"one\ntwo\n\n  \nthree\nfour \xff\n").unwrap();
    with(bed(), vec![Job { files, ..job(0, Role::Command) }], |controller| {
        controller.set_up(LIMIT).unwrap();
        controller.begin().unwrap();
        hear(controller, ended(0, Exit::Status(2))).unwrap();
        let text = &texts(controller)[0];
        assert!(text.ends_with("ended with status 2: two | three | four \u{fffd}"), "{text}");
    });
}

#[test]
fn a_node_that_goes_takes_its_programs_along_and_each_is_accounted_for() {
    // Before or after the start, for lack of memory or not, destroyed by a user or not.
    for (begun, starves, asked) in (0..8).map(|n| (n & 1 > 0, n & 2 > 0, n & 4 > 0)) {
        let jobs = vec![job(0, Role::Node), job(0, Role::Sink), job(1, Role::Source)];
        let starved = if starves { vec![0] } else { Vec::new() };
        with(FakeBed { starved, ..bed() }, jobs, |controller| {
            if begun {
                controller.set_up(LIMIT).unwrap();
                controller.begin().unwrap();
            }
            controller.jobs.iter_mut().for_each(|job| job.asked_to_end = asked);
            let result = hear(controller, News::Event(Event::NodeGone { node: 0 }));
            match (begun, starves, asked) {
                (_, _, true) | (true, ..) => result.unwrap(),
                (_, true, _) => assert!(
                    matches!(&result, Err(Error::Died { how, .. }) if how.contains("limit 1 MiB"))
                ),
                _ => assert!(matches!(result, Err(Error::Lab(lab::Error::Gone { .. })))),
            }
            assert_eq!(controller.bed.deeds(|deed| matches!(deed, Deed::Released(0))).len(), 1);
            let is_bed = |failure: &Failure| matches!(failure, Failure::Bed(_));
            let by_bed = controller.failures.iter().filter(|failure| is_bed(failure)).count();
            let failures = if begun && !asked { 2 } else { 0 };
            assert_eq!(controller.failures.len(), failures, "{:?}", controller.failures);
            assert_eq!(
                by_bed,
                if starves { 0 } else { failures },
                "a limit is the program's fault"
            );
            assert!(controller.jobs[2].is_alive(), "it runs on another node");
        });
    }
}

#[test]
fn a_node_that_cannot_be_released_ends_the_run_and_while_all_end_none_is() {
    let failing = vec![Deed::Released(0)];
    with(FakeBed { failing, ..bed() }, vec![job(0, Role::Sink)], |controller| {
        controller.set_up(LIMIT).unwrap();
        controller.begin().unwrap();
        controller.phase = Phase::Stop;
        hear(controller, News::Event(Event::NodeGone { node: 0 })).unwrap();
        controller.phase = Phase::Load;
        let result = hear(controller, News::Event(Event::NodeGone { node: 0 }));
        assert!(matches!(result, Err(Error::Io { .. })), "{result:?}");
    });
}

#[test]
fn states_go_forward_only() {
    with(bed(), vec![job(0, Role::Source), job(1, Role::Sink)], |controller| {
        let say = |controller: &mut Controller<'_, FakeBed>, id, status| {
            hear(controller, News::Message { id, status }).unwrap();
            controller.jobs[id].state.clone()
        };
        controller.set_up(LIMIT).unwrap();
        controller.begin().unwrap();
        assert_eq!(say(controller, 0, Status::Done {}), State::Done);
        assert_eq!(say(controller, 0, Status::Ready {}), State::Done);
        let progress = Status::Progress { sent: 5, replies: 4 };
        say(controller, 0, progress.clone());
        say(controller, 1, progress);
        assert_eq!(controller.messages(), 9, "those of a sink are those of its source again");
        say(controller, 1, Status::Received { messages: 7 });
        say(controller, 1, Status::Received { messages: 3 });
        assert_eq!(controller.jobs[1].received, Some(3), "the last report counts");
        hear(controller, ended(0, OK)).unwrap();
        let state = say(controller, 0, Status::Done {});
        assert!(matches!(state, State::Ended { .. }), "it does not live again: {state:?}");
        let state = say(controller, 0, Status::Ready {});
        assert!(matches!(state, State::Ended { .. }), "{state:?}");
    });
}

#[test]
fn a_reported_failure_has_the_words_of_the_program_that_it_relies_on() {
    let dir = tempfile::tempdir().unwrap();
    let files = Files::of(dir.path(), "broker", None);
    fs::write(&files.err, "starting\nno such file\n").unwrap();
    let broker = Job { files, ..job(1, Role::Node) };
    let client = Job { relies_on: Some(1), ..job(0, Role::Mqtt) };
    let failed = || Status::Failed { error: "connection refused".to_owned() };
    with(bed(), vec![client.clone(), broker.clone()], |controller| {
        let error = hear(controller, News::Message { id: 0, status: failed() }).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("the program of n-0 failed before the run started"), "{text}");
        assert!(text.contains("| connection refused\n  | n-1 said: starting\n"), "{text}");
    });
    with(bed(), vec![client, broker], |controller| {
        controller.set_up(LIMIT).unwrap();
        controller.begin().unwrap();
        hear(controller, News::Message { id: 0, status: failed() }).unwrap();
        let expected = "the program of n-0 failed: connection refused; n-1 said: no such file";
        assert_eq!(texts(controller), [expected]);
        assert!(controller.jobs[0].is_alive(), "its end is another event");
    });
}

#[test]
fn only_a_nodes_own_program_may_fail_to_start_again() {
    let not_started = |id| {
        let failure = lab::Failure { tried: "start x".to_owned(), errno: libc::ENOENT };
        News::Event(Event::NotStarted { id, failure })
    };
    let jobs = vec![job(0, Role::Node), job(1, Role::Command)];
    with(bed(), jobs, |controller| {
        controller.set_up(LIMIT).unwrap();
        controller.begin().unwrap();
        hear(controller, not_started(0)).unwrap();
        assert!(matches!(controller.jobs[0].state, State::Ended { exit: Exit::Status(127), .. }));
        assert_eq!(controller.failures.len(), 1);
        let result = hear(controller, not_started(1));
        assert!(matches!(result, Err(Error::NotStarted { .. })), "{result:?}");
    });
}

#[test]
fn programs_that_are_not_ready_are_named_with_their_condition_and_output() {
    let dir = tempfile::tempdir().unwrap();
    let slow = |node: usize| {
        let files = Files::of(dir.path(), &format!("n-{node}"), None);
        fs::write(&files.out, format!("waiting on {node}\n")).unwrap();
        Job { ready: Some(Ready::Tcp(1883)), files, ..job(node, Role::Node) }
    };
    let never = Behaviour { found_ready: 1_000 * S, ..Behaviour::default() };
    let ready = Behaviour::default();
    let bed = FakeBed::of(vec![never.clone(), never.clone(), ready, never.clone(), never]);
    with(bed, (0..5).map(slow).collect(), |controller| {
        let error = controller.set_up(LIMIT).unwrap_err();
        let text = error.to_string();
        let head = "4 of 5 programs were not ready after 60 s: n-0, n-1, n-3, ...";
        assert!(text.starts_with(head), "{text}");
        assert!(text.contains("(ready when ") && text.contains("1883"), "{text}");
        assert!(text.contains("| waiting on 0\n") && !text.contains("waiting on 1"), "{text}");
    });
}

/// A workload may not start before the programs that it talks to are ready.
#[test]
fn each_stage_of_the_set_up_waits_for_the_one_before() {
    let after = |found_ready| Behaviour { found_ready, ..Behaviour::default() };
    let roles = [Role::Source, Role::Node, Role::Client, Role::Service, Role::Collector];
    let asks = Behaviour { ends: Some((2 * S, OK)), ..Behaviour::default() };
    let behaviours = vec![
        bed().behaviours[0].clone(),
        after(4 * S),
        asks,
        after(3 * S),
        bed().behaviours[0].clone(),
    ];
    let jobs = roles.iter().enumerate();
    let jobs = jobs.map(|(node, role)| Job { may_end: true, ..job(node, *role) }).collect();
    with(FakeBed::of(behaviours), jobs, |controller| {
        controller.set_up(LIMIT).unwrap();
        let starts = controller.bed.deeds.iter();
        let starts = starts.map(|(at, deed)| (at.seconds_from(second(100)), deed.clone()));
        let starts: Vec<_> = starts.collect();
        let order: Vec<_> = starts.iter().map(|(_, deed)| deed.clone()).collect();
        assert_eq!(order, [3, 4, 2, 1, 0].map(Deed::Started));
        let seconds: Vec<_> = starts.iter().map(|(at, _)| at.floor() as u64).collect();
        assert_eq!(seconds, [0, 0, 3, 5, 9], "{starts:?}");
    });
}

#[test]
fn a_start_that_fails_gives_no_start_signal() {
    let jobs = || vec![job(0, Role::Source), job(1, Role::Command)];
    let is_sent = |deed: &Deed| matches!(deed, Deed::Sent(_, Command::Start { .. }));
    with(FakeBed { failing: vec![Deed::Begun], ..bed() }, jobs(), |controller| {
        controller.set_up(LIMIT).unwrap();
        assert!(controller.begin().is_err());
        assert!(controller.bed.deeds(is_sent).is_empty() && controller.start.is_none());
    });
    with(FakeBed { failing: vec![Deed::Started(0)], ..bed() }, jobs(), |controller| {
        assert!(controller.set_up(LIMIT).is_err());
        assert!(controller.bed.deeds(|deed| *deed == Deed::Begun).is_empty());
    });
    with(FakeBed { failing: vec![Deed::Started(1)], ..bed() }, jobs(), |controller| {
        controller.set_up(LIMIT).unwrap();
        assert!(controller.begin().is_err());
    });
}

#[test]
fn a_run_that_ended_early_does_not_report_the_commands_that_it_cut() {
    for failure in [None, Some(Failure::Bed("interrupted".to_owned()))] {
        with(bed(), vec![job(0, Role::Command), job(1, Role::Background)], |controller| {
            controller.set_up(LIMIT).unwrap();
            controller.begin().unwrap();
            controller.failures.extend(failure.clone());
            controller.stop().unwrap();
            let texts = texts(controller);
            assert_eq!(texts.len(), 1, "{texts:?}");
            assert_eq!(texts[0].contains("was still running"), failure.is_none(), "{texts:?}");
        });
    }
}

/// Keeps all progress.
#[derive(Default)]
struct Seen(Vec<Progress>, Vec<Instant>);

impl ProgressSink for Seen {
    fn progress(&mut self, progress: &Progress) {
        self.0.push(progress.clone());
    }

    fn begun(&mut self, start: Instant) {
        self.1.push(start);
    }
}

#[test]
fn progress_counts_down_to_the_limit_and_up_from_offset_0() {
    let slow = Behaviour { ready: Some(2 * S), ..Behaviour::default() };
    let jobs = (0..4).map(|node| job(node, Role::Source)).chain([job(4, Role::Command)]).collect();
    let (interrupted, mut seen) = (AtomicBool::new(false), Seen::default());
    let bed = FakeBed::of(vec![slow; 4]);
    let faults = Faults::default();
    let mut controller =
        Controller::new(bed, jobs, faults, "/logs".into(), &interrupted, &mut seen);
    controller.set_up(LIMIT).unwrap();
    let start = controller.begin().unwrap();
    while controller.bed.now < start + 3 * S {
        controller.look().unwrap();
    }
    drop(controller);
    let Seen(progress, begun) = seen;
    assert_eq!(begun, [start], "once");
    let set_up: Vec<_> = progress.iter().filter(|p| p.phase == Phase::SetUp).collect();
    assert!(set_up.is_sorted_by_key(|p| std::cmp::Reverse(p.most)), "the limit comes nearer");
    assert!(set_up.iter().all(|p| p.elapsed == Span::ZERO && p.ready.1 == 5));
    assert_eq!(set_up[0].missing, "n-0, n-1, ...");
    assert_eq!(set_up.last().unwrap().missing, "", "commands start later");
    let load: Vec<_> = progress.iter().filter(|p| p.phase == Phase::Load).collect();
    assert_eq!(load[0].elapsed, Span::ZERO, "offset 0 is ahead");
    assert!(load.is_sorted_by_key(|p| p.elapsed));
    assert_eq!(load.last().unwrap().elapsed, Span::from_s(3));
}

/// What failed before: a machine that cannot run counted as ready at once, and `up` succeeded.
#[test]
fn a_machine_without_steps_is_ready_when_it_has_run_for_a_while() {
    let machine = || Job { is_machine: true, ..job(0, Role::Node) };
    let started = (second(100), News::Event(Event::Started { id: 0 }));
    let lasts = FakeBed { coming: vec![started.clone()], ..bed() };
    with(lasts, vec![machine()], |controller| {
        controller.set_up(LIMIT).unwrap();
        assert!(controller.bed.now >= second(102), "{:?}", controller.bed.now);
    });
    let end = (second(101), ended(0, Exit::Status(1)));
    let ends = FakeBed { coming: vec![started, end], ..bed() };
    with(ends, vec![machine()], |controller| {
        let result = controller.set_up(LIMIT);
        assert!(
            matches!(&result, Err(Error::Died { how, .. }) if how == "ended with status 1"),
            "{result:?}"
        );
    });
}
