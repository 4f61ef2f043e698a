use super::idle::IdleTimeouts;
use super::meters::Metered;
use super::{Measurement, Stopped, Times};
use crate::bed::environment::{Frames, News};
use crate::bed::faults::Faults;
use crate::bed::jobs::{Job, Role};
use crate::controller::Controller;
use crate::controller::fake::{Behaviour, Deed, FakeBed, S, job, second};
use crate::error::Error;
use experiment::{PlannedFault, PlannedFaultKind};
use lab::Event;
use measure::Failure;
use record::control::{Command, Status};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use units::{Instant, Span};

impl Metered for FakeBed {
    type Meters = ();
    type Readings = ();

    fn begin_metering(&mut self) -> Result<(), Error> {
        self.tries(Deed::MeteringBegan)
    }

    fn end_metering(&mut self, (): ()) {
        self.did(Deed::MeteringEnded);
    }
}

/// Offset 0: the controller looks once, for 0.1 s, for each of the three kinds of program that the
/// tests do not have; the others are ready after 1 s; the start signal is given half a second ahead.
const OFFSET: Instant = Instant::from_ns(101_800_000_000);
const DURATION: Span = Span::from_s(20);
const DRAIN: Span = Span::from_s(30);

fn lasting(done_s: Option<u64>) -> Behaviour {
    let done = done_s.map(Span::from_s);
    Behaviour { ready: Some(S), done, ..Behaviour::default() }
}

/// A sink and a source that is done after some seconds.
fn pair(done_s: Option<u64>) -> FakeBed {
    FakeBed::of(vec![lasting(None), lasting(done_s)])
}

fn both() -> Vec<Job> {
    vec![job(0, Role::Sink), job(1, Role::Source)]
}

/// When a phase began, in seconds from offset 0.
fn begun(stopped: &Stopped<FakeBed>, phase: &str) -> f64 {
    let (_, at) = stopped.phases.iter().find(|(name, _)| *name == phase).unwrap();
    at.seconds_from(stopped.start)
}

/// Runs a measurement of `jobs` on `bed`.
fn run(bed: FakeBed, jobs: Vec<Job>, faults: &[PlannedFault]) -> Stopped<FakeBed> {
    let interrupted = match &bed.interrupts {
        Some((_, flag)) => flag.clone(),
        None => Arc::new(AtomicBool::new(false)),
    };
    let faults = Faults::new(faults, |name| name.strip_prefix("n-")?.parse().ok());
    let mut watch = ();
    let controller = Controller::new(bed, jobs, faults, "/logs".into(), &interrupted, &mut watch);
    let set_up = Span::from_s(60);
    let times = Times { set_up, duration: DURATION, drain: DRAIN, idle: IdleTimeouts::UNRELIABLE };
    let measurement = Measurement { controller, times, phases: Vec::new() };
    let mut started = measurement.start().unwrap();
    started.wait().unwrap();
    started.stop().unwrap()
}

/// Seconds from offset 0 to the end of the wait.
fn waited(stopped: &Stopped<FakeBed>) -> f64 {
    begun(stopped, "stop")
}

fn failures(stopped: &Stopped<FakeBed>) -> Vec<String> {
    stopped.failures.iter().map(ToString::to_string).collect()
}

#[test]
fn a_run_ends_when_its_source_is_done() {
    let stopped = run(pair(Some(12)), both(), &[]);
    assert_eq!((stopped.start, waited(&stopped)), (OFFSET, 12.0));
    let names: Vec<_> = stopped.phases.iter().map(|(name, _)| *name).collect();
    assert_eq!(names, ["set-up", "load", "drain", "stop", "write"]);
    assert!(stopped.phases.is_sorted_by_key(|(_, at)| *at), "{:?}", stopped.phases);
    assert!(stopped.failures.is_empty() && !stopped.jobs.iter().any(Job::is_alive));
}

#[test]
fn the_drain_phase_begins_with_the_end_of_the_schedule_or_of_the_wait() {
    let early = run(pair(Some(12)), both(), &[]);
    assert_eq!((begun(&early, "drain"), begun(&early, "stop")), (12.0, 12.0));
    let idle = run(pair(None), both(), &[]);
    assert_eq!(begun(&idle, "drain"), 20.0);
    assert!(begun(&idle, "stop") > 20.0);
}

#[test]
fn meters_run_while_all_programs_are_ready_and_none_is_stopped() {
    let bed = run(pair(Some(12)), both(), &[]).bed;
    let place = |which: &dyn Fn(&Deed) -> bool| -> Vec<usize> {
        let deeds = bed.deeds.iter().enumerate().filter(|(_, (_, deed))| which(deed));
        deeds.map(|(place, _)| place).collect()
    };
    let started = place(&|deed| matches!(deed, Deed::Started(_)));
    let meters = place(&|deed| matches!(deed, Deed::MeteringBegan | Deed::MeteringEnded));
    let commands = |which: fn(&Command) -> bool| {
        place(&move |deed| matches!(deed, Deed::Sent(_, command) if which(command)))
    };
    let start = commands(|command| matches!(command, Command::Start { .. }));
    let stop = commands(|command| matches!(command, Command::Stop {}));
    let [began, ended] = meters[..] else { panic!("{:?}", bed.deeds) };
    assert_eq!((started.len(), start.len(), stop.len()), (2, 2, 2), "{:?}", bed.deeds);
    let order = [&started[..], &[began], &start, &[ended], &stop].concat();
    assert!(order.is_sorted(), "{:?}", bed.deeds);
}

#[test]
fn a_program_that_is_never_ready_ends_the_start_at_its_time_limit() {
    let bed = FakeBed::of(vec![lasting(None), Behaviour::default()]);
    let interrupted = AtomicBool::new(false);
    let mut watch = ();
    let logs = "/logs".into();
    let controller =
        Controller::new(bed, both(), Faults::default(), logs, &interrupted, &mut watch);
    let set_up = Span::from_s(60);
    let times = Times { set_up, duration: DURATION, drain: DRAIN, idle: IdleTimeouts::UNRELIABLE };
    let error = Measurement { controller, times, phases: Vec::new() }.start().err().unwrap();
    let Error::NotReady { missing, all, names, .. } = &error else { panic!("{error}") };
    assert_eq!((*missing, *all, names.as_str()), (1, 2, "n-1"));
}

/// A source that has sent three messages through a broker by 12 s, of which its sink reports `two`
/// at 5 s and the rest at `third`.
fn behind_a_broker(third: Option<u64>) -> FakeBed {
    let mut bed = pair(Some(12));
    let mut says = |id, at, status| bed.comes(OFFSET + at * S, News::Message { id, status });
    says(1, 11, Status::Progress { sent: 3, replies: 3 });
    says(0, 5, Status::Received { messages: 2 });
    if let Some(at) = third {
        says(0, at, Status::Received { messages: 3 });
    }
    bed
}

#[test]
fn a_run_waits_for_what_a_broker_still_has_to_pass_on() {
    assert_eq!(waited(&run(behind_a_broker(Some(7)), both(), &[])), 12.0);
    assert_eq!(waited(&run(behind_a_broker(Some(15)), both(), &[])), 15.0);
    // What a broker has dropped never comes: the drain time, or a quiet bed, ends the wait.
    let idle = waited(&run(behind_a_broker(None), both(), &[]));
    assert!((23.0..23.3).contains(&idle), "{idle}");
}

#[test]
fn with_background_programs_only_the_schedule_decides() {
    let stopped = run(pair(None), vec![job(0, Role::Background)], &[]);
    assert!((20.0..20.2).contains(&waited(&stopped)), "{}", waited(&stopped));
}

#[test]
fn a_quiet_bed_ends_the_run_before_the_drain_time_is_over() {
    let stopped = run(pair(None), both(), &[]);
    let idle = waited(&stopped) - 20.0;
    assert!((3.0..3.3).contains(&idle), "{idle} s after the schedule");
}

#[test]
fn frames_in_flight_keep_the_run_up_until_the_drain_time_is_over() {
    let frames = Frames { in_flight: 1, ..Frames::default() };
    let stopped = run(FakeBed { frames, ..pair(None) }, both(), &[]);
    let drained = waited(&stopped) - 20.0;
    assert!((30.0..30.2).contains(&drained), "{drained} s after the schedule");
}

#[test]
fn a_command_that_computes_is_not_idle_and_is_reported_when_it_is_cut() {
    let stopped = run(pair(None), vec![job(0, Role::Command)], &[]);
    assert!((50.0..50.2).contains(&waited(&stopped)), "{}", waited(&stopped));
    let [text] = &failures(&stopped)[..] else { panic!("{:?}", failures(&stopped)) };
    assert!(text.contains("`program` on n-0 was still running"), "{text}");
}

#[test]
fn an_interrupted_run_stops_its_programs_and_says_when() {
    let flag = Arc::new(AtomicBool::new(false));
    let interrupts = Some((OFFSET + 7 * S, flag));
    let stopped = run(FakeBed { interrupts, ..pair(Some(12)) }, both(), &[]);
    assert!(matches!(stopped.failures[..], [Failure::Bed(_)]));
    let texts = failures(&stopped);
    assert!(texts[0].contains("the user stopped it after 7.0 s"), "{texts:?}");
    assert!(!stopped.jobs.iter().any(Job::is_alive));
}

#[test]
fn an_interrupted_set_up_is_an_error() {
    let flag = Arc::new(AtomicBool::new(false));
    let mut bed = FakeBed::of(vec![Behaviour::default()]);
    bed.interrupts = Some((second(105), flag.clone()));
    let (faults, mut watch) = (Faults::default(), ());
    let jobs = vec![job(0, Role::Source)];
    let mut controller = Controller::new(bed, jobs, faults, "/logs".into(), &flag, &mut watch);
    let error = controller.set_up(Span::from_s(60)).unwrap_err();
    assert!(matches!(error, Error::Interrupted), "{error}");
    assert_eq!(controller.bed.now, second(105));
}

#[test]
fn contention_and_a_failed_engine_end_the_run() {
    let mut bed = pair(Some(12));
    let status = Status::Contended { why: "late".to_owned() };
    bed.coming.push((OFFSET + 5 * S, News::Message { id: 1, status }));
    let stopped = run(bed, both(), &[]);
    assert_eq!(waited(&stopped), 5.0);
    assert!(failures(&stopped)[0].contains("`contention: abort`"));
    let frames = Frames { have_failed: true, ..Frames::default() };
    let stopped = run(FakeBed { frames, ..pair(Some(12)) }, both(), &[]);
    assert!(failures(&stopped)[0].contains("forwarding thread failed"));
}

#[test]
fn the_run_waits_for_a_fault_that_is_still_to_come() {
    let at = Span::from_s(18);
    let nodes = vec!["n-2".to_owned()];
    let faults = [PlannedFault { at, what: PlannedFaultKind::Kill, nodes }];
    let jobs = [both(), vec![job(2, Role::Node)]].concat();
    let bed = FakeBed::of(vec![lasting(None), lasting(Some(2)), lasting(None)]);
    let stopped = run(bed, jobs, &faults);
    assert!((18.0..18.2).contains(&waited(&stopped)), "{}", waited(&stopped));
    assert_eq!(stopped.faults.len(), 1);
    let kill = Deed::SignalledAll(2, libc::SIGKILL);
    assert_eq!(stopped.bed.deeds(|deed| *deed == kill).len(), 1);
    assert!(stopped.failures.is_empty(), "{:?}", failures(&stopped));
}

#[test]
fn a_node_that_dies_is_released_and_the_others_go_on() {
    let mut bed = FakeBed::of(vec![lasting(None), lasting(Some(12)), lasting(Some(12))]);
    bed.coming.push((OFFSET + 4 * S, News::Event(Event::NodeGone { node: 2 })));
    let jobs = [both(), vec![job(2, Role::Source)]].concat();
    let stopped = run(bed, jobs, &[]);
    assert_eq!(waited(&stopped), 12.0, "the other source is done then");
    assert_eq!(stopped.bed.deeds(|deed| *deed == Deed::Released(2)).len(), 1);
    assert_eq!(failures(&stopped).len(), 1);
    assert!(failures(&stopped)[0].contains("node n-2 was killed from outside"));
}

#[test]
fn a_node_that_dies_during_the_set_up_is_an_error() {
    let mut bed = FakeBed::of(vec![Behaviour::default()]);
    bed.coming.push((second(103), News::Event(Event::NodeGone { node: 0 })));
    let (interrupted, mut watch) = (AtomicBool::new(false), ());
    let jobs = vec![job(0, Role::Source)];
    let mut controller =
        Controller::new(bed, jobs, Faults::default(), "/logs".into(), &interrupted, &mut watch);
    let error = controller.set_up(Span::from_s(60)).unwrap_err();
    assert!(matches!(error, Error::Lab(lab::Error::Gone { .. })), "{error}");
}
