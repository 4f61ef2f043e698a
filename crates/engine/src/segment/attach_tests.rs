//! Endpoints attached while the segment is running.

use super::*;
use crate::test_times::instant;
use link::{Channel, CsmaSpec};
use units::Rate;

fn frame(from: u8, to: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 0x88, 0xb5];
    frame.resize(100, from);
    frame
}

/// Several random impairments.
fn end(number: u8) -> Endpoint {
    let keys = r#"{"delay": "5 ms", "jitter": "1 ms", "loss": "20 %", "duplicate": "10 %"}"#;
    let way: Impairment = serde_json::from_str(keys).unwrap();
    Endpoint {
        up: way.clone(),
        down: way,
        mac: Some([2, 0, 0, 0, 0, number]),
        ..Endpoint::default()
    }
}

fn channels() -> Vec<Channel> {
    let rate = |text: &str| text.parse::<Rate>().unwrap();
    vec![
        Channel::Switch,
        Channel::Shared(rate("1 Mbit/s")),
        Channel::Cell { up: rate("1 Mbit/s"), down: rate("2 Mbit/s") },
        Channel::Csma(CsmaSpec::default()),
    ]
}

/// Receiver, time, sender.
type Delivered = (usize, Instant, u8);

/// All deliveries of frames between all endpoints, and the totals.
fn traffic(segment: &mut Segment) -> (Vec<Delivered>, Vec<[Totals; 2]>) {
    let mut all = Vec::new();
    for round in 0..200u64 {
        for from in 0..4u8 {
            let to = (from + 1 + (round % 3) as u8) % 4;
            segment.send(
                usize::from(from),
                &frame(from, to),
                instant(1_000_000 + round * 3_000_000),
            );
        }
    }
    while let Some(next) = segment.next() {
        while let Some(delivery) = segment.due(next) {
            all.push((delivery.endpoint, delivery.intended, delivery.frame[11]));
        }
    }
    (all, segment.totals())
}

/// An endpoint attached later is treated as if it had been there from the start.
#[test]
fn a_newcomer_has_the_fate_that_it_would_have_had() {
    for channel in channels() {
        let of = |ends: u8| SegmentSpec {
            channel: channel.clone(),
            endpoints: (0..ends).map(end).collect(),
            ..SegmentSpec::switch(7)
        };
        for impaired_first in [false, true] {
            let (mut whole, mut grown) = (Segment::new(&of(4)), Segment::new(&of(2)));
            whole.impair(instant(1_000));
            if impaired_first {
                grown.impair(instant(1_000));
            }
            assert_eq!(
                (grown.attach(end(2), instant(900)), grown.attach(end(3), instant(950))),
                (2, 3)
            );
            if !impaired_first {
                grown.impair(instant(1_000));
            }
            let (before, after) = (traffic(&mut whole), traffic(&mut grown));
            assert!(before.0.len() > 100, "{channel:?}");
            assert_eq!(before, after, "{channel:?}");
            assert_eq!(grown.state(3, Direction::Up, instant(0)).now, end(3).up);
        }
    }
}

#[test]
fn a_newcomer_is_in_the_part_of_those_that_were_not_named() {
    let ends = |count: u8| (0..count).map(|n| Endpoint { mac: end(n).mac, ..Endpoint::default() });
    let spec = SegmentSpec { endpoints: ends(3).collect(), ..SegmentSpec::switch(7) };
    let mut segment = Segment::new(&spec);
    segment.change(Change::Partition(Some(vec![0, 0, 1])), instant(0));
    let new_port = ends(4).next_back().unwrap();
    assert_eq!(segment.attach(new_port, instant(0)), 3);
    // Partitions defined before it was attached, as by a timetable.
    let reached = |segment: &mut Segment, from: u8, now| {
        let everybody = [&[0xff; 6][..], &frame(from, 0)[6..]].concat();
        segment.send(usize::from(from), &everybody, now);
        let mut reached = Vec::new();
        while let Some(delivery) = segment.due(now) {
            reached.push(delivery.endpoint);
        }
        reached
    };
    assert_eq!(reached(&mut segment, 3, instant(1)), [0, 1]);
    segment.change(Change::Partition(Some(vec![1, 0, 1])), instant(2));
    assert_eq!(reached(&mut segment, 3, instant(3)), [1]);
    assert_eq!(reached(&mut segment, 0, instant(4)), [2]);
    segment.change(Change::Partition(None), instant(5));
    assert_eq!(reached(&mut segment, 3, instant(6)), [0, 1, 2]);
}

#[test]
fn an_endpoint_that_is_gone_takes_and_gives_nothing() {
    let mut segment = Segment::new(&SegmentSpec {
        endpoints: vec![Endpoint::default(); 3],
        impaired: true,
        ..SegmentSpec::switch(1)
    });
    let frame =
        |from: u8, to: u8| [&[2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 8, 0][..], &[0; 46]].concat();
    let receivers = |segment: &mut Segment, now| {
        std::iter::from_fn(|| Some(segment.due(now)?.endpoint)).collect::<Vec<_>>()
    };
    segment.send(2, &frame(2, 0), instant(0));
    assert_eq!(receivers(&mut segment, instant(0)), [0, 1]);
    segment.detach(2, instant(1));
    segment.send(0, &frame(0, 2), instant(2));
    assert_eq!(receivers(&mut segment, instant(2)), [1], "its location is unknown");
    segment.send(2, &frame(2, 0), instant(3));
    assert!(receivers(&mut segment, instant(3)).is_empty());
    assert_eq!(segment.totals()[2][0].rejected, 1);
}
