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
        channel: Channel::Aloha(AlohaSpec { channels, ..AlohaSpec::default() }),
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
    // With distance, at the place of its original: near, and out of range.
    let mut segment = lora(1, 2, &[100.0, 9_000.0], SF7);
    for (place, expected) in [(Some(1), (1, 0, 0)), (Some(2), (0, 0, 1)), (None, (0, 0, 1))] {
        let end = Endpoint {
            up: serde_json::from_str(SF7).unwrap(),
            mac: Some([2, 0, 0, 0, 0, segment.endpoints() as u8]),
            place,
            ..Endpoint::default()
        };
        let now = instant(segment.endpoints() as u64 * 1_000 * MS);
        let own = segment.attach(end, now);
        segment.send(own, &frame(own as u8, 0), now);
        drain(&mut segment);
        assert_eq!(counts(&segment, own), expected, "{place:?}");
    }
}

#[test]
fn class_a_devices_collide_too() {
    let class_a =
        r#"{"states": [{"name": "a", "service": "full", "reach": {"after_uplink": ["1 s"]}}]}"#;
    let mut spec = SegmentSpec {
        channel: Channel::Aloha(AlohaSpec { channels: 1, ..AlohaSpec::default() }),
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

/// Gateways, endpoints 0 and 1, and devices of class A that have a window 1 s after each packet.
fn class_a(gateways: u8, devices: u8) -> Segment {
    const CLASS_A: &str =
        r#"{"states": [{"name": "a", "service": "full", "reach": {"after_uplink": ["1 s"]}}]}"#;
    let end = |number: u8| {
        let is_device = number >= gateways;
        let keys = if is_device { SF7 } else { "{}" };
        Endpoint {
            up: serde_json::from_str(keys).unwrap(),
            down: serde_json::from_str(keys).unwrap(),
            mac: Some([2, 0, 0, 0, 0, number]),
            states: is_device.then(|| serde_json::from_str(CLASS_A).unwrap()),
            ..Endpoint::default()
        }
    };
    Segment::new(&SegmentSpec {
        channel: Channel::Aloha(AlohaSpec { channels: 96, ..AlohaSpec::default() }),
        endpoints: (0..gateways + devices).map(end).collect(),
        impaired: true,
        ..SegmentSpec::switch(11)
    })
}

/// A frame to this endpoint.
fn frame_to(from: u8, to: u8) -> Vec<u8> {
    let mut frame = frame(from, 0);
    frame[5] = to;
    frame
}

/// Changes the power of an endpoint at a time in ms.
fn power(segment: &mut Segment, endpoint: usize, is_on: bool, ms: u64) {
    segment.change(Change::Power { endpoint, is_on }, instant(ms * MS));
}

#[test]
fn a_gateway_receives_nothing_while_it_sends_and_another_one_does() {
    // The window of the first device is at 1 s + 61.7 ms, of which the downlink takes 61.7 ms.
    for (gateways, received) in [(1, 1), (2, 2)] {
        let mut segment = class_a(gateways, 2);
        let devices = [gateways, gateways + 1];
        segment.send(devices[0].into(), &frame_to(devices[0], 0), instant(0));
        segment.send(0, &frame_to(0, devices[0]), instant(100 * MS));
        segment.send(devices[1].into(), &frame_to(devices[1], 0), instant(1_100 * MS));
        let delivered = drain(&mut segment);
        let at = |end: usize| delivered.iter().filter(|(_, to)| *to == end).count();
        assert_eq!((at(0), at(devices[0].into())), (received, 1), "{delivered:?}");
        let [up, _] = segment.totals()[usize::from(devices[1])];
        assert_eq!((up.denied, up.half_duplex), (2 - received as u64, 2 - received as u64));
    }
}

#[test]
fn a_gateway_receives_eight_packets_at_once() {
    let mut segment = lora(96, 30, &[], SF7);
    (1..=30).for_each(|device| segment.send(device.into(), &frame(device, 0), instant(0)));
    assert!(drain(&mut segment).len() <= 8);
    let sum = |count: fn(&Totals) -> u64| segment.totals().iter().map(|own| count(&own[0])).sum();
    let (missed, denied, passed): (u64, u64, u64) =
        (sum(|own| own.no_demodulator), sum(|own| own.denied), sum(|own| own.passed));
    // Of those with a demodulator some collide.
    assert_eq!((missed, denied + passed), (22, 30));
}

#[test]
fn the_power_of_a_device_and_of_its_gateway_decide_about_its_packets() {
    // A packet is on the air for 61.7 ms, from 10 ms on.
    for endpoint in [0, 1] {
        for (off, on, arrives) in
            [(1, None, false), (30, None, false), (30, Some(40), false), (1, Some(5), true)]
        {
            let mut segment = lora(1, 2, &[], SF7);
            let mut changes = vec![(off, false)];
            changes.extend(on.map(|on| (on, true)));
            let change = |segment: &mut Segment, when: fn(u64) -> bool| {
                let now = changes.iter().filter(|(at, _)| when(*at));
                now.for_each(|(at, is_on)| power(segment, endpoint, *is_on, *at));
            };
            change(&mut segment, |at| at < 10);
            segment.send(1, &frame(1, 0), instant(10 * MS));
            change(&mut segment, |at| at > 10);
            // What a device that is off has sent does not disturb the other one.
            segment.send(2, &frame(2, 0), instant(50 * MS));
            let received = drain(&mut segment).len();
            let what = format!("{endpoint}, off at {off}, on at {on:?}");
            let outage = segment.totals()[1][0].outage;
            match (endpoint, arrives) {
                (_, true) => assert_eq!((received, outage), (0, 0), "{what}: both collide"),
                (0, false) => assert_eq!((received, outage), (0, 1), "{what}"),
                (_, false) => assert_eq!((received, outage), (1, 1), "{what}"),
            }
        }
    }
}

#[test]
fn what_waits_for_the_duty_cycle_is_lost_with_the_power_and_the_radio_begins_anew() {
    let slow = r#"{"lora": {"spreading_factor": 7, "duty_cycle": "1 %"}, "overhead": "-29 B"}"#;
    let on_air = LoraSpec::at(7).time_on_air(64 - 29);
    let mut segment = lora(1, 1, &[], slow);
    (0..4).for_each(|number| segment.send(1, &frame(1, number), instant(0)));
    power(&mut segment, 1, false, 1_000);
    power(&mut segment, 1, true, 2_000);
    segment.send(1, &frame(1, 9), instant(3_000 * MS));
    let times: Vec<_> = drain(&mut segment).into_iter().map(|own| own.0).collect();
    assert_eq!(times, [instant(0) + on_air, instant(3_000 * MS) + on_air]);
    let [up, _] = segment.totals()[1];
    assert_eq!((up.passed, up.outage), (2, 3));
}

#[test]
fn a_window_of_a_device_or_gateway_that_is_off_is_lost_and_the_next_one_is_not() {
    // The uplink ends at 61.7 ms, the window is 1 s later, and the downlink takes 61.7 ms.
    for (endpoint, off, on, arrives) in [
        (1, 500, None, false),
        (1, 500, Some(900), true),
        (1, 1_100, None, false),
        (1, 1_100, Some(1_105), false),
        (0, 500, None, false),
        (0, 1_100, None, false),
        // It was in the gateway's queue.
        (0, 500, Some(900), false),
        (0, 1_200, None, true),
    ] {
        let mut segment = class_a(1, 1);
        segment.send(1, &frame_to(1, 0), instant(0));
        segment.send(0, &frame_to(0, 1), instant(100 * MS));
        power(&mut segment, endpoint, false, off);
        on.iter().for_each(|on| power(&mut segment, endpoint, true, *on));
        let delivered: Vec<_> = drain(&mut segment).into_iter().map(|own| own.1).collect();
        let expected = if arrives { 1 } else { 0 };
        let at_device = delivered.iter().filter(|end| **end == 1).count();
        assert_eq!(at_device, expected, "{endpoint} {off} {on:?}: {delivered:?}");
        let [_, down] = segment.totals()[1];
        assert_eq!((down.passed, down.outage), (expected as u64, 1 - expected as u64));
        assert_eq!(segment.waiting(), 0);
    }
}

#[test]
fn frames_between_devices_go_through_a_gateway_that_is_on() {
    for (off, arrives) in [(&[][..], true), (&[0][..], true), (&[0, 1][..], false)] {
        let mut segment = class_a(2, 2);
        segment.send(3, &frame_to(3, 0), instant(0));
        segment.send(2, &frame_to(2, 3), instant(200 * MS));
        off.iter().for_each(|gateway| power(&mut segment, *gateway, false, 400));
        let delivered = drain(&mut segment);
        let at_device = delivered.iter().filter(|(_, end)| *end == 3).count();
        assert_eq!(at_device, usize::from(arrives), "{off:?}");
    }
}
