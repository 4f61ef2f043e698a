//! Names of protocol numbers, from the registries of IEEE, IANA and tcpdump.org, for
//! protocols that this crate names but does not dissect.
//!
//! A protocol is *plain* if it contains no IP packet, so that counting it by name misses
//! nothing. It is *hiding* if it may contain one.

fn find<N: PartialEq + Copy>(table: &[(N, &'static str)], number: N) -> Option<&'static str> {
    table.iter().find(|(known, _)| *known == number).map(|(_, name)| *name)
}

/// The name of an unsupported link type (tcpdump.org's list).
pub(crate) fn link_type(number: u16) -> Option<&'static str> {
    find(LINK_TYPES, number)
}

/// The name of an EtherType without IP inside.
pub(crate) fn plain_ether_type(number: u16) -> Option<&'static str> {
    find(PLAIN_ETHER_TYPES, number)
}

/// The name of an EtherType that may have IP inside.
pub(crate) fn hiding_ether_type(number: u16) -> Option<&'static str> {
    find(HIDING_ETHER_TYPES, number)
}

/// The name of a PPP protocol without IP inside. All from 0x8000 on are control protocols
/// (RFC 1661, section 2).
pub(crate) fn plain_ppp(number: u16) -> Option<&'static str> {
    let control = (number >= 0x8000).then_some("PPP control");
    find(PLAIN_PPP, number).or(control)
}

/// The name of a PPP protocol that may have IP inside.
pub(crate) fn hiding_ppp(number: u16) -> Option<&'static str> {
    find(HIDING_PPP, number)
}

/// The name of an IP protocol without ports or packets inside.
pub(crate) fn plain_ip_protocol(number: u8) -> Option<&'static str> {
    find(PLAIN_IP_PROTOCOLS, number)
}

/// The name of an IP protocol with a transport or packets inside.
pub(crate) fn hiding_ip_protocol(number: u8) -> Option<&'static str> {
    find(HIDING_IP_PROTOCOLS, number)
}

/// The name of any IP protocol, or its number.
pub(crate) fn ip_protocol(number: u8) -> String {
    let name = find(READ_IP_PROTOCOLS, number)
        .or(plain_ip_protocol(number))
        .or(hiding_ip_protocol(number));
    name.map_or_else(|| format!("IP protocol {number}"), str::to_owned)
}

const LINK_TYPES: &[(u16, &str)] = &[
    (3, "AX.25"),
    (6, "IEEE 802.5 Token Ring"),
    (7, "ARCNET"),
    (8, "SLIP"),
    (10, "FDDI"),
    (11, "ATM, RFC 1483"),
    (105, "IEEE 802.11 WLAN"),
    (107, "Frame Relay"),
    (114, "LocalTalk"),
    (117, "OpenBSD pflog"),
    (119, "IEEE 802.11 WLAN with Prism header"),
    (122, "IP over Fibre Channel"),
    (123, "ATM, SunATM"),
    (127, "IEEE 802.11 WLAN with radiotap header"),
    (129, "ARCNET on Linux"),
    (138, "IP over IEEE 1394"),
    (143, "DOCSIS"),
    (144, "IrDA"),
    (163, "IEEE 802.11 WLAN with AVS header"),
    (165, "BACnet MS/TP"),
    (169, "GPRS LLC"),
    (187, "Bluetooth HCI"),
    (189, "USB on Linux"),
    (190, "CAN 2.0B"),
    (191, "IEEE 802.15.4 on Linux"),
    (192, "Per-Packet Information"),
    (197, "Endace ERF"),
    (201, "Bluetooth HCI with direction"),
    (202, "AX.25 with KISS header"),
    (206, "Frame Relay with direction"),
    (209, "IPMB"),
    (210, "FlexRay"),
    (211, "MOST"),
    (212, "LIN"),
    (220, "USB on Linux"),
    (221, "DECT"),
    (223, "WirelessHART"),
    (224, "Fibre Channel"),
    (225, "Fibre Channel with frame delimiters"),
    (227, "CAN"),
    (231, "D-Bus"),
    (239, "Linux netfilter log"),
    (242, "IP over InfiniBand"),
    (243, "MPEG-2 transport stream"),
    (245, "NFC LLCP"),
    (247, "InfiniBand"),
    (249, "USB on Windows"),
    (251, "Bluetooth LE"),
    (252, "Wireshark upper PDU"),
    (253, "Netlink"),
    (254, "Bluetooth on Linux"),
    (255, "Bluetooth BR/EDR"),
    (256, "Bluetooth LE with physical-layer header"),
    (257, "PROFIBUS"),
    (261, "Z-Wave R1 and R2"),
    (262, "Z-Wave R3"),
    (266, "USB on macOS"),
    (270, "LoRa with LoRaTap header"),
    (271, "vsock"),
    (272, "Bluetooth LE, Nordic sniffer"),
    (287, "Z-Wave serial"),
    (288, "USB 2.0"),
];

const PLAIN_ETHER_TYPES: &[(u16, &str)] = &[
    (0x0842, "Wake-on-LAN"),
    (0x22f0, "AVTP"),
    (0x6002, "DECnet MOP"),
    (0x6003, "DECnet"),
    (0x8035, "RARP"),
    (0x809b, "AppleTalk"),
    (0x80f3, "AppleTalk ARP"),
    (0x8137, "IPX"),
    (0x8808, "Ethernet flow control"),
    (0x8809, "Ethernet slow protocols"),
    (0x8863, "PPPoE discovery"),
    (0x887b, "HomePlug"),
    (0x888e, "EAPOL"),
    (0x8892, "PROFINET"),
    (0x88a2, "ATA over Ethernet"),
    (0x88a4, "EtherCAT"),
    (0x88ab, "POWERLINK"),
    (0x88b8, "GOOSE"),
    (0x88b9, "GSE management"),
    (0x88ba, "Sampled Values"),
    (0x88bf, "MikroTik RoMON"),
    (0x88ca, "TIPC"),
    (0x88cc, "LLDP"),
    (0x88cd, "SERCOS III"),
    (0x88e1, "HomePlug AV"),
    (0x88e3, "MRP"),
    (0x88f5, "MVRP"),
    (0x88f6, "MMRP"),
    (0x88f7, "PTP"),
    (0x88fb, "PRP supervision"),
    (0x8902, "CFM"),
    (0x8906, "FCoE"),
    (0x8914, "FCoE initialization"),
    (0x8915, "RoCE"),
    (0x9000, "Ethernet loopback test"),
];

const HIDING_ETHER_TYPES: &[(u16, &str)] = &[
    (0x00f6, "IEEE 802.15.4 on Linux"),
    (0x6558, "transparent Ethernet bridging"),
    (0x88b5, "local experimental 1"),
    (0x88b6, "local experimental 2"),
    (0x88e5, "MACsec, encrypted"),
    (0x88e7, "provider backbone bridging"),
    (0x8926, "Cisco VN-Tag"),
    (0x892f, "HSR"),
    (0x894f, "network service header"),
    (0xa0ed, "6LoWPAN"),
];

const PLAIN_PPP: &[(u16, &str)] = &[
    (0x0023, "OSI network layer"),
    (0x002b, "IPX"),
    (0x8021, "PPP IPCP"),
    (0x8057, "PPP IPv6CP"),
    (0x80fd, "PPP CCP"),
    (0xc021, "PPP LCP"),
    (0xc023, "PPP PAP"),
    (0xc025, "PPP LQR"),
    (0xc223, "PPP CHAP"),
    (0xc227, "PPP EAP"),
];

const HIDING_PPP: &[(u16, &str)] = &[
    (0x002d, "compressed TCP/IP"),
    (0x002f, "uncompressed TCP/IP of a compressing link"),
    (0x0031, "bridging"),
    (0x003d, "multilink"),
    (0x0053, "encryption"),
    (0x0055, "encryption, one link"),
    (0x0061, "compressed headers, full"),
    (0x0067, "compressed headers"),
    (0x00fb, "compression, one link"),
    (0x00fd, "compression"),
];

const READ_IP_PROTOCOLS: &[(u8, &str)] = &[
    (0, "IPv6 hop-by-hop options"),
    (1, "ICMP"),
    (2, "IGMP"),
    (6, "TCP"),
    (17, "UDP"),
    (43, "IPv6 routing"),
    (51, "AH"),
    (58, "ICMPv6"),
    (60, "IPv6 destination options"),
    (113, "PGM"),
    (135, "IPv6 mobility"),
];

const PLAIN_IP_PROTOCOLS: &[(u8, &str)] = &[
    (3, "GGP"),
    (8, "EGP"),
    (9, "IGRP"),
    (46, "RSVP"),
    (59, "IPv6 without next header"),
    (88, "EIGRP"),
    (89, "OSPF"),
    (103, "PIM"),
    (112, "VRRP"),
    (124, "IS-IS over IP"),
];

const HIDING_IP_PROTOCOLS: &[(u8, &str)] = &[
    (4, "IPv4 in IP"),
    (33, "DCCP"),
    (41, "IPv6 in IP"),
    (47, "GRE"),
    (50, "ESP"),
    (94, "IPIP"),
    (97, "EtherIP"),
    (108, "IPComp"),
    (115, "L2TP"),
    (132, "SCTP"),
    (136, "UDP-Lite"),
    (137, "MPLS in IP"),
    (143, "Ethernet in IP"),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted<N: PartialOrd + Copy>(table: &[(N, &str)]) -> bool {
        table.is_sorted_by(|a, b| a.0 < b.0)
    }

    #[test]
    fn each_number_has_one_name() {
        assert!(sorted(LINK_TYPES));
        assert!(sorted(PLAIN_ETHER_TYPES) && sorted(HIDING_ETHER_TYPES));
        assert!(sorted(PLAIN_PPP) && sorted(HIDING_PPP));
        assert!(sorted(PLAIN_IP_PROTOCOLS) && sorted(HIDING_IP_PROTOCOLS));
        assert!(PLAIN_ETHER_TYPES.iter().all(|(number, _)| hiding_ether_type(*number).is_none()));
        assert!(PLAIN_PPP.iter().all(|(number, _)| hiding_ppp(*number).is_none()));
        assert!(PLAIN_IP_PROTOCOLS.iter().all(|(number, _)| hiding_ip_protocol(*number).is_none()));
    }

    #[test]
    fn an_ip_protocol_without_a_name_has_its_number() {
        assert_eq!((ip_protocol(17), ip_protocol(50)), ("UDP".to_owned(), "ESP".to_owned()));
        assert_eq!(ip_protocol(200), "IP protocol 200");
    }
}
