//! Steps of a measurement that fail, and the ends of runs, compared with a model.

use super::idle::IdleTimeouts;
use super::{Measurement, Started, Stopped, Times};
use crate::bed::environment::{Frames, News};
use crate::bed::faults::Faults;
use crate::bed::jobs::{Job, Role};
use crate::controller::Controller;
use crate::controller::fake::{Asked, Behaviour, Deed, FakeBed, S, job, second};
use crate::error::Error;
use experiment::{PlannedFault, PlannedFaultKind as Kind};
use lab::{Event, Exit};
use proptest::prelude::*;
use record::control::Status;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use units::{Instant, Span};

const DURATION: Span = Span::from_s(20);
const DRAIN: Span = Span::from_s(30);
/// Programs of the tests are ready at once; see `tests.rs` for the stages without programs.
const OFFSET: Instant = Instant::from_ns(100_800_000_000);
/// The clock's longest step, in seconds, and a little more.
const STEP: f64 = 0.101;

/// A sink, a source that is done after some time, and a node's own program.
fn bed(done: Option<Span>) -> FakeBed {
    let ready = Behaviour { ready: Some(Span::ZERO), ..Behaviour::default() };
    FakeBed::of(vec![ready.clone(), Behaviour { done, ..ready.clone() }, ready])
}

fn jobs() -> Vec<Job> {
    vec![job(0, Role::Sink), job(1, Role::Source), job(2, Role::Node)]
}

fn fault(at: Span, what: Kind) -> PlannedFault {
    PlannedFault { at, what, nodes: vec!["n-2".to_owned()] }
}

/// Starts a measurement and lets `then` continue.
fn started<T>(
    bed: FakeBed,
    jobs: Vec<Job>,
    faults: &[PlannedFault],
    then: impl FnOnce(Result<Started<'_, FakeBed>, Error>) -> T,
) -> T {
    let interrupted = match &bed.interrupts {
        Some((_, flag)) => flag.clone(),
        None => Arc::new(AtomicBool::new(false)),
    };
    let faults = Faults::new(faults, |name| name.strip_prefix("n-")?.parse().ok());
    let mut watch = ();
    let controller = Controller::new(bed, jobs, faults, "/logs".into(), &interrupted, &mut watch);
    let set_up = Span::from_s(60);
    let times = Times { set_up, duration: DURATION, drain: DRAIN, idle: IdleTimeouts::RELIABLE };
    then(Measurement { controller, times, phases: Vec::new() }.start())
}

fn run(bed: FakeBed, jobs: Vec<Job>, faults: &[PlannedFault]) -> Stopped<FakeBed> {
    started(bed, jobs, faults, |started| {
        let mut started = started.unwrap();
        started.wait().unwrap();
        started.stop().unwrap()
    })
}

/// Seconds from offset 0 to the end of the wait.
fn waited(stopped: &Stopped<FakeBed>) -> f64 {
    let (_, at) = stopped.phases.iter().find(|(name, _)| *name == "stop").unwrap();
    at.seconds_from(stopped.start)
}

fn failures(stopped: &Stopped<FakeBed>) -> Vec<String> {
    stopped.failures.iter().map(ToString::to_string).collect()
}

#[test]
fn a_step_that_fails_ends_the_start_and_later_steps_are_not_done() {
    // Each step of the start, in order.
    let steps =
        [Deed::Started(2), Deed::Started(0), Deed::Started(1), Deed::MeteringBegan, Deed::Begun];
    for (place, step) in steps.iter().enumerate() {
        let failing = vec![step.clone()];
        let (interrupted, mut watch) = (AtomicBool::new(false), ());
        let bed = FakeBed { failing, ..bed(Some(5 * S)) };
        let faults = Faults::default();
        let mut controller =
            Controller::new(bed, jobs(), faults, "/logs".into(), &interrupted, &mut watch);
        let result = controller
            .set_up(Span::from_s(60))
            .and_then(|()| super::Metered::begin_metering(&mut controller.bed))
            .and_then(|()| controller.begin().map(drop));
        assert!(matches!(result, Err(Error::Io { .. })), "{step:?}: {result:?}");
        assert_eq!(controller.bed.deeds(|_| true), steps[..=place], "{step:?}");
        let bed = FakeBed { failing: vec![step.clone()], ..self::bed(Some(5 * S)) };
        started(bed, jobs(), &[], |started| {
            assert!(matches!(started.err(), Some(Error::Io { .. })), "{step:?}");
        });
    }
}

#[test]
fn a_wait_ends_with_the_error_of_a_fault_or_of_a_node() {
    for (failing, news) in [
        (Deed::Started(3), None),
        (Deed::Released(0), Some(News::Event(Event::NodeGone { node: 0 }))),
    ] {
        let mut bed = FakeBed { failing: vec![failing], ..bed(Some(9 * S)) };
        bed.coming.extend(news.map(|news| (OFFSET + 3 * S, news)));
        started(bed, jobs(), &[fault(3 * S, Kind::Restart)], |started| {
            let mut started = started.unwrap();
            assert!(matches!(started.wait(), Err(Error::Io { .. })));
            let since = started.controller.bed.now - started.start;
            assert!((3 * S..4 * S).contains(&since), "{since}");
        });
    }
}

/// What failed: a restart that never came kept the run up until the drain time was over, and a
/// planned fault of a node that was gone ended the run with an error.
#[test]
fn faults_of_a_node_that_is_gone_neither_fail_nor_keep_the_run_up() {
    let gone = News::Event(Event::NodeGone { node: 2 });
    let stubborn = |bed: &mut FakeBed| bed.behaviours[2].is_stubborn = true;
    let cases = [
        vec![fault(3 * S, Kind::Restart)],
        vec![fault(6 * S, Kind::Restart)],
        vec![fault(6 * S, Kind::Start), fault(40 * S, Kind::Kill)],
    ];
    for faults in cases {
        let mut bed = bed(Some(8 * S));
        stubborn(&mut bed);
        bed.coming.push((OFFSET + 5 * S, gone.clone()));
        let stopped = run(bed, jobs(), &faults);
        assert_eq!(waited(&stopped), 8.0, "{faults:?}");
        let made = faults.iter().filter(|fault| fault.at < Span::from_s(5)).count();
        assert_eq!(stopped.faults.len(), made, "only what happened is recorded");
    }
}

#[test]
fn a_node_that_a_user_destroys_is_no_failure_and_its_faults_are_dropped() {
    let mut bed = bed(Some(8 * S));
    bed.asked = vec![(OFFSET + 2 * S, Asked::Destroy(2))];
    let stopped = run(bed, jobs(), &[fault(2 * S, Kind::Restart), fault(4 * S, Kind::Start)]);
    assert_eq!(waited(&stopped), 8.0);
    assert!(stopped.failures.is_empty(), "{:?}", failures(&stopped));
    assert!(stopped.faults.len() <= 1, "{:?}", stopped.faults);
}

/// A user may also destroy a node with a command that has not started yet.
#[test]
fn commands_of_a_destroyed_node_do_not_start() {
    let slow = Behaviour { ready: Some(5 * S), ..Behaviour::default() };
    let mut bed = FakeBed::of(vec![slow, Behaviour::default()]);
    bed.behaviours[0].done = Some(3 * S);
    bed.asked = vec![(second(102), Asked::Destroy(1))];
    let stopped = run(bed, vec![job(0, Role::Source), job(1, Role::Command)], &[]);
    assert!(stopped.bed.deeds(|deed| *deed == Deed::Started(1)).is_empty());
    assert_eq!((waited(&stopped), failures(&stopped)), (3.0, Vec::new()));
}

#[test]
fn an_interrupt_is_seen_in_every_phase() {
    // Seconds from offset 0, and whether there are results.
    for (at, has_results) in [(-0.85, false), (-0.3, true), (0.0, true), (19.9, true), (33.3, true)]
    {
        let flag = Arc::new(AtomicBool::new(false));
        let mut bed = bed(None);
        // One program is ready a little later.
        bed.behaviours[0].ready = Some(S / 10);
        let offset = OFFSET + S / 10;
        bed.frames = Frames { in_flight: 1, ..Frames::default() };
        bed.interrupts = Some((offset.at_offset((at * 1e9) as i64), flag));
        started(bed, jobs(), &[], |started| match started {
            Err(error) => {
                assert!(matches!(error, Error::Interrupted) && !has_results, "{at}: {error}");
            }
            Ok(mut started) => {
                started.wait().unwrap();
                let stopped = started.stop().unwrap();
                let text = format!("after {:.1} s; the figures", waited(&stopped).max(0.0));
                assert!(has_results && failures(&stopped)[0].contains(&text), "{at}");
                assert!((waited(&stopped) - at).abs() < STEP, "{at}: {}", waited(&stopped));
                assert!(!stopped.jobs.iter().any(Job::is_alive));
            }
        });
    }
}

/// A program that ends within the last moments, while others are stopped, is not lost.
#[test]
fn ends_and_messages_are_read_until_the_last_program_has_ended() {
    let mut bed = bed(Some(9 * S));
    bed.behaviours[1].is_stubborn = true;
    let at = OFFSET + 12 * S;
    bed.comes(at, News::Message { id: 1, status: Status::Progress { sent: 7, replies: 6 } });
    bed.comes(at + S, News::Message { id: 1, status: Status::Failed { error: "late".into() } });
    bed.behaviours[1].ends = Some((15 * S, Exit::Status(4)));
    let stopped = run(bed, jobs(), &[]);
    assert_eq!((waited(&stopped), stopped.jobs[1].progress), (9.0, (7, 6)));
    let texts = failures(&stopped);
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(texts[0].contains("failed: late") && texts[1].contains("status 4"), "{texts:?}");
}

#[test]
fn all_that_ignore_sigterm_are_one_failure_and_each_stage_has_its_own_time() {
    let mut bed = bed(Some(2 * S));
    bed.behaviours.iter_mut().for_each(|behaviour| behaviour.is_stubborn = true);
    let mut jobs = jobs();
    jobs.push(job(3, Role::Service));
    bed.behaviours.push(bed.behaviours[0].clone());
    let stopped = run(bed, jobs, &[]);
    let texts = failures(&stopped);
    let killed = |name: &str, more: &str| {
        texts
            .iter()
            .filter(|text| text.contains(&format!("program of {name}{more} ignored")))
            .count()
    };
    let counts = [killed("n-0", " (and 1 more)"), killed("n-2", ""), killed("n-3", "")];
    assert_eq!((texts.len(), counts), (3, [1, 1, 1]), "{texts:?}");
    let kills = stopped.bed.deeds(|deed| matches!(deed, Deed::Signalled(_, libc::SIGKILL)));
    assert_eq!(kills, [0, 1, 2, 3].map(|id| Deed::Signalled(id, libc::SIGKILL)));
    let [.., (_, stop), (_, write)] = stopped.phases[..] else { panic!("{:?}", stopped.phases) };
    let lasted = write.seconds_from(stop);
    assert!((36.0..37.0).contains(&lasted), "three times 10 s and 2 s: {lasted}");
}

/// What failed before: Thingbed's programs had 10 s to wait for the space of a removed log, which the
/// program that prints to it kept until it was stopped, after them.
#[test]
fn on_a_full_disk_programs_that_print_end_before_those_that_wait_for_space() {
    for (is_full, printer, killed) in
        [(true, Role::Node, false), (true, Role::Background, false), (false, Role::Node, true)]
    {
        let mut bed = bed(Some(2 * S));
        bed.is_full = is_full;
        // It takes long to free the space, and the program that prints ignores SIGTERM.
        bed.behaviours[..2].iter_mut().for_each(|own| own.waits_for = Some((2, 30 * S)));
        bed.behaviours[2].is_stubborn = true;
        let mut jobs = jobs();
        jobs[2].role = printer;
        let stopped = run(bed, jobs, &[]);
        let own = |deed: &Deed| matches!(deed, Deed::Signalled(0 | 1, _));
        assert_eq!(!stopped.bed.deeds(own).is_empty(), killed, "{is_full} {printer:?}");
        let texts = failures(&stopped);
        let kills = texts.iter().filter(|text| text.contains("ignored SIGTERM")).count();
        assert_eq!(kills, 1, "{texts:?}");
        assert_eq!(texts.len(), if killed { 3 } else { 1 }, "{texts:?}");
    }
}

/// What ends a run, in seconds from offset 0.
#[derive(Debug, Clone)]
struct Course {
    done: Option<u64>,
    /// What a sink behind a broker reports last, if there is one.
    arrives: Option<Option<u64>>,
    interrupted: Option<u64>,
    contended: Option<u64>,
    fault: Option<u64>,
}

impl Course {
    /// The end of the wait.
    fn end(&self) -> u64 {
        let limits = [self.interrupted, self.contended, Some(50)];
        let done = self.done.map(|done| done.max(self.fault.unwrap_or_default()));
        let drained = done.map(|done| done + 30);
        let arrived = match self.arrives {
            None => done,
            Some(arrives) => done.zip(arrives).map(|(done, arrives)| done.max(arrives)),
        };
        limits.into_iter().chain([drained, arrived]).flatten().min().unwrap()
    }
}

fn any_course() -> impl Strategy<Value = Course> {
    let time = || prop::option::of(1..60_u64);
    let rarely = || prop::option::weighted(0.2, 1..60_u64);
    (time(), prop::option::of(time()), rarely(), rarely(), time()).prop_map(
        |(done, arrives, interrupted, contended, fault)| Course {
            done,
            arrives,
            interrupted,
            contended,
            fault,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_run_ends_when_the_first_of_its_reasons_is_there(course in any_course()) {
        let mut bed = bed(course.done.map(|done| done * S));
        bed.frames = Frames { in_flight: 1, ..Frames::default() };
        let flag = Arc::new(AtomicBool::new(false));
        bed.interrupts = course.interrupted.map(|at| (OFFSET + at * S, flag));
        let mut says = |id, at, status| bed.comes(at, News::Message { id, status });
        if let Some(at) = course.contended {
            says(1, OFFSET + at * S, Status::Contended { why: "late".to_owned() });
        }
        if let Some(arrives) = course.arrives {
            says(1, OFFSET, Status::Progress { sent: 5, replies: 5 });
            says(0, OFFSET, Status::Received { messages: 4 });
            if let Some(at) = arrives {
                says(0, OFFSET + at * S, Status::Received { messages: 5 });
            }
        }
        let faults: Vec<_> = course.fault.map(|at| fault(at * S, Kind::Kill)).into_iter().collect();
        let stopped = run(bed, jobs(), &faults);
        let (expected, found) = (course.end() as f64, waited(&stopped));
        prop_assert!((expected..expected + STEP).contains(&found), "{found}, not {expected}");
        let bad = course.interrupted.is_some_and(|at| at as f64 <= found)
            || course.contended.is_some_and(|at| at as f64 <= found);
        prop_assert_eq!(!stopped.failures.is_empty(), bad, "{:?}", failures(&stopped));
        prop_assert!(stopped.phases.is_sorted_by_key(|(_, at)| *at), "{:?}", stopped.phases);
        prop_assert!(!stopped.jobs.iter().any(Job::is_alive));
    }
}
