//! Radios that are switched off.

use super::*;
use crate::test_times::instant;
use link::{CsmaSpec, PairLoss, Reception, WifiSpec};
use units::Ratio;

const MS: u64 = 1_000_000;

fn frame(from: u8, to: u8) -> Vec<u8> {
    let mut frame = Vec::new();
    let target = if to == 255 { [0xff; 6] } else { [2, 0, 0, 0, 0, to] };
    etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, from], target)
        .ipv4([10, 0, 0, from], [10, 0, 0, to], 64)
        .udp(1, 80)
        .write(&mut frame, &[0; 85])
        .unwrap();
    frame
}

/// Three endpoints on this channel; `by_table`: as if a table had no losses between them.
fn segment(channel: Channel, by_table: bool) -> Segment {
    let end = |number| Endpoint { mac: Some([2, 0, 0, 0, 0, number]), ..Endpoint::default() };
    let pairs = [(0, 1), (0, 2), (1, 2)];
    let rows = pairs.map(|(from, to)| PairLoss { from, to, loss: Ratio::default() });
    Segment::new(&SegmentSpec {
        channel,
        reception: by_table.then(|| Reception::by_table(3, &rows)),
        endpoints: (0..3).map(end).collect(),
        impaired: true,
        ..SegmentSpec::switch(11)
    })
}

fn radio(by_table: bool) -> Segment {
    segment(Channel::Csma(CsmaSpec::default()), by_table)
}

fn power(segment: &mut Segment, endpoint: usize, is_on: bool, at: Instant) {
    segment.change(Change::Power { endpoint, is_on }, at);
}

/// The receivers of all frames in flight.
fn drain(segment: &mut Segment) -> Vec<usize> {
    let mut all = Vec::new();
    while let Some(next) = segment.next() {
        while let Some(delivery) = segment.due(next) {
            all.push(delivery.endpoint);
        }
    }
    all
}

#[test]
fn a_radio_that_is_off_neither_receives_nor_acknowledges() {
    for by_table in [false, true] {
        let mut radio = radio(by_table);
        power(&mut radio, 1, false, instant(0));
        radio.send(0, &frame(0, 1), instant(MS));
        assert!(drain(&mut radio).is_empty());
        let [up, _] = radio.totals()[0];
        assert_eq!((up.retried, up.outage, up.lost, up.denied), (3, 1, 0, 0), "{by_table}");
        assert_eq!(up.weak_signal, 0);
        // One to all reaches the other.
        radio.send(0, &frame(0, 255), instant(100 * MS));
        assert_eq!(drain(&mut radio), [2]);
        let totals = radio.totals();
        assert_eq!((totals[1][1].outage, totals[2][1].outage), (1, 0));
        // It heard nothing.
        assert_eq!(totals[1][0].radio_receiving, Span::ZERO);
        assert!(totals[2][0].radio_receiving > Span::from_ms(15));
        power(&mut radio, 1, true, instant(200 * MS));
        radio.send(0, &frame(0, 1), instant(200 * MS));
        assert_eq!(drain(&mut radio), [1]);
        let heard = radio.totals()[1][0].radio_receiving;
        assert!(heard > Span::from_ms(4) && heard < Span::from_ms(5), "{heard:?}");
    }
}

#[test]
fn a_radio_that_is_off_sends_nothing_and_disturbs_none() {
    for by_table in [false, true] {
        let mut radio = radio(by_table);
        power(&mut radio, 1, false, instant(0));
        (0..5).for_each(|_| radio.send(1, &frame(1, 0), instant(MS)));
        radio.send(2, &frame(2, 0), instant(MS));
        assert_eq!(drain(&mut radio), [0]);
        let [off, other] = [1, 2].map(|end| radio.totals()[end][0]);
        assert_eq!((off.outage, off.busy, off.radio_sending), (5, Span::ZERO, Span::ZERO));
        assert_eq!((other.denied, other.retried), (0, 0));
    }
}

#[test]
fn a_transmission_ends_with_the_power_of_its_sender_and_of_its_receiver() {
    for (endpoint, by_table) in [(0, false), (0, true), (1, true)] {
        let mut radio = radio(by_table);
        radio.send(0, &frame(0, 1), instant(0));
        // Within the frame, whatever the backoff: it takes 4.3 ms, and the backoff at most 2.5 ms.
        power(&mut radio, endpoint, false, instant(3_500_000));
        assert!(drain(&mut radio).is_empty(), "{endpoint}, {by_table}");
        assert_eq!(radio.totals()[0][0].outage, 1);
    }
}

#[test]
fn power_has_no_effect_on_a_switch() {
    let mut switch = segment(Channel::Switch, false);
    power(&mut switch, 1, false, instant(0));
    switch.send(0, &frame(0, 1), instant(1));
    switch.send(1, &frame(1, 0), instant(1));
    assert_eq!(drain(&mut switch).len(), 2);
}

fn wifi() -> Segment {
    segment(Channel::Wifi(WifiSpec::default()), false)
}

#[test]
fn wi_fi_to_a_radio_that_is_off_is_repeated_and_sent_to_others() {
    let mut radio = wifi();
    power(&mut radio, 1, false, instant(0));
    radio.send(0, &frame(0, 1), instant(MS));
    radio.send(0, &frame(0, 2), instant(MS));
    radio.send(0, &frame(0, 255), instant(MS));
    assert_eq!(drain(&mut radio), [2, 2]);
    let totals = radio.totals();
    let [up, _] = totals[0];
    assert_eq!((up.retried, up.outage, up.lost, up.denied), (7, 1, 0, 0));
    assert_eq!((totals[1][1].outage, totals[1][0].radio_receiving), (1, Span::ZERO));
    assert!(totals[2][0].radio_receiving > Span::from_us(300));
    power(&mut radio, 1, true, instant(200 * MS));
    radio.send(0, &frame(0, 1), instant(200 * MS));
    assert_eq!(drain(&mut radio), [1]);
}

#[test]
fn a_wi_fi_aggregate_in_flight_is_lost_with_the_power_of_either_end() {
    // The frames are one aggregate, on the air for 808 us after a backoff of at most 178 us.
    const AGGREGATE: u64 = 500_000;
    for (endpoint, is_on_again, received) in
        [(0, false, 0), (0, true, 1), (1, false, 0), (1, true, 41)]
    {
        let mut radio = wifi();
        (0..40).for_each(|_| radio.send(0, &frame(0, 1), instant(0)));
        power(&mut radio, endpoint, false, instant(AGGREGATE));
        if is_on_again {
            power(&mut radio, endpoint, true, instant(AGGREGATE + 1_000));
            radio.send(0, &frame(0, 1), instant(AGGREGATE + 2_000));
        }
        radio.send(2, &frame(2, 0), instant(10 * MS));
        let arrived = drain(&mut radio);
        let at = |end| arrived.iter().filter(|own| **own == end).count();
        assert_eq!(at(1), received, "{endpoint} {is_on_again}");
        let [up, _] = radio.totals()[0];
        // The sender forgets its queue, the receiver none of the sender's.
        let lost = if endpoint == 0 || !is_on_again { 40 } else { 0 };
        assert_eq!((up.outage, up.passed), (lost, received as u64), "{endpoint} {is_on_again}");
        // The third station goes on: it sends to endpoint 0, if that is on.
        assert_eq!(at(0), usize::from(is_on_again || endpoint == 1), "{endpoint} {is_on_again}");
    }
}

#[test]
fn what_waits_at_a_node_that_goes_off_is_lost_also_if_it_comes_on_again() {
    let channels = [Channel::Csma(CsmaSpec::default()), Channel::Wifi(WifiSpec::default())];
    for channel in channels {
        let mut radio = segment(channel, false);
        (0..20).for_each(|_| radio.send(1, &frame(1, 0), instant(0)));
        power(&mut radio, 1, false, instant(10_000));
        power(&mut radio, 1, true, instant(20_000));
        (0..3).for_each(|_| radio.send(1, &frame(1, 0), instant(30_000)));
        assert_eq!(drain(&mut radio), [0, 0, 0]);
        let [up, _] = radio.totals()[1];
        assert_eq!((up.frames, up.passed, up.outage), (23, 3, 20));
    }
}

#[test]
fn what_waits_for_a_rate_before_the_channel_is_lost_too() {
    let slow = |number| Endpoint {
        up: serde_json::from_str(r#"{"rate": "100 kbit/s"}"#).unwrap(),
        mac: Some([2, 0, 0, 0, 0, number]),
        ..Endpoint::default()
    };
    let mut radio = Segment::new(&SegmentSpec {
        channel: Channel::Wifi(WifiSpec::default()),
        endpoints: (0..2).map(slow).collect(),
        impaired: true,
        ..SegmentSpec::switch(11)
    });
    // Each takes 10.16 ms.
    (0..5).for_each(|_| radio.send(1, &frame(1, 0), instant(0)));
    let late = |radio: &mut Segment| {
        let mut all = Vec::new();
        while let Some(next) = radio.next() {
            while let Some(delivery) = radio.due(next) {
                all.push(delivery.intended.as_ns() / MS);
            }
        }
        all
    };
    power(&mut radio, 1, false, instant(15 * MS));
    power(&mut radio, 1, true, instant(16 * MS));
    // They wait for each other, not for those before: in time also for the turn that these had asked for.
    (0..3).for_each(|_| radio.send(1, &frame(1, 0), instant(17 * MS)));
    assert_eq!(late(&mut radio), [10, 27, 37, 47]);
    let [up, _] = radio.totals()[1];
    assert_eq!((up.frames, up.passed, up.outage), (8, 4, 4));
}
