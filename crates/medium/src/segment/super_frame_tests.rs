//! Super-frames get the same treatment as the frames that a kernel would cut them into.

use super::*;
use crate::bulk::split::tests::{SEGMENT, build};
use crate::{Endpoint, GrantSpec, Outage, Slot, StatesSpec};
use units::{Bytes, Rate};

const MS: Instant = 1_000_000;

/// TCP from node 0 to node 1.
fn uncut(payload: usize) -> Segments {
    let (header, mut frame) = build(false, payload);
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0]);
    Segments::new(header, &frame).unwrap()
}

/// A small frame in the reverse direction.
fn answer() -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 0][..], &[2, 0, 0, 0, 0, 1], &[8, 0], &[0; 52]].concat()
}

/// Results of a segment: deliveries frame by frame, drops, decisions and totals; and the
/// number of deliveries.
type Did =
    (Vec<(usize, Instant, Instant, Vec<u8>)>, Vec<Drop>, Vec<Decided>, Vec<[Totals; 2]>, usize);

/// Sends super-frames of many sizes and answers over a segment, segmented or not.
fn did(spec: &SegmentSpec, cut: bool) -> Did {
    let mut segment = Segment::new(spec);
    segment.impair(0);
    let (mut deliveries, mut count) = (Vec::new(), 0);
    let mut take = |segment: &mut Segment, now| {
        while let Some(delivery) = segment.due(now) {
            count += 1;
            segment.delivered(delivery.endpoint, delivery.frame.count(), 7);
            let Delivery { endpoint, arrived, intended, .. } = delivery;
            let mut push = |bytes| deliveries.push((endpoint, intended, arrived, bytes));
            match delivery.frame {
                Frame::Whole(frame) => push(frame.to_vec()),
                Frame::Segments(segments) => segments.each().for_each(|one| push(one.first())),
            }
        }
    };
    segment.send(1, &answer(), 0);
    for i in 0..100 {
        let now = 10 * MS + i * MS / 2;
        take(&mut segment, now);
        let segments = uncut((1 + i as usize * 7 % 44) * SEGMENT + 1 + i as usize);
        match cut {
            true => segments.each().for_each(|one| segment.send(0, &one.first(), now)),
            false => segment.send_segments(0, segments, now),
        }
        segment.send(1, &answer(), now);
    }
    while let Some(next) = segment.next() {
        take(&mut segment, next);
    }
    let (drops, decided) = (segment.drops().collect(), segment.decided().collect());
    (deliveries, drops, decided, segment.totals(), count)
}

/// Compares both variants and returns the number of deliveries of each.
#[track_caller]
fn agree(name: &str, channel: Channel, change: impl Fn(&mut Endpoint)) -> [usize; 2] {
    let mut link = Endpoint::default();
    change(&mut link);
    let endpoints = vec![link, Endpoint::default(), Endpoint::default()];
    let spec = SegmentSpec { channel, endpoints, ..SegmentSpec::switch(11) };
    let [cut, uncut] = [true, false].map(|cut| did(&spec, cut));
    assert!(cut.0.len() > 150, "{name}: {} deliveries", cut.0.len());
    for (place, (cut, uncut)) in cut.0.iter().zip(&uncut.0).enumerate() {
        assert_eq!(cut, uncut, "{name}: delivery {place}");
    }
    assert_eq!((cut.0.len(), &cut.1), (uncut.0.len(), &uncut.1), "{name}");
    assert_eq!((cut.2, cut.3), (uncut.2, uncut.3), "{name}");
    [cut.4, uncut.4]
}

fn up(name: &str, change: impl Fn(&mut Impairment)) -> [usize; 2] {
    agree(name, Channel::Switch, |link| change(&mut link.up))
}

fn set(name: &str, value: &str) -> [usize; 2] {
    let config: Impairment = serde_json::from_str(value).unwrap();
    up(name, |link| *link = config.clone())
}

#[test]
fn where_nothing_is_asked_all_go_as_one() {
    let [cut, uncut] = set("nothing", "{}");
    assert_eq!(uncut, 202, "100 super-frames, 101 answers, one of them to two");
    assert!(cut > 2_000);
    assert_eq!(set("delay", "{\"delay\": \"30 ms\"}")[1], 202);
}

#[test]
fn each_segment_has_a_loss_of_its_own() {
    let [cut, uncut] = set("loss", "{\"loss\": \"1 %\"}");
    assert!(uncut > 205 && uncut < cut / 5, "{uncut} of {cut}");
    set("much", "{\"loss\": \"30 %\", \"delay\": \"3 ms\"}");
    set("correlated", "{\"loss\": \"10 %\", \"loss_correlation\": \"50 %\"}");
    set("trains", "{\"loss\": \"10 %\", \"loss_unit\": \"train\"}");
    set("datagrams", "{\"loss\": \"10 %\", \"loss_unit\": \"datagram\"}");
    set(
        "bursts",
        "{\"gilbert_elliott\": {\"p\": \"2 %\", \"r\": \"25 %\", \"1-h\": \"90 %\", \"1-k\": \"0 %\"}}",
    );
}

#[test]
fn delays_copies_and_flipped_bits_are_those_of_frames() {
    set("jitter", "{\"delay\": \"30 ms\", \"jitter\": \"5 ms\"}");
    set("in order", "{\"delay\": \"30 ms\", \"jitter\": \"5 ms\", \"keep_order\": true}");
    set("corrupt", "{\"corrupt\": \"3 %\"}");
    set("duplicate", "{\"duplicate\": \"3 %\", \"loss\": \"3 %\"}");
    set("reorder", "{\"delay\": \"10 ms\", \"reorder\": \"5 %\", \"gap\": 3}");
    let wave = Outage::Scheduled {
        at: "20 ms".parse().unwrap(),
        lasts: "5 ms".parse().unwrap(),
        every: Some("15 ms".parse().unwrap()),
    };
    up("outage", |link| link.outage = crate::Outages(vec![wave]));
}

#[test]
fn rates_and_queues_see_each_segment() {
    set("rate", "{\"rate\": \"1 Gbit/s\", \"loss\": \"1 %\"}");
    set("queue", "{\"rate\": \"200 Mbit/s\", \"queue\": 50}");
    set("bytes", "{\"rate\": \"200 Mbit/s\", \"queue\": \"64 kB\"}");
    let codel = "{\"rate\": \"300 Mbit/s\", \"codel\": {}, \"burst\": \"9 kB\"}";
    set("codel", codel);
    up("slots", |link| {
        link.slot.0 = Some(Slot {
            min: "2 ms".parse().unwrap(),
            max: "4 ms".parse().unwrap(),
            packets: Some(30),
            bytes: None,
        });
    });
    up("grant", |link| {
        let grant = GrantSpec::always("1 ms".parse().unwrap(), Bytes::new(40_000));
        link.transmission = crate::Scheduler::Grant(grant).into();
    });
    let rate = Rate::from_bit_s(500_000_000).unwrap();
    agree("shared", Channel::Shared(rate), |link| link.up.loss = "1 %".parse::<units::Ratio>().unwrap().into());
    agree("cell", Channel::Cell { up: rate, down: rate }, |_| ());
    agree("radio", Channel::Switch, |link| {
        let span = |text: &str| text.parse().unwrap();
        link.states = Some(StatesSpec::idle_connected(span("2 ms"), span("10 s")));
    });
}

#[test]
fn what_is_under_way_is_bounded_to_the_segment() {
    let mut link = Endpoint::default();
    link.up.delay.mean = "10 s".parse().unwrap();
    let endpoints = vec![link, Endpoint::default()];
    let spec = SegmentSpec { endpoints, impaired: true, ..SegmentSpec::switch(7) };
    let [cut, uncut] = [true, false].map(|cut| {
        let mut segment = Segment::new(&spec);
        let segments = uncut(44 * SEGMENT);
        let frames: Vec<_> = segments.each().map(|one| one.first()).collect();
        for now in 0..1_100 {
            match cut {
                true => frames.iter().for_each(|frame| segment.send(0, frame, now)),
                false => segment.send_segments(0, segments.clone(), now),
            }
        }
        (segment.waiting(), segment.totals()[0][0])
    });
    assert_eq!(cut, uncut);
    assert!(cut.1.overflow > 0 && cut.0 > 44_000, "{cut:?}");
}

#[test]
fn segments_that_are_not_of_the_link_are_rejected() {
    let mut spec = SegmentSpec::switch(1);
    spec.endpoints = vec![Endpoint::default(); 2];
    spec.endpoints[0].mac = Some([2, 0, 0, 0, 0, 0]);
    spec.endpoints[1].mac = Some([2, 0, 0, 0, 0, 1]);
    (spec.impaired, spec.longest) = (true, Some(1514));
    let mut segment = Segment::new(&spec);
    segment.send_segments(0, uncut(3 * SEGMENT), 5);
    assert_eq!(segment.due(5).map(|delivery| delivery.frame.count()), Some(3));
    segment.send_segments(1, uncut(3 * SEGMENT), 6);
    segment.reject(1, 7);
    spec.longest = Some(1500);
    assert_eq!((segment.totals()[1][0].rejected, segment.drops().count()), (4, 4));
    let mut narrow = Segment::new(&spec);
    narrow.send_segments(0, uncut(3 * SEGMENT), 5);
    assert_eq!((narrow.totals()[0][0].rejected, narrow.waiting()), (3, 0));
}
