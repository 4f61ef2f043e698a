//! 6LoWPAN: IPv6 packets in IEEE 802.15.4 frames (RFC 4944; header compression: RFC 6282).

use crate::contexts::KnownContexts;
use crate::ieee802154::{Data, Station};
use crate::ip::{self, Address, Ip};
use crate::unread::Unread;
use units::Ipv6Prefix;

/// A packet, or the first fragment of one, or a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lowpan {
    /// The offset of the IPv6 header, compressed or not, in the frame's payload.
    Packet(usize, Packet),
    /// The offset behind the fragment header.
    LaterFragment(usize, FragmentHeader),
    /// A payload of another protocol than 6LoWPAN, such as Zigbee.
    Foreign,
}

/// The headers of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packet {
    /// Lengths are those in the frame: compressed headers, and only this fragment.
    pub ip: Ip,
    /// Of a compressed UDP header: its length in B, and the ports.
    pub udp: Option<(usize, [u16; 2])>,
    /// Length of the headers in `ip` before they were compressed, in B.
    pub original: usize,
    /// The header of the fragment that the packet begins, if it is one.
    pub fragment: Option<FragmentHeader>,
}

/// The header of a fragment (RFC 4944, section 5.3), and whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct FragmentHeader {
    /// What identifies its datagram, with the capture point.
    pub datagram: DatagramId,
    /// Place in the uncompressed datagram, in B.
    pub offset: usize,
}

/// Fragments of one datagram have these in common (RFC 4944, section 5.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct DatagramId {
    /// Interface identifiers of sender and receiver, of a mesh header if there is one.
    pub ends: Ends,
    /// Length of the uncompressed datagram, in B: up to 2,047.
    pub size: u16,
    pub tag: u16,
}

/// The maximum number of headers before an IP header: bounds the work for a hostile frame.
const HEADERS: usize = 8;

/// Length of an IPv6 header, in B.
const IPV6_HEADER: usize = 40;
/// IANA's protocol numbers.
const UDP: u8 = 17;
const IPV6: u8 = 41;

/// Parses the payload of a frame, of which `data` was captured, and which has `wire` bytes on
/// the wire. `contexts` are those that are known.
///
/// # Errors
/// When headers are cut off, damaged, or of a kind that this crate does not read.
pub(crate) fn payload(
    data: &[u8],
    wire: usize,
    frame: &Data,
    contexts: KnownContexts<'_>,
) -> Result<Lowpan, Unread> {
    let mut at = 0;
    let identifiers = |stations: [Station; 2]| stations.map(Station::interface_identifier);
    let mut ends = identifiers([frame.source, frame.destination]);
    let mut fragment = None;
    for _ in 0..HEADERS {
        let dispatch = *data.get(at).ok_or(Unread::Cut)?;
        match dispatch {
            0x41 => {
                let rest = &data[at + 1..];
                let ip = ip::headers(rest, wire.saturating_sub(at + 1))?;
                let packet = Packet { fragment, ..Packet::uncompressed(ip) };
                return Ok(Lowpan::Packet(at + 1, packet));
            }
            // A broadcast header with its sequence number (RFC 4944, section 11.1).
            0x50 => at += 2,
            0x60..=0x7f => {
                let around = Around { ends, contexts, depth: 0 };
                let packet = compressed(&data[at..], wire.saturating_sub(at), around)?;
                return Ok(Lowpan::Packet(at, Packet { fragment, ..packet }));
            }
            0x80..=0xbf => {
                let stations;
                (at, stations) = mesh(data, at)?;
                ends = identifiers(stations);
            }
            // The first fragment: size and tag of the datagram (RFC 4944, section 5.3).
            0xc0..=0xc7 => {
                let header;
                (at, header) = fragment_header(data, at, ends)?;
                fragment = Some(header);
            }
            0xe0..=0xe7 => {
                let (end, header) = fragment_header(data, at, ends)?;
                return Ok(Lowpan::LaterFragment(end, header));
            }
            0x00..=0x3f => return Ok(Lowpan::Foreign),
            _ => return Err(Unread::Dispatch(dispatch)),
        }
    }
    Err(Unread::Damaged)
}

/// A fragment header (RFC 4944, section 5.3) at `at`, and the offset of its end.
fn fragment_header(data: &[u8], at: usize, ends: Ends) -> Result<(usize, FragmentHeader), Unread> {
    let mut bytes = Bytes { data, at };
    let size = u16::from_be_bytes(bytes.take()?) & 0x7ff;
    let tag = u16::from_be_bytes(bytes.take()?);
    // Only later ones have an offset, in units of 8 B.
    let offset = match data[at] & 0x20 {
        0 => 0,
        _ => usize::from(bytes.take::<1>()?[0]) * 8,
    };
    Ok((bytes.at, FragmentHeader { datagram: DatagramId { ends, size, tag }, offset }))
}

/// A mesh addressing header (RFC 4944, section 5.2) at `at`: the offset of its end, and the
/// originator and the final destination.
fn mesh(data: &[u8], at: usize) -> Result<(usize, [Station; 2]), Unread> {
    let dispatch = data[at];
    // 15 hops mean that the number follows (RFC 4944: the value 0xF).
    let mut bytes = Bytes { data, at: at + 1 + usize::from(dispatch & 15 == 15) };
    let mut station = |short: bool| -> Result<Station, Unread> {
        Ok(match short {
            true => Station::Short(u16::from_be_bytes(bytes.take()?)),
            false => Station::Extended(u64::from_be_bytes(bytes.take()?)),
        })
    };
    let stations = [station(dispatch & 1 << 5 != 0)?, station(dispatch & 1 << 4 != 0)?];
    Ok((bytes.at, stations))
}

struct Bytes<'a> {
    data: &'a [u8],
    at: usize,
}

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Unread> {
        let bytes = self.data.get(self.at..self.at + N).ok_or(Unread::Cut)?;
        self.at += N;
        bytes.try_into().map_err(|_| Unread::Cut)
    }

    /// `N` bytes as the last of an address.
    fn tail<const N: usize>(&mut self) -> Result<u128, Unread> {
        Ok(self.take::<N>()?.iter().fold(0, |sum, byte| sum << 8 | u128::from(*byte)))
    }

    /// A unicast address from 8 or 2 B, or from none (RFC 6282, section 3.1.1).
    fn unicast(&mut self, mode: u8, prefix: Prefix, end: Option<u64>) -> Result<Address, Unread> {
        let identifier = match mode {
            1 => self.tail::<8>()? as u64,
            2 => 0x0000_00ff_fe00_0000 | self.tail::<2>()? as u64,
            _ => end.ok_or(Unread::Damaged)?,
        };
        Ok(match prefix {
            // fe80::/64.
            Prefix::LinkLocal => Address::from(0xfe80 << 112 | u128::from(identifier)),
            Prefix::Known(prefix) => Address::from(prefix.with_identifier(identifier)),
            Prefix::Unknown(number) => Address::of_unknown_context(number, identifier.into()),
        })
    }

    /// A multicast address (RFC 6282, section 3.1.1).
    fn multicast(&mut self, mode: u8, prefix: Prefix) -> Result<Address, Unread> {
        let scoped = |[scope]: [u8; 1]| 0xff << 120 | u128::from(scope) << 112;
        let bits = match (prefix, mode) {
            (Prefix::LinkLocal, 0) => self.tail::<16>()?,
            (Prefix::LinkLocal, 1) => scoped(self.take()?) | self.tail::<5>()?,
            (Prefix::LinkLocal, 2) => scoped(self.take()?) | self.tail::<3>()?,
            (Prefix::LinkLocal, _) => 0xff02 << 112 | self.tail::<1>()?,
            // The network prefix and its length are the context's (RFC 3306, section 4).
            (Prefix::Known(_) | Prefix::Unknown(_), 0) => {
                let [scope, interface] = self.take()?;
                let group = scoped([scope]) | u128::from(interface) << 104 | self.tail::<4>()?;
                match prefix {
                    Prefix::Known(prefix) => {
                        let network = prefix.bits() >> 64 << 32;
                        group | u128::from(prefix.length()) << 96 | network
                    }
                    Prefix::Unknown(number) => {
                        return Ok(Address::of_unknown_context(number, group));
                    }
                    Prefix::LinkLocal => group,
                }
            }
            (_, _) => return Err(Unread::Damaged),
        };
        Ok(Address::from(bits))
    }
}

/// Interface identifiers of source and destination, as the header around a packet has them.
type Ends = [Option<u64>; 2];

/// What is around a compressed header.
#[derive(Clone, Copy)]
struct Around<'a> {
    ends: Ends,
    contexts: KnownContexts<'a>,
    /// Number of packets around this one.
    depth: usize,
}

/// What an address begins with that is not in the header.
#[derive(Debug, Clone, Copy)]
enum Prefix {
    /// No context: unicast addresses are link-local.
    LinkLocal,
    Known(Ipv6Prefix),
    /// The number of a context that is not known.
    Unknown(u8),
}

impl Prefix {
    fn of(has_context: bool, number: u8, contexts: KnownContexts<'_>) -> Self {
        match contexts.get(number) {
            _ if !has_context => Self::LinkLocal,
            Some(prefix) => Self::Known(prefix),
            None => Self::Unknown(number),
        }
    }
}

/// A header compressed by IPHC (RFC 6282, section 3) at the start of `data`, of a frame with
/// `wire` bytes from there on.
fn compressed(data: &[u8], wire: usize, around: Around<'_>) -> Result<Packet, Unread> {
    let Around { ends, contexts, .. } = around;
    let mut bytes = Bytes { data, at: 0 };
    let [first, second] = bytes.take()?;
    let flag = |bit: u8| second & 1 << bit != 0;
    // The numbers of both contexts; without them, 0 (section 3.1.2).
    let [numbers] = if flag(7) { bytes.take()? } else { [0] };
    // Traffic class and flow label.
    bytes.at += [4, 3, 1, 0][usize::from(first >> 3 & 3)];
    let next = match first & 1 << 2 {
        0 => Some(bytes.take::<1>()?[0]),
        _ => None,
    };
    if first & 3 == 0 {
        bytes.take::<1>()?;
    }
    let source = match (flag(6), second >> 4 & 3) {
        (true, 0) => Address::from(0),
        (false, 0) => Address::from(bytes.tail::<16>()?),
        (context, mode) => {
            bytes.unicast(mode, Prefix::of(context, numbers >> 4, contexts), ends[0])?
        }
    };
    let prefix = Prefix::of(flag(2), numbers & 15, contexts);
    let destination = match (flag(3), flag(2), second & 3) {
        (true, _, mode) => bytes.multicast(mode, prefix)?,
        (false, false, 0) => Address::from(bytes.tail::<16>()?),
        // Reserved (RFC 6282, section 3.1.1).
        (false, true, 0) => return Err(Unread::Damaged),
        (false, _, mode) => bytes.unicast(mode, prefix, ends[1])?,
    };
    let ip = Ip {
        addresses: [source, destination],
        headers: bytes.at,
        total: wire,
        protocol: Err(Unread::Cut),
        later_fragment: false,
    };
    if bytes.at > wire {
        return Err(Unread::Damaged);
    }
    let mut packet = Packet { original: IPV6_HEADER, ..Packet::uncompressed(ip) };
    packet.follow(data, next, around)?;
    Ok(packet)
}

impl Packet {
    /// A packet whose headers are not compressed.
    pub(crate) fn uncompressed(ip: Ip) -> Self {
        Self { ip, udp: None, original: ip.headers, fragment: None }
    }

    /// Follows the headers after the IPv6 header: compressed ones (RFC 6282, section 4) while
    /// `next` is None, then others.
    fn follow(
        &mut self,
        data: &[u8],
        mut next: Option<u8>,
        around: Around<'_>,
    ) -> Result<(), Unread> {
        for _ in 0..HEADERS {
            if let Some(next) = next {
                let before = self.ip.headers;
                self.ip.extend(data, next);
                self.original += self.ip.headers - before;
                return Ok(());
            }
            let mut bytes = Bytes { data, at: self.ip.headers };
            let [control] = bytes.take()?;
            match control {
                0xf0..=0xf7 => {
                    let ports = udp_ports(&mut bytes, control & 3)?;
                    // The checksum is elided if bit 2 is set (RFC 6282, section 4.3.2).
                    bytes.at += if control & 4 == 0 { 2 } else { 0 };
                    let length = bytes.at - self.ip.headers;
                    if bytes.at > self.ip.total {
                        return Err(Unread::Damaged);
                    }
                    self.ip.protocol = Ok(UDP);
                    self.udp = Some((length, ports));
                    return Ok(());
                }
                // A packet in a packet: that within is the one that its end systems see.
                0xee | 0xef if around.depth == 0 => {
                    let start = self.ip.headers + 1;
                    let rest = data.get(start..).ok_or(Unread::Cut)?;
                    let wire = self.ip.total.saturating_sub(start);
                    // What it leaves out is in the outer header (RFC 6282, section 3.1.1).
                    let ends = self.ip.addresses.map(|address| Some(address.identifier()));
                    let within = Around { ends, depth: 1, ..around };
                    let inner = match rest.first().ok_or(Unread::Cut)? {
                        0x60..=0x7f => compressed(rest, wire, within)?,
                        _ => return Err(Unread::IpProtocol(IPV6)),
                    };
                    let outer = self.original;
                    *self = inner;
                    self.ip.headers += start;
                    self.ip.total += start;
                    self.original += outer;
                    return Ok(());
                }
                // Hop-by-hop, routing, destination and mobility headers; not the Fragment header.
                0xe0..=0xe3 | 0xe6..=0xe9 => {
                    if control & 1 == 0 {
                        next = Some(bytes.take::<1>()?[0]);
                    }
                    let [length] = bytes.take()?;
                    self.ip.headers = bytes.at + usize::from(length);
                    // Padding at its end may be elided: it has whole units of 8 B (RFC 6282, section
                    // 4.2).
                    self.original += (2 + usize::from(length)).next_multiple_of(8);
                    if self.ip.headers > self.ip.total {
                        return Err(Unread::Damaged);
                    }
                }
                _ => return Err(Unread::Dispatch(control)),
            }
        }
        Err(Unread::Damaged)
    }
}

/// Ports of a compressed UDP header (RFC 6282, section 4.3.3).
fn udp_ports(bytes: &mut Bytes<'_>, mode: u8) -> Result<[u16; 2], Unread> {
    let whole = |bytes: &mut Bytes<'_>| bytes.take().map(u16::from_be_bytes);
    let partly = |bytes: &mut Bytes<'_>| bytes.take().map(|[low]| 0xf000 | u16::from(low));
    Ok(match mode {
        0 => [whole(bytes)?, whole(bytes)?],
        1 => [whole(bytes)?, partly(bytes)?],
        2 => [partly(bytes)?, whole(bytes)?],
        _ => {
            let [both] = bytes.take()?;
            [0xf0b0 | u16::from(both >> 4), 0xf0b0 | u16::from(both & 15)]
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: [Station; 2] = [Station::Short(1), Station::Short(2)];

    fn of(data: &[u8], wire: usize) -> Result<Lowpan, Unread> {
        let [source, destination] = SHORT;
        payload(data, wire, &Data { start: 0, end: wire, source, destination }, KnownContexts::NONE)
    }

    fn packet(data: &[u8]) -> (usize, Packet) {
        match of(data, data.len()) {
            Ok(Lowpan::Packet(at, packet)) => (at, packet),
            other => panic!("{other:?}"),
        }
    }

    /// Traffic class, hop limit and addresses elided; UDP from 61617 to 61618, 2 B.
    const SMALLEST: [u8; 8] = [0x7e, 0x33, 0xf3, 0x12, 0xab, 0xcd, 1, 2];

    #[test]
    fn addresses_from_the_frame_and_from_the_mesh() {
        let link_local = |short: u128| 0xfe80 << 112 | 0xff_fe00_0000 | short;
        let (at, plain) = packet(&SMALLEST);
        assert_eq!((at, plain.ip.headers, plain.ip.total), (0, 2, 8));
        assert_eq!(plain.ip.addresses, [link_local(1), link_local(2)].map(Address::from));
        assert_eq!(plain.udp, Some((4, [0xf0b1, 0xf0b2])));
        let mesh = [&[0xbf, 20, 0, 7, 0, 8, 0x50, 1][..], &SMALLEST].concat();
        let (at, meshed) = packet(&mesh);
        assert_eq!(
            (at, meshed.ip.addresses),
            (8, [link_local(7), link_local(8)].map(Address::from))
        );
        // No address to derive one from.
        let frame = Data { start: 0, end: 8, source: Station::Absent, destination: SHORT[1] };
        assert_eq!(payload(&SMALLEST, 8, &frame, KnownContexts::NONE), Err(Unread::Damaged));
    }

    #[test]
    fn addresses_of_contexts_have_their_prefix_if_it_is_known() {
        let named = units::Contexts::try_from(vec!["fd00:6::/64".parse().unwrap()]).unwrap();
        let known = KnownContexts { named: &named, given: &[] };
        let [source, destination] = SHORT;
        let of = |header: &[u8], contexts: KnownContexts<'_>| {
            let data = [header, &[0xf3, 0x12, 0xab, 0xcd]].concat();
            let frame = Data { start: 0, end: data.len(), source, destination };
            match payload(&data, data.len(), &frame, contexts) {
                Ok(Lowpan::Packet(_, packet)) => packet.ip.addresses.map(|one| one.to_string()),
                other => panic!("{other:?}"),
            }
        };
        // Context 0 for both: all elided, and 8 B.
        assert_eq!(of(&[0x7e, 0x77], known), ["fd00:6::ff:fe00:1", "fd00:6::ff:fe00:2"]);
        let eight = [0x7e, 0x57, 0, 0, 0, 0, 0, 0, 0, 9];
        assert_eq!(of(&eight, known)[0], "fd00:6::9");
        assert_eq!(of(&eight, KnownContexts::NONE), ["context 0::9", "context 0::ff:fe00:2"]);
        // Context 2 of the source, 0 of the destination.
        assert_eq!(of(&[0x7e, 0xf7, 0x20], known), ["context 2::ff:fe00:1", "fd00:6::ff:fe00:2"]);
        // A group of the network.
        let group = [0x7e, 0x7c, 0x33, 0, 0, 0, 0, 1];
        assert_eq!(of(&group, known)[1], "ff33:40:fd00:6::1");
    }

    #[test]
    fn fragments_and_foreign_payloads() {
        let first = [&[0xc0, 90, 0, 1][..], &SMALLEST].concat();
        assert_eq!(packet(&first).0, 4);
        let ends = SHORT.map(Station::interface_identifier);
        let datagram = DatagramId { ends, size: 90, tag: 1 };
        let header = FragmentHeader { datagram, offset: 88 };
        assert_eq!(of(&[0xe0, 90, 0, 1, 11, 9, 9], 7), Ok(Lowpan::LaterFragment(5, header)));
        assert_eq!(packet(&first).1.fragment, Some(FragmentHeader { offset: 0, ..header }));
        assert_eq!(packet(&first).1.original, 40);
        assert_eq!(of(&[0x08, 0x02], 2), Ok(Lowpan::Foreign));
        for dispatch in [0x42, 0x43, 0xc8, 0xf1] {
            assert_eq!(of(&[dispatch, 0, 0], 3), Err(Unread::Dispatch(dispatch)));
        }
        // A Fragment header in compressed form.
        assert_eq!(of(&[0x7e, 0x33, 0xe5, 6, 0], 5), Err(Unread::Dispatch(0xe5)));
    }

    #[test]
    fn a_packet_in_a_packet_is_the_inner_one() {
        // From fd00::7 to fd00::8 outside; inside, addresses of the outer packet's interfaces.
        let address = |last: u8| [&[0xfd, 0][..], &[0; 13], &[last]].concat();
        let outer = [&[0x7e, 0x00][..], &address(7), &address(8), &[0xef]].concat();
        let (at, inner) = packet(&[&outer[..], &SMALLEST].concat());
        assert_eq!((at, inner.ip.headers, inner.ip.total), (0, 37, 43));
        assert_eq!(inner.ip.addresses, [0xfe80 << 112 | 7, 0xfe80 << 112 | 8].map(Address::from));
        assert_eq!(inner.udp, Some((4, [0xf0b1, 0xf0b2])));
        // Not without end.
        let deeper = [&outer[..], &outer[..], &SMALLEST].concat();
        assert_eq!(of(&deeper, deeper.len()), Err(Unread::Dispatch(0xef)));
    }

    #[test]
    fn cut_and_damaged_headers() {
        let first = [&[0xc0, 90, 0, 1][..], &SMALLEST].concat();
        // The checksum may be missing, as of UDP over IP.
        for cut in 0..8 {
            assert_eq!(of(&first[..cut], first.len()), Err(Unread::Cut), "{cut}");
            // What is not there was not sent, either.
            assert!(of(&first[..cut], cut).is_err());
        }
        // A reserved kind of address, and headers longer than the packet.
        assert_eq!(of(&[0x7e, 0x34, 0, 0, 0, 0], 6), Err(Unread::Damaged));
        assert_eq!(of(&[0x7e, 0x33, 0xe1, 200, 0, 0], 6), Err(Unread::Damaged));
        assert_eq!(of(&[0x50; 40], 40), Err(Unread::Damaged));
    }
    use proptest::prelude::*;

    proptest! {
        /// Frames of any bytes, cut anywhere: no panic, and offsets within the frame.
        #[test]
        fn any_frame_has_offsets_within_it_or_an_error(
            dispatch in prop_oneof![0x60..0x80_u8, any::<u8>()],
            rest in prop::collection::vec(any::<u8>(), 0..60),
            cut in 0..60_usize,
        ) {
            let data = [&[dispatch][..], &rest].concat();
            let captured = &data[..data.len().saturating_sub(cut)];
            if let Ok(Lowpan::Packet(at, packet)) = of(captured, data.len()) {
                prop_assert!(at <= data.len());
                prop_assert!(at + packet.ip.headers <= data.len(), "{packet:?}");
                prop_assert!(packet.ip.headers <= packet.ip.total, "{packet:?}");
                let udp = packet.udp.map_or(0, |(length, _)| length);
                prop_assert!(packet.ip.headers + udp <= packet.ip.total, "{packet:?}");
            }
        }
    }
}
