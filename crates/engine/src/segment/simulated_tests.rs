//! Channels that carry the frames of simulated radios.

use super::*;
use crate::test_times::instant;
use link::{Carried, CsmaSpec};

const MS: u64 = 1_000_000;
/// Extended addresses of eight equal bytes, at each endpoint.
const ADDRESSES: [u8; 4] = [0xa0, 0xa1, 0xa2, 0xa3];

/// The Ethernet frame of OpenThread's simulation from `endpoint` with the radio's frame `radio`.
fn datagram(endpoint: usize, radio: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    let number = endpoint as u8;
    etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, number], [1, 0, 0x5e, 0, 0, 0x74])
        .ipv4([10, 0, 0, number], [224, 0, 0, 116], 1)
        .udp(9001, 9000)
        .write(&mut frame, &[&[11], radio].concat())
        .unwrap();
    frame
}

/// A frame from the extended address of endpoint `from` to that of `to`, which is to acknowledge it.
fn unicast(from: usize, to: usize, sequence: u8) -> Vec<u8> {
    let [to, source] = [to, from].map(|endpoint| [ADDRESSES[endpoint]; 8]);
    datagram(from, &[&[0x61, 0xdc, sequence, 0x34, 0x12][..], &to, &source, &[0; 9]].concat())
}

/// A frame from the extended address of endpoint `from` to the short address of all.
fn broadcast(from: usize) -> Vec<u8> {
    let source = [ADDRESSES[from]; 8];
    datagram(from, &[&[0x41, 0xd8, 1, 0x34, 0x12, 0xff, 0xff][..], &source, &[0; 9]].concat())
}

#[test]
fn a_filter_delivers_frames_only_where_they_may_concern_a_device() {
    for address_filter in [false, true] {
        let end = |number| Endpoint { mac: Some([2, 0, 0, 0, 0, number]), ..Endpoint::default() };
        let spec = CsmaSpec { carries: Carried::Openthread, address_filter, ..CsmaSpec::default() };
        let mut radio = Segment::new(&SegmentSpec {
            channel: Channel::Csma(spec),
            endpoints: (0..4).map(end).collect(),
            impaired: true,
            ..SegmentSpec::switch(11)
        });
        let mut now = 0;
        let mut receivers = |from: usize, frame: &[u8]| {
            now += 100 * MS;
            radio.send(from, frame, instant(now));
            let mut receivers = Vec::new();
            while let Some(next) = radio.next() {
                while let Some(delivery) = radio.due(next) {
                    receivers.push(delivery.endpoint);
                }
            }
            receivers
        };
        // Whose address it is becomes known when the device has sent from it.
        assert_eq!(receivers(0, &unicast(0, 1, 7)), [1, 2, 3]);
        assert_eq!(receivers(2, &broadcast(2)), [0, 1, 3]);
        assert_eq!(receivers(1, &broadcast(1)), [0, 2, 3]);
        let [addressed, waiting] = match address_filter {
            false => [vec![1, 2, 3], vec![0, 2, 3]],
            true => [vec![1], vec![0]],
        };
        assert_eq!(receivers(0, &unicast(0, 1, 8)), addressed);
        assert_eq!(receivers(1, &datagram(1, &[2, 0, 8, 0, 0])), waiting);
        assert_eq!(receivers(0, &broadcast(0)), [1, 2, 3]);
    }
}

/// Sends radio frames of 127 B of endpoint 0, each with a time, a frame control field and a sequence number.
/// Returns when those with the number 7 arrive at endpoint 1, in us, and how many its uplink dropped.
fn arrivals(frames: &[(u64, u8, u8)]) -> (Vec<u64>, u64) {
    let end = |number| Endpoint { mac: Some([2, 0, 0, 0, 0, number]), ..Endpoint::default() };
    // Without backoff, a frame takes 128 + 192 + 4,256 us, and 640 us follow.
    let spec = CsmaSpec { carries: Carried::Openthread, min_be: 0, ..CsmaSpec::default() };
    let mut radio = Segment::new(&SegmentSpec {
        channel: Channel::Csma(spec),
        endpoints: (0..2).map(end).collect(),
        impaired: true,
        ..SegmentSpec::switch(11)
    });
    let mut times = Vec::new();
    let mut until = |radio: &mut Segment, end: Instant| {
        while let Some(next) = radio.next().filter(|next| *next <= end) {
            while let Some(delivery) = radio.due(next) {
                // Headers of Ethernet, IPv4 and UDP, the channel, then the frame control field.
                if delivery.bytes()[14 + 20 + 8 + 1 + 2] == 7 {
                    times.push(delivery.intended.as_ns() / 1_000);
                }
            }
        }
    };
    for (at, control, sequence) in frames {
        until(&mut radio, instant(*at));
        let frame = [&[*control, 0x88, *sequence][..], &[0; 124]].concat();
        radio.send(0, &datagram(0, &frame), instant(*at));
    }
    until(&mut radio, Instant::NEVER);
    (times, radio.totals()[0][0].overflow)
}

/// OpenThread's simulation waits 16 ms for an acknowledgement from when it passes a frame on, contention
/// included.
#[test]
fn a_frame_that_waits_is_not_sent_again() {
    const FOR_ALL: u8 = 0x41;
    const REQUESTS: u8 = 0x61;
    let before: Vec<_> = (0..4).map(|sequence| (0, FOR_ALL, sequence)).collect();
    let fifth = 5 * (128 + 192 + 4_256) + 4 * 640;
    let with = |more: &[(u64, u8, u8)]| arrivals(&[&before, more].concat());
    assert_eq!(with(&[(0, REQUESTS, 7)]), (vec![fifth], 0));
    // While it waits, and while it is on the air.
    let again = [(0, REQUESTS, 7), (16 * MS, REQUESTS, 7), (22 * MS, REQUESTS, 7)];
    assert_eq!(with(&again), (vec![fifth], 2));
    // Its acknowledgement was lost.
    let (times, dropped) = with(&[(0, REQUESTS, 7), (40 * MS, REQUESTS, 7)]);
    assert_eq!((times.len(), dropped), (2, 0));
    // Frames that request no acknowledgement, or that differ.
    assert_eq!(with(&[(0, FOR_ALL, 7), (MS, FOR_ALL, 7)]).0.len(), 2);
    assert_eq!(with(&[(0, REQUESTS, 8), (MS, REQUESTS, 7)]).0.len(), 1);
}
