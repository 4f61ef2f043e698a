//! What a gateway keeps besides sessions: at the hub, messages that devices lack, their filters, and wills of
//! clients; at a device, which messages of the hub it has had. Changes of it are in the same records as those of
//! sessions, so that they count together.

use crate::message::{Message, Reader, write_bytes, write_message};
use std::collections::{BTreeMap, VecDeque};

/// How many numbers of the other end's messages a gateway remembers: more than that sends again at a time.
pub const KEPT: usize = 16_384;

/// A change of what is on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceChange {
    /// At the hub: a message with this number, with the time that is left of it, which these devices lack.
    Queued(u32, Vec<u32>, Message),
    /// These devices lack it now; none if it is over.
    Lacking(u32, Vec<u32>),
    /// Numbers below the second may have been used, under the first, which is that of the storage.
    Numbers(u32, u32),
    /// The last known start of a device: its filters are void.
    Start(u32, u32),
    /// A device has a filter, with this QoS.
    Filter(u32, String, u8),
    /// A device does not have a filter any more.
    NoFilter(u32, String),
    /// A client has a will, with its delay in seconds.
    Will(String, u32, Message),
    /// A client has no will.
    NoWill(String),
    /// At a device: a message of the hub's storage with this number has arrived.
    Heard(u32, u32),
    /// At the hub: a message of QoS 2 with this number has arrived from the present start of a device.
    Had(u32, u32),
}

/// What a device had at the hub.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeptDevice {
    /// Its last known start.
    pub start: u32,
    /// Its filters, with their QoS.
    pub filters: BTreeMap<String, u8>,
}

/// All of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct KeptDevices {
    /// Messages by their numbers, with the devices that lack them and the time that is left.
    pub queued: BTreeMap<u32, (Vec<u32>, Message)>,
    /// The hub's storage, 0 without one, and the next number.
    pub numbers: (u32, u32),
    /// Devices by their numbers.
    pub devices: BTreeMap<u32, KeptDevice>,
    /// Wills of clients, with their delays in seconds.
    pub wills: BTreeMap<String, (u32, Message)>,
    /// The storage of the hub that a device has last heard of, and the numbers of its messages.
    pub heard: (u32, VecDeque<u32>),
    /// The numbers of messages of QoS 2 of devices' last known starts.
    pub had: BTreeMap<u32, VecDeque<u32>>,
}

/// Adds a number; forgets the oldest if there are too many.
pub fn remember(numbers: &mut VecDeque<u32>, number: u32) {
    numbers.push_back(number);
    if numbers.len() > KEPT {
        numbers.pop_front();
    }
}

fn write_numbers(to: &mut Vec<u8>, all: &[u32]) {
    let bytes: Vec<u8> = all.iter().flat_map(|own| own.to_be_bytes()).collect();
    write_bytes(to, &bytes);
}

fn read_numbers(rest: &mut Reader<'_>) -> Option<Vec<u32>> {
    let own = |bytes: &[u8]| bytes.try_into().ok().map(u32::from_be_bytes);
    Some(rest.bytes()?.chunks(4).filter_map(own).collect())
}

/// Appends a change.
pub fn write(to: &mut Vec<u8>, change: &DeviceChange) {
    let mut head = |kind: u8, number: u32| {
        to.push(kind);
        to.extend(number.to_be_bytes());
    };
    match change {
        DeviceChange::Queued(number, lacking, message) => {
            head(13, *number);
            write_numbers(to, lacking);
            write_message(to, message);
        }
        DeviceChange::Lacking(number, lacking) => {
            head(14, *number);
            write_numbers(to, lacking);
        }
        DeviceChange::Numbers(store, next) => {
            head(15, *store);
            to.extend(next.to_be_bytes());
        }
        DeviceChange::Start(device, start) => {
            head(16, *device);
            to.extend(start.to_be_bytes());
        }
        DeviceChange::Filter(device, filter, qos) => {
            head(17, *device);
            to.push(*qos);
            write_bytes(to, filter.as_bytes());
        }
        DeviceChange::NoFilter(device, filter) => {
            head(18, *device);
            write_bytes(to, filter.as_bytes());
        }
        DeviceChange::Will(client, delay_s, will) => {
            head(19, *delay_s);
            write_bytes(to, client.as_bytes());
            write_message(to, will);
        }
        DeviceChange::NoWill(client) => {
            to.push(20);
            write_bytes(to, client.as_bytes());
        }
        DeviceChange::Heard(store, number) => {
            head(21, *store);
            to.extend(number.to_be_bytes());
        }
        DeviceChange::Had(device, number) => {
            head(22, *device);
            to.extend(number.to_be_bytes());
        }
    }
}

/// Reads what [`write`] has written after its kind.
pub fn read(kind: u8, rest: &mut Reader<'_>) -> Option<DeviceChange> {
    Some(match kind {
        13 => DeviceChange::Queued(rest.number()?, read_numbers(rest)?, rest.message()?),
        14 => DeviceChange::Lacking(rest.number()?, read_numbers(rest)?),
        15 => DeviceChange::Numbers(rest.number()?, rest.number()?),
        16 => DeviceChange::Start(rest.number()?, rest.number()?),
        17 => {
            let (device, qos) = (rest.number()?, rest.byte()?);
            DeviceChange::Filter(device, rest.text()?, qos)
        }
        18 => DeviceChange::NoFilter(rest.number()?, rest.text()?),
        19 => {
            let delay_s = rest.number()?;
            DeviceChange::Will(rest.text()?, delay_s, rest.message()?)
        }
        20 => DeviceChange::NoWill(rest.text()?),
        21 => DeviceChange::Heard(rest.number()?, rest.number()?),
        22 => DeviceChange::Had(rest.number()?, rest.number()?),
        _ => return None,
    })
}

impl KeptDevices {
    /// Applies a change that was written this number of seconds ago.
    pub fn apply(&mut self, change: DeviceChange, waited_s: u64) {
        match change {
            DeviceChange::Queued(number, lacking, message) => {
                if !message.is_expired(waited_s) {
                    self.queued.insert(number, (lacking, message.leaving(waited_s)));
                }
            }
            DeviceChange::Lacking(number, lacking) if lacking.is_empty() => {
                self.queued.remove(&number);
            }
            DeviceChange::Lacking(number, lacking) => {
                self.queued.get_mut(&number).into_iter().for_each(|own| own.0.clone_from(&lacking));
            }
            DeviceChange::Numbers(store, next) => self.numbers = (store, next),
            DeviceChange::Start(device, start) => {
                let own = KeptDevice { start, ..KeptDevice::default() };
                self.devices.insert(device, own);
                self.had.remove(&device);
            }
            DeviceChange::Filter(device, filter, qos) => {
                self.devices.entry(device).or_default().filters.insert(filter, qos);
            }
            DeviceChange::NoFilter(device, filter) => {
                self.devices.entry(device).or_default().filters.remove(&filter);
            }
            DeviceChange::Will(client, delay_s, will) => {
                self.wills.insert(client, (delay_s, will));
            }
            DeviceChange::NoWill(client) => drop(self.wills.remove(&client)),
            DeviceChange::Heard(store, number) => {
                if self.heard.0 != store {
                    self.heard = (store, VecDeque::new());
                }
                remember(&mut self.heard.1, number);
            }
            DeviceChange::Had(device, number) => {
                remember(self.had.entry(device).or_default(), number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read_as_they_were_written_and_messages_expire() {
        let message = Message { topic: "t".to_owned(), until_s: Some(9), ..Message::default() };
        let (filter, client) = ("a/#".to_owned(), "c".to_owned());
        let changes = [
            DeviceChange::Queued(7, vec![0, 70_000], message.clone()),
            DeviceChange::Queued(8, vec![1], message.clone()),
            DeviceChange::Lacking(7, vec![0]),
            DeviceChange::Lacking(8, Vec::new()),
            DeviceChange::Numbers(5, 10_000),
            DeviceChange::Filter(1, "void".to_owned(), 2),
            DeviceChange::Had(1, 3),
            DeviceChange::Start(1, 99),
            DeviceChange::Filter(1, filter.clone(), 2),
            DeviceChange::NoFilter(1, "none".to_owned()),
            DeviceChange::Will(client.clone(), 3, message.clone()),
            DeviceChange::Will("d".to_owned(), 0, message.clone()),
            DeviceChange::NoWill("d".to_owned()),
            DeviceChange::Heard(4, 1),
            DeviceChange::Heard(5, 2),
            DeviceChange::Heard(5, 3),
            DeviceChange::Had(1, 4),
        ];
        let apply = |waited_s| {
            let mut kept = KeptDevices::default();
            for change in &changes {
                let mut bytes = Vec::new();
                write(&mut bytes, change);
                let mut rest = Reader(&bytes);
                let kind = rest.byte().unwrap();
                let again = read(kind, &mut rest).unwrap();
                assert_eq!((&again, rest.0), (change, &[][..]));
                kept.apply(again, waited_s);
            }
            kept
        };
        let kept = apply(4);
        let left = Message { until_s: Some(5), ..message.clone() };
        assert_eq!(kept.queued, BTreeMap::from([(7, (vec![0], left))]));
        let own = KeptDevice { start: 99, filters: BTreeMap::from([(filter, 2)]) };
        assert_eq!(kept.devices, BTreeMap::from([(1, own)]));
        assert_eq!(kept.wills, BTreeMap::from([(client, (3, message))]));
        assert_eq!((kept.numbers, kept.heard), ((5, 10_000), (5, VecDeque::from([2, 3]))));
        assert_eq!(kept.had, BTreeMap::from([(1, VecDeque::from([4]))]), "of the last start");
        assert!(apply(10).queued.is_empty());
    }
}
