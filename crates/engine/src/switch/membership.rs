//! Parser for multicast membership messages of hosts and routers: IGMP (RFC 2236, RFC 3376)
//! and MLD (RFC 2710, RFC 3810).

use etherparse::{NetSlice, SlicedPacket};
use std::net::IpAddr;

const IGMP: u8 = 2;
const ICMPV6: u8 = 58;

/// A membership message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Message {
    /// A host joins (`true`) or leaves (`false`) these groups.
    Report(Vec<(IpAddr, bool)>),
    /// A membership query. One from the unspecified address is from a switch, which takes
    /// no part in the querier election (RFC 4541, 2.1.1).
    Query {
        /// Whether a router sent it.
        from_router: bool,
    },
    /// A router announces itself with a PIM hello (RFC 7761, 4.9.2). Switches learn router
    /// ports from it (RFC 4541, 2.1.1).
    Router,
    /// Other IGMP or MLD, for example a truncated message.
    Other,
}

/// The membership message in a frame, if any.
pub(crate) fn read(frame: &[u8]) -> Option<Message> {
    match frame.get(12..14)? {
        // Most frames are plain IPv4 with another protocol.
        [8, 0] => match frame.get(23)? {
            2 | 103 => ipv4(frame),
            _ => None,
        },
        // MLD follows a hop-by-hop header (RFC 2710, section 3).
        [0x86, 0xdd] if frame.get(20) == Some(&0) => ipv6(frame),
        // Frames with VLAN tags before IP.
        [0x81, 0] | [0x88, 0xa8] => ipv4(frame).or_else(|| ipv6(frame)),
        _ => None,
    }
}

fn ipv4(frame: &[u8]) -> Option<Message> {
    let NetSlice::Ipv4(ip) = SlicedPacket::from_ethernet(frame).ok()?.net? else { return None };
    let payload = ip.payload();
    match payload.ip_number.0 {
        // All PIM routers.
        103 if ip.header().destination() == [224, 0, 0, 13] => Some(Message::Router),
        IGMP => Some(igmp(payload.payload, ip.header().source() != [0; 4])),
        _ => None,
    }
}

fn ipv6(frame: &[u8]) -> Option<Message> {
    let NetSlice::Ipv6(ip) = SlicedPacket::from_ethernet(frame).ok()?.net? else { return None };
    let payload = ip.payload();
    // 130 to 132 and 143 are MLD; other ICMPv6 is unrelated to groups.
    (payload.ip_number.0 == ICMPV6).then(|| mld(payload.payload)).flatten()
}

fn igmp(message: &[u8], from_router: bool) -> Message {
    match message {
        [0x11, ..] => Message::Query { from_router },
        [0x12 | 0x16, _, _, _, group @ ..] => one(v4(group), true),
        [0x17, _, _, _, group @ ..] => one(v4(group), false),
        [0x22, _, _, _, _, _, _, _, records @ ..] => records_of::<4>(records, v4),
        _ => Message::Other,
    }
}

fn mld(message: &[u8]) -> Option<Message> {
    Some(match message {
        [130, ..] => Message::Query { from_router: true },
        [131, _, _, _, _, _, _, _, group @ ..] => one(v6(group), true),
        [132, _, _, _, _, _, _, _, group @ ..] => one(v6(group), false),
        [143, _, _, _, _, _, _, _, records @ ..] => records_of::<16>(records, v6),
        [130..=132 | 143, ..] => Message::Other,
        _ => return None,
    })
}

fn one(group: Option<IpAddr>, joins: bool) -> Message {
    group.map_or(Message::Other, |group| Message::Report(vec![(group, joins)]))
}

/// Group records of RFC 3376, 4.2.4, and RFC 3810, 5.2; they differ in the address length.
fn records_of<const LENGTH: usize>(
    mut records: &[u8],
    address: fn(&[u8]) -> Option<IpAddr>,
) -> Message {
    let mut groups = Vec::new();
    while let [kind, auxiliary, high, low, group @ ..] = records {
        let sources = usize::from(u16::from_be_bytes([*high, *low]));
        // Include mode without sources is a leave; anything else is a join.
        // 1 and 3 are include mode, 6 blocks sources (RFC 3376, 4.2.12).
        let joins = !(matches!(kind, 1 | 3) && sources == 0) && *kind != 6;
        groups.extend(address(group).map(|group| (group, joins)));
        let len = 4 + LENGTH + LENGTH * sources + 4 * usize::from(*auxiliary);
        records = records.get(len..).unwrap_or_default();
    }
    Message::Report(groups)
}

fn v4(bytes: &[u8]) -> Option<IpAddr> {
    bytes.first_chunk::<4>().map(|bytes| IpAddr::from(*bytes))
}

fn v6(bytes: &[u8]) -> Option<IpAddr> {
    bytes.first_chunk::<16>().map(|bytes| IpAddr::from(*bytes))
}

/// Destination group of a multicast frame, if hosts report it. `None` for unicast and for
/// groups that are always flooded (RFC 4541, 2.1.2 and 3): 224.0.0.0/24, and IPv6 groups of
/// interface- or link-local scope.
pub(crate) fn group_of(frame: &[u8]) -> Option<IpAddr> {
    // The lowest bit of the first byte marks a group address.
    if frame.first()? & 1 == 0 {
        return None;
    }
    let address = match SlicedPacket::from_ethernet(frame).ok()?.net? {
        NetSlice::Ipv4(ip) => IpAddr::V4(ip.header().destination_addr()),
        NetSlice::Ipv6(ip) => IpAddr::V6(ip.header().destination_addr()),
        NetSlice::Arp(_) => return None,
    };
    is_reported(address).then_some(address)
}

/// Whether hosts report membership in this group.
pub(crate) fn is_reported(group: IpAddr) -> bool {
    match group {
        IpAddr::V4(group) => group.is_multicast() && group.octets()[..3] != [224, 0, 0],
        IpAddr::V6(group) => group.is_multicast() && group.octets()[1] & 0xf > 2,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use etherparse::{IpNumber, Ipv4Header};

    pub fn igmp_frame(message: &[u8]) -> Vec<u8> {
        igmp_from([10, 0, 0, 2], message)
    }

    pub fn igmp_from(source: [u8; 4], message: &[u8]) -> Vec<u8> {
        let len = message.len() as u16;
        let ip = Ipv4Header::new(len, 1, IpNumber::IGMP, source, [224, 0, 0, 22]).unwrap();
        let mut frame = vec![1, 0, 0x5e, 0, 0, 22, 2, 0, 0, 0, 0, 2, 8, 0];
        ip.write(&mut frame).unwrap();
        frame.extend(message);
        frame
    }

    /// An MLD message as hosts send it: hop limit 1, router alert (RFC 2711).
    pub fn mld_frame(message: &[u8]) -> Vec<u8> {
        let mut frame = vec![0x33, 0x33, 0, 0, 0, 0x16, 2, 0, 0, 0, 0, 2, 0x86, 0xdd];
        frame.extend([0x60, 0, 0, 0, 0, 8 + message.len() as u8, 0, 1]);
        frame.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        frame.extend([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x16]);
        frame.extend([ICMPV6, 0, 5, 2, 0, 0, 1, 0]);
        frame.extend(message);
        frame
    }

    pub const JOIN_V3: [u8; 16] = [0x22, 0, 0, 0, 0, 0, 0, 1, 4, 0, 0, 0, 239, 1, 2, 3];
    pub const LEAVE_V3: [u8; 16] = [0x22, 0, 0, 0, 0, 0, 0, 1, 3, 0, 0, 0, 239, 1, 2, 3];

    fn report(group: &str, joins: bool) -> Option<Message> {
        Some(Message::Report(vec![(group.parse().unwrap(), joins)]))
    }

    #[test]
    fn igmp_of_all_versions() {
        assert_eq!(read(&igmp_frame(&JOIN_V3)), report("239.1.2.3", true));
        assert_eq!(read(&igmp_frame(&LEAVE_V3)), report("239.1.2.3", false));
        assert_eq!(read(&igmp_frame(&[0x16, 0, 0, 0, 239, 1, 2, 3])), report("239.1.2.3", true));
        assert_eq!(read(&igmp_frame(&[0x12, 0, 0, 0, 239, 1, 2, 3])), report("239.1.2.3", true));
        assert_eq!(read(&igmp_frame(&[0x17, 0, 0, 0, 239, 1, 2, 3])), report("239.1.2.3", false));
        let query = [0x11, 100, 0, 0, 0, 0, 0, 0];
        assert_eq!(read(&igmp_frame(&query)), Some(Message::Query { from_router: true }));
        let switch = igmp_from([0; 4], &query);
        assert_eq!(read(&switch), Some(Message::Query { from_router: false }));
    }

    #[test]
    fn mld_of_both_versions() {
        let group = "ff05::1:3".parse::<std::net::Ipv6Addr>().unwrap().octets();
        let with = |head: &[u8]| mld_frame(&[head, &group].concat());
        assert_eq!(read(&with(&[131, 0, 0, 0, 0, 0, 0, 0])), report("ff05::1:3", true));
        assert_eq!(read(&with(&[132, 0, 0, 0, 0, 0, 0, 0])), report("ff05::1:3", false));
        let v2 = [143, 0, 0, 0, 0, 0, 0, 1];
        assert_eq!(read(&with(&[&v2[..], &[4, 0, 0, 0]].concat())), report("ff05::1:3", true));
        assert_eq!(read(&with(&[&v2[..], &[3, 0, 0, 0]].concat())), report("ff05::1:3", false));
        let query = read(&with(&[130, 0, 0, 0, 0, 0, 0, 0]));
        assert_eq!(query, Some(Message::Query { from_router: true }));
        // Neighbour solicitation is not a membership message.
        assert_eq!(read(&with(&[135, 0, 0, 0, 0, 0, 0, 0])), None);
    }

    #[test]
    fn groups_that_are_reported_and_those_that_are_flooded() {
        for (group, is) in [
            ("239.1.2.3", true),
            ("224.0.1.187", true),
            ("224.0.0.251", false),
            ("10.0.0.1", false),
            ("ff05::fd", true),
            ("ff02::1:ff00:1", false),
            ("ff01::1", false),
        ] {
            assert_eq!(is_reported(group.parse().unwrap()), is, "{group}");
        }
    }

    #[test]
    fn truncated_and_hostile_messages_do_not_panic() {
        for whole in [igmp_frame(&JOIN_V3), mld_frame(&[143, 0, 0, 0, 0, 0, 0, 1, 4, 0, 0, 0])] {
            for len in 0..whole.len() {
                read(&whole[..len]);
                group_of(&whole[..len]);
            }
        }
        let mut liar = JOIN_V3;
        (liar[9], liar[10], liar[11]) = (255, 255, 255);
        assert_eq!(read(&igmp_frame(&liar)), report("239.1.2.3", true));
        assert!(matches!(read(&igmp_frame(&[0x22; 7])), None | Some(Message::Other)));
        assert_eq!(read(&[0; 3]), None);
    }
}
