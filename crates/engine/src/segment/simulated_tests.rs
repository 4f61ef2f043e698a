//! Channels that carry the frames of simulated radios.

use super::*;
use crate::test_times::instant;
use link::{Carried, Channel, CsmaSpec};

const MS: u64 = 1_000_000;

/// A frame of OpenThread's simulation from endpoint `from`: on the air 127 B with this frame control
/// field and sequence number.
fn datagram(from: u8, control: u8, sequence: u8) -> Vec<u8> {
    let mut frame = Vec::new();
    let radio = [&[11, control, 0x88, sequence][..], &[0; 124]].concat();
    etherparse::PacketBuilder::ethernet2([2, 0, 0, 0, 0, from], [1, 0, 0x5e, 0, 0, 0x74])
        .ipv4([10, 0, 0, from], [224, 0, 0, 116], 1)
        .udp(9001, 9000)
        .write(&mut frame, &radio)
        .unwrap();
    frame
}

/// Sends frames of endpoint 0 at their times; returns when those with the sequence number 7 arrive at
/// endpoint 1, and the frames that its uplink dropped.
fn arrivals(frames: &[(u64, u8, u8)]) -> (Vec<u64>, u64) {
    let end = |number| Endpoint { mac: Some([2, 0, 0, 0, 0, number]), ..Endpoint::default() };
    // Without backoff: a frame of 127 B takes 128 + 192 + 4,256 us, and 640 us follow.
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
                if delivery.bytes()[45] == 7 {
                    times.push(delivery.intended.as_ns() / 1_000);
                }
            }
        }
    };
    for (at, control, sequence) in frames {
        until(&mut radio, instant(*at));
        radio.send(0, &datagram(0, *control, *sequence), instant(*at));
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
    // Two frames, of which none requests an acknowledgement, or which differ.
    assert_eq!(with(&[(0, FOR_ALL, 7), (MS, FOR_ALL, 7)]).0.len(), 2);
    assert_eq!(with(&[(0, REQUESTS, 8), (MS, REQUESTS, 7)]).0.len(), 1);
}
