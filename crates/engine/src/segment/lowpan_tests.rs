//! Channels that carry IPv6 packets in 6LoWPAN.

use super::*;
use crate::test_times::{instant, span};
use etherparse::PacketBuilder;
use link::{Carried, Channel, CsmaSpec, MacAddresses, PairLoss, Reception};

const MS: u64 = 1_000_000;

/// A UDP datagram of `length` B from fd00::FROM, with its number; `to` is fd00::TO, or ff02::1.
fn frame(from: u8, to: Option<u8>, number: u16, length: usize) -> Vec<u8> {
    let address = |number: u8| [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number];
    let all = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let mac = to.map_or([0x33, 0x33, 0, 0, 0, 1], mac);
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(self::mac(from), mac)
        .ipv6(address(from), to.map_or(all, address), 64)
        .udp(40_000, 5_683)
        .write(&mut frame, &[&number.to_be_bytes()[..], &vec![0; length - 2]].concat())
        .unwrap();
    frame
}

fn mac(number: u8) -> [u8; 6] {
    [2, 0x80, 0x11, 0, 0, number]
}

fn lowpan() -> CsmaSpec {
    CsmaSpec { carries: Carried::Lowpan, ..CsmaSpec::default() }
}

fn radio(spec: CsmaSpec, reception: Option<Reception>, up: &str) -> Segment {
    let end = |number| Endpoint {
        up: serde_json::from_str(up).unwrap(),
        mac: Some(mac(number)),
        ..Endpoint::default()
    };
    Segment::new(&SegmentSpec {
        channel: Channel::Csma(spec),
        reception,
        endpoints: (0..3).map(end).collect(),
        impaired: true,
        ..SegmentSpec::switch(11)
    })
}

/// Receiver, number and time of each delivered packet.
fn drain(segment: &mut Segment) -> Vec<(usize, u16, Span)> {
    let mut all = Vec::new();
    while let Some(next) = segment.next() {
        while let Some(delivery) = segment.due(next) {
            let bytes = delivery.bytes();
            let number = u16::from_be_bytes([bytes[62], bytes[63]]);
            all.push((delivery.endpoint, number, delivery.intended - delivery.arrived));
        }
    }
    all
}

#[test]
fn a_packet_takes_the_time_of_all_its_fragments() {
    // 1,280 B: 13 frames of 124 B and one of 52 B with extended addresses, 12 of 120 B and one of 40 B
    // with short ones (see the tests of `link::mac_frames`), 6 B more on the air, 32 us per byte.
    for (addresses, frames, bytes) in
        [(MacAddresses::Extended, 14, 13 * 130 + 58), (MacAddresses::Short, 13, 12 * 126 + 46)]
    {
        let spec = CsmaSpec { mac_addresses: addresses, ..lowpan() };
        let mut radio = radio(spec, None, "{}");
        radio.send(0, &frame(0, Some(1), 7, 1_232), instant(0));
        let delivered = drain(&mut radio);
        let airtime = 32 * bytes;
        // Each frame: CCA and turnaround; between frames, turnaround, acknowledgement and space.
        let least = airtime + frames * (128 + 192) + (frames - 1) * (192 + 352 + 640);
        let backoffs = delivered[0].2.as_ns() / 1_000 - least;
        assert!(backoffs.is_multiple_of(320) && backoffs <= frames * 7 * 320, "{backoffs}");
        assert_eq!((delivered.len(), delivered[0].0, delivered[0].1), (1, 1, 7));
        let [up, _] = radio.totals()[0];
        assert_eq!((up.passed, up.busy), (1, span((airtime + frames * 352) * 1_000)));
    }
}

#[test]
fn the_loss_of_one_fragment_loses_the_packet() {
    const PACKETS: u64 = 5_000;
    // Two fragments, each lost once in ten times.
    let spec = CsmaSpec { acknowledge: false, ..lowpan() };
    let mut radio = radio(spec, None, r#"{"loss": "10 %"}"#);
    let mut numbers = Vec::new();
    for number in 0..PACKETS {
        radio.send(0, &frame(0, Some(1), number as u16, 100), instant(number * 100 * MS));
        while let Some(delivery) = radio.due(instant(number * 100 * MS)) {
            numbers.push(delivery.endpoint);
        }
    }
    let delivered = numbers.len() + drain(&mut radio).len();
    let share = delivered as f64 / PACKETS as f64;
    // Four standard deviations.
    assert!((share - 0.81).abs() < 0.0222, "{share}");
    let [up, _] = radio.totals()[0];
    assert_eq!((up.passed, up.lost), (delivered as u64, PACKETS - delivered as u64));
}

#[test]
fn a_sender_that_knows_of_a_lost_fragment_sends_no_other() {
    // 124 B and 72 B, with 6 B more on the air.
    let [first, second] = [130 * 32_000, 78 * 32_000];
    for (acknowledge, expected) in [(true, 4 * first), (false, first + second)] {
        let spec = CsmaSpec { acknowledge, ..lowpan() };
        let mut radio = radio(spec, None, r#"{"loss": "100 %"}"#);
        radio.send(0, &frame(0, Some(1), 7, 100), instant(0));
        assert!(drain(&mut radio).is_empty());
        let [up, _] = radio.totals()[0];
        assert_eq!((up.busy, up.lost, up.denied), (span(expected), 1, 0), "{acknowledge}");
    }
}

#[test]
fn a_group_packet_arrives_where_all_its_fragments_do() {
    const PACKETS: u16 = 2_000;
    let row = |to, loss: &str| PairLoss { from: 0, to, loss: loss.parse().unwrap() };
    let reception = Reception::by_table(3, &[row(1, "30 %"), row(2, "0 %")]);
    let mut radio = radio(lowpan(), Some(reception), "{}");
    let mut numbers = [0u64; 3];
    for number in 0..PACKETS {
        radio.send(0, &frame(0, None, number, 100), instant(u64::from(number) * 100 * MS));
        for (receiver, ..) in drain(&mut radio) {
            numbers[receiver] += 1;
        }
    }
    assert_eq!((numbers[0], numbers[2]), (0, u64::from(PACKETS)));
    let share = numbers[1] as f64 / f64::from(PACKETS);
    // 0.7 times 0.7, with four standard deviations.
    assert!((share - 0.49).abs() < 0.045, "{share}");
    let [_, down] = radio.totals()[1];
    assert_eq!(down.weak_signal, u64::from(PACKETS) - numbers[1]);
}

#[test]
fn other_frames_than_those_of_ipv6_are_refused() {
    let mut radio = radio(lowpan(), None, "{}");
    let mut ipv4 = Vec::new();
    PacketBuilder::ethernet2(mac(0), mac(1))
        .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
        .udp(1, 2)
        .write(&mut ipv4, &[0; 60])
        .unwrap();
    radio.send(0, &ipv4, instant(0));
    // An IPv6 header that promises more than there is.
    radio.send(0, &frame(0, Some(1), 7, 100)[..90], instant(0));
    assert!(drain(&mut radio).is_empty());
    let [up, _] = radio.totals()[0];
    assert_eq!((up.rejected, up.frames, up.busy), (2, 0, Span::ZERO));
}
