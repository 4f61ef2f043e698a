//! The MAC header of IEEE 802.15.4 frames (IEEE 802.15.4-2015, section 7.2).

use crate::unread::Unread;

/// Link types (tcpdump.org's list).
const WITH_FCS: u16 = 195;
/// With the preamble, the start-of-frame delimiter and the length before the frame.
const NONASK_PHY: u16 = 215;
const WITHOUT_FCS: u16 = 230;
const TAP: u16 = 283;

/// Length of the physical layer's header in captures of type [`NONASK_PHY`], in B.
const PHY_HEADER: usize = 6;

/// A MAC frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frame {
    Data(Data),
    /// The name of a frame that carries no packet, or of one whose content is none.
    Other(&'static str),
    Unread(Unread),
}

/// The payload of a data frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Data {
    /// Offset of the payload in the captured bytes.
    pub start: usize,
    /// Its end on the wire: before the integrity code and the frame check sequence.
    pub end: usize,
    pub source: Station,
    pub destination: Station,
}

/// A MAC address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Station {
    Absent,
    Short(u16),
    Extended(u64),
}

impl Station {
    /// The interface identifier of an IPv6 address made from this one (RFC 6282, section 3.2.2;
    /// RFC 4944, section 6).
    pub(crate) fn interface_identifier(self) -> Option<u64> {
        match self {
            Self::Absent => None,
            Self::Short(short) => Some(0x0000_00ff_fe00_0000 | u64::from(short)),
            // The universal/local bit is inverted (RFC 4291, appendix A).
            Self::Extended(extended) => Some(extended ^ 0x0200_0000_0000_0000),
        }
    }
}

/// Whether packets of this link type are IEEE 802.15.4 frames.
pub(crate) fn is(link: u16) -> bool {
    matches!(link, WITH_FCS | NONASK_PHY | WITHOUT_FCS | TAP)
}

/// Parses the frame in a packet of link type `link`, of which `data` was captured, and which
/// had `length` bytes on the wire. The frame check sequence is not verified: captures of some
/// receivers have other values in its place.
pub(crate) fn frame(link: u16, data: &[u8], length: usize) -> Frame {
    let (start, fcs) = match link {
        WITH_FCS => (0, Some(2)),
        NONASK_PHY => (PHY_HEADER, Some(2)),
        TAP => tap(data).unwrap_or((0, None)),
        _ => (0, Some(0)),
    };
    let Some(fcs) = fcs else {
        return Frame::Unread(if data.len() < length { Unread::Cut } else { Unread::Damaged });
    };
    let Some(end) = length.checked_sub(fcs).filter(|end| *end >= start) else {
        return Frame::Unread(Unread::Damaged);
    };
    // What the frame check sequence occupies is no header.
    let reader = Reader { data: &data[..data.len().min(end)], at: start };
    reader.frame(end).unwrap_or(Frame::Unread(if data.len() < end {
        Unread::Cut
    } else {
        Unread::Damaged
    }))
}

/// The length of a TAP header, and of the frame check sequence that it announces (IEEE 802.15.4
/// TAP link type specification), in B. None if the header is damaged.
fn tap(data: &[u8]) -> Option<(usize, Option<usize>)> {
    let short =
        |at: usize| Some(usize::from(u16::from_le_bytes(data.get(at..at + 2)?.try_into().ok()?)));
    let (version, header) = (data.first()?, short(2)?);
    if *version != 0 || header < 4 || header > data.len() {
        return None;
    }
    let (mut at, mut fcs) = (4, 0);
    while at + 4 <= header {
        let length = short(at + 2)?;
        if short(at)? == 0 {
            fcs = match data.get(at + 4)? {
                0 => 0,
                1 => 2,
                2 => 4,
                _ => return None,
            };
        }
        // Values are padded to 4 B.
        at += 4 + length.next_multiple_of(4);
    }
    Some((header, Some(fcs)))
}

/// Each step returns None if the captured bytes end too early.
struct Reader<'a> {
    data: &'a [u8],
    at: usize,
}

/// Addressing modes (IEEE 802.15.4-2015, section 7.2.2.9).
const ABSENT: u16 = 0;
const SHORT: u16 = 2;
const EXTENDED: u16 = 3;

impl Reader<'_> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = self.data.get(self.at..self.at.checked_add(N)?)?.try_into().ok()?;
        self.at += N;
        Some(bytes)
    }

    fn short(&mut self) -> Option<u16> {
        self.bytes().map(u16::from_le_bytes)
    }

    fn station(&mut self, mode: u16) -> Option<Station> {
        Some(match mode {
            SHORT => Station::Short(self.short()?),
            EXTENDED => Station::Extended(u64::from_le_bytes(self.bytes()?)),
            _ => Station::Absent,
        })
    }

    fn frame(mut self, end: usize) -> Option<Frame> {
        let control = self.short()?;
        let name = match control & 7 {
            0 => "IEEE 802.15.4 beacon",
            1 => "IEEE 802.15.4 data",
            2 => "IEEE 802.15.4 acknowledgement",
            3 => "IEEE 802.15.4 command",
            _ => "IEEE 802.15.4, other frames",
        };
        if control & 7 != 1 {
            return Some(Frame::Other(name));
        }
        let version = control >> 12 & 3;
        let [to, from] = [control >> 10 & 3, control >> 14 & 3];
        if version == 3 || to == 1 || from == 1 {
            return Some(Frame::Unread(Unread::Damaged));
        }
        // A sequence number can be absent since 2015.
        // Bit 8 is Sequence Number Suppression, from version 2 on.
        if version < 2 || control & 1 << 8 == 0 {
            self.bytes::<1>()?;
        }
        let [to_pan, from_pan] = pans(version, to, from, control & 1 << 6 != 0);
        if to_pan {
            self.short()?;
        }
        let destination = self.station(to)?;
        if from_pan {
            self.short()?;
        }
        let source = self.station(from)?;
        let mut end = end;
        if control & 1 << 3 != 0 {
            match self.security()? {
                // Bit 2 of the security level: encrypted.
                level if level & 4 != 0 => return Some(Frame::Unread(Unread::Encrypted)),
                // The integrity code of 4, 8 or 16 bytes is behind the payload.
                level => end = end.checked_sub([0, 4, 8, 16][usize::from(level & 3)])?,
            }
        }
        if version == 2 && control & 1 << 9 != 0 {
            self.information_elements(end)?;
        }
        if self.at >= end {
            return Some(Frame::Other("IEEE 802.15.4 data without payload"));
        }
        Some(Frame::Data(Data { start: self.at, end, source, destination }))
    }

    /// The auxiliary security header (section 9.4); returns the security level.
    fn security(&mut self) -> Option<u8> {
        let [control] = self.bytes()?;
        // The frame counter can be absent since 2015.
        self.at += if control & 1 << 5 == 0 { 4 } else { 0 };
        self.at += [0, 1, 5, 9][usize::from(control >> 3 & 3)];
        Some(control & 7)
    }

    /// Header and payload information elements (section 7.4).
    fn information_elements(&mut self, end: usize) -> Option<()> {
        while self.at < end {
            let header = self.short()?;
            self.at += usize::from(header & 0x7f);
            match header >> 7 & 0xff {
                // Header termination 1: payload elements follow; 2: the payload does.
                0x7e => break,
                0x7f => return Some(()),
                _ => {}
            }
        }
        while self.at < end {
            let header = self.short()?;
            self.at += usize::from(header & 0x7ff);
            // Payload termination.
            if header >> 11 & 15 == 15 {
                break;
            }
        }
        Some(())
    }
}

/// Whether a frame has the PAN identifiers of its destination and of its source, by its version,
/// addressing modes and PAN ID Compression field (sections 7.2.2.6, table 7-2; for versions 0 and
/// 1: IEEE 802.15.4-2006, section 7.2.1.1.5).
fn pans(version: u16, to: u16, from: u16, compressed: bool) -> [bool; 2] {
    if version < 2 {
        return [to != ABSENT, from != ABSENT && !(compressed && to != ABSENT)];
    }
    match (to, from) {
        (ABSENT, ABSENT) => [compressed, false],
        (_, ABSENT) | (EXTENDED, EXTENDED) => [!compressed, false],
        (ABSENT, _) => [false, !compressed],
        _ => [true, !compressed],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(start: usize, end: usize, source: Station, destination: Station) -> Frame {
        Frame::Data(Data { start, end, source, destination })
    }

    #[test]
    fn headers_of_all_versions_and_addresses() {
        let (short, none) = (Station::Short(0x0201), Station::Absent);
        let long = Station::Extended(0x0807_0605_0403_0201);
        // The addressing modes, whether PAN identifiers are compressed, and the identifiers left.
        let cases = [
            (0, short, short, false, 2),
            (0, short, short, true, 1),
            (1, long, long, true, 1),
            (1, none, short, false, 1),
            (1, long, none, false, 1),
            (2, none, none, false, 0),
            (2, none, none, true, 1),
            (2, short, none, false, 1),
            (2, short, none, true, 0),
            (2, none, long, false, 1),
            (2, none, long, true, 0),
            (2, long, long, false, 1),
            (2, long, long, true, 0),
            (2, short, long, false, 2),
            (2, short, short, true, 1),
        ];
        for (version, to, from, compressed, pans) in cases {
            let mode = |station| match station {
                Station::Absent => 0_u16,
                Station::Short(_) => 2,
                Station::Extended(_) => 3,
            };
            let control = 1 | u16::from(compressed) << 6 | mode(to) << 10 | version << 12;
            let control = control | mode(from) << 14;
            let mut frame = control.to_le_bytes().to_vec();
            frame.push(7);
            let addresses = |station| match station {
                Station::Absent => 0,
                Station::Short(_) => 2,
                Station::Extended(_) => 8,
            };
            // An identifier before each address that has one; with one only, at the first.
            let mut left = pans;
            for station in [to, from] {
                let here = left > 0 && (station != none || (to, from) == (none, none));
                if here {
                    frame.extend([0xcd, 0xab]);
                    left -= 1;
                }
                frame.extend((1..=addresses(station)).collect::<Vec<u8>>());
            }
            let start = frame.len();
            frame.extend([0x41, 0x60, 9, 9]);
            let expected = data(start, start + 2, from, to);
            assert_eq!(super::frame(195, &frame, frame.len()), expected, "{control:04x}");
            for cut in 0..start {
                let cut = super::frame(195, &frame[..cut], frame.len());
                assert_eq!(cut, Frame::Unread(Unread::Cut));
            }
            let expected = data(start, start + 4, from, to);
            assert_eq!(super::frame(230, &frame, frame.len()), expected);
            // The same frame behind the headers of a physical layer and of TAP.
            let phy = [&[0, 0, 0, 0, 0xa7, frame.len() as u8][..], &frame].concat();
            let expected = data(start + 6, start + 8, from, to);
            assert_eq!(super::frame(215, &phy, phy.len()), expected);
            let tap = [&[0, 0, 20, 0, 3, 0, 3, 0, 1, 2, 3, 0, 0, 0, 1, 0, 1, 0, 0, 0][..], &frame];
            let tap = tap.concat();
            let expected = data(start + 20, start + 22, from, to);
            assert_eq!(super::frame(283, &tap, tap.len()), expected);
        }
    }

    #[test]
    fn secured_frames_and_information_elements() {
        let short = Station::Short(0xfffe);
        let secured = |level: u8| {
            let mut frame = vec![0x49, 0x98, 1, 0xcd, 0xab, 0xfe, 0xff, 0xfe, 0xff];
            // A key index of 1 B and a frame counter.
            frame.extend([level | 1 << 3, 1, 0, 0, 0, 5]);
            frame.extend([0x41; 30]);
            super::frame(195, &frame, frame.len())
        };
        // 0: neither encrypted nor with an integrity code.
        assert_eq!(secured(0), data(15, 43, short, short));
        assert_eq!(secured(1), data(15, 39, short, short));
        assert_eq!(secured(3), data(15, 27, short, short));
        assert_eq!(secured(5), Frame::Unread(Unread::Encrypted));
        let elements = |rest: &[u8]| {
            let mut frame = vec![0x41, 0xaa, 1, 0xcd, 0xab, 0xfe, 0xff, 0xfe, 0xff];
            frame.extend(rest);
            super::frame(230, &frame, frame.len())
        };
        // A time correction of 2 B; its termination; a payload element of 3 B and the last one.
        let with_payload = [2, 0x0f, 0, 0, 0, 0x3f, 3, 0x88, 1, 2, 3, 0, 0xf8, 0x41, 0x60];
        assert_eq!(elements(&with_payload), data(22, 24, short, short));
        assert_eq!(elements(&[2, 0x0f, 0, 0, 0x80, 0x3f, 0x41]), data(15, 16, short, short));
        let empty = Frame::Other("IEEE 802.15.4 data without payload");
        assert_eq!(elements(&[0x80, 0x3f]), empty);
        assert_eq!(elements(&[127, 0x0f, 0]), empty);
        assert_eq!(elements(&[127]), Frame::Unread(Unread::Damaged));
    }

    #[test]
    fn frames_without_packets_and_damaged_ones() {
        let of = |link: u16, bytes: &[u8]| super::frame(link, bytes, bytes.len());
        assert_eq!(of(195, &[2, 0, 7, 1, 2]), Frame::Other("IEEE 802.15.4 acknowledgement"));
        assert_eq!(of(230, &[0, 0x80, 7]), Frame::Other("IEEE 802.15.4 beacon"));
        assert_eq!(of(230, &[1, 0xf0, 7, 1, 1]), Frame::Unread(Unread::Damaged));
        assert_eq!(of(195, &[1]), Frame::Unread(Unread::Damaged));
        assert_eq!(of(215, &[1; 7]), Frame::Unread(Unread::Damaged));
        assert_eq!(of(283, &[0, 0, 200, 0, 1]), Frame::Unread(Unread::Damaged));
        assert_eq!(super::frame(283, &[0, 0, 200, 0, 1], 240), Frame::Unread(Unread::Cut));
    }
}
