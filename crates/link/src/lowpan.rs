//! IPv6 packets as frames of IEEE 802.15.4: 6LoWPAN (RFC 4944; header compression: RFC 6282).
//!
//! Pure: an Ethernet frame in, the MAC frames that carry its packet out. All headers are compressed
//! without loss, so that a receiver that knows the contexts restores each bit of the packet.

mod header;

#[cfg(test)]
mod tests;

use header::compress;
use serde::{Deserialize, Serialize};
use units::Contexts;

/// MTU of IPv6 over IEEE 802.15.4, B (RFC 4944, section 4).
pub const LOWPAN_MTU: u64 = 1280;

/// Longest MAC frame, B: aMaxPHYPacketSize (IEEE 802.15.4-2011, table 70).
const MAX_FRAME: usize = 127;
/// Length of the frame check sequence, B.
const FCS: usize = 2;
/// Length of an Ethernet header, B.
const ETHERNET: usize = 14;
/// Fragments are of whole units of this many bytes, except the last one (RFC 4944, section 5.3).
const UNIT: usize = 8;
/// Lengths of the headers of the first fragment and of the others, B (section 5.3).
const FIRST_HEADER: usize = 4;
const LATER_HEADER: usize = 5;
/// Largest datagram: its size has 11 bits (section 5.3).
const MAX_DATAGRAM: usize = 0x7ff;
/// The personal area network, as in the examples of Linux' wpan-tools.
const PAN: u16 = 0xbeef;
const BROADCAST: u16 = 0xffff;

/// Kind of address in the MAC header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MacAddresses {
    /// 8 B: the EUI-64 of the Ethernet address. Link-local addresses made from it are elided.
    #[default]
    Extended,
    /// 2 B: the last two of the Ethernet address.
    Short,
}

impl MacAddresses {
    /// Whether it is the default.
    pub fn is_extended(&self) -> bool {
        *self == Self::Extended
    }
}

/// How the headers of packets are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compression<'a> {
    /// Addresses in the MAC headers.
    pub addresses: MacAddresses,
    /// Prefixes that all nodes know.
    pub contexts: &'a Contexts,
}

/// Numbers in the headers of a packet's frames. They do not change the frames' lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FrameNumbers {
    /// Sequence number of the first frame; the others count from it.
    pub sequence: u8,
    /// Tag of the datagram, if it is fragmented.
    pub tag: u16,
}

/// The MAC frames, with their check sequences, that carry the IPv6 packet in the Ethernet frame
/// `frame`; `acknowledged`: unicast frames request an acknowledgement. `None` if it has no IPv6
/// packet, or a damaged or longer one than 2,047 B.
pub fn mac_frames(
    frame: &[u8],
    compression: Compression<'_>,
    acknowledged: bool,
    numbers: FrameNumbers,
) -> Option<Vec<Vec<u8>>> {
    let packet = packet(frame)?;
    let stations = Stations::of(frame, compression.addresses)?;
    let header = compress(packet, stations.identifiers(), compression.contexts)?;
    let room = MAX_FRAME - FCS - stations.header(0, false).len();
    let payload = &packet[header.original..];
    let mut contents = Vec::new();
    if header.compressed.len() + payload.len() <= room {
        contents.push([&header.compressed[..], payload].concat());
    } else {
        let head = |dispatch: u16| {
            let [a, b] = (dispatch << 11 | packet.len() as u16).to_be_bytes();
            let [c, d] = numbers.tag.to_be_bytes();
            vec![a, b, c, d]
        };
        // Offsets count in the uncompressed packet, so its headers are part of the units. Those of
        // IPv6 and UDP are whole units.
        let units = (room - FIRST_HEADER - header.compressed.len()) / UNIT * UNIT;
        let (first, mut rest) = payload.split_at(units.min(payload.len()));
        contents.push([&head(0b11000)[..], &header.compressed, first].concat());
        while !rest.is_empty() {
            let offset = (packet.len() - rest.len()) / UNIT;
            let units = (room - LATER_HEADER) / UNIT * UNIT;
            let (part, after) = rest.split_at(units.min(rest.len()));
            contents.push([&head(0b11100)[..], &[offset as u8], part].concat());
            rest = after;
        }
    }
    let frames = contents.iter().enumerate().map(|(number, content)| {
        let sequence = numbers.sequence.wrapping_add(number as u8);
        let mut frame = stations.header(sequence, acknowledged);
        frame.extend(content);
        frame.extend(check_sequence(&frame).to_le_bytes());
        frame
    });
    Some(frames.collect())
}

/// The IPv6 packet in an Ethernet frame, without padding behind it, if 6LoWPAN can carry it.
pub(crate) fn packet(frame: &[u8]) -> Option<&[u8]> {
    let packet = frame.get(ETHERNET..).filter(|_| frame[12..ETHERNET] == [0x86, 0xdd])?;
    let header: &[u8; 40] = packet.first_chunk()?;
    let length = 40 + usize::from(u16::from_be_bytes([header[4], header[5]]));
    packet.get(..length).filter(|_| header[0] >> 4 == 6 && length <= MAX_DATAGRAM)
}

/// Sender and receiver of a MAC frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stations {
    from: Station,
    to: Station,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Station {
    Short(u16),
    Extended(u64),
}

impl Station {
    fn of(mac: [u8; 6], addresses: MacAddresses) -> Self {
        let [a, b, c, d, e, f] = mac;
        match addresses {
            // Ethernet has no such group addresses as 802.15.4: all are its broadcast address.
            _ if a & 1 == 1 => Self::Short(BROADCAST),
            MacAddresses::Short => Self::Short(u16::from_be_bytes([e, f])),
            // RFC 4291, appendix A.
            MacAddresses::Extended => {
                Self::Extended(u64::from_be_bytes([a, b, c, 0xff, 0xfe, d, e, f]))
            }
        }
    }

    /// Its addressing mode (IEEE 802.15.4-2011, table 3).
    fn mode(self) -> u16 {
        match self {
            Self::Short(_) => 2,
            Self::Extended(_) => 3,
        }
    }

    fn write(self, header: &mut Vec<u8>) {
        match self {
            Self::Short(short) => header.extend(short.to_le_bytes()),
            Self::Extended(extended) => header.extend(extended.to_le_bytes()),
        }
    }

    /// Identifier of the IPv6 interface that is made from the address (RFC 6282, section 3.2.2).
    fn identifier(self) -> u64 {
        match self {
            Self::Short(short) => 0x0000_00ff_fe00_0000 | u64::from(short),
            Self::Extended(extended) => extended ^ 0x0200_0000_0000_0000,
        }
    }
}

impl Stations {
    fn of(frame: &[u8], addresses: MacAddresses) -> Option<Self> {
        let mac = |at: usize| Some(Station::of(*frame.get(at..)?.first_chunk()?, addresses));
        Some(Self { to: mac(0)?, from: mac(6)? })
    }

    /// Interface identifiers of sender and receiver.
    fn identifiers(self) -> [u64; 2] {
        [self.from.identifier(), self.to.identifier()]
    }

    /// The MAC header of a data frame within the PAN (IEEE 802.15.4-2011, section 5.2.2.2).
    fn header(self, sequence: u8, acknowledged: bool) -> Vec<u8> {
        let (data, compressed_pan) = (1, 1 << 6);
        let request = u16::from(acknowledged && self.to != Station::Short(BROADCAST)) << 5;
        let modes = self.to.mode() << 10 | self.from.mode() << 14;
        let control: u16 = data | request | compressed_pan | modes;
        let mut header = control.to_le_bytes().to_vec();
        header.push(sequence);
        header.extend(PAN.to_le_bytes());
        self.to.write(&mut header);
        self.from.write(&mut header);
        header
    }
}

/// The frame check sequence: CRC-16 of ITU-T with the bits of each byte in the order of their
/// transmission, lowest first (IEEE 802.15.4-2011, section 5.2.1.9).
fn check_sequence(frame: &[u8]) -> u16 {
    frame.iter().fold(0, |sum, byte| {
        (0..8).fold(sum ^ u16::from(*byte), |sum, _| match sum & 1 {
            1 => sum >> 1 ^ 0x8408,
            _ => sum >> 1,
        })
    })
}
