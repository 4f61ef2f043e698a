//! The grant model compared with arithmetic.

use super::*;
use crate::test_times::at;
use units::{Bytes, Ratio, Span};

const MS: u64 = 1_000_000;

fn span(text: &str) -> Span {
    text.parse().unwrap()
}

/// 100 bytes each 10 ms, then modified; frames of 114 B fill one block.
fn spec(change: impl FnOnce(&mut GrantSpec)) -> GrantSpec {
    let mut spec = GrantSpec::always(span("10 ms"), Bytes::new(100));
    change(&mut spec);
    assert_eq!(spec.check(), Ok(()));
    spec
}

fn asking(change: impl FnOnce(&mut GrantSpec)) -> Grant {
    Grant::new(spec(|spec| {
        spec.cycle = Some(span("35 ms"));
        change(spec);
    }))
}

#[test]
fn a_saturated_sender_has_block_times_efficiency_each_tti() {
    let mut edge = Grant::new(spec(|spec| {
        spec.tti = span("20 ms");
        spec.transport_block = Bytes::new(148);
        spec.efficiency = Ratio::from_fraction(0.9).unwrap();
        spec.overhead = Bytes::new(11);
        spec.cycle = Some(span("157 ms"));
        spec.initial = Some(Bytes::new(176));
    }));
    let frames = 10_000;
    let first = edge.send(1_514, at(0));
    let last = (1..frames).map(|_| edge.send(1_514, at(0))).last().unwrap();
    // 1500 B and 11 B per frame, 133.2 B per block; the end may waste one block.
    let bytes = (frames - 1) as f64 * 1_511.0;
    let expected = bytes / (148.0 * 0.9) * 20.0;
    let took = (last - first).as_ns() as f64 / 1e6;
    assert!((took - expected).abs() <= 20.0, "{took} ms, not {expected}");
}

#[test]
fn an_always_granted_sender_waits_for_the_next_block_only() {
    let mut link = Grant::new(spec(|_| ()));
    assert_eq!(link.send(114, at(0)), at(10 * MS));
    assert_eq!(link.send(114, at(10 * MS)), at(20 * MS));
    assert_eq!(link.send(114, at(20 * MS + 1)), at(40 * MS));
    assert_eq!(link.send(115, at(50 * MS)), at(70 * MS));
}

#[test]
fn frames_share_a_block_if_they_are_there_when_it_begins() {
    let mut link = Grant::new(spec(|_| ()));
    let ends: Vec<_> = (0..4).map(|_| link.send(54, at(5 * MS))).collect();
    assert_eq!(ends, [20 * MS, 20 * MS, 30 * MS, 30 * MS].map(at));
    // The last block has 40 B left, but began before this frame.
    assert_eq!(link.send(54, at(25 * MS)), at(40 * MS));
    assert_eq!(link.send(54, at(30 * MS)), at(40 * MS));
}

#[test]
fn the_first_frame_after_idling_takes_cycle_and_block() {
    let mut link = asking(|_| ());
    // Granted at 35 ms, sent in the block from 40 ms.
    assert_eq!(link.send(114, at(0)), at(50 * MS));
    // Without hold the grant ends with the block: requested at 51 ms, granted at 86, sent
    // from 90 ms.
    assert_eq!(link.send(114, at(51 * MS)), at(100 * MS));
    // More frames may arrive while it waits.
    let mut link = asking(|_| ());
    assert_eq!([link.send(64, at(0)), link.send(64, at(30 * MS))], [50 * MS, 50 * MS].map(at));
}

#[test]
fn within_hold_there_is_no_new_cycle() {
    for (comes, arrives) in [(50, 60), (61, 80), (150, 160), (151, 200)] {
        let mut link = asking(|spec| spec.hold = Some(span("100 ms")));
        assert_eq!(link.send(114, at(0)), at(50 * MS));
        assert_eq!(link.send(114, at(comes * MS)), at(arrives * MS), "comes at {comes} ms");
    }
}

#[test]
fn what_exceeds_the_first_grant_waits_for_a_second() {
    let mut link = asking(|spec| {
        spec.initial = Some(Bytes::new(150));
        spec.hold = Some(span("100 ms"));
    });
    // Granted at 35 ms and again at 70; 400 B in blocks from then on.
    assert_eq!(link.send(414, at(0)), at(110 * MS));
    assert_eq!(link.send(64, at(111 * MS)), at(130 * MS));
    // After hold it starts again, and 150 B need no second grant.
    assert_eq!(link.send(164, at(1_000 * MS)), at(1_060 * MS));
    // The grant is then unlimited.
    assert_eq!(link.send(1_014, at(1_060 * MS)), at(1_160 * MS));
}

#[test]
fn a_frame_behind_a_used_up_first_grant_waits_for_the_second() {
    let link = || {
        let mut link = asking(|spec| spec.initial = Some(Bytes::new(100)));
        assert_eq!(link.send(114, at(0)), at(50 * MS));
        link
    };
    // Queued before the first grant: the second comes at 70 ms.
    assert_eq!(link().send(54, at(20 * MS)), at(80 * MS));
    // Queued during the first grant: requested then.
    assert_eq!(link().send(54, at(45 * MS)), at(90 * MS));
    // A later frame does not overtake, even if it would fit.
    let mut link = asking(|spec| spec.initial = Some(Bytes::new(100)));
    assert_eq!([link.send(214, at(0)), link.send(24, at(0))], [90 * MS, 100 * MS].map(at));
}

#[test]
fn a_second_grant_that_comes_while_the_first_is_used_makes_no_gap() {
    let mut link = asking(|spec| spec.initial = Some(Bytes::new(1_000)));
    // 950 B in ten blocks from 40 ms; the second grant came at 70.
    assert_eq!(link.send(964, at(0)), at(140 * MS));
    assert_eq!(link.send(114, at(0)), at(150 * MS));
}

#[test]
fn requests_wait_for_their_opportunity() {
    let link = || {
        Grant::new(spec(|spec| {
            spec.tti = span("1 ms");
            spec.request_period = Some(span("20 ms"));
            spec.delay = Some(span("8 ms"));
            spec.initial = Some(Bytes::new(40));
        }))
    };
    assert_eq!(link().send(54, at(MS)), at(29 * MS));
    assert_eq!(link().send(54, at(20 * MS)), at(29 * MS));
    // The second grant comes 8 ms after the first.
    assert_eq!(link().send(55, at(MS)), at(37 * MS));
}

#[test]
fn an_offset_moves_the_blocks() {
    let mut link = Grant::new(spec(|spec| spec.offset = span("3 ms")));
    let ends = [0, 3, 13, 24].map(|ms| link.send(114, at(ms * MS)).as_ns() / MS);
    assert_eq!(ends, [13, 23, 33, 43]);
}

#[test]
fn order_is_kept_and_no_block_carries_too_much() {
    use units::{Draw, Purpose};
    let draw = Draw::new(3, 0, 0);
    let mut link = asking(|spec| {
        spec.initial = Some(Bytes::new(150));
        spec.hold = Some(span("40 ms"));
        spec.overhead = Bytes::new(3);
    });
    let (mut now, mut ends) = (0, Vec::new());
    for i in 0..20_000 {
        now += (draw.uniform(Purpose::Jitter, i).powi(8) * 3e8) as u64;
        let len = 20 + (draw.uniform(Purpose::Loss, i) * 200.0) as usize;
        ends.push((link.send(len, at(now)), now, len));
    }
    assert!(ends.is_sorted_by_key(|(end, ..)| *end));
    assert!(
        ends.iter().all(|(end, now, _)| *end >= at(now + 10 * MS) && end.as_ns() % (10 * MS) == 0)
    );
    // All frames that end within a window of blocks fit into it, except for the part of the
    // first frame sent before.
    let bytes = |(_, _, len): &(Instant, u64, usize)| (len - 14 + 3) as u64;
    for window in ends.windows(20) {
        let blocks = (window[19].0 - window[0].0).as_ns() / (10 * MS) + 1;
        let sum: u64 = window[1..].iter().map(bytes).sum();
        assert!(sum <= blocks * 100, "{window:?}");
    }
}

#[test]
fn nonsense_is_refused_with_what_to_write() {
    let wrong = |change: fn(&mut GrantSpec)| {
        let mut spec = GrantSpec::always(span("20 ms"), Bytes::new(148));
        change(&mut spec);
        spec.check().unwrap_err()
    };
    assert_eq!(
        wrong(|spec| spec.tti = Span::ZERO),
        "a `tti` of zero sends no blocks; write for example `tti: 20 ms`"
    );
    assert!(wrong(|spec| spec.transport_block = Bytes::new(0)).contains("148 B"));
    assert!(wrong(|spec| spec.efficiency = Ratio::default()).contains("`efficiency` of 0 %"));
    assert!(wrong(|spec| spec.offset = span("20 ms")).contains("use less than `tti`"));
    assert!(wrong(|spec| spec.cycle = Some(Span::ZERO)).contains("remove it"));
    assert!(wrong(|spec| spec.request_period = Some(Span::ZERO)).contains("remove it"));
    let both = wrong(|spec| (spec.cycle, spec.delay) = (Some(span("1 s")), Some(span("1 ms"))));
    assert!(both.contains("use one or the other"));
    assert!(wrong(|spec| spec.hold = Some(span("1 s"))).starts_with("`hold` needs a sender"));
    assert!(wrong(|spec| spec.initial = Some(Bytes::new(9))).contains("remove `initial`"));
    let zero = wrong(|spec| (spec.cycle, spec.initial) = (Some(span("1 s")), Some(Bytes::new(0))));
    assert!(zero.contains("`initial: 176 B`"));
}

#[test]
fn no_spec_and_no_length_panics() {
    let mut unchecked = GrantSpec::always(Span::ZERO, Bytes::new(0));
    unchecked.cycle = Some(Span::from_ns(u64::MAX));
    let mut link = Grant::new(unchecked);
    for len in [0, 1, usize::MAX] {
        assert_eq!(link.send(len, at(5)), at(u64::MAX));
    }
    let mut link = Grant::new(spec(|_| ()));
    assert_eq!(link.send(usize::MAX, at(0)), at(u64::MAX));
}
