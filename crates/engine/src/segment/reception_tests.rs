//! Radio channels on which not all endpoints hear each other.

use super::*;
use crate::test_times::instant;
use link::{Channel, CsmaSpec, NodePosition, PairLoss, PathLoss, Reception};
use units::{Distance, Draw, Ratio};

const MS: u64 = 1_000_000;

/// A frame of 127 B with its number; ports select the flow.
fn frame(from: u8, to: [u8; 6], port: u16, number: u16) -> Vec<u8> {
    let mut frame = Vec::new();
    etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, from], to)
        .ipv4([10, 0, 0, from], [10, 0, 0, to[5]], 64)
        .udp(1, port)
        .write(&mut frame, &[&number.to_be_bytes()[..], &[0; 83]].concat())
        .unwrap();
    frame
}

fn to(number: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, number]
}

/// A channel of endpoints with these losses between them, in percent.
fn radio(endpoints: u8, losses: &[(usize, usize, &str)], spec: CsmaSpec, up: &str) -> Segment {
    let row = |(from, to, loss): &(usize, usize, &str)| PairLoss {
        from: *from,
        to: *to,
        loss: loss.parse::<Ratio>().unwrap(),
    };
    let rows: Vec<_> = losses.iter().map(row).collect();
    let end = |number| Endpoint {
        up: serde_json::from_str(up).unwrap(),
        mac: Some(to(number)),
        ..Endpoint::default()
    };
    Segment::new(&SegmentSpec {
        channel: Channel::Csma(spec),
        reception: Some(Reception::by_table(usize::from(endpoints), &rows)),
        endpoints: (0..endpoints).map(end).collect(),
        impaired: true,
        ..SegmentSpec::switch(11)
    })
}

fn unacknowledged() -> CsmaSpec {
    CsmaSpec { acknowledge: false, ..CsmaSpec::default() }
}

/// Receiver, destination port and number of each delivered frame.
fn drain(segment: &mut Segment) -> Vec<(usize, u16, u16)> {
    let mut all = Vec::new();
    while let Some(next) = segment.next() {
        while let Some(delivery) = segment.due(next) {
            let bytes = delivery.bytes();
            let at = |place: usize| u16::from_be_bytes([bytes[place], bytes[place + 1]]);
            all.push((delivery.endpoint, at(36), at(42)));
        }
    }
    all
}

#[test]
fn a_frame_out_of_range_is_repeated_and_counts_as_weak_signal_only() {
    let mut radio = radio(3, &[(0, 1, "0 %")], CsmaSpec::default(), "{}");
    radio.send(0, &frame(0, to(2), 80, 0), instant(0));
    radio.send(0, &frame(0, to(1), 80, 1), instant(0));
    assert_eq!(drain(&mut radio), [(1, 80, 1)]);
    let [up, _] = radio.totals()[0];
    assert_eq!((up.weak_signal, up.lost, up.denied, up.retried, up.passed), (1, 0, 0, 3, 1));
}

#[test]
fn a_frame_for_all_reaches_those_in_range_and_is_missed_at_the_others() {
    let mut radio = radio(4, &[(0, 1, "0 %"), (0, 3, "0 %")], CsmaSpec::default(), "{}");
    radio.send(0, &frame(0, [0xff; 6], 80, 0), instant(0));
    assert_eq!(drain(&mut radio), [(1, 80, 0), (3, 80, 0)]);
    let totals = radio.totals();
    assert_eq!((totals[0][0].weak_signal, totals[0][0].passed), (0, 1));
    let down = |end: usize| (totals[end][1].weak_signal, totals[end][1].passed);
    assert_eq!([down(1), down(2), down(3)], [(0, 1), (1, 0), (0, 1)]);
    // No station hears this one: the frame ends at its sender.
    radio.send(2, &frame(2, [0xff; 6], 80, 1), instant(100 * MS));
    assert!(drain(&mut radio).is_empty());
    assert_eq!(radio.totals()[2][0].weak_signal, 1);
}

#[test]
fn weak_signals_and_the_configured_loss_are_counted_apart() {
    const FRAMES: u64 = 20_000;
    let up = r#"{"loss": "10 %"}"#;
    let mut radio = radio(2, &[(0, 1, "30 %")], unacknowledged(), up);
    for number in 0..FRAMES {
        radio.send(0, &frame(0, to(1), 80, number as u16), instant(number * 20 * MS));
        while radio.due(instant(number * 20 * MS)).is_some() {}
    }
    drain(&mut radio);
    let [up, _] = radio.totals()[0];
    assert_eq!(up.weak_signal + up.lost + up.passed, FRAMES);
    // Four standard deviations of 20,000 and of 14,000 frames.
    let weak = up.weak_signal as f64 / FRAMES as f64;
    assert!((weak - 0.3).abs() < 0.013, "{weak}");
    let lost = up.lost as f64 / up.at_risk() as f64;
    assert!((lost - 0.1).abs() < 0.0102, "{lost}");
}

#[test]
fn the_fate_of_a_frame_does_not_depend_on_other_flows_and_receivers_differ() {
    const FRAMES: u16 = 500;
    let losses = [(0, 1, "40 %"), (0, 2, "40 %")];
    let received = |mixed: bool| {
        let mut radio = radio(3, &losses, unacknowledged(), "{}");
        for number in 0..FRAMES {
            let now = u64::from(number) * 100 * MS;
            radio.send(0, &frame(0, [0xff; 6], 80, number), instant(now));
            if mixed {
                radio.send(0, &frame(0, to(1), 81, number), instant(now));
            }
        }
        let mut all = drain(&mut radio);
        all.retain(|(_, port, _)| *port == 80);
        all
    };
    let alone = received(false);
    assert_eq!(received(true), alone);
    let of = |end: usize| -> Vec<u16> {
        alone.iter().filter(|(to, ..)| *to == end).map(|(.., number)| *number).collect()
    };
    // 60 % of 500, with four standard deviations; both receive 36 %.
    let both = of(1).iter().filter(|number| of(2).contains(number)).count();
    assert!((257..=343).contains(&of(1).len()) && (257..=343).contains(&of(2).len()));
    assert!((137..=223).contains(&both), "{both}");
}

#[test]
fn hidden_senders_collide_and_the_others_do_not() {
    for (hear, least, most) in [(false, 40, 40), (true, 0, 8)] {
        let mut losses = vec![(0, 2, "0 %"), (1, 2, "0 %")];
        losses.extend(hear.then_some((0, 1, "0 %")));
        let mut radio = radio(3, &losses, unacknowledged(), "{}");
        for number in 0..20 {
            let now = u64::from(number) * 50 * MS;
            radio.send(0, &frame(0, to(2), 80, number), instant(now));
            // Within the backoffs, or while the first frame is on the air.
            radio.send(1, &frame(1, to(2), 80, number), instant(now + 2 * MS));
        }
        let received = drain(&mut radio).len() as u64;
        let totals = radio.totals();
        let denied = totals[0][0].denied + totals[1][0].denied;
        assert_eq!((denied + received, totals[0][0].weak_signal), (40, 0));
        assert!((least..=most).contains(&denied), "{hear}: {denied}");
    }
}

#[test]
fn an_endpoint_without_a_place_hears_no_other() {
    let mut radio = radio(2, &[(0, 1, "0 %")], CsmaSpec::default(), "{}");
    let end = Endpoint { mac: Some(to(2)), ..Endpoint::default() };
    assert_eq!(radio.attach(end, instant(0)), 2);
    radio.send(2, &frame(2, to(0), 80, 0), instant(MS));
    radio.send(0, &frame(0, [0xff; 6], 80, 1), instant(MS));
    assert_eq!(drain(&mut radio), [(1, 80, 1)]);
    assert_eq!(radio.totals()[2][0].weak_signal, 1);
}

#[test]
fn a_duplicate_has_a_separate_fate() {
    const FRAMES: u16 = 2_000;
    let mut radio = radio(2, &[(0, 1, "50 %")], unacknowledged(), r#"{"duplicate": "100 %"}"#);
    for number in 0..FRAMES {
        radio.send(0, &frame(0, to(1), 80, number), instant(u64::from(number) * 50 * MS));
    }
    let mut copies = [0u32; 3];
    let received = drain(&mut radio);
    for number in 0..FRAMES {
        copies[received.iter().filter(|(.., found)| *found == number).count()] += 1;
    }
    // None, one, or both of two independent copies: 1/4, 1/2, 1/4, with four standard deviations.
    assert!((422..=578).contains(&copies[0]) && (422..=578).contains(&copies[2]), "{copies:?}");
}

#[test]
fn frames_without_access_are_counted_apart_from_collided_ones() {
    // Without backoff and with one CCA. The second frame begins 2 ms after the first, of 4.352 ms.
    let spec = CsmaSpec { min_be: 0, max_backoffs: 0, ..unacknowledged() };
    let both = [(0, 2, "0 %"), (1, 2, "0 %")];
    for (hear_each_other, expected) in [(true, [(0, 0), (1, 1)]), (false, [(1, 0), (1, 0)])] {
        let all: Vec<_> =
            both.iter().copied().chain(hear_each_other.then_some((0, 1, "0 %"))).collect();
        let mut radio = radio(3, &all, spec.clone(), "{}");
        radio.send(0, &frame(0, to(2), 80, 0), instant(0));
        radio.send(1, &frame(1, to(2), 80, 1), instant(2 * MS));
        drain(&mut radio);
        let totals = radio.totals();
        let counts = [0, 1].map(|link| (totals[link][0].denied, totals[link][0].no_access));
        assert_eq!(counts, expected, "{hear_each_other}");
    }
}

#[test]
fn a_node_that_joins_is_at_the_place_of_its_original() {
    for by_table in [false, true] {
        let rows = [PairLoss { from: 0, to: 1, loss: Ratio::default() }];
        let metres =
            |x| NodePosition { x: Distance::from_metres(x).unwrap(), ..Default::default() };
        let places = [metres(0.0), metres(20.0), metres(500.0)];
        let reception = match by_table {
            true => Reception::by_table(3, &rows),
            false => Reception::by_distance(&PathLoss::default(), &places, Draw::new(1, 0, 0)),
        };
        let end = |number| Endpoint { mac: Some(to(number)), ..Endpoint::default() };
        let receivers = |radio: &mut Segment| -> Vec<usize> {
            drain(radio).into_iter().map(|(end, ..)| end).collect()
        };
        let mut radio = Segment::new(&SegmentSpec {
            channel: Channel::Csma(CsmaSpec::default()),
            reception: Some(reception),
            endpoints: (0..3).map(end).collect(),
            impaired: true,
            ..SegmentSpec::switch(11)
        });
        // During a transmission, which they hear from then on.
        radio.send(0, &frame(0, to(1), 80, 0), instant(0));
        let at = |place| Endpoint { place, ..end(3) };
        assert_eq!(radio.attach(at(Some(1)), instant(3_500_000)), 3);
        assert_eq!(radio.attach(Endpoint { place: None, ..end(4) }, instant(3_500_000)), 4);
        assert_eq!(receivers(&mut radio), [1]);
        radio.send(3, &frame(3, to(0), 80, 0), instant(50_000_000));
        assert_eq!(receivers(&mut radio), [0], "{by_table}");
        radio.send(0, &frame(0, to(3), 80, 0), instant(100_000_000));
        assert_eq!(receivers(&mut radio), [3]);
        radio.send(1, &frame(1, to(3), 80, 0), instant(150_000_000));
        assert_eq!(receivers(&mut radio), [3]);
        // Neither the far one nor one without a place hears it.
        radio.send(3, &frame(3, to(2), 80, 0), instant(200_000_000));
        radio.send(3, &frame(3, to(4), 80, 0), instant(250_000_000));
        assert!(receivers(&mut radio).is_empty());
        assert_eq!(radio.totals()[3][0].weak_signal, 2);
    }
}
