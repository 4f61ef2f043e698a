//! Radio channels of LoRa devices.

use super::*;
use crate::test_times::instant;
use link::{AlohaSpec, LoraPathLoss, LoraSpec, NodePosition, Reception};
use units::{Distance, Draw};

const MS: u64 = 1_000_000;

/// A frame of 64 B from this endpoint to the gateway, endpoint 0, or to all.
fn frame(from: u8, number: u16) -> Vec<u8> {
    let mut frame = Vec::new();
    etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, from], [2, 0, 0, 0, 0, 0])
        .ipv4([10, 0, 0, from], [10, 0, 0, 0], 64)
        .udp(1, 80)
        .write(&mut frame, &[&number.to_be_bytes()[..], &[0; 20]].concat())
        .unwrap();
    frame
}

/// A gateway and devices of SF7, at these distances from it in m; without any, all are equally strong.
fn lora(channels: u32, devices: u8, metres: &[f64], up: &str) -> Segment {
    let place =
        |x: &f64| NodePosition { x: Distance::from_metres(*x).unwrap(), ..Default::default() };
    let path_loss = LoraPathLoss::default();
    let places: Vec<_> = [0.0].iter().chain(metres).map(place).collect();
    let end = |number: u8| Endpoint {
        up: serde_json::from_str(if number == 0 { "{}" } else { up }).unwrap(),
        mac: Some([2, 0, 0, 0, 0, number]),
        ..Endpoint::default()
    };
    Segment::new(&SegmentSpec {
        channel: Channel::Aloha(AlohaSpec { channels, path_loss: None }),
        reception: (!metres.is_empty())
            .then(|| Reception::by_distance(&path_loss.into(), &places, Draw::new(1, 0, 0))),
        endpoints: (0..=devices).map(end).collect(),
        impaired: true,
        ..SegmentSpec::switch(11)
    })
}

const SF7: &str = r#"{"lora": {"spreading_factor": 7}, "overhead": "-29 B"}"#;

/// Times and receivers of the delivered frames.
fn drain(segment: &mut Segment) -> Vec<(Instant, usize)> {
    let mut all = Vec::new();
    while let Some(next) = segment.next() {
        while let Some(delivery) = segment.due(next) {
            all.push((delivery.intended, delivery.endpoint));
        }
    }
    all
}

/// Received, collided and too weak frames of the uplink of an endpoint.
fn counts(segment: &Segment, endpoint: usize) -> (u64, u64, u64) {
    let up = segment.totals()[endpoint][0];
    (up.passed, up.denied, up.weak_signal)
}

#[test]
fn frames_that_overlap_collide_and_a_lone_one_takes_its_time_on_air() {
    let mut segment = lora(1, 2, &[], SF7);
    segment.send(1, &frame(1, 0), instant(0));
    segment.send(2, &frame(2, 0), instant(10 * MS));
    assert!(drain(&mut segment).is_empty());
    segment.send(1, &frame(1, 1), instant(1_000 * MS));
    let on_air = LoraSpec::at(7).time_on_air(64 - 29);
    assert_eq!(drain(&mut segment), [(instant(1_000 * MS) + on_air, 0)]);
    assert_eq!([counts(&segment, 1), counts(&segment, 2)], [(1, 1, 0), (0, 1, 0)]);
    // It was on the air also when it collided.
    assert_eq!(segment.totals()[1][0].busy, 2 * on_air);
}

#[test]
fn a_device_does_not_collide_with_itself_and_a_gateway_is_not_on_the_channel() {
    let mut segment = lora(1, 2, &[], SF7);
    for number in 0..3 {
        segment.send(1, &frame(1, number), instant(0));
    }
    let mut down = frame(0, 9);
    down[..6].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
    segment.send(0, &down, instant(1));
    let delivered = drain(&mut segment);
    let on_air = LoraSpec::at(7).time_on_air(64 - 29);
    assert_eq!(delivered[0].0, instant(1));
    let times: Vec<_> = delivered.iter().filter(|(_, end)| *end == 0).map(|(at, _)| *at).collect();
    assert_eq!(times, [1, 2, 3].map(|number| instant(0) + number * on_air));
}

#[test]
fn a_near_device_survives_and_one_out_of_range_is_weak() {
    let mut segment = lora(1, 3, &[100.0, 200.0, 9_000.0], SF7);
    (1..=3).for_each(|device| segment.send(device, &frame(device as u8, 0), instant(0)));
    drain(&mut segment);
    let found = [1, 2, 3].map(|device| counts(&segment, device));
    assert_eq!(found, [(1, 0, 0), (0, 1, 0), (0, 0, 1)]);
}

#[test]
fn channels_are_drawn_for_each_frame_and_do_not_depend_on_other_flows() {
    // 400 pairs of frames at the same time on three channels: a third of them collides.
    let run = |third: bool| {
        let mut segment = lora(3, 3, &[], SF7);
        for number in 0..400 {
            let now = instant(u64::from(number) * 1_000 * MS);
            (1..=2).for_each(|device| segment.send(device, &frame(device as u8, number), now));
            // Another device, between them.
            if third {
                segment.send(3, &frame(3, number), now + Span::from_ms(500));
            }
        }
        drain(&mut segment);
        counts(&segment, 1)
    };
    let (passed, denied, weak) = run(false);
    assert_eq!((passed + denied, weak), (400, 0));
    // Four standard deviations.
    assert!((i64::try_from(denied).unwrap() - 133).abs() < 38, "{denied}");
    assert_eq!(run(true), (passed, denied, weak));
}

#[test]
fn a_device_that_joins_shares_the_channel() {
    let mut segment = lora(1, 1, &[], SF7);
    let end = Endpoint {
        up: serde_json::from_str(SF7).unwrap(),
        mac: Some([2, 0, 0, 0, 0, 2]),
        ..Endpoint::default()
    };
    assert_eq!(segment.attach(end, instant(0)), 2);
    segment.send(1, &frame(1, 0), instant(1));
    segment.send(2, &frame(2, 0), instant(2));
    drain(&mut segment);
    assert_eq!([counts(&segment, 1), counts(&segment, 2)], [(0, 1, 0), (0, 1, 0)]);
}

#[test]
fn class_a_devices_collide_too() {
    let class_a =
        r#"{"states": [{"name": "a", "service": "full", "reach": {"after_uplink": ["1 s"]}}]}"#;
    let mut spec = SegmentSpec {
        channel: Channel::Aloha(AlohaSpec { channels: 1, path_loss: None }),
        impaired: true,
        ..SegmentSpec::switch(11)
    };
    for number in 0..3 {
        let is_device = number > 0;
        spec.endpoints.push(Endpoint {
            up: serde_json::from_str(if is_device { SF7 } else { "{}" }).unwrap(),
            mac: Some([2, 0, 0, 0, 0, number]),
            states: is_device.then(|| serde_json::from_str(class_a).unwrap()),
            ..Endpoint::default()
        });
    }
    let mut segment = Segment::new(&spec);
    segment.send(1, &frame(1, 0), instant(0));
    segment.send(2, &frame(2, 0), instant(0));
    // Each waits for its window before it sends again.
    segment.send(1, &frame(1, 1), instant(10 * MS));
    assert_eq!(drain(&mut segment).len(), 1);
    assert_eq!([counts(&segment, 1), counts(&segment, 2)], [(1, 1, 0), (0, 1, 0)]);
}
