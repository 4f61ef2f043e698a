//! Flows: what random decisions about frames belong to.
//!
//! The decision about a frame depends on the seed, the link, the direction, the flow and the
//! frame's index in its flow, and on nothing else. So an ARP request, or the traffic of another
//! program, does not change which frames of a flow are lost.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Ports from here on are ephemeral (the lower end of Linux's `ip_local_port_range`): they differ
/// between two runs of the same program, so they do not count.
const EPHEMERAL: u16 = 32_768;

// EtherTypes and IP protocol numbers, as IEEE and IANA assigned them.
const ARP: u16 = 0x0806;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
const VLAN: u16 = 0x8100;
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;

/// Identifies the flow of a frame: the protocol, both addresses and, for TCP and UDP, the ports
/// that are not ephemeral. For ICMP the message type takes the place of the port. Fragments have
/// no ports. ARP, neighbour discovery and IGMP are separate flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flow {
    ethertype: u16,
    protocol: u8,
    /// Link addresses, if there are no network addresses.
    source: [u8; 16],
    destination: [u8; 16],
    ports: [u16; 2],
}

impl Flow {
    /// The flow of a frame that begins with an Ethernet header. A frame that is too short for its
    /// protocol has the flow of what can be read of it.
    pub fn of(frame: &[u8]) -> Self {
        let mut at = 12;
        let mut ethertype = word(frame, at);
        // Tags may be stacked; the loop ends with the frame.
        while ethertype == Some(VLAN) {
            at += 4;
            ethertype = word(frame, at);
        }
        let Some(ethertype) = ethertype else { return Self::default() };
        let packet = frame.get(at + 2..).unwrap_or_default();
        let read = match ethertype {
            IPV4 => Self::ipv4(packet),
            IPV6 => Self::ipv6(packet),
            ARP => Self::arp(packet),
            _ => None,
        };
        let link = || Self {
            destination: address(frame, 0, 6).unwrap_or_default(),
            source: address(frame, 6, 6).unwrap_or_default(),
            ..Self::default()
        };
        Self { ethertype, ..read.unwrap_or_else(link) }
    }

    fn ipv4(packet: &[u8]) -> Option<Self> {
        let protocol = *packet.get(9)?;
        let header = usize::from(packet[0] & 0xf) * 4;
        // More fragments, or an offset.
        // Also the first fragment has no ports, so that all of a datagram are in one flow.
        let fragment = word(packet, 6)? & 0x3fff != 0;
        Some(Self {
            protocol,
            source: address(packet, 12, 4)?,
            destination: address(packet, 16, 4)?,
            ports: if fragment { [0; 2] } else { ports(protocol, packet.get(header..)) },
            ..Self::default()
        })
    }

    /// Extension headers are not skipped: a packet that has some is of their flow.
    fn ipv6(packet: &[u8]) -> Option<Self> {
        let protocol = *packet.get(6)?;
        Some(Self {
            protocol,
            source: address(packet, 8, 16)?,
            destination: address(packet, 24, 16)?,
            ports: ports(protocol, packet.get(40..)),
            ..Self::default()
        })
    }

    fn arp(packet: &[u8]) -> Option<Self> {
        let [source, destination] = [address(packet, 14, 4)?, address(packet, 24, 4)?];
        Some(Self { source, destination, ..Self::default() })
    }

    /// A number for the flow. Two flows with the same number have the same random numbers.
    pub fn id(&self) -> u64 {
        let half = |bytes: &[u8; 16], at: usize| {
            u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
        };
        let ports = u64::from(self.ports[0]) << 16 | u64::from(self.ports[1]);
        let kind = u64::from(self.ethertype) << 40 | u64::from(self.protocol) << 32 | ports;
        let (source, destination) = (&self.source, &self.destination);
        let add = |id: u64, word: u64| units::mix(id ^ word);
        match self.ethertype {
            // Each address has four bytes.
            IPV4 | ARP => add(units::mix(kind), half(source, 0) << 32 | half(destination, 0)),
            _ => [half(source, 0), half(source, 8), half(destination, 0), half(destination, 8)]
                .into_iter()
                .fold(units::mix(kind), add),
        }
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ip = |bytes: &[u8; 16]| match self.ethertype {
            IPV6 => IpAddr::V6(Ipv6Addr::from(*bytes)),
            _ => IpAddr::V4(Ipv4Addr::new(bytes[0], bytes[1], bytes[2], bytes[3])),
        };
        let name = match (self.ethertype, self.protocol) {
            (ARP, _) => "ARP",
            (IPV4 | IPV6, TCP) => "TCP",
            (IPV4 | IPV6, UDP) => "UDP",
            (IPV4, ICMP) | (IPV6, ICMPV6) => "ICMP",
            (IPV4 | IPV6, protocol) => {
                let [source, destination] = [&self.source, &self.destination].map(ip);
                return write!(f, "IP protocol {protocol} {source} -> {destination}");
            }
            (other, _) => return write!(f, "EtherType {other:#06x}"),
        };
        let has_ports = matches!(self.protocol, TCP | UDP);
        let port = |port: u16| match port {
            0 => String::new(),
            port => format!(":{port}"),
        };
        let [from, to] =
            self.ports.map(|number| if has_ports { port(number) } else { String::new() });
        write!(f, "{name} {}{from} -> {}{to}", ip(&self.source), ip(&self.destination))
    }
}

/// What tells flows between the same addresses apart.
fn ports(protocol: u8, transport: Option<&[u8]>) -> [u16; 2] {
    let transport = transport.unwrap_or_default();
    let port = |at| word(transport, at).filter(|port| *port < EPHEMERAL).unwrap_or(0);
    match protocol {
        TCP | UDP => [port(0), port(2)],
        // Without the identifier of a ping, which differs between runs (decision 45).
        ICMP | ICMPV6 => [transport.first().copied().map_or(0, u16::from), 0],
        _ => [0; 2],
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

fn address(bytes: &[u8], at: usize, length: usize) -> Option<[u8; 16]> {
    let mut address = [0; 16];
    address[..length].copy_from_slice(bytes.get(at..at + length)?);
    Some(address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{ArpPacket, IpFragOffset, IpNumber, Ipv4Header, PacketBuilder};

    const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]];

    fn udp(ports: [u16; 2]) -> Vec<u8> {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2(MACS[0], MACS[1])
            .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
            .udp(ports[0], ports[1])
            .write(&mut frame, &[0; 30])
            .unwrap();
        frame
    }

    fn tcp(ports: [u16; 2]) -> Vec<u8> {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2(MACS[0], MACS[1])
            .ipv6([1; 16], [2; 16], 64)
            .tcp(ports[0], ports[1], 7, 1000)
            .write(&mut frame, &[0; 30])
            .unwrap();
        frame
    }

    fn ping(id: u16) -> Vec<u8> {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2(MACS[0], MACS[1])
            .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
            .icmpv4_echo_request(id, 1)
            .write(&mut frame, &[0; 30])
            .unwrap();
        frame
    }

    fn fragment(offset: u16) -> Vec<u8> {
        let mut ip = Ipv4Header::new(88, 64, IpNumber::UDP, [10, 0, 0, 1], [10, 0, 0, 2]).unwrap();
        ip.more_fragments = true;
        ip.fragment_offset = IpFragOffset::try_new(offset / 8).unwrap();
        let mut frame = [MACS[1], MACS[0]].concat();
        frame.extend([8, 0]);
        ip.write(&mut frame).unwrap();
        frame.extend(offset.to_be_bytes().repeat(44));
        frame
    }

    fn arp() -> Vec<u8> {
        let packet = ArpPacket::new(
            etherparse::ArpHardwareId::ETHERNET,
            etherparse::EtherType::IPV4,
            etherparse::ArpOperation::REQUEST,
            &MACS[0],
            &[10, 0, 0, 1],
            &[0; 6],
            &[10, 0, 0, 2],
        );
        let mut frame = [MACS[1], MACS[0]].concat();
        frame.extend([8, 6]);
        packet.unwrap().write(&mut frame).unwrap();
        frame
    }

    fn id(frame: &[u8]) -> u64 {
        Flow::of(frame).id()
    }

    #[test]
    fn what_differs_between_two_runs_does_not_change_the_flow() {
        assert_eq!(id(&udp([40_000, 5683])), id(&udp([50_123, 5683])), "ephemeral ports");
        assert_eq!(id(&tcp([80, 33_000])), id(&tcp([80, 60_000])));
        assert_eq!(id(&ping(1)), id(&ping(9)), "the identifier of a ping");
        assert_eq!(id(&fragment(0)), id(&fragment(88)));
    }

    #[test]
    fn protocols_directions_services_and_arp_are_separate_flows() {
        let reply = {
            let mut frame = ping(1);
            frame[34] = 0;
            frame
        };
        let all = [
            id(&udp([40_000, 5683])),
            id(&udp([40_000, 5684])),
            id(&udp([5683, 40_000])),
            id(&tcp([40_000, 5683])),
            id(&ping(1)),
            id(&reply),
            id(&fragment(0)),
            id(&arp()),
            id(&[0; 20]),
        ];
        let different: std::collections::BTreeSet<u64> = all.into_iter().collect();
        assert_eq!(different.len(), all.len());
    }

    #[test]
    fn a_vlan_tag_is_skipped() {
        let plain = udp([40_000, 5683]);
        let mut tagged = plain.clone();
        tagged.splice(12..12, [0x81, 0, 0, 7]);
        assert_eq!(Flow::of(&tagged), Flow::of(&plain));
    }

    #[test]
    fn flows_are_named() {
        assert_eq!(Flow::of(&udp([40_000, 5683])).to_string(), "UDP 10.0.0.1 -> 10.0.0.2:5683");
        assert_eq!(Flow::of(&ping(1)).to_string(), "ICMP 10.0.0.1 -> 10.0.0.2");
        assert_eq!(Flow::of(&arp()).to_string(), "ARP 10.0.0.1 -> 10.0.0.2");
        assert!(Flow::of(&tcp([80, 40_000])).to_string().starts_with("TCP 101:101:"));
        assert_eq!(Flow::of(&[0; 14]).to_string(), "EtherType 0x0000");
    }

    #[test]
    fn any_prefix_of_a_frame_has_a_flow() {
        for frame in [udp([1, 2]), tcp([1, 2]), ping(1), fragment(88), arp()] {
            for length in 0..frame.len() {
                let _ = (Flow::of(&frame[..length]).id(), Flow::of(&frame[..length]).to_string());
            }
        }
    }
}
