//! The address filter of simulated radios.

use crate::carried::Carried;
use std::collections::HashMap;

/// Most extended addresses of a station; one with more gets all frames.
const MOST_ADDRESSES: usize = 16;

/// Which stations a frame of a simulated radio may concern: those that have sent from its target address, and
/// for an acknowledgement, those whose last frame has its sequence number. Others would discard it.
///
/// That is certain for extended addresses. A station can have been assigned a short address from which it
/// has not sent yet, so a frame to a short address concerns only the stations that sent last from it if it
/// requests an acknowledgement, and all stations when it is repeated because these sent none.
#[derive(Debug)]
pub struct RadioFilter {
    carries: Carried,
    /// Stations that have sent from an extended address.
    owners: HashMap<[u8; 8], Vec<usize>>,
    /// Stations that last sent from a short address.
    holders: HashMap<Short, Vec<usize>>,
    stations: Vec<Station>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Station {
    addresses: usize,
    short: Option<Short>,
    /// Sequence number of its last frame that requests an acknowledgement, and its short target address.
    awaited: Option<u8>,
    target: Option<Short>,
    /// Whether holders of the target address got that frame and have not acknowledged it.
    unanswered: bool,
    /// Whether that was so when the station sent the frame again.
    for_all: bool,
}

/// The identifier of a PAN and an address in it.
type Short = [u8; 4];

/// What a frame's MAC header says (IEEE 802.15.4-2011, 5.2.1).
struct Header {
    sequence: u8,
    is_ack: bool,
    requests: bool,
    target: Address,
    source: Address,
}

#[derive(Debug, Clone, Copy)]
enum Address {
    None,
    Short(Short),
    Extended([u8; 8]),
}

impl Address {
    fn short(self) -> Option<Short> {
        match self {
            Self::Short(address) => Some(address),
            Self::Extended(_) | Self::None => None,
        }
    }
}

impl RadioFilter {
    /// A filter for a channel that carries frames of simulated radios.
    pub fn new(carries: Carried) -> Self {
        Self { carries, owners: HashMap::new(), holders: HashMap::new(), stations: Vec::new() }
    }

    /// Learns from a frame that `station` sends, in the Ethernet frame `frame`.
    pub fn sent(&mut self, station: usize, frame: &[u8]) {
        if self.stations.len() <= station {
            self.stations.resize(station + 1, Station::default());
        }
        let Some(header) = self.carries.radio_frame(frame).and_then(header) else { return };
        if header.is_ack {
            self.acknowledged(station, header.sequence);
        }
        let own = &mut self.stations[station];
        if header.requests {
            own.for_all = own.awaited == Some(header.sequence) && own.unanswered;
            own.unanswered = false;
            own.awaited = Some(header.sequence);
            own.target = header.target.short();
        }
        match header.source {
            Address::Short(address) => self.holds(station, address),
            Address::Extended(address) if own.addresses <= MOST_ADDRESSES => {
                let owners = self.owners.entry(address).or_default();
                if !owners.contains(&station) {
                    own.addresses += 1;
                    owners.push(station);
                }
            }
            Address::Extended(_) | Address::None => {}
        }
    }

    fn acknowledged(&mut self, holder: usize, sequence: u8) {
        let address = self.stations[holder].short;
        let is_answered =
            |own: &&mut Station| own.awaited == Some(sequence) && own.target == address;
        for own in self.stations.iter_mut().filter(is_answered) {
            own.unanswered = false;
        }
    }

    fn holds(&mut self, station: usize, address: Short) {
        let before = self.stations[station].short.replace(address);
        if before == Some(address) {
            return;
        }
        if let Some(before) = before
            && let Some(holders) = self.holders.get_mut(&before)
        {
            holders.retain(|holder| *holder != station);
            if holders.is_empty() {
                self.holders.remove(&before);
            }
        }
        self.holders.entry(address).or_default().push(station);
    }

    /// Whether a station gets the frame that `sender` sent last, in the Ethernet frame `frame`.
    pub fn concerns<'a>(&'a mut self, sender: usize, frame: &[u8]) -> impl Fn(usize) -> bool + 'a {
        let header = self.carries.radio_frame(frame).and_then(header);
        let target = header.as_ref().map_or(Address::None, |header| header.target);
        let requests = header.as_ref().is_some_and(|header| header.requests);
        let own = self.stations.get_mut(sender);
        let concerned = match (target, own) {
            (Address::Short(address), Some(own)) if requests => {
                own.unanswered = true;
                if own.for_all { None } else { self.holders.get(&address) }
            }
            (Address::Extended(address), _) => self.owners.get(&address),
            _ => None,
        };
        let stations = &self.stations;
        let acknowledged = header.filter(|header| header.is_ack).map(|header| header.sequence);
        move |station| {
            let own = stations.get(station).copied().unwrap_or_default();
            if own.addresses > MOST_ADDRESSES {
                return true;
            }
            match (acknowledged, concerned) {
                (Some(sequence), _) => own.awaited == Some(sequence),
                (None, Some(concerned)) => concerned.contains(&station),
                (None, None) => true,
            }
        }
    }
}

/// The MAC header of a frame, unless it is of the version of 2015, with other rules.
fn header(radio: &[u8]) -> Option<Header> {
    let control = u16::from_le_bytes([*radio.first()?, *radio.get(1)?]);
    let mode = |shift: u32| control >> shift & 3;
    let (is_ack, requests, compressed) =
        (control & 7 == 2, control & 1 << 5 != 0, control & 1 << 6 != 0);
    if mode(12) > 1 {
        return None;
    }
    let mut rest = radio.get(3..)?;
    let mut pan = [0; 2];
    let mut address = |mode: u16, has_pan: bool| {
        if mode != 0 && has_pan {
            pan = take(&mut rest)?;
        }
        match mode {
            0 => Some(Address::None),
            2 => {
                let [low, high] = take(&mut rest)?;
                Some(Address::Short([pan[0], pan[1], low, high]))
            }
            3 => Some(Address::Extended(take(&mut rest)?)),
            _ => None,
        }
    };
    let (target, source) = (address(mode(10), true)?, address(mode(14), !compressed)?);
    Some(Header { sequence: *radio.get(2)?, is_ack, requests, target, source })
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, left) = rest.split_first_chunk()?;
    *rest = left;
    Some(*taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// OpenThread's datagram with a radio's frame.
    fn datagram(radio: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; 12];
        frame.extend([8, 0, 0x45, 0, 0, 0, 0, 0, 0, 0, 1, 17, 0, 0, 10, 0, 0, 1, 224, 0, 0, 116]);
        frame.extend([0x23, 0x29, 0x23, 0x28, 0, radio.len() as u8 + 9, 0, 0, 11]);
        frame.extend(radio);
        frame
    }

    /// A data frame that requests an acknowledgement, between extended addresses of eight equal bytes.
    fn data(sequence: u8, to: u8, from: u8) -> Vec<u8> {
        datagram(&[&[0x61, 0xdc, sequence, 0x34, 0x12][..], &[to; 8], &[from; 8], &[1; 9]].concat())
    }

    /// As [`data`], between short addresses.
    fn short(sequence: u8, to: u8, from: u8) -> Vec<u8> {
        datagram(&[0x61, 0x98, sequence, 0x34, 0x12, to, 4, from, 4, 1, 1])
    }

    fn getting(filter: &mut RadioFilter, frame: &[u8]) -> Vec<usize> {
        let concerns = filter.concerns(0, frame);
        (0..4).filter(|station| concerns(*station)).collect()
    }

    #[test]
    fn frames_go_to_those_that_could_use_them() {
        let mut filter = RadioFilter::new(Carried::Openthread);
        let all = vec![0, 1, 2, 3];
        assert_eq!(getting(&mut filter, &data(5, 0xb, 0xa)), all, "no owner is known");
        filter.sent(0, &data(5, 0xb, 0xa));
        filter.sent(1, &data(6, 0xa, 0xb));
        filter.sent(2, &data(5, 0xa, 0xc));
        assert_eq!(getting(&mut filter, &data(7, 0xb, 0xc)), [1]);
        // Two stations wait for an acknowledgement with this number.
        assert_eq!(getting(&mut filter, &datagram(&[2, 0, 5, 0, 0])), [0, 2]);
        // To all stations, and frames that are no data.
        for radio in
            [&[0x61, 0x98, 7, 0x34, 0x12, 0xff, 0xff, 1, 0x44][..], &[0x61, 0xec, 1, 2, 3], &[0x61]]
        {
            assert_eq!(getting(&mut filter, &datagram(radio)), all, "{radio:?}");
        }
    }

    #[test]
    fn frames_to_short_addresses_go_to_all_if_the_known_device_does_not_acknowledge_them() {
        let mut filter = RadioFilter::new(Carried::Openthread);
        let all = vec![0, 1, 2, 3];
        let sent = |filter: &mut RadioFilter, frame: Vec<u8>| {
            filter.sent(0, &frame);
            getting(filter, &frame)
        };
        assert_eq!(sent(&mut filter, short(1, 0xb, 0xa)), all, "no holder is known");
        filter.sent(1, &short(9, 0xa, 0xb));
        assert_eq!(sent(&mut filter, short(2, 0xb, 0xa)), [1]);
        // Station 2 may have been assigned the address since.
        assert_eq!(sent(&mut filter, short(2, 0xb, 0xa)), all);
        assert_eq!(sent(&mut filter, short(2, 0xb, 0xa)), all, "the channel can have lost it");
        assert_eq!(sent(&mut filter, short(3, 0xb, 0xa)), [1]);
        // The acknowledgement was lost; an acknowledgement of another station says nothing.
        filter.sent(1, &datagram(&[2, 0, 3, 0, 0]));
        assert_eq!(sent(&mut filter, short(3, 0xb, 0xa)), [1]);
        filter.sent(3, &datagram(&[2, 0, 3, 0, 0]));
        assert_eq!(sent(&mut filter, short(3, 0xb, 0xa)), all);
        // It did not come through: station 1 has had no chance to acknowledge it.
        filter.sent(0, &short(4, 0xb, 0xa));
        assert_eq!(sent(&mut filter, short(4, 0xb, 0xa)), [1]);
        filter.sent(2, &short(9, 0xa, 0xb));
        assert_eq!(sent(&mut filter, short(5, 0xb, 0xa)), [1, 2], "both hold it");
        filter.sent(1, &short(10, 0xa, 0xc));
        assert_eq!(sent(&mut filter, short(6, 0xb, 0xa)), [2], "station 1 has another one");
        assert_eq!(sent(&mut filter, short(7, 0xc, 0xa)), [1]);
        // Without a request for an acknowledgement it would not be repeated.
        let mut quiet = short(8, 0xb, 0xa);
        quiet[42 + 1] &= !0x20;
        assert_eq!(sent(&mut filter, quiet), all);
        // The same address in another PAN.
        let mut other = short(9, 0xb, 0xa);
        other[42 + 4] = 0x35;
        assert_eq!(sent(&mut filter, other), all);
    }

    #[test]
    fn a_station_that_changes_its_short_address_takes_no_more_space() {
        let mut filter = RadioFilter::new(Carried::Openthread);
        (0..=255).for_each(|from| filter.sent(3, &short(1, 0xff, from)));
        assert_eq!(filter.holders.len(), 1);
    }

    #[test]
    fn a_station_with_many_addresses_gets_all_frames() {
        let mut filter = RadioFilter::new(Carried::Openthread);
        (0..200).for_each(|from| filter.sent(3, &data(1, 0xff, from)));
        filter.sent(0, &data(1, 3, 0xee));
        assert!(filter.owners.len() <= MOST_ADDRESSES + 2);
        assert_eq!(getting(&mut filter, &data(9, 0xee, 1)), [0, 3]);
    }

    #[test]
    fn cut_and_changed_frames_are_read_without_a_panic() {
        let whole = data(1, 2, 3);
        let mut filter = RadioFilter::new(Carried::Openthread);
        for end in 0..=whole.len() {
            filter.sent(0, &whole[..end]);
            filter.concerns(0, &whole[..end])(0);
        }
        for place in 0..whole.len() {
            for value in 0..=255 {
                let mut changed = whole.clone();
                changed[place] = value;
                filter.sent(0, &changed);
                filter.concerns(0, &changed)(0);
            }
        }
    }
}
