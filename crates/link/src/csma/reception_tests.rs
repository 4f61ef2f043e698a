//! Hidden and distant stations, compared with arithmetic.

use super::tests::draw;
use super::*;
use crate::reception::{NodePosition, PairLoss, PathLoss};
use crate::test_times::{at, span};
use std::collections::BTreeMap;
use units::{Distance, Ratio};

const FRAME: usize = 127;
const FRAME_NS: u64 = 4_256_000;
const SECOND: u64 = 1_000_000_000;

/// Pairs that hear each other, without loss.
fn pairs(stations: usize, heard: &[[usize; 2]]) -> Option<Arc<Reception>> {
    let row = |[from, to]: &[usize; 2]| PairLoss { from: *from, to: *to, loss: Ratio::default() };
    let rows: Vec<_> = heard.iter().map(row).collect();
    Some(Arc::new(Reception::by_table(stations, &rows)))
}

fn unacknowledged() -> CsmaSpec {
    CsmaSpec { acknowledge: false, ..CsmaSpec::default() }
}

/// Saturated senders, each with its receiver, for some seconds: attempts and the channel.
fn saturated(
    spec: &CsmaSpec,
    reception: Option<Arc<Reception>>,
    receivers: &[usize],
    seconds: u64,
) -> (Vec<Attempt>, Csma) {
    let stations = 1 + receivers.iter().copied().max().unwrap_or(0).max(receivers.len() - 1);
    let mut csma = Csma::new(spec, stations, draw(21));
    csma.set_reception(reception);
    for (link, to) in receivers.iter().enumerate() {
        csma.ready_for(link, *to, FRAME, at(link as u64 * 1_234_567));
    }
    let mut ended = Vec::new();
    while let Some(attempt) = csma.step(at(seconds * SECOND), &mut |_| true) {
        csma.ready_for(attempt.link, receivers[attempt.link], FRAME, attempt.at);
        ended.push(attempt);
    }
    (ended, csma)
}

fn shares(csma: &Csma) -> Vec<f64> {
    let share = |usage: Usage| usage.collisions as f64 / usage.transmissions.max(1) as f64;
    csma.usage().into_iter().map(share).collect()
}

#[test]
fn saturated_hidden_senders_collide_always_and_others_seldom() {
    // The longest gap of a sender is 640 + 7 * 320 + 128 + 192 us = 3.2 ms, shorter than a frame of
    // 4.256 ms: each frame meets one of the other.
    let (ended, csma) = saturated(&unacknowledged(), pairs(3, &[[0, 2], [1, 2]]), &[2, 2], 20);
    // Except the first frame, which can begin and end before the other sender's first one.
    assert!(shares(&csma)[..2].iter().all(|share| *share > 0.999), "{:?}", shares(&csma));
    assert!(ended[1..].iter().all(|attempt| attempt.outcome == Ending::Collided));
    // Neither waits for the other: 6.336 ms each, with 4 standard errors of the backoff.
    let sent = csma.usage()[0].transmissions;
    assert!((3_130..3_185).contains(&sent), "{sent}");
    let all = pairs(3, &[[0, 2], [1, 2], [0, 1]]);
    let (_, csma) = saturated(&unacknowledged(), all, &[2, 2], 20);
    let heard = shares(&csma);
    assert!(heard[0] < 0.3 && heard[1] < 0.3, "{heard:?}");
}

#[test]
fn hidden_senders_at_random_times_collide_as_often_as_renewal_theory_gives() {
    // Each sender is off the air for max(exponential of mean m, 640 us), 0 to 7 units, and 320 us,
    // then on the air for T. The senders are independent. A frame survives if the other is off when it
    // begins, and for T more: the integral of P(off > t) over t > T, by the mean of a period.
    const FRAMES: usize = 30_000;
    for mean_ms in [20.0, 50.0, 200.0] {
        let (m, t, space) = (mean_ms * 1e3, FRAME_NS as f64 / 1e3, 640.0);
        let backoff: f64 = (0..8).map(|units| f64::exp(f64::from(units) * 320.0 / m) / 8.0).sum();
        let period = space + m * f64::exp(-space / m) + 1_120.0 + 320.0 + t;
        let expected = 1.0 - m * f64::exp(-(t - 320.0) / m) * backoff / period;
        let mut csma = Csma::new(&unacknowledged(), 3, draw(22));
        csma.set_reception(pairs(3, &[[0, 2], [1, 2]]));
        let pauses = Draw::new(23, 0, 0);
        let (mut collided, mut number) = (0usize, 0u64);
        (0..2).for_each(|link| csma.ready_for(link, 2, FRAME, at(0)));
        for _ in 0..FRAMES {
            let attempt = csma.step(Instant::NEVER, &mut |_| true).unwrap();
            collided += usize::from(attempt.outcome == Ending::Collided);
            let pause = -m * f64::ln(1.0 - pauses.uniform(Purpose::Arrival, number));
            number += 1;
            let next = attempt.at + span((pause * 1e3) as u64);
            csma.ready_for(attempt.link, 2, FRAME, next);
        }
        let share = collided as f64 / FRAMES as f64;
        // Collisions come in pairs, so the deviation is at most sqrt(2) times that of single ones.
        let deviation = (2.0 * expected * (1.0 - expected) / FRAMES as f64).sqrt();
        assert!((share - expected).abs() < 4.0 * deviation, "{mean_ms}: {share}, not {expected}");
    }
}

#[test]
fn stations_that_all_hear_each_other_are_the_channel_without_distance() {
    for spec in [CsmaSpec::default(), unacknowledged()] {
        let links: Vec<[usize; 2]> = (0..5).flat_map(|a| (a + 1..6).map(move |b| [a, b])).collect();
        let (ended, csma) = saturated(&spec, pairs(6, &links), &[5; 5], 10);
        for is_known in [true, false] {
            let mut plain = Csma::new(&spec, 6, draw(21));
            let ready = |plain: &mut Csma, link, now| match is_known {
                true => plain.ready_for(link, 5, FRAME, now),
                false => plain.ready(link, FRAME, now),
            };
            (0..5).for_each(|link| ready(&mut plain, link, at(link as u64 * 1_234_567)));
            let mut expected = Vec::new();
            while let Some(attempt) = plain.step(at(10 * SECOND), &mut |_| true) {
                ready(&mut plain, attempt.link, attempt.at);
                expected.push(attempt);
            }
            assert!(expected.len() > 500);
            assert_eq!(ended, expected);
            let states = |usage: Usage| (usage.sending, usage.receiving);
            let others = |usage| Usage { sending: span(0), receiving: span(0), ..usage };
            let [got, all] = [csma.usage(), plain.usage()];
            assert!(got.iter().map(|usage| others(*usage)).eq(all.iter().map(|u| others(*u))));
            // Which station acknowledges is known only if the receiver is.
            let is_equal = got.iter().map(|u| states(*u)).eq(all.iter().map(|u| states(*u)));
            assert_eq!(is_equal, is_known || !spec.acknowledge);
        }
    }
}

#[test]
fn distant_pairs_use_the_channel_at_the_same_time() {
    // 0 sends to 2, 1 to 3; the pairs do not hear each other.
    let (_, csma) = saturated(&CsmaSpec::default(), pairs(4, &[[0, 2], [1, 3]]), &[2, 3], 100);
    for usage in &csma.usage()[..2] {
        assert_eq!(usage.collisions, 0);
        // 6.88 ms each.
        assert!((14_460..14_610).contains(&usage.transmissions), "{usage:?}");
    }
    // Exposed senders hear each other, so they take turns although neither disturbs the other's
    // receiver.
    let exposed = pairs(4, &[[0, 2], [1, 3], [0, 1]]);
    let (_, csma) = saturated(&unacknowledged(), exposed, &[2, 3], 100);
    let usage = &csma.usage()[..2];
    assert_eq!((usage[0].collisions, usage[1].collisions), (0, 0));
    let airtime = usage[0].airtime.as_ns() + usage[1].airtime.as_ns();
    assert!(airtime < 105 * SECOND, "{airtime}");
}

#[test]
fn a_hidden_station_hears_the_acknowledgement_of_the_receiver() {
    // 1 senses while 2 acknowledges the frame of 0, which 1 does not hear: without backoff it sends
    // unless its CCA overlaps the acknowledgement of 352 us, 192 us behind the frame.
    let frame_ends = 320_000 + FRAME_NS;
    for (begins, waits) in [(192_000 - 128_001, false), (192_000, true), (192_000 + 351_999, true)]
    {
        let spec = CsmaSpec { min_be: 0, ..CsmaSpec::default() };
        let mut csma = Csma::new(&spec, 3, draw(24));
        csma.set_reception(pairs(3, &[[0, 2], [1, 2]]));
        csma.ready_for(0, 2, FRAME, at(0));
        csma.ready_for(1, 2, 20, at(frame_ends + begins));
        let mut starts = BTreeMap::new();
        while csma.step(Instant::NEVER, &mut |_| true).is_some() {}
        for sent in &csma.trace {
            starts.entry(sent.link).or_insert(sent.since);
        }
        let at_once = at(frame_ends + begins + 320_000);
        assert_eq!(starts[&1] > at_once, waits, "{begins}: {starts:?}");
    }
}

#[test]
fn a_receiver_that_sends_does_not_receive() {
    // 0 and 1 do not sense each other's start within the turnaround, and send to each other.
    let spec = CsmaSpec { min_be: 0, acknowledge: false, ..CsmaSpec::default() };
    let mut csma = Csma::new(&spec, 2, draw(25));
    csma.set_reception(pairs(2, &[[0, 1]]));
    csma.ready_for(0, 1, FRAME, at(0));
    csma.ready_for(1, 0, FRAME, at(100_000));
    let ends = std::iter::from_fn(|| csma.step(Instant::NEVER, &mut |_| true));
    assert!(ends.map(|end| end.outcome).eq([Ending::Collided; 2]));
}

#[test]
fn a_frame_for_all_reaches_those_where_it_does_not_collide() {
    // 0 is heard by 2 and 3, 1 by 3 and 4: at 3 their frames collide.
    let spec = CsmaSpec { min_be: 0, ..CsmaSpec::default() };
    let mut csma = Csma::new(&spec, 6, draw(26));
    csma.set_reception(pairs(6, &[[0, 2], [0, 3], [1, 3], [1, 4]]));
    csma.ready_for_all(0, FRAME, at(0));
    csma.ready_for_all(1, FRAME, at(1_000_000));
    // No station hears 5.
    csma.ready_for_all(5, FRAME, at(0));
    let mut heard = Vec::new();
    let mut ends = BTreeMap::new();
    while let Some(attempt) = csma.step(Instant::NEVER, &mut |arrival| {
        let stations = arrival.stations.unwrap().to_vec();
        heard.push((arrival.link, stations));
        arrival.link != 5
    }) {
        ends.insert(attempt.link, attempt.outcome);
    }
    heard.sort();
    assert_eq!(heard, [(0, vec![2]), (1, vec![4]), (5, vec![])]);
    assert_eq!(ends[&0], Ending::Sent);
    assert_eq!(ends[&5], Ending::Lost);
    assert_eq!((csma.usage()[0].collisions, csma.usage()[5].collisions), (1, 0));
}

#[test]
fn a_lost_acknowledgement_repeats_the_frame_without_delivering_it_again() {
    let mut csma = Csma::new(&CsmaSpec::default(), 2, draw(27));
    csma.set_reception(pairs(2, &[[0, 1]]));
    csma.ready_for(0, 1, FRAME, at(0));
    let (mut frames, mut acks) = (Vec::new(), 0);
    let mut step = || {
        csma.step(Instant::NEVER, &mut |arrival| {
            if arrival.kind == ArrivalKind::Acknowledgement {
                assert_eq!(arrival.stations, Some(&[0][..]));
                acks += 1;
                return acks > 2;
            }
            frames.push(arrival.duplicate);
            true
        })
    };
    assert_eq!(step().map(|attempt| attempt.outcome), Some(Ending::Sent));
    assert_eq!((frames, acks), (vec![false, true, true], 3));
    assert_eq!((csma.usage()[0].retries, csma.usage()[0].collisions), (2, 0));
}

#[test]
fn any_layout_ends_each_frame_once_and_collides_by_overlap_at_the_receiver() {
    let place = |seed: u64, station: u64| {
        let metres = |axis| {
            let uniform = Draw::new(seed, station, axis).uniform(Purpose::Choice, 0);
            Distance::from_metres(uniform * 120.0).unwrap()
        };
        NodePosition { x: metres(0), y: metres(1) }
    };
    let mut all_collisions = 0;
    for seed in 0..40 {
        let places: Vec<_> = (0..12).map(|station| place(seed, station)).collect();
        let reception =
            Arc::new(Reception::by_distance(&PathLoss::default(), &places, Draw::new(1, 0, 0)));
        // Each station sends to the next one, heard or not.
        let to: Vec<usize> = (0..12).map(|link| (link + 1) % 12).collect();
        let (ended, csma) = saturated(&unacknowledged(), Some(reception.clone()), &to, 2);
        assert!(ended.iter().map(|attempt| attempt.at).is_sorted());
        for sent in &csma.trace {
            let disturbs = csma.trace.iter().any(|other| {
                let overlap = other.since < sent.until && sent.since < other.until;
                other.link != sent.link && overlap && reception.hears(other.link, to[sent.link])
            });
            // Transmissions after the end of the trace may disturb one more.
            let is_last = sent.until.as_ns() > 2 * SECOND - 10_000_000;
            assert!(is_last || disturbs == sent.collided, "seed {seed}: {sent:?}");
        }
        let usage = csma.usage();
        all_collisions += usage.iter().map(|link| link.collisions).sum::<u64>();
        let frames: u64 = usage.iter().map(|link| link.frames).sum();
        assert_eq!(frames, ended.len() as u64 + 12, "those that still contend");
    }
    assert!(all_collisions > 1_000, "{all_collisions}");
}

/// Two senders at these distances of the receiver 0, in m, on opposite sides, the second one this much
/// later: which of their frames arrive there.
fn captured(distances: [f64; 2], later_ns: u64, capture: Option<&str>) -> [bool; 2] {
    let metres = |x| Distance::from_metres(x).unwrap();
    let place = |x| NodePosition { x: metres(x), y: metres(0.0) };
    let positions = [place(0.0), place(-distances[0]), place(distances[1])];
    let capture = capture.map(|text| text.parse().unwrap());
    let path_loss = PathLoss { capture, ..PathLoss::default() };
    let mut csma = Csma::new(&CsmaSpec { min_be: 0, ..unacknowledged() }, 3, draw(28));
    csma.set_reception(Some(Arc::new(Reception::by_distance(
        &path_loss,
        &positions,
        Draw::new(1, 0, 0),
    ))));
    csma.ready_for(1, 0, FRAME, at(0));
    csma.ready_for(2, 0, FRAME, at(later_ns));
    let mut arrived = [false; 2];
    while let Some(attempt) = csma.step(Instant::NEVER, &mut |_| true) {
        arrived[attempt.link - 1] = attempt.outcome == Ending::Sent;
    }
    arrived
}

#[test]
fn the_stronger_of_two_frames_is_captured() {
    // 3 dB are a factor of 10^(3 / 30) = 1.2589 in distance. The stations are out of each other's range
    // of 31.1 m.
    let three = Some("3 dB");
    for (distances, later, capture, expected) in [
        // Without the effect, and with equal levels, both are lost.
        ([18.0, 25.0], 1_000_000, None, [false; 2]),
        ([25.0, 25.0], 1_000_000, three, [false; 2]),
        // The earlier one is stronger: by 3.05 dB, by 2.95 dB.
        ([20.0, 25.27], 1_000_000, three, [true, false]),
        ([20.0, 25.07], 1_000_000, three, [false; 2]),
        // The later one is stronger, and begins within the header of 192 us, or behind it.
        ([25.0, 18.0], 191_000, three, [false, true]),
        ([25.0, 18.0], 193_000, three, [false; 2]),
        ([25.0, 18.0], 191_000, Some("5 dB"), [false; 2]),
    ] {
        assert_eq!(
            captured(distances, later, capture),
            expected,
            "{distances:?} {later} {capture:?}"
        );
    }
}

#[test]
fn interferers_add_up() {
    // Two equal interferers have 3.01 dB more than one: 4 dB are too little then.
    let metres = |x| Distance::from_metres(x).unwrap();
    let place = |(x, y)| NodePosition { x: metres(x), y: metres(y) };
    // 20 m and 27.19 m: 4 dB.
    let places = [(0.0, 0.0), (20.0, 0.0), (-27.2, 0.0), (0.0, 27.2)].map(place);
    let path_loss = PathLoss { capture: Some("3 dB".parse().unwrap()), ..PathLoss::default() };
    let reception = Reception::by_distance(&path_loss, &places, Draw::new(1, 0, 0));
    assert!(reception.captures(1, 0, [2].into_iter()));
    assert!(reception.captures(1, 0, [3].into_iter()));
    assert!(!reception.captures(1, 0, [2, 3].into_iter()));
    assert!(!reception.captures(2, 0, [1].into_iter()));
}

#[test]
fn stations_account_what_they_send_and_what_they_hear() {
    // 0 sends to 1, which acknowledges; 2 hears 1 only, and 3 nothing.
    let mut csma = Csma::new(&CsmaSpec { min_be: 0, ..CsmaSpec::default() }, 4, draw(29));
    csma.set_reception(pairs(4, &[[0, 1], [1, 2]]));
    csma.ready_for(0, 1, FRAME, at(0));
    while csma.step(Instant::NEVER, &mut |_| true).is_some() {}
    let (frame, ack) = (span(FRAME_NS), span(352_000));
    let none = span(0);
    let times: Vec<_> = csma.usage().iter().map(|usage| (usage.sending, usage.receiving)).collect();
    assert_eq!(times, [(frame, ack), (ack, frame), (none, ack), (none, none)]);
    // Two frames at once that overlap by 3 ms: 2 hears something for as long as either is on the air.
    let mut csma = Csma::new(&CsmaSpec { min_be: 0, ..unacknowledged() }, 3, draw(29));
    csma.set_reception(pairs(3, &[[0, 2], [1, 2]]));
    csma.ready_for(0, 2, FRAME, at(0));
    csma.ready_for(1, 2, FRAME, at(1_256_000));
    while csma.step(Instant::NEVER, &mut |_| true).is_some() {}
    assert_eq!(csma.usage()[2].receiving, span(FRAME_NS + 1_256_000));
    assert_eq!(csma.usage()[0].receiving, none);
}

#[test]
fn two_transmissions_of_one_station_destroy_each_other_despite_capture() {
    // 1 acknowledges another frame while its frame is on the air, which only firmware does that does not
    // know when the channel sends.
    let metres = |x| Distance::from_metres(x).unwrap();
    let positions = [0.0, 20.0].map(|x| NodePosition { x: metres(x), y: metres(0.0) });
    let path_loss = PathLoss { capture: Some("3 dB".parse().unwrap()), ..PathLoss::default() };
    let mut csma = Csma::new(&CsmaSpec { min_be: 0, ..unacknowledged() }, 2, draw(30));
    csma.set_reception(Some(Arc::new(Reception::by_distance(
        &path_loss,
        &positions,
        Draw::new(1, 0, 0),
    ))));
    csma.ready_for(1, 0, FRAME, at(0));
    assert_eq!(csma.step(at(400_000), &mut |_| true), None);
    csma.answer(1, 5, at(400_000));
    let mut ends = Vec::new();
    while let Some(attempt) = csma.step(Instant::NEVER, &mut |_| true) {
        ends.push((attempt.is_answer, attempt.outcome));
    }
    assert_eq!(ends, [(true, Ending::Collided), (false, Ending::Collided)]);
}

#[test]
fn an_added_station_hears_what_is_on_the_air() {
    // Both frames begin before station 2 is added, and the first one ends before the second.
    let mut csma = Csma::new(&CsmaSpec { min_be: 0, ..unacknowledged() }, 2, draw(31));
    csma.ready_for_all(0, 60, at(0));
    csma.ready_for_all(1, FRAME, at(100_000));
    assert_eq!(csma.step(at(2_000_000), &mut |_| true), None);
    csma.attach();
    let first = csma.step(Instant::NEVER, &mut |_| true).unwrap();
    assert_eq!(first.at, at(320_000 + 66 * 32_000));
    csma.ready_for_all(2, 20, first.at);
    while csma.step(Instant::NEVER, &mut |_| true).is_some() {}
    let since = csma.trace.iter().find(|sent| sent.link == 2).map(|sent| sent.since);
    assert!(since.is_none_or(|since| since >= at(100_000 + 320_000 + FRAME_NS)), "{since:?}");
    // From the latest event before it was added, the start of the second frame.
    assert_eq!(csma.usage()[2].receiving, span(FRAME_NS));
}
