//! The channel compared with arithmetic, in virtual time.

use super::*;
use crate::test_times::{at, span};
use std::collections::HashMap;
use units::Instant;

/// A transmission, recorded in the trace for tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Transmission {
    pub link: usize,
    pub since: Instant,
    pub until: Instant,
    pub collided: bool,
}

const FRAME: usize = 127;
const FRAME_NS: u64 = 4_256_000;
const SECOND: u64 = 1_000_000_000;

pub(super) fn draw(seed: u64) -> Draw {
    Draw::new(seed, 0, 0)
}

fn unacknowledged() -> CsmaSpec {
    CsmaSpec { acknowledge: false, ..CsmaSpec::default() }
}

/// No backoff before the first CCA.
fn at_once() -> CsmaSpec {
    CsmaSpec { min_be: 0, ..unacknowledged() }
}

/// All attempts that end, without new frames.
fn drain(csma: &mut Csma, received: &mut dyn FnMut(Arrival) -> bool) -> Vec<Attempt> {
    std::iter::from_fn(|| csma.step(Instant::NEVER, received)).collect()
}

/// Every link always has a frame of [`FRAME`] bytes until `end`; returns the attempts ended
/// by then. Links start at different times, so that no two share a time grid.
pub(super) fn saturate(csma: &mut Csma, links: usize, end: Instant) -> Vec<Attempt> {
    let phase = Draw::new(99, 0, 0);
    for link in 0..links {
        let phase = phase.uniform(Purpose::Jitter, link as u64) * 10e6;
        csma.ready(link, FRAME, at(phase as u64));
    }
    let mut ended = Vec::new();
    while let Some(attempt) = csma.step(end, &mut |_| true) {
        csma.ready(attempt.link, FRAME, attempt.at);
        ended.push(attempt);
    }
    ended
}

#[test]
fn a_frame_alone_has_the_airtime_of_itself_and_its_acknowledgement() {
    for (spec, airtime, least) in [
        (CsmaSpec::default(), FRAME_NS + 352_000, 320_000 + FRAME_NS + 544_000),
        (unacknowledged(), FRAME_NS, 320_000 + FRAME_NS),
    ] {
        let mut csma = Csma::new(&spec, 1, draw(1));
        csma.ready(0, FRAME, at(0));
        let ended = drain(&mut csma, &mut |_| true);
        assert_eq!((ended.len(), ended[0].outcome), (1, Ending::Sent));
        // The remainder is whole backoff units.
        assert_eq!((ended[0].at.as_ns() - least) % 320_000, 0);
        let delivered = ended[0].at - span(if spec.acknowledge { 544_000 } else { 0 });
        assert_eq!(ended[0].delivered, Some(delivered));
        let usage = csma.usage()[0];
        assert_eq!((usage.airtime, usage.transmissions, usage.collisions), (span(airtime), 1, 0));
    }
}

#[test]
fn a_lone_sender_waits_half_the_window_and_sends_a_frame_each_6_88_ms() {
    const FRAMES: usize = 20_000;
    let mut csma = Csma::new(&CsmaSpec::default(), 1, draw(2));
    csma.ready(0, FRAME, at(0));
    let mut last = 0;
    for _ in 0..FRAMES {
        let attempt = csma.step(Instant::NEVER, &mut |_| true).unwrap();
        assert_eq!(attempt.outcome, Ending::Sent);
        last = attempt.at.as_ns();
        csma.ready(0, FRAME, at(last));
    }
    let each = last as f64 / FRAMES as f64;
    // 6.88 ms minus the mean backoff of 3.5 units. The window of 8 has a standard deviation
    // of 2.29 units; four standard errors of the mean: 0.065 units.
    let units = (each - 5_760_000.0) / 320_000.0;
    assert!((units - 3.5).abs() < 0.065, "{units}");
    assert_eq!(csma.usage()[0].collisions, 0);
}

#[test]
fn the_first_frame_of_many_at_once_collides_as_often_as_the_least_draw_is_shared() {
    // The setting of Buratti and Verdone, IEEE Trans. Veh. Tech. 58 (7), 2009: all nodes
    // answer one query at once. In the first window all CCAs lie on one grid of units, so
    // the first transmission survives if exactly one sender drew the least of 8 numbers: an
    // exact sum without a fixed point.
    const TRIALS: u64 = 20_000;
    for senders in [2, 5, 10, 20, 50] {
        let alone: f64 =
            (0..8).map(|k| senders as f64 / 8.0 * (f64::from(7 - k) / 8.0).powi(senders - 1)).sum();
        let survived = (0..TRIALS)
            .filter(|trial| {
                let mut csma = Csma::new(&unacknowledged(), senders as usize, draw(*trial));
                (0..senders).for_each(|link| csma.ready(link as usize, FRAME, at(0)));
                csma.step(Instant::NEVER, &mut |_| true);
                drain(&mut csma, &mut |_| true);
                !csma.trace.iter().min_by_key(|sent| sent.since).unwrap().collided
            })
            .count() as f64;
        let deviation = (alone * (1.0 - alone) / TRIALS as f64).sqrt();
        let share = survived / TRIALS as f64;
        assert!((share - alone).abs() < 4.0 * deviation, "{senders}: {share}, not {alone}");
    }
}

#[test]
fn two_collide_when_both_looked_within_one_turnaround() {
    for (apart, outcome) in
        [(0, Ending::Collided), (192_000, Ending::Collided), (192_001, Ending::Sent)]
    {
        let mut csma = Csma::new(&at_once(), 2, draw(3));
        csma.ready(0, FRAME, at(0));
        csma.ready(1, FRAME, at(apart));
        let ended = drain(&mut csma, &mut |_| true);
        let first = ended.iter().find(|attempt| attempt.link == 0).unwrap();
        assert_eq!(first.outcome, outcome, "{apart} ns apart");
        assert_eq!(first.at, at(320_000 + FRAME_NS));
    }
}

#[test]
fn a_look_that_fits_between_frame_and_acknowledgement_destroys_the_acknowledgement() {
    let ends = 320_000 + FRAME_NS;
    for (begins, collides) in
        [(ends - 1, false), (ends, true), (ends + 64_000, true), (ends + 64_001, false)]
    {
        let spec = CsmaSpec { min_be: 0, ..CsmaSpec::default() };
        let mut csma = Csma::new(&spec, 2, draw(4));
        csma.ready(0, FRAME, at(0));
        csma.ready(1, 20, at(begins));
        let mut duplicates = 0;
        let ended = drain(&mut csma, &mut |arrival| {
            duplicates += u32::from(arrival.duplicate);
            true
        });
        let first = ended.iter().find(|attempt| attempt.link == 0).unwrap();
        assert_eq!((first.outcome, first.delivered), (Ending::Sent, Some(at(ends))), "{begins}");
        assert_eq!(csma.usage()[0].retries > 0, collides, "{begins}");
        assert_eq!(duplicates > 0, collides, "{begins}");
    }
}

#[test]
fn what_the_link_loses_is_sent_again_until_retries_are_used_up() {
    let outcome = |spec: &CsmaSpec, losses: u32| {
        let mut csma = Csma::new(spec, 1, draw(5));
        csma.ready(0, FRAME, at(0));
        let mut attempts = Vec::new();
        let ended = drain(&mut csma, &mut |arrival| {
            attempts.push(arrival.attempt);
            arrival.attempt >= losses
        });
        assert_eq!(attempts.len() as u64, csma.usage()[0].transmissions);
        (ended[0].outcome, ended[0].delivered.is_some(), attempts)
    };
    let acknowledged = CsmaSpec::default();
    assert_eq!(outcome(&acknowledged, 0), (Ending::Sent, true, vec![0]));
    assert_eq!(outcome(&acknowledged, 3), (Ending::Sent, true, vec![0, 1, 2, 3]));
    assert_eq!(outcome(&acknowledged, 4), (Ending::Lost, false, vec![0, 1, 2, 3]));
    assert_eq!(outcome(&unacknowledged(), 1), (Ending::Lost, false, vec![0]));
}

#[test]
fn a_frame_for_all_is_sent_once() {
    let mut csma = Csma::new(&CsmaSpec::default(), 1, draw(6));
    csma.ready_for_all(0, FRAME, at(0));
    assert_eq!(drain(&mut csma, &mut |_| true)[0].outcome, Ending::Sent);
    assert_eq!(csma.usage()[0].airtime, span(FRAME_NS));
}

#[test]
fn five_looks_at_a_busy_channel_end_a_frame() {
    let mut csma = Csma::new(&at_once(), 2, draw(7));
    // 2000 B take 64 ms; five backoffs take 37 ms at most.
    csma.ready(0, 2_000, at(0));
    csma.ready(1, FRAME, at(1_000_000));
    let first = csma.step(Instant::NEVER, &mut |_| true).unwrap();
    assert_eq!((first.link, first.outcome, first.delivered), (1, Ending::NoAccess, None));
    assert!(first.at >= at(1_000_000 + 5 * 128_000) && first.at < at(38_000_000));
    assert_eq!(csma.usage()[1].access_failures, 1);
    assert_eq!(csma.usage()[1].transmissions, 0);
    assert!(csma.contends(0) && !csma.contends(1));
}

/// One second of 60 links with random traffic and loss.
fn busy_second(seed: u64) -> (Csma, Vec<Attempt>, u64) {
    let traffic = Draw::new(seed, 1, 0);
    let mut csma = Csma::new(&CsmaSpec::default(), 60, draw(seed));
    let (mut frames, mut ended) = (0, Vec::new());
    for slot in 0..500 {
        let now = slot * SECOND / 500;
        let mut lost = |arrival: Arrival| {
            traffic.uniform(Purpose::Loss, arrival.at.as_ns() ^ arrival.link as u64) > 0.2
        };
        ended.extend(std::iter::from_fn(|| csma.step(at(now), &mut lost)));
        let link = (traffic.uniform(Purpose::Jitter, slot) * 60.0) as usize;
        if !csma.contends(link) {
            frames += 1;
            csma.ready(link, 20 + (slot % 100) as usize, at(now));
        }
    }
    ended.extend(drain(&mut csma, &mut |_| true));
    (csma, ended, frames)
}

#[test]
fn every_frame_ends_once() {
    let (csma, ended, frames) = busy_second(8);
    assert_eq!(ended.len() as u64, frames);
    let mut per_link = HashMap::new();
    ended.iter().for_each(|attempt| *per_link.entry(attempt.link).or_insert(0u64) += 1);
    for (link, usage) in csma.usage().iter().enumerate() {
        assert_eq!(usage.frames, per_link.get(&link).copied().unwrap_or(0));
    }
    assert!(ended.iter().map(|attempt| attempt.at).is_sorted());
    assert!((0..60).all(|link| !csma.contends(link)));
    // Check that these endings occur.
    for ending in [Ending::Sent, Ending::NoAccess] {
        assert!(ended.iter().any(|attempt| attempt.outcome == ending), "{ending:?}");
    }
}

#[test]
fn overlapping_transmissions_collide_and_others_do_not() {
    let (mut csma, ..) = busy_second(9);
    csma.trace.sort_by_key(|sent| sent.since);
    let overlap = |a: &Transmission, b: &Transmission| a.since < b.until && b.since < a.until;
    let trace = &csma.trace;
    assert!(trace.iter().any(|sent| sent.collided) && trace.iter().any(|sent| !sent.collided));
    for (i, sent) in trace.iter().enumerate() {
        let overlaps = trace.iter().enumerate().any(|(j, other)| i != j && overlap(sent, other));
        assert_eq!(overlaps, sent.collided, "{sent:?}");
    }
    // The trace agrees with the counters.
    for (link, usage) in csma.usage().iter().enumerate() {
        let own = || trace.iter().filter(|sent| sent.link == link);
        assert_eq!(usage.airtime, own().fold(span(0), |sum, sent| sum + (sent.until - sent.since)));
        assert_eq!(usage.collisions, own().filter(|sent| sent.collided).count() as u64);
    }
}

#[test]
fn one_seed_gives_one_run() {
    let run = |seed| busy_second(seed).1;
    assert_eq!(run(10), run(10));
    assert_ne!(run(10), run(11));
}

#[test]
fn draws_belong_to_the_link() {
    // Another link's traffic does not move the second link's first CCA.
    let first_of_1 = |others: bool| {
        let mut csma = Csma::new(&unacknowledged(), 2, draw(12));
        if others {
            csma.ready(0, FRAME, at(SECOND));
        }
        csma.ready(1, FRAME, at(0));
        csma.step(Instant::NEVER, &mut |_| true)
    };
    assert_eq!(first_of_1(false), first_of_1(true));
}

#[test]
fn waking_at_next_misses_nothing() {
    let run = |stepwise: bool| {
        let mut csma = Csma::new(&CsmaSpec::default(), 30, draw(13));
        (0..30).for_each(|link| csma.ready(link, FRAME, at(link as u64 * 1_000)));
        let (mut ended, mut wakes) = (Vec::new(), 0u64);
        while let Some(next) = csma.next().filter(|next| *next < at(SECOND)) {
            wakes += 1;
            let now = if stepwise { next } else { at(SECOND) };
            while let Some(attempt) = csma.step(now, &mut |arrival| {
                assert!(!stepwise || arrival.at == now, "late for {arrival:?}");
                true
            }) {
                assert!(!stepwise || attempt.at == now, "late for {attempt:?}");
                csma.ready(attempt.link, FRAME, attempt.at);
                ended.push(attempt);
            }
        }
        ended.retain(|attempt| attempt.at < at(SECOND - 10_000_000));
        (ended, wakes)
    };
    let ((stepwise, wakes), (at_once, _)) = (run(true), run(false));
    assert_eq!(stepwise, at_once);
    // Wakes are at least one CCA time apart.
    assert!(wakes < SECOND / 128_000 + 2 * stepwise.len() as u64, "{wakes}");
}

#[test]
fn an_acknowledgement_that_a_station_makes_itself_is_heard_and_collides() {
    // It is on the air from 192 us on, for 352 us.
    let ends = 192_000 + 352_000;
    for (ready, outcome, waits) in [
        // The CCA ends before it begins; the frame begins within it.
        (0, Ending::Collided, false),
        (ends - 1, Ending::Sent, true),
        (ends, Ending::Sent, false),
    ] {
        let mut csma = Csma::new(&at_once(), 2, draw(3));
        csma.answer(1, 5, at(0));
        csma.ready(0, FRAME, at(ready));
        let ended = drain(&mut csma, &mut |_| true);
        let [answer, frame] = [true, false]
            .map(|is_answer| *ended.iter().find(|end| end.is_answer == is_answer).unwrap());
        assert_eq!((answer.outcome, frame.outcome, ended.len()), (outcome, outcome, 2), "{ready}");
        assert_eq!((answer.link, answer.at), (1, at(ends)));
        let at_once = at(ready + 320_000 + FRAME_NS);
        assert_eq!(frame.at > at_once, waits, "{ready}: {:?}", frame.at);
        assert_eq!(csma.usage()[1].airtime, span(352_000));
    }
}

#[test]
fn a_station_answers_before_it_sends_its_frame() {
    // The frame waits for both answers, also between them.
    let mut csma = Csma::new(&unacknowledged(), 1, draw(4));
    csma.ready(0, FRAME, at(0));
    csma.answer(0, 5, at(0));
    csma.answer(0, 5, at(600_000));
    let ended = drain(&mut csma, &mut |_| true);
    let answers = ended.iter().filter(|end| end.is_answer).map(|end| end.at);
    assert!(answers.eq([at(544_000), at(1_144_000)]), "{ended:?}");
    assert!(ended.iter().all(|end| end.outcome == Ending::Sent), "{ended:?}");
    assert_eq!(csma.usage()[0].airtime, span(FRAME_NS + 2 * 352_000));
}

#[test]
fn a_frame_and_an_answer_of_one_station_end_apart() {
    let mut csma = Csma::new(&at_once(), 1, draw(5));
    csma.ready(0, FRAME, at(0));
    // The CCA is over: the frame begins at 320 us, the answer at 392 us.
    assert_eq!(csma.step(at(200_000), &mut |_| true), None);
    csma.answer(0, 5, at(200_000));
    let ended = drain(&mut csma, &mut |_| true);
    let ends = ended.iter().map(|end| (end.is_answer, end.at, end.outcome));
    let collided = Ending::Collided;
    let expected = [(true, at(744_000), collided), (false, at(320_000 + FRAME_NS), collided)];
    assert!(ends.eq(expected), "{ended:?}");
    let times = csma.trace.iter().map(|sent| (sent.since, sent.until));
    let own = (at(320_000), at(320_000 + FRAME_NS));
    assert!(times.eq([(at(392_000), at(744_000)), own]), "{:?}", csma.trace);
}
