//! What the Ethernet frames on a radio channel are on the air.

use crate::lowpan::{self, Compression, FrameNumbers};
use serde::{Deserialize, Serialize};

/// Ports of OpenThread's simulation: one for each of its networks on a host, from this one on.
const OPENTHREAD_PORTS: std::ops::Range<u16> = 9000..9100;
/// Port of the ZigBee Encapsulation Protocol (ZEP).
const ZEP_PORT: u16 = 17754;
/// Length of ZEP's header, version 2, of data.
const ZEP_HEADER: usize = 32;
/// Frame type of an acknowledgement in the frame control field (IEEE 802.15.4-2011, table 2).
const ACKNOWLEDGEMENT: u8 = 2;
/// Bit of the frame control field that requests an acknowledgement (the same, figure 36).
const REQUEST: u8 = 1 << 5;

/// What a channel carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Carried {
    /// Ethernet frames, whose header takes the place of the radio's.
    #[default]
    Ethernet,
    /// Frames of OpenThread's simulated radios: UDP to 224.0.0.116 or ff02::116, a byte with the channel,
    /// the radio's frame.
    Openthread,
    /// Frames in the ZigBee Encapsulation Protocol, as RIOT's `socket_zep` sends them.
    Zep,
    /// IPv6 packets in frames of IEEE 802.15.4, with compressed headers and fragments: 6LoWPAN.
    Lowpan,
}

impl Carried {
    /// Whether it is Ethernet.
    pub fn is_ethernet(&self) -> bool {
        *self == Self::Ethernet
    }

    /// Whether the frames are those of simulated radios, which acknowledge and retransmit themselves.
    pub fn is_simulated(self) -> bool {
        matches!(self, Self::Openthread | Self::Zep)
    }

    /// Whether the channel accepts the Ethernet frame `frame`: 6LoWPAN has no packets but IPv6's.
    pub fn accepts(self, frame: &[u8]) -> bool {
        self != Self::Lowpan || lowpan::packet(frame).is_some()
    }

    /// What is on the air of the Ethernet frame `frame`, compressed like this if it is a packet in
    /// 6LoWPAN.
    pub fn on_air(self, frame: &[u8], compression: Compression<'_>) -> AirFrame {
        match self {
            Self::Ethernet => return AirFrame::Contends(vec![frame.len()]),
            Self::Lowpan => {
                let frames = lowpan::mac_frames(frame, compression, false, FrameNumbers::default());
                return frames.map_or(AirFrame::Nothing, |frames| {
                    AirFrame::Contends(frames.iter().map(Vec::len).collect())
                });
            }
            Self::Openthread | Self::Zep => {}
        }
        let Some(radio) = self.radio_frame(frame) else { return AirFrame::Nothing };
        match radio.first() {
            None => AirFrame::Nothing,
            // The frame type is the lowest three bits of the field, which is sent low byte first.
            Some(control) if control & 7 == ACKNOWLEDGEMENT => {
                AirFrame::Acknowledgement(radio.len())
            }
            Some(_) => AirFrame::Contends(vec![radio.len()]),
        }
    }

    /// The frame of a simulated radio in the Ethernet frame `frame`.
    pub(crate) fn radio_frame(self, frame: &[u8]) -> Option<&[u8]> {
        let (to, port, payload) = datagram(frame)?;
        match self {
            Self::Openthread if to && OPENTHREAD_PORTS.contains(&port) => payload.get(1..),
            Self::Zep if port == ZEP_PORT => zep(payload),
            _ => None,
        }
    }

    /// As [`Self::radio_frame`], if its receiver is to acknowledge it.
    pub(crate) fn acknowledged(self, frame: &[u8]) -> Option<&[u8]> {
        let requests = |radio: &&[u8]| radio.first().is_some_and(|control| control & REQUEST != 0);
        self.radio_frame(frame).filter(requests)
    }
}

/// What is on the air of an Ethernet frame; lengths are those of MAC frames in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AirFrame {
    /// Frames that contend for the channel, one after the other: several if they are fragments.
    Contends(Vec<usize>),
    /// An acknowledgement, which is sent without CSMA.
    Acknowledgement(usize),
    /// Nothing: the frame is one of the host's, such as a membership report.
    Nothing,
}

/// Of an Ethernet frame with UDP: whether it is for the group of OpenThread's simulation, the destination
/// port and the payload. Fragments have none.
fn datagram(frame: &[u8]) -> Option<(bool, u16, &[u8])> {
    let packet = frame.get(14..)?;
    let (is_group, udp) = match (frame.get(12..14)?, packet.first()? >> 4) {
        ([8, 0], 4) => {
            let length = usize::from(packet[0] & 15) * 4;
            // More fragments, or an offset (RFC 791, 3.1): only the first fragment has UDP's
            // header.
            let is_fragment = (packet.get(6)? & 0x3f, packet.get(7)?) != (0, &0);
            let is_udp = packet.get(9)? == &17 && !is_fragment;
            let to = packet.get(16..20)?;
            (to == [224, 0, 0, 116], packet.get(length..).filter(|_| is_udp)?)
        }
        ([0x86, 0xdd], 6) => {
            let to = packet.get(24..40)?;
            let is_group = to[..2] == [0xff, 2] && to[2..14] == [0; 12] && to[14..] == [1, 0x16];
            (is_group, packet.get(40..).filter(|_| packet[6] == 17)?)
        }
        _ => return None,
    };
    let port = u16::from_be_bytes([*udp.get(2)?, *udp.get(3)?]);
    // The Ethernet frame can be longer, because it has a minimum.
    let length = usize::from(u16::from_be_bytes([*udp.get(4)?, *udp.get(5)?]));
    Some((is_group, port, udp.get(8..length.min(udp.len()))?))
}

/// The radio's frame in a datagram of ZEP, version 2.
fn zep(payload: &[u8]) -> Option<&[u8]> {
    // Preamble, version 2, type "data"; other types carry no frame.
    let is_data = payload.starts_with(b"EX\x02\x01");
    payload.get(ZEP_HEADER..).filter(|_| is_data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CsmaSpec;

    fn on_air(carried: Carried, frame: &[u8]) -> AirFrame {
        CsmaSpec { carries: carried, ..CsmaSpec::default() }.on_air(frame)
    }

    /// An Ethernet frame with UDP to this IPv4 address and port.
    fn udp(to: [u8; 4], port: u16, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 1, 17, 0, 0, 10, 0, 0, 1]);
        frame.extend(to);
        frame.extend(9001u16.to_be_bytes().into_iter().chain(port.to_be_bytes()));
        frame.extend((payload.len() as u16 + 8).to_be_bytes());
        frame.extend([0, 0]);
        frame.extend(payload);
        frame
    }

    const GROUP: [u8; 4] = [224, 0, 0, 116];

    #[test]
    fn frames_of_openthread_are_charged_without_their_datagram() {
        let data = [&[11, 0x61, 0x88][..], &[0; 48]].concat();
        let carried = Carried::Openthread;
        assert_eq!(on_air(carried, &udp(GROUP, 9000, &data)), AirFrame::Contends(vec![50]));
        let ack = [11, 2, 0, 7, 0xaa, 0xbb];
        assert_eq!(on_air(carried, &udp(GROUP, 9000, &ack)), AirFrame::Acknowledgement(5));
        // Padding of a short Ethernet frame is not on the air.
        let padded = [udp(GROUP, 9000, &ack), vec![0; 14]].concat();
        assert_eq!(on_air(carried, &padded), AirFrame::Acknowledgement(5));
        for other in [udp([10, 0, 0, 2], 9000, &data), udp(GROUP, 80, &data), udp(GROUP, 9000, &[])]
        {
            assert_eq!(on_air(carried, &other), AirFrame::Nothing);
        }
        assert_eq!(on_air(Carried::Ethernet, &padded), AirFrame::Contends(vec![padded.len()]));
    }

    #[test]
    fn frames_of_openthread_over_ipv6_are_known() {
        let mut frame = vec![0; 12];
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 14, 17, 1]);
        frame.extend([0; 16]);
        frame.extend([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0x16]);
        frame.extend([0x23, 0x29, 0x23, 0x28, 0, 14, 0, 0, 11, 2, 0, 7, 1, 2]);
        assert_eq!(on_air(Carried::Openthread, &frame), AirFrame::Acknowledgement(5));
    }

    #[test]
    fn frames_of_zep_follow_its_header() {
        let header = [&b"EX\x02\x01"[..], &[0; 28]].concat();
        let data = [&header[..], &[0x41, 0x88, 1, 2, 3]].concat();
        assert_eq!(
            on_air(Carried::Zep, &udp([10, 0, 0, 2], 17754, &data)),
            AirFrame::Contends(vec![5])
        );
        assert_eq!(
            on_air(Carried::Zep, &udp([10, 0, 0, 2], 17754, b"EX\x02\x02")),
            AirFrame::Nothing
        );
    }

    /// Datagrams of RIOT 2026.07 (`gcoap`, `native64`, `socket_zep`), as recorded between two nodes: an echo
    /// request, and the acknowledgement of its reply.
    #[test]
    fn frames_that_riot_sent_are_known() {
        let ethernet_and_ipv6 = "02c6ff00000102c6ff00000286dd60005b1cLLLL1140\
            fd000001000000000000000000000002fd000001000000000000000000000001455a455aLLLL";
        let echo = "cf614558 02011a88e001ffed00378a010771d1000000000000000000000000000021 \
            41d85d2300ffff0200000000000002 7a3b3a0180006242c8ef000057000000eef5";
        let ack = "417f4558 02011a88e001ffed00378a00690159000000000000000000000000000005 \
            0200fe49ab";
        for (length, datagram, air) in [
            ("0049", echo, AirFrame::Contends(vec![33])),
            ("002d", ack, AirFrame::Acknowledgement(5)),
        ] {
            let text = ethernet_and_ipv6.replace("LLLL", length) + datagram;
            let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
            let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
            let frame: Vec<u8> = digits.chunks(2).map(byte).collect();
            assert_eq!(frame.len(), 54 + usize::from_str_radix(length, 16).unwrap(), "{datagram}");
            assert_eq!(on_air(Carried::Zep, &frame), air);
        }
    }

    /// Frames are foreign: any prefix, and any byte changed, is one of the three without a panic.
    #[test]
    fn cut_and_changed_frames_are_read_without_a_panic() {
        let whole = udp(GROUP, 9000, &[&[11, 0x61][..], &[0; 30]].concat());
        for end in 0..=whole.len() {
            for carried in [Carried::Openthread, Carried::Zep, Carried::Lowpan] {
                on_air(carried, &whole[..end]);
            }
        }
        for place in 0..whole.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut changed = whole.clone();
                changed[place] = value;
                on_air(Carried::Openthread, &changed);
            }
        }
    }
}
