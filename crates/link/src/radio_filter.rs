//! The address filter of simulated radios.

use crate::carried::Carried;
use std::collections::HashMap;

/// Most extended addresses of a station; one with more gets all frames.
const MOST_ADDRESSES: usize = 16;

/// Which stations a frame of a simulated radio concerns, as far as that is certain: those that have sent
/// from its extended target address, and for an acknowledgement, those whose last frame has its sequence
/// number. Others would discard it. Frames to short addresses concern all, because a station can have
/// been assigned one from which it has not sent yet.
#[derive(Debug)]
pub struct RadioFilter {
    carries: Carried,
    /// Stations that have sent from an extended address.
    owners: HashMap<[u8; 8], Vec<usize>>,
    stations: Vec<Station>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Station {
    addresses: usize,
    /// Sequence number of its last frame that requests an acknowledgement.
    awaited: Option<u8>,
}

/// What a frame's MAC header says (IEEE 802.15.4-2011, 5.2.1).
struct Header<'a> {
    sequence: u8,
    is_ack: bool,
    requests: bool,
    /// Extended addresses.
    target: Option<&'a [u8; 8]>,
    source: Option<&'a [u8; 8]>,
}

impl RadioFilter {
    /// A filter for a channel that carries frames of simulated radios.
    pub fn new(carries: Carried) -> Self {
        Self { carries, owners: HashMap::new(), stations: Vec::new() }
    }

    /// Learns from a frame that `station` sends, in the Ethernet frame `frame`.
    pub fn sent(&mut self, station: usize, frame: &[u8]) {
        if self.stations.len() <= station {
            self.stations.resize(station + 1, Station::default());
        }
        let Some(header) = self.carries.radio_frame(frame).and_then(header) else { return };
        let own = &mut self.stations[station];
        if header.requests {
            own.awaited = Some(header.sequence);
        }
        let Some(source) = header.source else { return };
        if own.addresses > MOST_ADDRESSES {
            return;
        }
        let owners = self.owners.entry(*source).or_default();
        if !owners.contains(&station) {
            own.addresses += 1;
            owners.push(station);
        }
    }

    /// Whether `station` gets the frame in the Ethernet frame `frame`, for each station.
    pub fn concerns<'a>(&'a self, frame: &'a [u8]) -> impl Fn(usize) -> bool + 'a {
        let header = self.carries.radio_frame(frame).and_then(header);
        let owners = header.as_ref().and_then(|header| self.owners.get(header.target?));
        move |station| {
            let Some(header) = &header else { return true };
            let own = self.stations.get(station).copied().unwrap_or_default();
            if own.addresses > MOST_ADDRESSES {
                return true;
            }
            match owners {
                _ if header.is_ack => own.awaited == Some(header.sequence),
                Some(owners) => owners.contains(&station),
                None => true,
            }
        }
    }
}

/// The MAC header of a frame, unless it is of the version of 2015, with other rules.
fn header(radio: &[u8]) -> Option<Header<'_>> {
    let control = u16::from_le_bytes([*radio.first()?, *radio.get(1)?]);
    let mode = |shift: u32| control >> shift & 3;
    let (is_ack, requests, compressed) =
        (control & 7 == 2, control & 1 << 5 != 0, control & 1 << 6 != 0);
    if mode(12) > 1 {
        return None;
    }
    let sequence = *radio.get(2)?;
    // The PAN's identifier, then the address: none, of 2 B, or extended.
    let address = |rest: &'_ [u8], mode: u16, pan: usize| {
        match mode {
            0 => Some(0),
            2 => Some(pan + 2),
            3 => Some(pan + 8),
            _ => None,
        }
        .filter(|length| rest.len() >= *length)
    };
    let rest = radio.get(3..)?;
    let to = address(rest, mode(10), 2)?;
    let target = rest[..to].last_chunk::<8>().filter(|_| mode(10) == 3);
    let rest = &rest[to..];
    let from = address(rest, mode(14), if compressed { 0 } else { 2 })?;
    let source = rest[..from].last_chunk::<8>().filter(|_| mode(14) == 3);
    Some(Header { sequence, is_ack, requests, target, source })
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

    fn getting(filter: &RadioFilter, frame: &[u8]) -> Vec<usize> {
        let concerns = filter.concerns(frame);
        (0..4).filter(|station| concerns(*station)).collect()
    }

    #[test]
    fn frames_go_to_those_that_could_use_them() {
        let mut filter = RadioFilter::new(Carried::Openthread);
        let all = vec![0, 1, 2, 3];
        assert_eq!(getting(&filter, &data(5, 0xb, 0xa)), all, "no owner is known");
        filter.sent(0, &data(5, 0xb, 0xa));
        filter.sent(1, &data(6, 0xa, 0xb));
        filter.sent(2, &data(5, 0xa, 0xc));
        assert_eq!(getting(&filter, &data(7, 0xb, 0xc)), [1]);
        // Two stations wait for an acknowledgement with this number.
        assert_eq!(getting(&filter, &datagram(&[2, 0, 5, 0, 0])), [0, 2]);
        // To a short address, to all, and frames that are no data.
        for radio in
            [&[0x61, 0x98, 7, 0x34, 0x12, 0xff, 0xff, 1, 0x44][..], &[0x61, 0xec, 1, 2, 3], &[0x61]]
        {
            assert_eq!(getting(&filter, &datagram(radio)), all, "{radio:?}");
        }
    }

    #[test]
    fn a_station_with_many_addresses_gets_all_frames() {
        let mut filter = RadioFilter::new(Carried::Openthread);
        (0..200).for_each(|from| filter.sent(3, &data(1, 0xff, from)));
        filter.sent(0, &data(1, 3, 0xee));
        assert!(filter.owners.len() <= MOST_ADDRESSES + 2);
        assert_eq!(getting(&filter, &data(9, 0xee, 1)), [0, 3]);
    }

    #[test]
    fn cut_and_changed_frames_are_read_without_a_panic() {
        let whole = data(1, 2, 3);
        let mut filter = RadioFilter::new(Carried::Openthread);
        for end in 0..=whole.len() {
            filter.sent(0, &whole[..end]);
            filter.concerns(&whole[..end])(0);
        }
        for place in 0..whole.len() {
            for value in 0..=255 {
                let mut changed = whole.clone();
                changed[place] = value;
                filter.sent(0, &changed);
                filter.concerns(&changed)(0);
            }
        }
    }
}
