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
