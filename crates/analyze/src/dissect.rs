//! A packet's layers and the fields of them that matter here.

use etherparse::{EtherType, IpNumber, LaxNetSlice, LaxSlicedPacket, TcpHeaderSlice};

/// An address of IPv4 (mapped, RFC 4291, section 2.5.5.2) or of IPv6.
pub(crate) type Address = u128;

/// A packet taken apart. Lengths are those of the wire, which the capture may
/// have cut: `link + network + transport + carried` is the packet's length.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    /// Ethernet's header or the like, and what follows the IP packet.
    pub link: u32,
    pub network: u32,
    pub transport: u32,
    pub carried: u32,
    /// As much as the capture has of what the transport carries.
    pub data: &'a [u8],
    pub macs: Option<[[u8; 6]; 2]>,
    pub addresses: Option<[Address; 2]>,
    /// Where the IP packet begins in the captured bytes.
    pub start: usize,
    pub what: What,
}

#[derive(Debug)]
pub(crate) enum What {
    Tcp(Tcp),
    /// Source and destination port.
    Udp([u16; 2]),
    Icmp,
    Igmp,
    Pgm,
    Arp,
    /// A later piece of a datagram, of UDP or not.
    Fragment,
    Other,
}

/// A segment's header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tcp {
    pub ports: [u16; 2],
    pub sequence: u32,
    pub acknowledgement: u32,
    pub window: u16,
    pub syn: bool,
    pub ack: bool,
    pub fin: bool,
    pub rst: bool,
}

/// Link types (tcpdump.org's list).
const NULL: i32 = 0;
const ETHERNET: i32 = 1;
const RAW: [i32; 3] = [101, 228, 229];
const LINUX_SLL: i32 = 113;
const LINUX_SLL2: i32 = 276;
/// Lengths of their headers, and PGM's number among the protocols on IP.
const SLL_HEADER: usize = 16;
const SLL2_HEADER: usize = 20;
const PGM: u8 = 113;

/// Takes a packet apart that began with a header of `link`.
pub(crate) fn dissect(link: i32, data: &[u8], length: u32) -> Parts<'_> {
    let mut parts = Parts {
        link: length,
        network: 0,
        transport: 0,
        carried: 0,
        data: &[],
        macs: None,
        addresses: None,
        start: 0,
        what: What::Other,
    };
    let sliced = match link {
        ETHERNET => {
            if let (Some(to), Some(from)) = (mac(data, 0), mac(data, 6)) {
                parts.macs = Some([from, to]);
            }
            LaxSlicedPacket::from_ethernet(data).ok()
        }
        LINUX_SLL => cooked(data, SLL_HEADER - 2, SLL_HEADER),
        LINUX_SLL2 => cooked(data, 0, SLL2_HEADER),
        NULL => data.get(4..).and_then(|ip| LaxSlicedPacket::from_ip(ip).ok()),
        other if RAW.contains(&other) => LaxSlicedPacket::from_ip(data).ok(),
        _ => None,
    };
    let Some(net) = sliced.and_then(|sliced| sliced.net) else { return parts };
    let (ip, header, total) = match &net {
        LaxNetSlice::Ipv4(ip) => {
            let header = ip.header();
            let pair = [header.source(), header.destination()];
            parts.addresses =
                Some(pair.map(|v4| u128::from(std::net::Ipv4Addr::from(v4).to_ipv6_mapped())));
            let slice = header.slice();
            (ip.payload(), slice, usize::from(header.total_len()))
        }
        LaxNetSlice::Ipv6(ip) => {
            let header = ip.header();
            parts.addresses =
                Some([header.source(), header.destination()].map(u128::from_be_bytes));
            let slice = header.slice();
            (ip.payload(), slice, slice.len() + usize::from(header.payload_length()))
        }
        LaxNetSlice::Arp(_) => {
            parts.what = What::Arp;
            return parts;
        }
    };
    parts.start = offset(data, header);
    let rest = ip.payload;
    // Extension headers of IPv6 lie between the two.
    let before = offset(data, rest).max(parts.start + header.len());
    let whole = (length as usize).saturating_sub(parts.start);
    // A length of 0 is that of a packet which the kernel had not yet cut into segments.
    let total = match total {
        total if total > header.len() && total <= whole => total,
        _ => whole,
    };
    parts.network = (before - parts.start).min(total) as u32;
    let above = total - parts.network as usize;
    parts.link = length - parts.network - above as u32;
    transport(&mut parts, ip.ip_number, ip.fragmented, first(&net), rest, above);
    parts
}

/// A packet behind a header of Linux's own, with Ethernet's type at `at`.
fn cooked(data: &[u8], at: usize, header: usize) -> Option<LaxSlicedPacket<'_>> {
    let kind = u16::from_be_bytes(data.get(at..at + 2)?.try_into().ok()?);
    Some(LaxSlicedPacket::from_ether_type(EtherType(kind), data.get(header..)?))
}

/// Whether an IP packet is whole or the first piece of a datagram.
fn first(net: &LaxNetSlice<'_>) -> bool {
    match net {
        LaxNetSlice::Ipv4(ip) => ip.header().fragments_offset().value() == 0,
        _ => true,
    }
}

fn transport<'a>(
    parts: &mut Parts<'a>,
    protocol: IpNumber,
    fragmented: bool,
    first: bool,
    rest: &'a [u8],
    above: usize,
) {
    let mut split = |header: usize, what| {
        let header = header.min(above);
        parts.transport = header as u32;
        parts.carried = (above - header) as u32;
        let data = rest.get(header..).unwrap_or_default();
        parts.data = &data[..data.len().min(above - header)];
        parts.what = what;
    };
    if fragmented && !first {
        return split(0, What::Fragment);
    }
    match protocol {
        IpNumber::TCP => match TcpHeaderSlice::from_slice(rest) {
            Ok(header) => split(header.slice().len(), What::Tcp(tcp(&header))),
            Err(_) => split(above, What::Other),
        },
        IpNumber::UDP => match rest {
            [a, b, c, d, ..] if above >= 8 => {
                split(8, What::Udp([u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])]));
            }
            _ => split(above, What::Other),
        },
        IpNumber::ICMP | IpNumber::IPV6_ICMP => split(above, What::Icmp),
        IpNumber::IGMP => split(above, What::Igmp),
        IpNumber(PGM) => split(above.min(16), What::Pgm),
        _ => split(0, What::Other),
    }
}

fn tcp(header: &TcpHeaderSlice<'_>) -> Tcp {
    Tcp {
        ports: [header.source_port(), header.destination_port()],
        sequence: header.sequence_number(),
        acknowledgement: header.acknowledgment_number(),
        window: header.window_size(),
        syn: header.syn(),
        ack: header.ack(),
        fin: header.fin(),
        rst: header.rst(),
    }
}

fn mac(data: &[u8], at: usize) -> Option<[u8; 6]> {
    data.get(at..at + 6)?.try_into().ok()
}

/// How far into `data` its part begins.
fn offset(data: &[u8], part: &[u8]) -> usize {
    (part.as_ptr() as usize).saturating_sub(data.as_ptr() as usize).min(data.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    fn frame(payload: usize) -> Vec<u8> {
        let builder =
            PacketBuilder::ethernet2([2; 6], [4; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
        let mut frame = Vec::new();
        builder.tcp(1883, 40_000, 7, 9).write(&mut frame, &vec![5; payload]).unwrap();
        frame
    }

    #[test]
    fn layers_add_up_however_a_packet_was_cut() {
        let whole = frame(100);
        for cut in 0..=whole.len() {
            let parts = dissect(ETHERNET, &whole[..cut], whole.len() as u32);
            let sum = parts.link + parts.network + parts.transport + parts.carried;
            assert_eq!(sum as usize, whole.len(), "cut at {cut}");
            if cut >= 54 {
                assert_eq!((parts.network, parts.transport, parts.carried), (20, 20, 100));
                assert_eq!(parts.data.len(), cut - 54);
            }
        }
    }

    #[test]
    fn padding_belongs_to_the_link() {
        let mut short = frame(0);
        short.resize(60, 0);
        let parts = dissect(ETHERNET, &short, 60);
        assert_eq!((parts.link, parts.carried, parts.data.len()), (20, 0, 0));
    }

    #[test]
    fn packets_without_a_link_header() {
        let whole = frame(9);
        let parts = dissect(101, &whole[14..], 49);
        assert_eq!((parts.link, parts.carried), (0, 9));
        assert!(matches!(parts.what, What::Tcp(tcp) if tcp.ports == [1883, 40_000]));
    }
}
