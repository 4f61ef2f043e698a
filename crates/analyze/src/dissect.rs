//! Dissects a packet into its layers and the header fields needed here.

use crate::contexts::KnownContexts;
use crate::icmp;
use crate::ieee802154::{self, Frame};
pub(crate) use crate::ip::Address;
use crate::ip::{Ip, headers};
use crate::link::{ETHERNET, Network, network};
use crate::lowpan::{self, Lowpan, Packet};
use crate::names;
use crate::reassembly::Part;
use crate::unread::Unread;

/// A dissected packet. Lengths are those on the wire, in bytes, even if the capture is
/// truncated: `link + network + transport + carried` is the packet's length.
#[derive(Debug)]
pub(crate) struct Parts<'a> {
    /// The link header (e.g. Ethernet's), and bytes after the IP packet.
    pub link: u32,
    pub network: u32,
    pub transport: u32,
    pub carried: u32,
    /// The captured part of the transport payload.
    pub data: &'a [u8],
    pub macs: Option<[[u8; 6]; 2]>,
    pub addresses: Option<[Address; 2]>,
    /// The offset of the IP packet in the captured bytes.
    pub start: usize,
    pub what: What,
    /// What a frame has of a datagram in fragments, if all of it was captured.
    pub part: Option<Part<'a>>,
    /// How the transport of such a datagram begins, if this is its first fragment.
    pub head: Option<Head>,
}

impl Default for Parts<'_> {
    /// Nothing; `what` is a placeholder.
    fn default() -> Self {
        Self {
            link: 0,
            network: 0,
            transport: 0,
            carried: 0,
            data: &[],
            macs: None,
            addresses: None,
            start: 0,
            what: What::Arp,
            part: None,
            head: None,
        }
    }
}

/// How the transport of a datagram in fragments begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Head {
    /// Length of the uncompressed headers in front of it, in B.
    headers: usize,
    transport: Transport,
}

#[derive(Debug, Clone, Copy)]
enum Transport {
    /// A compressed header of UDP, with these ports.
    CompressedUdp([u16; 2]),
    /// A plain header of this protocol.
    Plain(u8),
}

impl Head {
    /// The transport, and the place of its payload, of the datagram `data`; none if its headers are
    /// longer than it is.
    pub fn transport(&self, data: &[u8]) -> Option<(What, usize)> {
        let rest = data.get(self.headers..)?;
        let (header, what) = match self.transport {
            Transport::CompressedUdp(ports) => (UDP_HEADER, What::Udp(ports)),
            Transport::Plain(protocol) => transport(protocol, rest, rest.len()),
        };
        (header <= rest.len()).then_some((what, self.headers + header))
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum What {
    Tcp(Tcp),
    /// Source and destination port.
    Udp([u16; 2]),
    /// The name of the message.
    Icmp(&'static str),
    Igmp,
    Pgm,
    Arp,
    /// A fragment without a transport header; the protocol of its datagram, if it says so.
    LaterFragment(Option<u8>),
    /// The name of a protocol whose content is not analysed.
    Other(&'static str),
    Unread(Unread),
}

/// A TCP segment's header.
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
    /// Only for a SYN.
    pub scale: WindowScale,
}

/// The window scale option of a SYN (RFC 7323, section 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WindowScale {
    /// The capture has cut off the options.
    Cut,
    Absent,
    Shift(u8),
}

/// IANA's protocol numbers.
const ICMP: u8 = 1;
const IGMP: u8 = 2;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
const PGM: u8 = 113;
/// Length of a UDP header (RFC 768), in B.
const UDP_HEADER: usize = 8;
/// Length of PGM's common header (RFC 3208, section 8).
const PGM_HEADER: usize = 16;

/// Dissects a packet of link type `link`. `data` is its captured part, `length` its length
/// on the wire, in bytes. `contexts` are those of 6LoWPAN that are known.
pub(crate) fn dissect<'a>(
    link: u16,
    data: &'a [u8],
    length: u32,
    contexts: KnownContexts<'_>,
) -> Parts<'a> {
    let mut parts = Parts { link: length, ..Parts::default() };
    // Other link types have no pair of addresses here: each of their packets counts as captured for
    // the first time (`paths`).
    if let (ETHERNET, Some(to), Some(from)) = (link, mac(data, 0), mac(data, 6)) {
        parts.macs = Some([from, to]);
    }
    let cut = (data.len() as u64) < u64::from(length);
    parts.what = if ieee802154::is(link) {
        parts.radio(data, ieee802154::frame(link, data, length as usize), contexts)
    } else {
        match network(link, data) {
            Network::Ip(start) => parts.ip(data, start),
            Network::Arp => What::Arp,
            Network::Other(name) => What::Other(name),
            Network::Unread(unread) => What::Unread(unread),
        }
    };
    if let (What::Unread(Unread::Cut), false) = (parts.what, cut) {
        // It was captured whole, so it was sent too short.
        parts.what = What::Unread(Unread::Damaged);
    }
    parts
}

impl<'a> Parts<'a> {
    /// Dissects an IP packet that begins at `start`.
    fn ip(&mut self, data: &'a [u8], start: usize) -> What {
        let rest = data.get(start..).unwrap_or_default();
        let length = self.link as usize;
        match headers(rest, length.saturating_sub(start)) {
            Ok(ip) => self.packet(rest, start, &Packet::uncompressed(ip)),
            Err(unread) => What::Unread(unread),
        }
    }

    /// Dissects a frame of IEEE 802.15.4.
    fn radio(&mut self, data: &'a [u8], frame: Frame, contexts: KnownContexts<'_>) -> What {
        let frame = match frame {
            Frame::Data(frame) => frame,
            Frame::Other(name) => return What::Other(name),
            Frame::Unread(unread) => return What::Unread(unread),
        };
        let rest = &data[frame.start..data.len().min(frame.end)];
        match lowpan::payload(rest, frame.end - frame.start, &frame, contexts) {
            Ok(Lowpan::Packet(at, packet)) => self.packet(&rest[at..], frame.start + at, &packet),
            Ok(Lowpan::LaterFragment(at, header)) => {
                // The headers up to its own are the link's.
                let above = (frame.end - frame.start).saturating_sub(at);
                self.carried = above as u32;
                self.link -= self.carried;
                let data = rest.get(at..).unwrap_or_default();
                let (datagram, offset) = (header.datagram, header.offset);
                let part = Part { datagram, offset, data, is_first: false };
                self.part = (data.len() == above).then_some(part);
                What::LaterFragment(None)
            }
            Ok(Lowpan::Foreign) => What::Other("IEEE 802.15.4 data, not 6LoWPAN"),
            Err(unread) => What::Unread(unread),
        }
    }

    /// Dissects the packet at the start of `rest`, which is at `start` of the captured bytes.
    fn packet(&mut self, rest: &'a [u8], start: usize, packet: &Packet) -> What {
        let Ip { addresses, headers, total, protocol, later_fragment } = packet.ip;
        self.addresses = Some(addresses);
        self.start = start;
        let above = total - headers;
        self.network = headers as u32;
        self.link -= total as u32;
        let rest = rest.get(headers..).unwrap_or_default();
        // Padding of short Ethernet frames is behind the packet and no payload.
        let rest = &rest[..rest.len().min(above)];
        let (header, what) = match (protocol, packet.udp) {
            (Ok(protocol), _) if later_fragment => (0, What::LaterFragment(Some(protocol))),
            (_, Some((header, ports))) => (header, What::Udp(ports)),
            (Ok(protocol), _) => transport(protocol, rest, above),
            (Err(unread), _) => (above, What::Unread(unread)),
        };
        // A header cannot be longer than what IP carries.
        let header = header.min(above);
        if let Some(fragment) = packet.fragment
            && rest.len() == above
        {
            let headers = packet.original;
            let (transport, skipped) = match (packet.udp, protocol) {
                (Some((_, ports)), _) => (Some(Transport::CompressedUdp(ports)), UDP_HEADER),
                (None, protocol) => (protocol.ok().map(Transport::Plain), 0),
            };
            // Of other transports, a part has all that is needed.
            let is_deferred = matches!(what, What::Udp(_) | What::Tcp(_));
            self.head =
                transport.filter(|_| is_deferred).map(|transport| Head { headers, transport });
            let data = match packet.udp {
                Some(_) => rest.get(header..).unwrap_or_default(),
                None => rest,
            };
            let (datagram, offset) = (fragment.datagram, headers + skipped);
            self.part = Some(Part { datagram, offset, data, is_first: true });
        }
        self.transport = header as u32;
        self.carried = (above - header) as u32;
        self.data = rest.get(header..).unwrap_or_default();
        what
    }
}

/// The length and content of the transport header of a packet with `above` bytes above IP,
/// of which `rest` was captured.
fn transport(protocol: u8, rest: &[u8], above: usize) -> (usize, What) {
    match protocol {
        TCP => match tcp(rest, above) {
            Ok((header, tcp)) => (header, What::Tcp(tcp)),
            Err(unread) => (above, What::Unread(unread)),
        },
        UDP => match *rest {
            // The UDP header has 8 bytes (RFC 768).
            _ if above < 8 => (above, What::Unread(Unread::Damaged)),
            [a, b, c, d, ..] => {
                (8, What::Udp([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])]))
            }
            _ => (above, What::Unread(Unread::Cut)),
        },
        ICMP | ICMPV6 => (above, What::Icmp(icmp::name(protocol == ICMPV6, rest))),
        IGMP => (above, What::Igmp),
        PGM => (PGM_HEADER, What::Pgm),
        _ => match names::plain_ip_protocol(protocol) {
            Some(name) => (0, What::Other(name)),
            None => (0, What::Unread(Unread::IpProtocol(protocol))),
        },
    }
}

/// A TCP segment's header (RFC 9293, section 3.1) and its length. As in Wireshark, 16
/// captured bytes are enough.
fn tcp(rest: &[u8], above: usize) -> Result<(usize, Tcp), Unread> {
    if above < 20 {
        return Err(Unread::Damaged);
    }
    let fields: &[u8; 16] = rest.first_chunk().ok_or(Unread::Cut)?;
    let header = usize::from(fields[12] >> 4) * 4;
    if header < 20 || header > above {
        return Err(Unread::Damaged);
    }
    let short = |at: usize| u16::from_be_bytes([fields[at], fields[at + 1]]);
    let long = |at: usize| u32::from(short(at)) << 16 | u32::from(short(at + 2));
    let flag = |bit: u8| fields[13] & bit != 0;
    let syn = flag(2);
    let tcp = Tcp {
        ports: [short(0), short(2)],
        sequence: long(4),
        acknowledgement: long(8),
        window: short(14),
        fin: flag(1),
        syn,
        rst: flag(4),
        ack: flag(16),
        scale: if syn { window_scale(rest, header) } else { WindowScale::Absent },
    };
    Ok((header, tcp))
}

/// The window scale option, from the options between the 20th byte and `header`.
fn window_scale(rest: &[u8], header: usize) -> WindowScale {
    let Some(mut options) = rest.get(20..header) else { return WindowScale::Cut };
    loop {
        options = match *options {
            [] | [0, ..] => return WindowScale::Absent,
            [1, ..] => &options[1..],
            // Values over 14 mean 14 (RFC 7323, section 2.3).
            [3, 3, shift, ..] => return WindowScale::Shift(shift.min(14)),
            [_, length, ..] if length >= 2 => {
                options.get(usize::from(length)..).unwrap_or_default()
            }
            _ => return WindowScale::Absent,
        };
    }
}

fn mac(data: &[u8], at: usize) -> Option<[u8; 6]> {
    data.get(at..at + 6)?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    fn dissect(link: u16, data: &[u8], length: u32) -> Parts<'_> {
        super::dissect(link, data, length, KnownContexts::NONE)
    }

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
            // Up to the window, at offset 14 of the TCP header.
            assert_eq!(matches!(parts.what, What::Tcp(_)), cut >= 50, "cut at {cut}");
            assert_eq!(matches!(parts.what, What::Unread(Unread::Cut)), cut < 50, "cut at {cut}");
            if cut >= 50 {
                assert_eq!((parts.network, parts.transport, parts.carried), (20, 20, 100));
                assert_eq!(parts.data.len(), cut.saturating_sub(54));
            }
        }
    }

    #[test]
    fn a_packet_that_was_sent_too_short_is_damaged_and_not_cut() {
        let whole = frame(100);
        for length in 0..whole.len() {
            let short = &whole[..length];
            let parts = dissect(ETHERNET, short, length as u32);
            assert!(!matches!(parts.what, What::Unread(Unread::Cut)), "{length}: {parts:?}");
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

    #[test]
    fn layers_of_a_frame_of_6lowpan_add_up() {
        // A CoAP request to port 5683, with 21 B of MAC header and 2 B of checksum.
        let head = [0x41, 0xdc, 1, 0xcd, 0xab, 2, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 2];
        let udp = [0x7e, 0x33, 0xf0, 0x16, 0x34, 0x16, 0x33, 0xab, 0xcd];
        let coap = [0x40, 1, 0, 7];
        let frame = [&head[..], &udp, &coap, &[0, 0]].concat();
        for cut in 0..=frame.len() {
            let parts = dissect(195, &frame[..cut], frame.len() as u32);
            let sum = parts.link + parts.network + parts.transport + parts.carried;
            assert_eq!(sum as usize, frame.len(), "cut at {cut}");
            if cut >= 34 {
                assert!(matches!(parts.what, What::Udp([0x1634, 5683])), "cut at {cut}");
                assert_eq!((parts.network, parts.transport, parts.carried), (2, 7, 4));
                assert_eq!(parts.data, &coap[..coap.len().min(cut - 30)]);
            }
        }
        // A later fragment, of which 3 B are the packet's.
        let later = [&head[..], &[0xe0, 90, 0, 1, 11, 9, 9, 9, 0, 0]].concat();
        let parts = dissect(195, &later, later.len() as u32);
        assert!(matches!(parts.what, What::LaterFragment(None)));
        assert_eq!((parts.link, parts.carried), (28, 3));
    }

    #[test]
    fn what_is_inside_a_protocol_that_is_not_read_counts_as_carried() {
        let mut packet = frame(9);
        packet[23] = 50;
        let parts = dissect(ETHERNET, &packet, packet.len() as u32);
        assert!(matches!(parts.what, What::Unread(Unread::IpProtocol(50))));
        assert_eq!((parts.network, parts.transport, parts.carried), (20, 0, 29));
        packet[23] = 89;
        let parts = dissect(ETHERNET, &packet, packet.len() as u32);
        assert!(matches!(parts.what, What::Other("OSPF")));
    }

    #[test]
    fn window_scales_among_other_options() {
        let options: [(&[u8], WindowScale); 6] = [
            (&[2, 4, 5, 180, 1, 3, 3, 7], WindowScale::Shift(7)),
            (&[3, 3, 200, 0], WindowScale::Shift(14)),
            (&[0, 3, 3, 7], WindowScale::Absent),
            (&[8, 1, 3, 3], WindowScale::Absent),
            (&[5, 200, 3, 3], WindowScale::Absent),
            (&[1, 1, 1, 3], WindowScale::Absent),
        ];
        for (bytes, expected) in options {
            let header = [&[0; 20], bytes].concat();
            assert_eq!(window_scale(&header, header.len()), expected, "{bytes:?}");
            assert_eq!(window_scale(&header[..22], header.len()), WindowScale::Cut);
        }
    }
}
