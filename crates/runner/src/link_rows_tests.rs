use super::LinkRows;
use crate::bed::Topology;
use crate::bed::netem::Done;
use crate::bed::roots::Roots;
use crate::test_plan::plan;
use engine::{LinkInterval, Observer, Place};
use experiment::Plan;
use lab::Passed;
use link::{Direction, Impairment, Interval, Totals};
use measure::{Accounting, IntervalLog, Intervals, LinkRow};
use std::sync::Arc;
use units::Instant;

const START: Instant = Instant::from_ns(100_000_000_000);

fn topology() -> (Plan, Topology) {
    let plan = plan(
        "experiment: e
nodes: {a: {count: 1}, b: {count: 1}}
networks:
  lan: {attach: [a, b], subnet: 10.0.0.0/24, links: {b: {up: {delay: 5 ms}, down: {delay: 5 ms}}}}
workloads: [{command: {on: a, run: ['true']}}]
duration: 1 s
",
    );
    let topology = Topology::of(&plan, &Roots::of(&plan).unwrap());
    (plan, topology)
}

/// Intervals of a run: endpoint, direction, from and to in s after the start, frames, delay.
type Ended = (usize, Direction, f64, f64, u64, &'static str);

fn intervals(topology: &Topology, dir: &std::path::Path, ended: &[Ended]) -> Intervals {
    let mut accounting = Accounting::new(topology.owners.clone(), Vec::new(), None);
    accounting.keep_intervals(IntervalLog::begin(dir).unwrap());
    let at = |s: f64| START.at_offset((s * 1e9) as i64);
    for (endpoint, direction, from, to, frames, delay) in ended {
        let configured: Impairment = match *delay {
            "" => topology.segments[0].endpoints[*endpoint].up.clone(),
            delay => serde_json::from_value(serde_json::json!({ "delay": delay })).unwrap(),
        };
        let interval = Interval {
            from: at(*from),
            to: at(*to),
            configured: Arc::new(configured),
            changing: false,
            measured: Totals { frames: *frames, ..Totals::default() },
        };
        let place = Place { segment: 0, endpoint: *endpoint };
        accounting.intervals(vec![LinkInterval { place, direction: *direction, interval }]);
    }
    accounting.take_intervals().map(IntervalLog::end).unwrap_or_default()
}

fn totals(frames: u64) -> Vec<Vec<[Totals; 2]>> {
    let of = |frames| Totals { frames, outage: 3, rejected: 4, ..Totals::default() };
    vec![vec![[of(1), of(2)], [of(frames), of(4)]]]
}

fn span(row: &LinkRow) -> (String, &'static str, f64, f64, bool) {
    (row.node.clone(), row.direction, row.start_s, row.end_s, row.changing)
}

use Direction::{Down, Up};

#[test]
fn a_link_lasts_from_its_first_interval_to_its_last() {
    let (plan, topology) = topology();
    let dir = tempfile::tempdir().unwrap();
    let ended = [
        (0, Up, -0.5, 9.5, 5, ""),
        (1, Up, -0.5, -0.5, 0, ""),
        (0, Up, 9.5, 12.0, 6, ""),
        (1, Up, 2.0, 9.5, 7, ""),
        (1, Down, -0.5, 9.5, 8, "7 ms"),
        // Of a clone, which the plan does not have.
        (2, Up, -0.5, 9.5, 9, "5 ms"),
    ];
    let intervals = intervals(&topology, dir.path(), &ended);
    let rows = LinkRows::of(&plan, &topology, &totals(3), intervals, START).unwrap();
    let whole = rows.whole();
    let found: Vec<_> = whole.iter().map(span).collect();
    let expected = [
        ("a", "up", -0.5, 12.0, false),
        ("a", "down", 0.0, 0.0, false),
        ("b", "up", 2.0, 9.5, false),
        ("b", "down", -0.5, 9.5, true),
    ];
    assert_eq!(
        found,
        expected.map(|(node, way, from, to, is)| (node.to_owned(), way, from, to, is))
    );
    let each: Vec<LinkRow> = rows.intervals().map(Result::unwrap).collect();
    let frames: Vec<u64> = each.iter().map(|row| row.measured.frames).collect();
    assert_eq!(frames, [5, 0, 6, 7, 8], "in order of time, without the clone's");
    assert!(each.iter().all(|row| row.network == "lan" && row.interface == "eth0"));
    let delay = |row: &LinkRow| row.configured.delay.mean.as_ms();
    assert_eq!((delay(&each[4]), delay(&whole[3])), (7.0, 5.0));
}

#[test]
fn a_run_without_intervals_has_the_rows_of_its_links() {
    let (plan, topology) = topology();
    let none = Intervals::default();
    let rows = LinkRows::of(&plan, &topology, &totals(3), none, START).unwrap();
    assert_eq!((rows.whole().len(), rows.intervals().count()), (4, 0));
}

/// Of a link that the kernel impairs, the medium knows only frames that it forwards.
#[test]
fn rows_of_netem_replace_those_of_the_medium() {
    let (plan, topology) = topology();
    let done = |way, loss: &str, counted| Done {
        place: Place { segment: 0, endpoint: 1 },
        way,
        configured: Arc::new(serde_json::from_value(serde_json::json!({ "loss": loss })).unwrap()),
        passed: Passed { frames: 90, bytes: 9_000, dropped: 10 },
        counted,
    };
    let dir = tempfile::tempdir().unwrap();
    let ended = [(1, Up, -0.5, 9.5, 5, ""), (0, Up, -0.5, 9.5, 6, "")];
    let intervals = intervals(&topology, dir.path(), &ended);
    let rows = LinkRows::of(&plan, &topology, &totals(3), intervals, START).unwrap();
    let strange =
        Done { place: Place { segment: 7, endpoint: 0 }, ..done(lab::Direction::Up, "1 %", true) };
    let both =
        [done(lab::Direction::Up, "10 %", true), done(lab::Direction::Down, "0 %", false), strange];
    let rows = rows.with_netem(&both);
    let [_, _, up, down] = &rows.whole()[..] else { panic!() };
    let counts = |row: &LinkRow| {
        let Totals { frames, passed, lost, overflow, outage, rejected, .. } = row.measured;
        [frames, passed, lost, overflow, outage, rejected]
    };
    assert_eq!(counts(up), [103, 90, 10, 0, 3, 4], "with a loss, drops are losses");
    assert_eq!(counts(down), [103, 90, 0, 10, 3, 4], "without one, its queue was full");
    assert_eq!((up.changing, down.changing), (false, true), "super-frames are not compared");
    assert_eq!((up.start_s, up.end_s), (-0.5, 9.5));
    let each: Vec<LinkRow> = rows.intervals().map(Result::unwrap).collect();
    let found: Vec<_> = each.iter().map(|row| (row.node.as_str(), row.by_netem)).collect();
    assert_eq!(found, [("a", false), ("b", true), ("b", true)], "no interval counts twice");
}
