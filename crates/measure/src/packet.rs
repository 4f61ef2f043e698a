//! The IP header of a frame: where the packet's payload begins, and between whom it is.

use etherparse::{IpNumber, Ipv4HeaderSlice};

/// An IP packet in a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packet {
    /// Offset of the payload in the frame: after all IP headers.
    pub start: usize,
    /// Offset of the packet's end; padding of the frame may follow.
    pub end: usize,
    /// Protocol of the payload.
    pub protocol: IpNumber,
    /// Whether it is a fragment other than the first.
    pub is_later_fragment: bool,
    /// Source and destination; IPv4 addresses are in the first four bytes.
    pub addresses: [[u8; 16]; 2],
}

const IPV4: [u8; 2] = [8, 0];
const IPV6: [u8; 2] = [0x86, 0xdd];
/// The tags of customers and of providers (IEEE 802.1Q).
const TAGS: [[u8; 2]; 2] = [[0x81, 0], [0x88, 0xa8]];

impl Packet {
    /// The packet in a frame that begins with an Ethernet header. `None`: it is not IP, or its IP
    /// header is incomplete.
    pub fn of(frame: &[u8]) -> Option<Self> {
        let mut link = 14;
        let mut ethertype = ethertype(frame, 12)?;
        while TAGS.contains(&ethertype) {
            ethertype = self::ethertype(frame, link + 2)?;
            link += 4;
        }
        match ethertype {
            IPV4 => Self::ipv4(frame, link),
            IPV6 => Self::ipv6(frame, link),
            _ => None,
        }
    }

    fn ipv4(frame: &[u8], link: usize) -> Option<Self> {
        let header = Ipv4HeaderSlice::from_slice(frame.get(link..)?).ok()?;
        let start = frame.len().min(link + header.slice().len());
        let four = |address: [u8; 4]| {
            let mut wide = [0; 16];
            wide[..4].copy_from_slice(&address);
            wide
        };
        Some(Self {
            start,
            // The length is what the sender wrote, which may be anything.
            end: (link + usize::from(header.total_len())).clamp(start, frame.len()),
            protocol: header.protocol(),
            is_later_fragment: header.fragments_offset().value() > 0,
            addresses: [four(header.source()), four(header.destination())],
        })
    }

    /// Extension headers (RFC 8200, section 4) belong to the IP headers.
    fn ipv6(frame: &[u8], link: usize) -> Option<Self> {
        let header = frame.get(link..link + 40)?;
        if header[0] >> 4 != 6 {
            return None;
        }
        let length = usize::from(u16::from_be_bytes([header[4], header[5]]));
        let end = (link + 40 + length).clamp(link + 40, frame.len());
        let (mut start, mut protocol) = (link + 40, IpNumber(header[6]));
        let mut is_later_fragment = false;
        while let (false, Some([next, size, high, low])) =
            (is_later_fragment, frame[start..end].first_chunk())
        {
            let length = match protocol {
                IpNumber::IPV6_HEADER_HOP_BY_HOP
                | IpNumber::IPV6_ROUTE_HEADER
                | IpNumber::IPV6_DESTINATION_OPTIONS => (usize::from(*size) + 1) * 8,
                IpNumber::AUTHENTICATION_HEADER => (usize::from(*size) + 2) * 4,
                IpNumber::IPV6_FRAGMENTATION_HEADER => {
                    is_later_fragment = u16::from_be_bytes([*high, *low]) >> 3 > 0;
                    8
                }
                _ => break,
            };
            protocol = IpNumber(*next);
            // Each turn moves on by 8 B or more, so the loop ends with the packet.
            start = (start + length).min(end);
        }
        let wide = |at: usize| std::array::from_fn(|i| header[at + i]);
        let addresses = [wide(8), wide(24)];
        Some(Self { start, end, protocol, is_later_fragment, addresses })
    }
}

fn ethertype(frame: &[u8], at: usize) -> Option<[u8; 2]> {
    frame.get(at..at + 2)?.first_chunk().copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    /// UDP over IPv6 with `extensions` in front of it, the first of type `next`.
    fn frame(next: u8, extensions: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv6([1; 16], [2; 16], 64)
            .udp(5, 6)
            .write(&mut frame, &[0; 20])
            .unwrap();
        frame[20] = next;
        frame[19] += extensions.len() as u8;
        frame.splice(54..54, extensions.iter().copied());
        frame
    }

    #[test]
    fn extension_headers_are_skipped() {
        let plain = Packet::of(&frame(17, &[])).unwrap();
        assert_eq!((plain.start, plain.end, plain.protocol), (54, 82, IpNumber::UDP));
        assert_eq!(plain.addresses, [[1; 16], [2; 16]]);
        // Hop-by-hop, then a first fragment.
        let hop = [44, 0, 5, 2, 0, 0, 1, 0, 17, 0, 0, 1, 0, 0, 0, 9];
        let skipped = Packet::of(&frame(0, &hop)).unwrap();
        assert_eq!((skipped.start, skipped.protocol), (70, IpNumber::UDP));
        assert!(!skipped.is_later_fragment);
        let later = Packet::of(&frame(44, &[17, 0, 0, 8, 0, 0, 0, 9])).unwrap();
        assert!(later.is_later_fragment && later.start == 62);
    }

    #[test]
    fn headers_that_end_nowhere_stay_within_the_frame() {
        let liar = frame(0, &[60, 255, 0, 0, 0, 0, 0, 0]);
        let packet = Packet::of(&liar).unwrap();
        assert_eq!((packet.start, packet.end), (90, 90));
        for length in 0..liar.len() {
            let packet = Packet::of(&liar[..length]);
            assert!(packet.is_none_or(|p| p.start <= p.end && p.end <= length), "{length}");
        }
        assert_eq!(Packet::of(&[0; 60]), None);
    }
}
