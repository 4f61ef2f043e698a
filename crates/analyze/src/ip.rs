//! Headers of IPv4 and IPv6, including extension headers.

use crate::unread::Unread;
use std::net::Ipv4Addr;

pub(crate) use crate::address::Address;

/// An IP packet's headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ip {
    /// Source and destination.
    pub addresses: [Address; 2],
    /// The length of all its headers, in B, as far as captured.
    pub headers: usize,
    /// Length of the packet on the wire, in B.
    pub total: usize,
    /// The protocol after the headers (IANA's list).
    pub protocol: Result<u8, Unread>,
    /// Whether this is a fragment other than the first, which has no transport header.
    pub later_fragment: bool,
}

/// IANA's protocol numbers of IPv6 extension headers (RFC 8200, section 4).
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const AUTHENTICATION: u8 = 51;
const NO_NEXT: u8 = 59;
const DESTINATION: u8 = 60;
const MOBILITY: u8 = 135;
const HOST_IDENTITY: u8 = 139;
const SHIM6: u8 = 140;

/// Parses the headers at the start of `data`. The packet has `wire` bytes on the wire; the
/// capture may have fewer.
pub(crate) fn headers(data: &[u8], wire: usize) -> Result<Ip, Unread> {
    match data.first().ok_or(Unread::Cut)? >> 4 {
        4 => version4(data, wire),
        6 => version6(data, wire),
        _ => Err(Unread::Damaged),
    }
}

fn number(data: &[u8], at: usize) -> Option<usize> {
    let bytes = data.get(at..at.checked_add(2)?)?;
    Some(usize::from(u16::from_be_bytes(bytes.try_into().ok()?)))
}

fn version4(data: &[u8], wire: usize) -> Result<Ip, Unread> {
    let header = data.get(..20).ok_or(Unread::Cut)?;
    let length = usize::from(header[0] & 15) * 4;
    let total = match number(header, 2).unwrap_or(0) {
        // A packet captured before segmentation offload has length 0.
        0 => wire,
        total => total.min(wire),
    };
    if length < 20 || length > total {
        return Err(Unread::Damaged);
    }
    let address = |at: usize| {
        let bytes: [u8; 4] = header[at..at + 4].try_into().unwrap_or_default();
        Address::from(u128::from(Ipv4Addr::from(bytes).to_ipv6_mapped()))
    };
    let mut ip = Ip {
        addresses: [address(12), address(16)],
        headers: length,
        total,
        protocol: Ok(header[9]),
        later_fragment: number(header, 6).unwrap_or(0) & 0x1fff != 0,
    };
    // IPv4 has no extension headers; AH is the one protocol that only precedes another.
    if !ip.later_fragment && header[9] == AUTHENTICATION {
        ip.extend(data, AUTHENTICATION);
    }
    Ok(ip)
}

fn version6(data: &[u8], wire: usize) -> Result<Ip, Unread> {
    let header = data.get(..40).ok_or(Unread::Cut)?;
    if wire < 40 {
        return Err(Unread::Damaged);
    }
    let total = match number(header, 4).unwrap_or(0) {
        0 => match jumbo(data) {
            Some(length) => length.saturating_add(40).min(wire),
            None if header[6] == NO_NEXT => 40,
            // A packet captured before segmentation offload has length 0.
            None => wire,
        },
        payload => (payload + 40).min(wire),
    };
    let address = |at: usize| {
        Address::from(u128::from_be_bytes(header[at..at + 16].try_into().unwrap_or_default()))
    };
    let mut ip = Ip {
        addresses: [address(8), address(24)],
        headers: 40,
        total,
        protocol: Ok(header[6]),
        later_fragment: false,
    };
    ip.extend(data, header[6]);
    Ok(ip)
}

/// The payload length of a jumbogram, in B: an option of its first extension header (RFC
/// 2675, section 2).
fn jumbo(data: &[u8]) -> Option<usize> {
    if data.get(6) != Some(&HOP_BY_HOP) {
        return None;
    }
    let end = 40 + (usize::from(*data.get(41)?) + 1) * 8;
    let options = data.get(42..end.min(data.len()))?;
    let mut at = 0;
    while let Some(kind) = options.get(at) {
        match kind {
            0 => at += 1,
            0xc2 => {
                let value = options.get(at + 2..at + 6)?;
                return Some(u32::from_be_bytes(value.try_into().ok()?) as usize);
            }
            _ => at += 2 + usize::from(*options.get(at + 1)?),
        }
    }
    None
}

impl Ip {
    /// Follows the extension headers, the first of type `next`, to the transport header or
    /// to the point where there is none.
    pub(crate) fn extend(&mut self, data: &[u8], mut next: u8) {
        loop {
            let eights = match next {
                HOP_BY_HOP | ROUTING | DESTINATION | MOBILITY | HOST_IDENTITY | SHIM6 => 1,
                FRAGMENT | AUTHENTICATION => 0,
                _ => break,
            };
            let Some(&[following, length]) = data.get(self.headers..self.headers + 2) else {
                self.protocol = Err(Unread::Cut);
                return;
            };
            let length = match next {
                // RFC 8200, section 4.5.
                FRAGMENT => 8,
                // In units of 4 B, minus 2 (RFC 4302, section 2.2).
                AUTHENTICATION => (usize::from(length) + 2) * 4,
                // In units of 8 B, not counting the first 8 B (RFC 8200, section 4.2).
                _ => (usize::from(length) + eights) * 8,
            };
            // The loop ends: each header is at least 8 bytes long, and none may pass the end of the
            // packet.
            if self.headers + length > self.total {
                self.protocol = Err(Unread::Damaged);
                return;
            }
            if next == FRAGMENT {
                let Some(field) = number(data, self.headers + 2) else {
                    self.protocol = Err(Unread::Cut);
                    return;
                };
                self.later_fragment = field & 0xfff8 != 0;
            }
            self.headers += length;
            next = following;
            // The header named by the Fragment header is in the first fragment only.
            if self.later_fragment {
                break;
            }
        }
        self.protocol = Ok(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv6 packet with these extension headers, and `payload` bytes after them.
    fn packet(first: u8, extensions: &[&[u8]], payload: usize) -> Vec<u8> {
        let rest: Vec<u8> = extensions.concat();
        let mut packet = vec![0x60, 0, 0, 0];
        packet.extend(((rest.len() + payload) as u16).to_be_bytes());
        packet.extend([first, 64]);
        packet.extend([1; 16]);
        packet.extend([2; 16]);
        packet.extend(rest);
        packet.extend(vec![0; payload]);
        packet
    }

    fn read(packet: &[u8]) -> Ip {
        headers(packet, packet.len()).unwrap()
    }

    #[test]
    fn extension_headers_lead_to_the_transport() {
        let hop = [60, 0, 1, 4, 0, 0, 0, 0];
        let destination = [43, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        let routing = [51, 0, 4, 0, 0, 0, 0, 0];
        let authentication = [17, 1, 0, 0, 0, 0, 0, 9, 0, 0, 0, 1];
        let whole = packet(0, &[&hop, &destination, &routing, &authentication], 8);
        let ip = read(&whole);
        assert_eq!((ip.headers, ip.total, ip.protocol), (84, 92, Ok(17)));
        assert_eq!(read(&packet(50, &[], 40)).protocol, Ok(50));
        assert_eq!(read(&packet(59, &[], 0)).protocol, Ok(59));
    }

    #[test]
    fn only_a_first_or_lone_fragment_has_a_transport_header() {
        let fragment = |field: u16| {
            let [a, b] = field.to_be_bytes();
            read(&packet(44, &[&[17, 0, a, b, 0, 0, 0, 9]], 16))
        };
        // First, middle, last, and an atomic fragment (RFC 6946).
        let found = [1, 0x5a9, 0xb50, 0].map(fragment);
        assert_eq!(found.map(|ip| ip.later_fragment), [false, true, true, false]);
        assert!(found.iter().all(|ip| (ip.headers, ip.protocol) == (48, Ok(17))));
        // The bytes after a later fragment's header are not headers.
        let hidden = read(&packet(44, &[&[60, 0, 0, 8, 0, 0, 0, 9]], 16));
        assert_eq!((hidden.headers, hidden.protocol, hidden.later_fragment), (48, Ok(60), true));
    }

    #[test]
    fn lengths_of_jumbograms_and_of_uncut_segments() {
        let mut jumbo = packet(0, &[&[17, 0, 0xc2, 4, 0, 1, 0, 0]], 8);
        jumbo[4..6].copy_from_slice(&[0, 0]);
        let ip = headers(&jumbo, 40 + 65_536).unwrap();
        assert_eq!((ip.headers, ip.total, ip.protocol), (48, 40 + 65_536, Ok(17)));
        let mut uncut = packet(6, &[], 20);
        uncut[4..6].copy_from_slice(&[0, 0]);
        assert_eq!(read(&uncut).total, 60);
        let mut padded = packet(59, &[], 0);
        padded.resize(46, 0);
        assert_eq!(read(&padded).total, 40);
    }

    #[test]
    fn cut_and_damaged_headers() {
        let whole = packet(0, &[&[44, 0, 1, 4, 0, 0, 0, 0], &[17, 0, 0, 1, 0, 0, 0, 9]], 40);
        for cut in 0..whole.len() {
            match headers(&whole[..cut], whole.len()) {
                Err(error) => assert!(error == Unread::Cut && cut < 40, "{cut}"),
                Ok(ip) => assert_eq!(ip.protocol.is_ok(), cut >= 52, "{cut}: {ip:?}"),
            }
        }
        let past_its_end = packet(60, &[&[17, 9, 1, 4, 0, 0, 0, 0]], 8);
        assert_eq!(read(&past_its_end).protocol, Err(Unread::Damaged));
        for bad in [&[0x45; 10][..], &[0x51; 40], &[0x44; 40]] {
            assert!(headers(bad, 40).is_err(), "{bad:x?}");
        }
    }

    #[test]
    fn fragments_and_authentication_in_ipv4() {
        let packet = |field: u16, protocol: u8| {
            let mut packet = vec![0x45, 0, 0, 60, 0, 1];
            packet.extend(field.to_be_bytes());
            packet.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
            packet.extend([6, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            packet.resize(60, 0);
            read(&packet)
        };
        assert!(!packet(0x2000, 17).later_fragment && packet(0x2001, 17).later_fragment);
        assert!(!packet(0x4000, 17).later_fragment && packet(3, 17).later_fragment);
        let ip = packet(0, 51);
        assert_eq!((ip.headers, ip.protocol), (44, Ok(6)));
        assert_eq!((packet(3, 51).headers, packet(3, 51).protocol), (20, Ok(51)));
    }
}
