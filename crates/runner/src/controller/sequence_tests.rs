//! Sequences of faults and requests, compared with a model of each node's program.

use super::Controller;
use super::fake::{Asked, Behaviour, Deed, FakeBed, S, job, second};
use crate::bed::faults::Faults;
use crate::bed::jobs::{Job, Role};
use crate::error::Error;
use experiment::{PlannedFault, PlannedFaultKind as Kind};
use lab::Exit;
use proptest::prelude::*;
use std::sync::atomic::AtomicBool;
use units::{Instant, Span};

const KINDS: [Kind; 6] =
    [Kind::Kill, Kind::Stop, Kind::Start, Kind::Restart, Kind::Pause, Kind::Resume];
const LIMIT: Span = Span::from_s(60);
const NODES: usize = 3;

/// What a node's program should be doing.
#[derive(Debug, Clone, Copy, Default)]
struct Model {
    is_stubborn: bool,
    is_alive: bool,
    is_paused: bool,
    /// It was asked to end, and has not.
    is_ending: bool,
    /// It restarts when it has ended.
    restarts: bool,
    starts: usize,
}

impl Model {
    fn up(is_stubborn: bool) -> Self {
        Self { is_stubborn, is_alive: true, starts: 1, ..Self::default() }
    }

    fn start(&mut self) {
        *self = Self { starts: self.starts + 1, ..Self::up(self.is_stubborn) };
    }

    fn end(&mut self) {
        let restarts = self.restarts;
        *self = Self { is_stubborn: self.is_stubborn, starts: self.starts, ..Self::default() };
        if restarts {
            self.start();
        }
    }

    /// SIGTERM, also for a paused program.
    fn terminate(&mut self) {
        self.is_paused = false;
        self.is_ending = true;
        if !self.is_stubborn {
            self.end();
        }
    }

    fn suffer(&mut self, what: Kind) {
        match (what, self.is_alive) {
            (Kind::Kill, true) => {
                self.restarts = false;
                self.end();
            }
            (Kind::Stop, true) => {
                self.restarts = false;
                self.terminate();
            }
            (Kind::Restart, true) => {
                self.restarts = true;
                self.terminate();
            }
            (Kind::Start, true) => self.restarts |= self.is_ending,
            (Kind::Pause, true) => self.is_paused = true,
            (Kind::Resume, true) => self.is_paused = false,
            (Kind::Start | Kind::Restart, false) => self.start(),
            (Kind::Kill | Kind::Stop | Kind::Pause | Kind::Resume, false) => {}
        }
    }
}

/// A controller of a program on each node; `test` runs it.
fn with(
    is_stubborn: [bool; NODES],
    faults: &[PlannedFault],
    asked: Vec<(Instant, Asked)>,
    test: impl FnOnce(Controller<'_, FakeBed>),
) {
    let behaviour = |is_stubborn| Behaviour { is_stubborn, ..Behaviour::default() };
    let mut bed = FakeBed::of(is_stubborn.map(behaviour).to_vec());
    // A program that starts again behaves as its node's first.
    bed.by_node = true;
    bed.asked = asked;
    let (interrupted, mut watch) = (AtomicBool::new(false), ());
    let faults = Faults::new(faults, |name| name.strip_prefix("n-")?.parse().ok());
    let jobs = (0..NODES).map(|node| job(node, Role::Node)).collect();
    test(Controller::new(bed, jobs, faults, "/logs".into(), &interrupted, &mut watch));
}

/// Lets time pass until `after` from offset 0.
fn pass(controller: &mut Controller<'_, FakeBed>, after: Span) {
    let until = controller.start.unwrap() + after;
    while controller.bed.now < until {
        controller.look().unwrap();
        controller.inject_due_faults().unwrap();
        assert_one_each(controller);
    }
}

fn alive<'a>(
    controller: &'a Controller<'_, FakeBed>,
    node: usize,
) -> impl Iterator<Item = &'a Job> {
    controller.jobs.iter().filter(move |job| job.node == node && job.is_alive())
}

/// No node runs its program twice, and no number is used twice.
fn assert_one_each(controller: &Controller<'_, FakeBed>) {
    for node in 0..NODES {
        assert!(alive(controller, node).count() <= 1, "{:?}", controller.bed.deeds);
    }
    let mut started = controller.bed.deeds(|deed| matches!(deed, Deed::Started(_)));
    let all = started.len();
    started.sort_by_key(|deed| format!("{deed:?}"));
    started.dedup();
    assert_eq!(started.len(), all, "{:?}", controller.bed.deeds);
}

fn fault(at: Span, what: Kind, node: usize) -> PlannedFault {
    PlannedFault { at, what, nodes: vec![format!("n-{node}")] }
}

fn any_fault() -> impl Strategy<Value = (Kind, usize)> {
    (prop::sample::select(&KINDS[..]), 0..NODES)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// A fault a second, so that each has its effect before the next.
    #[test]
    fn programs_follow_any_timetable(
        is_stubborn in any::<[bool; NODES]>(),
        faults in prop::collection::vec(any_fault(), 0..16),
    ) {
        let at = |place: usize| (place as u64 + 1) * S;
        let planned: Vec<_> =
            faults.iter().enumerate().map(|(i, (what, node))| fault(at(i), *what, *node)).collect();
        with(is_stubborn, &planned, Vec::new(), |mut controller| {
            let mut models = is_stubborn.map(Model::up);
            controller.set_up(LIMIT).unwrap();
            controller.begin().unwrap();
            for (place, (what, node)) in faults.iter().enumerate() {
                pass(&mut controller, at(place) + S / 2);
                models[*node].suffer(*what);
                for (node, model) in models.iter().enumerate() {
                    let jobs: Vec<_> = alive(&controller, node).collect();
                    let starts = controller.jobs.iter().filter(|job| job.node == node).count();
                    let found = (!jobs.is_empty(), jobs.iter().any(|job| job.is_paused), starts);
                    let expected = (model.is_alive, model.is_paused, model.starts);
                    assert_eq!(found, expected, "n-{node} after {:?}", &faults[..=place]);
                }
            }
            let restarts = models.iter().any(|model| model.restarts);
            assert_eq!(controller.faults.is_over(), !restarts);
            assert_eq!(controller.faults.made.len(), faults.len());
            assert!(controller.failures.is_empty(), "{:?}", controller.failures);
            let deaf = models.iter().filter(|model| model.is_alive && model.is_stubborn).count();
            controller.stop().unwrap();
            assert!(!controller.jobs.iter().any(Job::is_alive));
            assert_eq!(controller.failures.len(), deaf.min(1), "{:?}", controller.failures);
        });
    }

    /// Any number of faults at once, planned or by hand, also while programs start and stop.
    #[test]
    fn no_order_of_faults_runs_a_program_twice_or_leaves_one(
        is_stubborn in any::<[bool; NODES]>(),
        faults in prop::collection::vec((0..30_u64, any_fault()), 0..20),
        by_hand in prop::collection::vec((0..60_u64, any_fault()), 0..20),
        destroyed in prop::option::of((0..60_u64, 0..NODES)),
    ) {
        let mut faults = faults;
        faults.sort_by_key(|(at, _)| *at);
        let planned: Vec<_> =
            faults.iter().map(|(at, (what, node))| fault(*at * S / 10, *what, *node)).collect();
        let by_hand = by_hand.into_iter().map(|(at, (what, node))| (at, Asked::Fault(what, node)));
        let destroyed = destroyed.map(|(at, node)| (at, Asked::Destroy(node)));
        let asked = by_hand.chain(destroyed).map(|(at, asked)| (second(100) + at * S / 10, asked));
        with(is_stubborn, &planned, asked.collect(), |mut controller| {
            controller.set_up(LIMIT).unwrap();
            assert_one_each(&controller);
            controller.begin().unwrap();
            pass(&mut controller, 8 * S);
            assert!(controller.failures.is_empty(), "{:?}", controller.failures);
            assert_eq!(controller.faults.pending().count(), 0);
            controller.stop().unwrap();
            assert!(!controller.jobs.iter().any(Job::is_alive));
            let count = controller.bed.deeds(|deed| matches!(deed, Deed::Started(_))).len();
            let started = controller.jobs.iter().filter(|job| job.is_started).count();
            assert_eq!(count, started);
        });
    }
}

/// What failed: the count of programs that start was less than 0.
#[test]
fn a_node_that_is_destroyed_before_its_program_starts_does_not_hold_up_the_others() {
    let slow = Behaviour { found_ready: 5 * S, ..Behaviour::default() };
    let mut bed = FakeBed::of(vec![slow, Behaviour::default(), Behaviour::default()]);
    bed.asked = vec![(second(102), Asked::Destroy(1))];
    let jobs = vec![job(0, Role::Service), job(1, Role::Node), job(2, Role::Node)];
    let (interrupted, mut watch) = (AtomicBool::new(false), ());
    let logs = "/logs".into();
    let mut controller =
        Controller::new(bed, jobs, Faults::default(), logs, &interrupted, &mut watch);
    controller.set_up(LIMIT).unwrap();
    let started = controller.bed.deeds(|deed| matches!(deed, Deed::Started(_)));
    assert_eq!(started, [0, 2].map(Deed::Started), "nothing runs on the destroyed node");
    assert!(controller.bed.now < second(107), "{:?}", controller.bed.now);
}

/// A lab can be used while its services still start.
#[test]
fn faults_before_a_program_starts_neither_start_it_twice_nor_excuse_its_end() {
    for what in KINDS {
        let slow = Behaviour { found_ready: 5 * S, ..Behaviour::default() };
        let dies = Behaviour { ends: Some((10 * S, Exit::Status(1))), ..Behaviour::default() };
        let mut bed = FakeBed::of(vec![slow, dies]);
        bed.asked = vec![(second(102), Asked::Fault(what, 1))];
        let jobs = vec![job(0, Role::Service), job(1, Role::Node)];
        let (interrupted, mut watch) = (AtomicBool::new(false), ());
        let logs = "/logs".into();
        let mut controller =
            Controller::new(bed, jobs, Faults::default(), logs, &interrupted, &mut watch);
        controller.set_up(LIMIT).unwrap();
        controller.begin().unwrap();
        let is_start = |deed: &Deed| *deed == Deed::Started(1) || *deed == Deed::Started(2);
        assert_eq!(controller.bed.deeds(is_start), [Deed::Started(1)], "{what}");
        assert!(controller.faults.is_over(), "{what}: nothing restarts");
        pass(&mut controller, 15 * S);
        let texts: Vec<_> = controller.failures.iter().map(ToString::to_string).collect();
        assert!(texts.len() == 1 && texts[0].contains("status 1"), "{what}: {texts:?}");
    }
}

#[test]
fn a_restart_that_fails_ends_the_run() {
    let mut bed = FakeBed::of(vec![Behaviour::default()]);
    bed.failing = vec![Deed::Started(1)];
    let (interrupted, mut watch) = (AtomicBool::new(false), ());
    let faults = Faults::new(&[fault(S, Kind::Restart, 0)], |_| Some(0));
    let jobs = vec![job(0, Role::Node)];
    let logs = "/logs".into();
    let mut controller = Controller::new(bed, jobs, faults, logs, &interrupted, &mut watch);
    controller.set_up(LIMIT).unwrap();
    controller.begin().unwrap();
    let error =
        (0..50).find_map(|_| controller.look().and_then(|()| controller.inject_due_faults()).err());
    assert!(matches!(error, Some(Error::Io { .. })), "{error:?}");
}

/// What failed: the command was taken for running, so it never continued and had to be killed.
#[test]
fn other_programs_of_a_paused_node_stay_paused_when_its_own_program_stops() {
    let bed = FakeBed::of(vec![Behaviour::default()]);
    let (interrupted, mut watch) = (AtomicBool::new(false), ());
    let faults = [fault(S, Kind::Pause, 0), fault(2 * S, Kind::Stop, 0)];
    let faults = Faults::new(&faults, |_| Some(0));
    let jobs = vec![job(0, Role::Node), job(0, Role::Background)];
    let logs = "/logs".into();
    let mut controller = Controller::new(bed, jobs, faults, logs, &interrupted, &mut watch);
    controller.set_up(LIMIT).unwrap();
    controller.begin().unwrap();
    let until = controller.start.unwrap() + 3 * S;
    while controller.bed.now < until {
        controller.look().unwrap();
        controller.inject_due_faults().unwrap();
    }
    assert!(!controller.jobs[0].is_alive());
    assert!(controller.jobs[1].is_alive() && controller.jobs[1].is_paused);
    controller.stop().unwrap();
    assert!(controller.failures.is_empty(), "{:?}", controller.failures);
}
