//! A cellular trace in virtual time, compared with a bare calculation.

use super::*;
use crate::{
    Frame, Impairment, Limit, LinkPipe, Scheduler, StampedFrame, Step, Trace, Transmission,
};
use std::collections::VecDeque;
use std::path::Path;
use units::Draw;

const MS_NS: u64 = 1_000_000;
/// Ethernet header without the 4 B of a TUN device's header.
const HEADER: u64 = 10;

type Row = (u64, u64, Vec<u64>);

fn spec(light: &str, heavy: &str, sizes: Option<&str>, idle: Span) -> CellularTrace {
    let file = Path::new("a.trace");
    CellularTrace {
        light: LightTrace::parse(file, light).unwrap(),
        heavy: Trace::parse(file, heavy).unwrap().with_opportunity(OPPORTUNITY),
        size_delays: sizes.map(|text| SizeDelays::parse(file, text).unwrap()),
        idle,
    }
}

fn pipe(trace: CellularTrace, queue: u32) -> LinkPipe {
    let config = Impairment {
        transmission: Transmission::from(Scheduler::Cellular(trace)),
        queue: Limit::Frames(queue).into(),
        ..Impairment::default()
    };
    LinkPipe::new(config, Draw::new(7, 1, 0))
}

/// Sends a packet of this size in bytes, with the TUN header; its release time in whole ms, or none if it
/// is dropped.
fn send(pipe: &mut LinkPipe, bytes: u64, at: Instant) -> Option<u64> {
    let frame: Frame = vec![0; (bytes + HEADER) as usize].into();
    let mut steps = Vec::new();
    pipe.admit(StampedFrame { frame, arrived: at }, 0, at, false, None, &mut steps);
    steps.iter().find_map(|step| match step {
        Step::Release(_, release) => Some(release.as_ns() / MS_NS),
        _ => None,
    })
}

fn text(rows: &[Row]) -> String {
    let line = |(at, delay, times): &Row| {
        let times: Vec<_> = times.iter().map(u64::to_string).collect();
        format!("{at} {delay} {}\n", times.join(" "))
    };
    rows.iter().map(line).collect()
}

/// What CellReplay does, one millisecond after the other: packets (ms of arrival, bytes) to ms of
/// departure. The packets of one ms arrive after its opportunities.
fn bare(rows: &[Row], heavy: &[u64], packets: &[(u64, u64)], idle: u64) -> Vec<u64> {
    let period = rows.last().unwrap().0;
    let round = *heavy.last().unwrap();
    let mut out = vec![u64::MAX; packets.len()];
    let (mut delayed, mut queue) = (VecDeque::new(), VecDeque::<(usize, u64)>::new());
    // The train: its start, delay, row, opportunity and what is left of that.
    let mut train: Option<(u64, u64, usize, usize, u64)> = None;
    let (mut last, mut order, mut next) = (0, 0, 0);
    for ms in 0.. {
        let mut sent_now = 0;
        for opportunity in heavy {
            if ms == 0 || (ms - 1) % round + 1 != *opportunity {
                continue;
            }
            let mut left = 1400;
            while left > 0 && !queue.is_empty() {
                let part = left.min(queue[0].1);
                queue[0].1 -= part;
                left -= part;
                if queue[0].1 == 0 {
                    out[queue.pop_front().unwrap().0] = ms;
                    sent_now += 1;
                }
            }
        }
        while next < packets.len() && packets[next].0 == ms {
            let bytes = packets[next].1;
            let is_new = train.is_none_or(|(_, delay, ..)| ms + delay > last + idle);
            let (leaves, is_light) = if is_new {
                let within = ms % period;
                let row = rows.iter().rposition(|row| row.0 <= within).unwrap();
                let (from, to) = (&rows[row], &rows[row + 1]);
                let share = (within - from.0) as f64 / (to.0 - from.0) as f64;
                let delay = (from.1 as f64 + share * (to.1 as f64 - from.1 as f64) + 1e-9) as u64;
                train = Some((ms, delay, row, 0, 1400 - bytes));
                (ms + delay, true)
            } else {
                let (start, delay, row, mut place, mut left) = train.unwrap();
                let times = &rows[row].2;
                while place < times.len() && ms - start > times[place] {
                    (place, left) = (place + 1, 1400);
                }
                if left < bytes {
                    (place, left) = (place + 1, 1400);
                }
                train = Some((start, delay, row, place, left - bytes));
                match times.get(place) {
                    Some(time) => (start + delay + time, true),
                    None => (ms + delay.max(*times.last().unwrap()), false),
                }
            };
            last = leaves;
            delayed.push_back((next, leaves.max(order), is_light && leaves >= order));
            order = leaves.max(order);
            next += 1;
        }
        while let Some((number, _, is_light)) = delayed.pop_front_if(|packet| packet.1 <= ms) {
            match is_light && queue.is_empty() && sent_now == 0 {
                true => out[number] = ms,
                false => queue.push_back((number, packets[number].1)),
            }
        }
        if next == packets.len() && delayed.is_empty() && queue.is_empty() {
            break;
        }
    }
    out
}

/// Bursts, pauses and floods of packets of all sizes.
fn packets(seed: u64, count: u64) -> Vec<(u64, u64)> {
    let mut ms = 0;
    let mut packet = |number: u64| {
        let random = units::mix(seed << 32 | number);
        let phase = units::mix((seed << 40) | (number / 40)) % 4;
        ms += match phase {
            0 => random % 60,
            1 => u64::from(random.is_multiple_of(10)) * (random >> 8) % 40,
            2 => u64::from(random.is_multiple_of(4)),
            _ => u64::from(random.is_multiple_of(3)) * 3,
        };
        (ms, 40 + (random >> 20) % 1361)
    };
    (0..count).map(&mut packet).collect()
}

#[test]
fn each_packet_leaves_as_in_a_bare_calculation() {
    for seed in 1..=8 {
        let number = |at: u64, below: u64| units::mix(seed << 16 | at) % below;
        let rows: Vec<Row> = (0..30)
            .map(|row| {
                let gap = 1 + number(900 + row, 3);
                let mut times: Vec<u64> = (0..1 + number(row, 12)).map(|n| n * gap).collect();
                times[0] = 0;
                (row * 97, number(100 + row, 45), times)
            })
            .collect();
        let mut heavy: Vec<u64> = (0..400).map(|n| 1 + number(200 + n, 350)).collect();
        heavy.sort_unstable();
        let packets = packets(seed, 4_000);
        let lines: Vec<_> = heavy.iter().map(u64::to_string).collect();
        let idle = [0, 0, 3, 20][seed as usize % 4];
        let trace = spec(&text(&rows), &lines.join("\n"), None, Span::from_ms(idle));
        let mut pipe = pipe(trace, u32::MAX);
        let got: Vec<u64> = packets
            .iter()
            .map(|(ms, bytes)| {
                send(&mut pipe, *bytes, Instant::from_ns(ms * MS_NS + MS_NS / 2)).unwrap()
            })
            .collect();
        let expected = bare(&rows, &heavy, &packets, idle);
        let wrong = got.iter().zip(&expected).position(|(got, expected)| got != expected);
        assert_eq!(
            wrong,
            None,
            "seed {seed}: {:?}",
            wrong.map(|n| (packets[n], got[n], expected[n]))
        );
    }
}

const LIGHT: &str = "0 20 0 0 4\n100 30 0 2\n200 20 0\n";

#[test]
fn single_packets_have_the_base_delay_and_nothing_else() {
    // The heavy trace has one opportunity in ten seconds: none of them uses it.
    let mut pipe = pipe(spec(LIGHT, "10000\n", None, Span::ZERO), 10);
    let delays = [0, 50, 100, 150, 199, 200, 250]
        .map(|ms| send(&mut pipe, 1400, Instant::from_ns(ms * MS_NS)).unwrap() - ms);
    assert_eq!(delays, [20, 25, 30, 25, 20, 20, 25]);
}

#[test]
fn a_burst_follows_the_light_trace_and_then_the_heavy_one() {
    let mut pipe = pipe(spec(LIGHT, "7\n", None, Span::ZERO), 10);
    // Microseconds apart: one train, although CellReplay's clock has whole milliseconds.
    let released: Vec<_> =
        (0..5).map(|n| send(&mut pipe, 1400, Instant::from_ns(n * 12_000)).unwrap()).collect();
    assert_eq!(released, [20, 20, 24, 28, 35]);
    // After it, the light trace again.
    assert_eq!(send(&mut pipe, 1400, Instant::from_ns(50 * MS_NS)), Some(75));
}

#[test]
fn the_queue_limit_counts_what_waits_for_the_heavy_trace() {
    let mut pipe = pipe(spec("0 50 0\n100 50 0\n", "1000\n", None, Span::ZERO), 2);
    let released: Vec<_> =
        (0..5).map(|n| send(&mut pipe, 1400, Instant::from_ns(n * 1_000))).collect();
    // The first passes; of the others two fit, and the base delay of all is no queue.
    assert_eq!(released, [Some(50), Some(1_000), Some(2_000), None, None]);
    assert_eq!(pipe.totals().overflow, 2);
    assert_eq!(pipe.totals().passed, 3);
}

#[test]
fn small_packets_are_faster_if_the_sizes_say_so_but_keep_their_order() {
    let sizes = "100 -10\n200 -5\n300 0\n";
    let mut pipe = pipe(spec("0 20 0 0 0\n1000 20 0\n", "1\n", Some(sizes), Span::ZERO), 10);
    let mut at =
        |ms: u64, bytes| send(&mut pipe, bytes, Instant::from_ns(ms * MS_NS)).unwrap() - ms;
    assert_eq!([at(0, 60), at(50, 150), at(100, 1400)], [10, 12, 20]);
    // Not before the large one that was sent a millisecond earlier: then the size does not count.
    assert_eq!([at(200, 1400), at(201, 100)], [20, 20]);
}

#[test]
fn larger_packets_than_an_opportunity_take_several() {
    let mut pipe = pipe(spec("0 10 0 3 6 9\n500 10 0\n", "1\n", None, Span::ZERO), 10);
    let released = [1500, 1500].map(|bytes| send(&mut pipe, bytes, Instant::START).unwrap());
    assert_eq!(released, [13, 19]);
}

#[test]
fn a_trace_that_is_not_read_delays_nothing() {
    let empty = || std::path::PathBuf::from("not-read");
    let trace = CellularTrace {
        light: empty().into(),
        heavy: empty().into(),
        size_delays: Some(empty().into()),
        idle: Span::ZERO,
    };
    assert_eq!(send(&mut pipe(trace, 1), 1400, Instant::from_ns(5 * MS_NS)), Some(5));
}

#[test]
fn what_is_no_trace_is_said_with_its_line() {
    let file = Path::new("a.trace");
    let light = |text| LightTrace::parse(file, text).unwrap_err().to_string();
    assert!(light("0 20 0\n").contains("fewer than two trains"));
    assert!(light("0 20 0\n0 20 0\n").contains("ends at 0 ms"));
    assert!(light("9 20 0\n\n5 20 0\n").starts_with("a.trace, line 3: 5 ms comes after 9 ms"));
    for text in ["0 20\n", "0 2.5 0\n", "0\n", "0 -1 0\n", "0 20 0 99999999999\n", "12:30 5 0\n"] {
        assert!(light(text).contains("line 1") && light(text).contains("such as `200 23 0 0 4`"));
    }
    let sizes = |text| SizeDelays::parse(file, text).unwrap_err().to_string();
    assert_eq!(sizes(""), "a.trace has no delays");
    assert!(sizes("100 1\n300 2\n").contains("line 2: `300 2` is not `200` (bytes)"));
    for text in ["100 nan\n", "100 inf\n", "100 1e300\n", "100\n", "100 1 2\n"] {
        assert!(sizes(text).contains("line 1"), "{text}");
    }
}

/// It showed a delay of 0 ms and a rate of 0 kbit/s.
#[test]
fn a_live_lab_shows_the_names_of_files_alone() {
    let trace: CellularTrace = serde_json::from_str(r#"{"light": "a", "heavy": "b"}"#).unwrap();
    assert_eq!(trace.text(), "light trace a, heavy trace b");
}
