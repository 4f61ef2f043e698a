//! Wi-Fi channels.

use super::*;
use crate::test_times::instant;
use link::WifiSpec;
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;

/// A frame with this payload in UDP.
fn frame(from: u8, to: u8, number: u16, payload: usize) -> Vec<u8> {
    let mut frame = Vec::new();
    let group = if to == 255 { 1 } else { 0 };
    etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, from], [2 | group, 0, 0, 0, 0, to])
        .ipv4([10, 0, 0, from], [10, 0, 0, to], 64)
        .udp(1, 80)
        .write(&mut frame, &[&number.to_be_bytes()[..], &vec![0; payload - 2]].concat())
        .unwrap();
    frame
}

fn wifi(spec: WifiSpec, endpoints: u8, up: &str) -> Segment {
    let end = |number: u8| Endpoint {
        up: serde_json::from_str(up).unwrap(),
        mac: Some([2, 0, 0, 0, 0, number]),
        ..Endpoint::default()
    };
    Segment::new(&SegmentSpec {
        channel: Channel::Wifi(spec),
        endpoints: (0..endpoints).map(end).collect(),
        impaired: true,
        ..SegmentSpec::switch(11)
    })
}

/// Time, receiver, sender and number of the frames delivered by `until`.
fn drain(segment: &mut Segment, until: Instant) -> Vec<(Instant, usize, u8, u16)> {
    let mut all = Vec::new();
    while let Some(next) = segment.next().filter(|next| *next <= until) {
        while let Some(delivery) = segment.due(next) {
            let bytes = delivery.bytes();
            let number = u16::from_be_bytes([bytes[42], bytes[43]]);
            all.push((delivery.intended, delivery.endpoint, bytes[11], number));
        }
    }
    all
}

/// Frames per second of each sender, of 1 to `senders`, that has always enough to send to endpoint 0.
fn saturate(spec: WifiSpec, senders: u8) -> Vec<f64> {
    const MILLISECONDS: u64 = 2_000;
    let mut segment = wifi(spec, senders + 1, r#"{"queue": 200}"#);
    let mut received: BTreeMap<u8, u64> = BTreeMap::new();
    let mut number = 0;
    for ms in 0..MILLISECONDS {
        for sender in 1..=senders {
            for _ in 0..8 {
                segment.send(
                    usize::from(sender),
                    &frame(sender, 0, number, 1_472),
                    instant(ms * MS),
                );
                number = number.wrapping_add(1);
            }
        }
        for (_, _, from, _) in drain(&mut segment, instant((ms + 1) * MS)) {
            *received.entry(from).or_default() += 1;
        }
    }
    received.values().map(|frames| *frames as f64 / (MILLISECONDS as f64 / 1e3)).collect()
}

#[test]
fn a_lone_sender_has_the_throughput_of_full_aggregates() {
    let [rate] = saturate(WifiSpec::default(), 1)[..] else { panic!() };
    let mbit_s = rate * 1_472.0 * 8.0 / 1e6;
    // ns-3, wifi-aggregation.cc, expects 58.5 to 59.5 Mbit/s with aggregates of 65,535 B; and 30 to 31
    // without, for 802.11n in 5 GHz at 65 Mbit/s.
    assert!((58.5..60.5).contains(&mbit_s), "{mbit_s}");
    let [rate] = saturate(WifiSpec { aggregate: 1, ..WifiSpec::default() }, 1)[..] else {
        panic!()
    };
    let mbit_s = rate * 1_472.0 * 8.0 / 1e6;
    assert!((29.5..31.5).contains(&mbit_s), "{mbit_s}");
}

#[test]
fn senders_share_the_channel_and_collide() {
    let rates = saturate(WifiSpec::default(), 5);
    assert_eq!(rates.len(), 5);
    let mean = rates.iter().sum::<f64>() / 5.0;
    // Full aggregates of five stations: a fifth of the channel less its collisions.
    assert!((700.0..1_000.0).contains(&mean), "{rates:?}");
    // 370 transmissions in all: the one that has just sent has the smallest window.
    assert!(rates.iter().all(|rate| (0.5..1.8).contains(&(rate / mean))), "{rates:?}");
}

#[test]
fn lost_frames_are_sent_again_and_keep_their_order() {
    let mut segment = wifi(WifiSpec::default(), 3, r#"{"loss": "20 %"}"#);
    // Two receivers, in turn.
    for number in 0..600 {
        segment.send(0, &frame(0, 1 + (number % 2) as u8, number, 200), instant(0));
    }
    let delivered = drain(&mut segment, Instant::NEVER);
    for receiver in [1, 2] {
        let own = delivered.iter().filter(|(_, to, ..)| *to == receiver);
        let numbers: Vec<u16> = own.map(|(.., number)| *number).collect();
        assert!(numbers.is_sorted(), "{numbers:?}");
        // 0.2 to the eighth is one in 400,000.
        assert_eq!(numbers.len(), 300);
    }
    let [up, _] = segment.totals()[0];
    assert!((100..200).contains(&up.retried), "{}", up.retried);
    assert_eq!((up.lost, up.denied), (0, 0));
}

#[test]
fn without_retransmissions_what_is_lost_stays_lost() {
    let spec = WifiSpec { retries: 0, ..WifiSpec::default() };
    let mut segment = wifi(spec, 2, r#"{"loss": "20 %"}"#);
    (0..900).for_each(|number| segment.send(0, &frame(0, 1, number, 200), instant(0)));
    let delivered = drain(&mut segment, Instant::NEVER).len();
    assert!((670..770).contains(&delivered), "{delivered}");
    assert_eq!(segment.totals()[0][0].lost, 900 - delivered as u64);
}

#[test]
fn a_multicast_is_sent_once_and_collides_without_a_repetition() {
    let mut segment = wifi(WifiSpec::default(), 3, "{}");
    segment.send(0, &frame(0, 255, 0, 100), instant(0));
    segment.send(1, &frame(1, 255, 1, 100), instant(0));
    let delivered = drain(&mut segment, Instant::NEVER);
    // Both begin in the same slot, or the second one after the first.
    let denied: u64 = segment.totals().iter().map(|[up, _]| up.denied).sum();
    assert_eq!(delivered.len() as u64 / 2 + denied, 2);
    assert_eq!(segment.totals().iter().map(|[up, _]| up.retried).sum::<u64>(), 0);
}

#[test]
fn a_frame_on_an_idle_channel_takes_its_time_and_a_long_queue_drops() {
    let mut segment = wifi(WifiSpec::default(), 2, r#"{"queue": 10}"#);
    segment.send(0, &frame(0, 1, 0, 1_472), instant(MS));
    let [(at, ..)] = drain(&mut segment, Instant::NEVER)[..] else { panic!() };
    let took = (at - instant(MS)).as_ns() / 1_000;
    // Up to one slot, a preamble of 36 us, and 1,544 B in 48 symbols of 4 us.
    assert!((36 + 192..=36 + 192 + 9).contains(&took), "{took}");
    // The first of the frames outside the queue counts in it, as one in transmission does elsewhere.
    (0..200).for_each(|number| segment.send(0, &frame(0, 1, number, 1_472), instant(10 * MS)));
    assert_eq!(drain(&mut segment, Instant::NEVER).len(), 64 + 9);
    assert_eq!(segment.totals()[0][0].overflow, 200 - 73);
}
