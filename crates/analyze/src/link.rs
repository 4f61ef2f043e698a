//! Follows the link headers of a packet to its IP header.

use crate::names;
use crate::unread::Unread;

/// The content behind a packet's link headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Network {
    /// An IP packet; its offset in the captured bytes.
    Ip(usize),
    Arp,
    /// The name of a protocol without an IP packet inside.
    Other(&'static str),
    Unread(Unread),
}

/// Link types (tcpdump.org's list).
pub(crate) const ETHERNET: u16 = 1;
const NULL: u16 = 0;
const PPP: u16 = 9;
const PPP_HDLC: u16 = 50;
const PPP_ETHER: u16 = 51;
const RAW: [u16; 5] = [12, 14, 101, 228, 229];
const CISCO_HDLC: u16 = 104;
const LOOP: u16 = 108;
const LINUX_SLL: u16 = 113;
const PPP_PPPD: u16 = 166;
const PPP_WITH_DIRECTION: u16 = 204;
const CISCO_HDLC_WITH_DIRECTION: u16 = 205;
const MPLS: u16 = 219;
const LINUX_SLL2: u16 = 276;

/// The maximum number of headers before an IP packet; bounds the work for a hostile packet.
// Real stacks of tags and labels have a few.
const HEADERS: usize = 32;

/// Follows the headers of a packet of link type `link`.
pub(crate) fn network(link: u16, data: &[u8]) -> Network {
    let walk = Walk { data, left: HEADERS };
    let found = match link {
        NULL | LOOP => walk.family(),
        ETHERNET => walk.typed(12, 14),
        PPP => walk.ppp(0),
        PPP_HDLC => walk.hdlc(0),
        PPP_ETHER => walk.pppoe(0),
        CISCO_HDLC => walk.typed(2, 4),
        LINUX_SLL => walk.cooked(2, 14, 16),
        LINUX_SLL2 => walk.cooked(8, 0, 20),
        // The direction, 0 or 1, replaces the address field.
        PPP_PPPD => walk.ppp(if data.get(1) == Some(&3) { 2 } else { 1 }),
        PPP_WITH_DIRECTION => walk.ppp(1),
        CISCO_HDLC_WITH_DIRECTION => walk.typed(3, 5),
        MPLS => walk.mpls(0),
        raw if RAW.contains(&raw) => Some(Network::Ip(0)),
        other => Some(Network::Unread(Unread::LinkType(other))),
    };
    found.unwrap_or(Network::Unread(Unread::Cut))
}

/// Each step returns None if the captured bytes end too early.
struct Walk<'a> {
    data: &'a [u8],
    /// The number of headers that may still follow.
    left: usize,
}

impl Walk<'_> {
    fn byte(&self, at: usize) -> Option<u8> {
        self.data.get(at).copied()
    }

    fn number(&self, at: usize) -> Option<u16> {
        Some(u16::from_be_bytes(self.data.get(at..at.checked_add(2)?)?.try_into().ok()?))
    }

    /// Reads an EtherType at `at`; its content is at `next`.
    fn typed(self, at: usize, next: usize) -> Option<Network> {
        let kind = self.number(at)?;
        self.ether_type(kind, next)
    }

    fn ether_type(mut self, kind: u16, at: usize) -> Option<Network> {
        self.left -= 1;
        if self.left == 0 {
            return Some(Network::Unread(Unread::Damaged));
        }
        match kind {
            0x0800 | 0x86dd => Some(Network::Ip(at)),
            0x0806 => Some(Network::Arp),
            // VLAN tags (IEEE 802.1Q), also stacked, with all EtherTypes in use.
            0x8100 | 0x88a8 | 0x9100 | 0x9200 => self.typed(at + 2, at + 4),
            0x8847 | 0x8848 => self.mpls(at),
            0x8864 => self.pppoe(at),
            0x88e5 => self.macsec(at),
            // A length, so IEEE 802.2 follows (IEEE 802.3, section 3.2.6).
            0..=1500 => self.llc(at),
            _ => Some(match names::plain_ether_type(kind) {
                Some(name) => Network::Other(name),
                None => Network::Unread(Unread::EtherType(kind)),
            }),
        }
    }

    /// An MPLS label stack (RFC 3032, section 2.1). The first bits after it identify IP
    /// (RFC 4928, section 3).
    fn mpls(self, mut at: usize) -> Option<Network> {
        for _ in 0..self.left {
            let last = self.byte(at + 2)? & 1 == 1;
            at += 4;
            if last {
                return Some(match self.byte(at)? >> 4 {
                    4 | 6 => Network::Ip(at),
                    _ => Network::Unread(Unread::MplsPayload),
                });
            }
        }
        Some(Network::Unread(Unread::Damaged))
    }

    /// The content of a PPPoE session header (RFC 2516, section 4).
    fn pppoe(self, at: usize) -> Option<Network> {
        self.ppp(at + 6)
    }

    /// PPP in HDLC framing (RFC 1662) or Cisco HDLC, by the first byte.
    fn hdlc(self, at: usize) -> Option<Network> {
        match self.byte(at)? {
            0x0f | 0x8f => self.typed(at + 2, at + 4),
            _ => self.ppp(at),
        }
    }

    /// PPP with or without address and control fields (RFC 1662, section 3.1), with a
    /// protocol field of one or two bytes (RFC 1661, sections 2 and 6.5).
    fn ppp(self, mut at: usize) -> Option<Network> {
        if self.number(at) == Some(0xff03) {
            at += 2;
        }
        let first = self.byte(at)?;
        let (protocol, at) = match first & 1 {
            1 => (u16::from(first), at + 1),
            _ => (self.number(at)?, at + 2),
        };
        match protocol {
            0x0021 | 0x0057 => Some(Network::Ip(at)),
            0x0281 | 0x0283 => self.mpls(at),
            _ => Some(match names::plain_ppp(protocol) {
                Some(name) => Network::Other(name),
                None => Network::Unread(Unread::Ppp(protocol)),
            }),
        }
    }

    /// An IEEE 802.2 header, with or without SNAP (RFC 1042).
    fn llc(self, at: usize) -> Option<Network> {
        let service = self.byte(at)?;
        Some(match service {
            0x06 => Network::Ip(at + 3),
            0x42 => Network::Other("STP"),
            0xe0 | 0xff => Network::Other("IPX"),
            0xf0 => Network::Other("NetBIOS"),
            0xfe => Network::Other("OSI network layer"),
            0xaa => {
                let organisation = self.data.get(at + 3..at + 6)?;
                match organisation {
                    // Bridged Ethernet, and the encapsulation that IEEE 802.1H prescribes
                    // for bridges.
                    [0, 0, 0] | [0, 0, 0xf8] => return self.typed(at + 6, at + 8),
                    [0, 0, 0x0c] => Network::Other("Cisco SNAP"),
                    _ => Network::Unread(Unread::Llc(service)),
                }
            }
            _ => Network::Unread(Unread::Llc(service)),
        })
    }

    /// A MACsec tag (IEEE 802.1AE, section 9.3): unencrypted content is read.
    fn macsec(self, at: usize) -> Option<Network> {
        let control = self.byte(at)?;
        let (identifier, encrypted) = (control & 0x20 != 0, control & 0x0c != 0);
        let next = at + if identifier { 14 } else { 6 };
        match encrypted {
            true => Some(Network::Unread(Unread::EtherType(0x88e5))),
            false => self.typed(next, next + 2),
        }
    }

    /// The address family before a packet of a loopback interface, in either byte order.
    /// The number for IPv6 depends on the system.
    fn family(self) -> Option<Network> {
        let bytes = self.data.get(..4)?.try_into().ok()?;
        // A family is a small number, so the smaller of both readings is the right one.
        let family = u32::from_le_bytes(bytes).min(u32::from_be_bytes(bytes));
        Some(match family {
            // Linux 10, Windows 23, NetBSD and OpenBSD 24, FreeBSD 28, macOS 30.
            2 | 10 | 23 | 24 | 28 | 30 => Network::Ip(4),
            _ => Network::Unread(Unread::Family(family)),
        })
    }

    /// A packet of a Linux cooked capture: the offsets of its hardware type and protocol,
    /// and the end of its header.
    fn cooked(self, hardware: usize, protocol: usize, header: usize) -> Option<Network> {
        let hardware = self.number(hardware)?;
        // For Netlink, Frame Relay and WLAN, the protocol field does not describe the
        // content.
        if matches!(hardware, 770 | 801..=805 | 824) {
            return Some(Network::Unread(Unread::Hardware(hardware)));
        }
        match self.number(protocol)? {
            // Linux protocol numbers below those of Ethernet (if_ether.h).
            0x0004 => self.llc(header),
            0x0001 => Some(Network::Other("IPX")),
            0x000c..=0x000e => Some(Network::Other("CAN")),
            kind @ 0..0x0600 => Some(Network::Unread(Unread::EtherType(kind))),
            kind => self.ether_type(kind, header),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn behind(link: u16, header: &[u8]) -> Network {
        let mut data = header.to_vec();
        data.extend([0x45; 40]);
        for cut in 0..header.len() {
            network(link, &data[..cut]);
        }
        network(link, &data)
    }

    fn ethernet(rest: &[u8]) -> Vec<u8> {
        [&[2; 12], rest].concat()
    }

    #[test]
    fn headers_in_front_of_ip() {
        let tagged = ethernet(&[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 8, 0]);
        let cases: &[(u16, &[u8])] = &[
            (0, &[2, 0, 0, 0]),
            (0, &[0, 0, 0, 30]),
            (108, &[0, 0, 0, 24]),
            (101, &[]),
            (1, &ethernet(&[8, 0])),
            (1, &tagged),
            (1, &ethernet(&[0x88, 0x47, 0, 0, 0x10, 64, 0, 0, 0x21, 64])),
            (1, &ethernet(&[0x88, 0x64, 0x11, 0, 0, 1, 0, 42, 0, 0x21])),
            (1, &ethernet(&[0, 48, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0])),
            (1, &ethernet(&[0x88, 0xe5, 0, 20, 0, 0, 0, 1, 8, 0])),
            (1, &ethernet(&[0x88, 0xe5, 0x20, 20, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 8, 0])),
            (9, &[0xff, 3, 0, 0x21]),
            (9, &[0, 0x21]),
            (9, &[0x21]),
            (9, &[0x57]),
            (9, &[2, 0x81, 0, 0, 0x11, 64]),
            (50, &[0xff, 3, 0, 0x21]),
            (50, &[0x0f, 0, 8, 0]),
            (51, &[0x11, 0, 0, 1, 0, 42, 0, 0x21]),
            (104, &[0x0f, 0, 0x86, 0xdd]),
            (113, &[0, 4, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0, 8, 0]),
            (113, &[0, 4, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0, 0x81, 0, 0, 9, 8, 0]),
            (166, &[1, 3, 0, 0x21]),
            (204, &[0, 0xff, 3, 0, 0x21]),
            (205, &[1, 0x0f, 0, 8, 0]),
            (219, &[0, 0, 0x11, 64]),
            (276, &[0x86, 0xdd, 0, 0, 0, 0, 0, 5, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0]),
        ];
        for (link, header) in cases {
            assert_eq!(behind(*link, header), Network::Ip(header.len()), "{link}: {header:x?}");
        }
    }

    #[test]
    fn what_is_no_ip_has_its_name_or_is_unread() {
        let other = Network::Other;
        let unread = Network::Unread;
        let cases: &[(u16, &[u8], Network)] = &[
            (1, &ethernet(&[8, 6]), Network::Arp),
            (1, &ethernet(&[0x88, 0xcc]), other("LLDP")),
            (1, &ethernet(&[0, 38, 0x42, 0x42, 3]), other("STP")),
            (1, &ethernet(&[0x88, 0x63]), other("PPPoE discovery")),
            (9, &[0xff, 3, 0xc0, 0x21], other("PPP LCP")),
            (1, &ethernet(&[0x12, 0x34]), unread(Unread::EtherType(0x1234))),
            (1, &ethernet(&[0x88, 0xe5, 0x0c, 0, 0, 0, 0, 1]), unread(Unread::EtherType(0x88e5))),
            (1, &ethernet(&[0x88, 0x47, 0, 0, 0x11, 64, 0, 0, 0, 0]), unread(Unread::MplsPayload)),
            (1, &ethernet(&[0, 38, 0x98, 0x98, 3]), unread(Unread::Llc(0x98))),
            (9, &[0xff, 3, 0, 0xfd], unread(Unread::Ppp(0xfd))),
            (0, &[7, 0, 0, 0], unread(Unread::Family(7))),
            (
                113,
                &[0, 4, 3, 0x38, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
                unread(Unread::Hardware(824)),
            ),
            (195, &[], unread(Unread::LinkType(195))),
            (60_000, &[], unread(Unread::LinkType(60_000))),
        ];
        for (link, header, expected) in cases {
            assert_eq!(behind(*link, header), *expected, "{link}: {header:x?}");
        }
    }

    #[test]
    fn headers_without_end() {
        let tags = [2; 12].into_iter().chain([0x81, 0, 0, 1].into_iter().cycle().take(400));
        let tags: Vec<u8> = tags.collect();
        assert_eq!(network(1, &tags), Network::Unread(Unread::Damaged));
        assert_eq!(network(219, &[0; 400]), Network::Unread(Unread::Damaged));
        assert_eq!(network(1, &tags[..40]), Network::Unread(Unread::Cut));
    }
}
