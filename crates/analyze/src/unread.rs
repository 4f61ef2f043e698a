//! Packets that cannot be dissected, by reason.

use crate::figures::UnreadFigures;
use crate::names;
use std::collections::HashMap;

/// Why a packet cannot be dissected up to its transport header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Unread {
    /// A link type (tcpdump.org's list) that this crate does not support.
    LinkType(u16),
    /// An EtherType (IEEE's list) that may contain IP.
    EtherType(u16),
    /// A PPP protocol (RFC 1661, section 2) that may contain IP.
    Ppp(u16),
    /// A destination service access point (IEEE 802.2) that may contain IP.
    Llc(u8),
    /// An address family in a packet of a loopback interface.
    Family(u32),
    /// A Linux hardware type (`ARPHRD_*`) in a cooked capture.
    Hardware(u16),
    /// The content behind MPLS labels is not IP.
    MplsPayload,
    /// A protocol over IP (IANA's list) that contains a transport or packets.
    IpProtocol(u8),
    /// A frame of IEEE 802.15.4 that is encrypted.
    Encrypted,
    /// A 6LoWPAN dispatch (RFC 4944, section 5.1) or a compressed header (RFC 6282, section 4)
    /// that this crate does not support.
    Dispatch(u8),
    /// The capture has cut off the headers.
    Cut,
    /// A header contradicts itself or the packet's length.
    Damaged,
}

impl Unread {
    /// The kind of its number, e.g. `link type`.
    fn reason(self) -> &'static str {
        match self {
            Self::LinkType(_) => "link type",
            Self::EtherType(_) => "EtherType",
            Self::Ppp(_) => "PPP protocol",
            Self::Llc(_) => "LLC service access point",
            Self::Family(_) => "address family",
            Self::Hardware(_) => "hardware type",
            Self::MplsPayload => "MPLS payload",
            Self::IpProtocol(_) => "IP protocol",
            Self::Encrypted => "encrypted",
            Self::Dispatch(_) => "6LoWPAN header",
            Self::Cut => "cut",
            Self::Damaged => "damaged",
        }
    }

    fn number(self) -> Option<u32> {
        match self {
            Self::LinkType(number)
            | Self::EtherType(number)
            | Self::Ppp(number)
            | Self::Hardware(number) => Some(number.into()),
            Self::Llc(number) | Self::IpProtocol(number) | Self::Dispatch(number) => {
                Some(number.into())
            }
            Self::Family(number) => Some(number),
            Self::MplsPayload | Self::Encrypted | Self::Cut | Self::Damaged => None,
        }
    }

    fn name(self) -> Option<&'static str> {
        match self {
            Self::LinkType(number) => names::link_type(number),
            Self::EtherType(number) => names::hiding_ether_type(number),
            Self::Ppp(number) => names::hiding_ppp(number),
            Self::IpProtocol(number) => names::hiding_ip_protocol(number),
            _ => None,
        }
    }

    /// The text of a note on `packets` such packets:
    /// `has link type IEEE 802.15.4 (230), ...`.
    fn sentence(self, packets: u64) -> String {
        let number = match (self, self.number()) {
            (Self::EtherType(number), _) | (Self::Ppp(number), _) => format!("0x{number:04x}"),
            (Self::Llc(number) | Self::Dispatch(number), _) => format!("0x{number:02x}"),
            (_, number) => number.unwrap_or_default().to_string(),
        };
        let one = packets == 1;
        let (have, they) = if one { ("has", "it is") } else { ("have", "they are") };
        let reason = match (self, self.name()) {
            (Self::Cut, _) => {
                let were = if one { "was" } else { "were" };
                format!("{were} cut off within the headers when captured")
            }
            (Self::Encrypted, _) => {
                let are = if one { "is" } else { "are" };
                format!("{are} encrypted at the link layer")
            }
            (Self::Damaged, _) => format!("{have} headers that contradict themselves"),
            (Self::MplsPayload, _) => format!("{have} something other than IP behind MPLS labels"),
            (_, Some(name)) => {
                format!("{have} {} {name} ({number}), which analyze cannot read", self.reason())
            }
            (_, None) => format!("{have} {} {number}, which analyze cannot read", self.reason()),
        };
        let counted = match self {
            Self::IpProtocol(_) => "by size and address only",
            _ => "by size only",
        };
        format!("{reason}: {they} counted {counted}")
    }
}

/// The maximum number of separate rows; further ones are combined.
// Frames of random bytes have up to 65,536 EtherTypes.
const MAX_ROWS: usize = 1_024;
/// The number of rows with a note each.
const MAX_NOTES: usize = 8;

/// Packets that cannot be dissected, by capture point and reason.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    rows: HashMap<(usize, Unread), [u64; 2]>,
    more: [u64; 2],
}

impl Tally {
    /// Counts a packet of `length` bytes at capture point `point`.
    pub(crate) fn note(&mut self, point: usize, unread: Unread, length: u32) {
        let full = self.rows.len() >= MAX_ROWS && !self.rows.contains_key(&(point, unread));
        let row = match full {
            true => &mut self.more,
            false => self.rows.entry((point, unread)).or_default(),
        };
        row[0] += 1;
        row[1] += u64::from(length);
    }

    /// The rows, most packets first, and notes with the same content as text.
    pub(crate) fn finish(self, names: &[String]) -> (Vec<UnreadFigures>, Vec<String>) {
        let mut rows: Vec<_> = self.rows.into_iter().collect();
        rows.sort_by_key(|(key, [packets, _])| (std::cmp::Reverse(*packets), *key));
        let note = |((point, unread), [packets, _]): &((usize, Unread), [u64; 2])| {
            let noun = if *packets == 1 { "packet" } else { "packets" };
            format!("{packets} {noun} on `{}` {}", names[*point], unread.sentence(*packets))
        };
        let mut notes: Vec<String> = rows.iter().take(MAX_NOTES).map(note).collect();
        let more: u64 = rows.iter().skip(MAX_NOTES).map(|(_, [packets, _])| packets).sum();
        if more + self.more[0] > 0 {
            notes.push(format!(
                "{} more packets could not be read for other reasons: see \
                 `unread` in the JSON form",
                more + self.more[0]
            ));
        }
        let row =
            |((point, unread), [packets, bytes]): ((usize, Unread), [u64; 2])| UnreadFigures {
                point: names[point].clone(),
                reason: unread.reason(),
                number: unread.number(),
                name: unread.name(),
                packets,
                bytes,
            };
        let mut rows: Vec<UnreadFigures> = rows.into_iter().map(row).collect();
        if self.more[0] > 0 {
            rows.push(UnreadFigures {
                point: "others".to_owned(),
                reason: "other reasons",
                number: None,
                name: None,
                packets: self.more[0],
                bytes: self.more[1],
            });
        }
        (rows, notes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_names_the_point_and_what_it_carries() {
        let mut tally = Tally::default();
        for _ in 0..3 {
            tally.note(1, Unread::LinkType(251), 40);
        }
        tally.note(0, Unread::EtherType(0x1234), 60);
        let (rows, notes) = tally.finish(&["eth0".to_owned(), "radio".to_owned()]);
        assert_eq!(
            notes[0],
            "3 packets on `radio` have link type Bluetooth LE (251), which analyze cannot \
             read: they are counted by size only"
        );
        assert_eq!(
            notes[1],
            "1 packet on `eth0` has EtherType 0x1234, which analyze cannot read: it is counted by \
             size only"
        );
        assert_eq!((rows[0].packets, rows[0].bytes, rows[0].number), (3, 120, Some(251)));
        assert_eq!((rows[1].reason, rows[1].name), ("EtherType", None));
    }

    #[test]
    fn rows_and_notes_are_bounded_and_nothing_is_left_out() {
        let mut tally = Tally::default();
        for number in 0..3_000_u16 {
            tally.note(0, Unread::EtherType(number), 100);
        }
        let (rows, notes) = tally.finish(&["a".to_owned()]);
        assert_eq!((rows.len(), notes.len()), (MAX_ROWS + 1, MAX_NOTES + 1));
        assert_eq!(rows.iter().map(|row| row.packets).sum::<u64>(), 3_000);
        assert!(notes[MAX_NOTES].starts_with("2992 more packets"), "{}", notes[MAX_NOTES]);
    }
}
