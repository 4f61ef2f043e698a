//! Sessions of clients on a disk: a log of changes. Each record is a batch of changes that count together.

use crate::kept_devices::{self, DeviceChange, KeptDevices};
use crate::message::{Message, Reader, write_bytes, write_message};
use crate::packet::Options;
use crate::records::Records;
use crate::storage::Unwritten;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::Path;

/// Name of the log in the folder.
const LOG: &str = "sessions";

/// A change of what is on the disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A message that clients wait for, with the time that is left of it: once for all of them.
    Message(u64, Message),
    /// The changes that follow are of this client's session.
    Client(String),
    /// It has ended.
    End,
    /// How long it lasts.
    Life(Life),
    /// A filter, or its options, are new.
    Filter(String, Options),
    /// It has this filter no more.
    NoFilter(String),
    /// It waits for a message.
    Waits(Waits),
    /// A message is on its way with this packet number; 0 if it waits again.
    Sent(u64, u16),
    /// The client has a message of QoS 2.
    Released(u64),
    /// A message is finished, or dropped.
    Done(u64),
    /// A message of QoS 2 of the client, with this packet number, is published.
    Received(u16),
    /// The client has released that number.
    Finished(u16),
    /// What is kept besides sessions.
    Device(DeviceChange),
}

/// How long a session lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Life {
    /// Protocol level of the client.
    pub level: u8,
    /// Time that it lasts after a connection, in seconds; `u32::MAX` for ever.
    pub expires_s: u32,
    /// What is left of that, in seconds; `None` during a connection.
    pub left_s: Option<u32>,
}

/// A message that a client waits for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Waits {
    /// Number of the message.
    pub number: u64,
    /// Its QoS for this client.
    pub qos: u8,
    /// Its retain flag for this client.
    pub retain: bool,
    /// Identifiers of the subscriptions that it is for.
    pub subscriptions: Vec<u32>,
}

/// A message of a session on the disk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Entry {
    /// The message.
    pub waits: Waits,
    /// Its packet number; 0 if it was not sent.
    pub id: u16,
    /// Whether the client has it (QoS 2).
    pub is_released: bool,
}

/// A session on the disk.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Saved {
    /// How long it lasts.
    pub life: Life,
    /// Whether its time is over.
    pub is_over: bool,
    /// Its filters.
    pub filters: BTreeMap<String, Options>,
    /// Its messages by their numbers, which are in order.
    pub entries: BTreeMap<u64, Entry>,
    /// Packet numbers of QoS 2 messages of the client that are published.
    pub received: BTreeSet<u16>,
}

/// All sessions on the disk.
#[derive(Debug, Default)]
pub struct Kept {
    /// Sessions by the names of their clients.
    pub clients: BTreeMap<String, Saved>,
    /// Messages by their numbers, with the time that is left of each. Those that have expired are not there.
    pub messages: HashMap<u64, Message>,
    /// What is kept besides sessions.
    pub devices: KeptDevices,
}

/// What is not on the disk yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsaved {
    /// Retained messages.
    pub retained: Unwritten,
    /// Sessions.
    pub sessions: Vec<Change>,
}

impl Unsaved {
    /// Whether all is on the disk.
    pub fn is_none(&self) -> bool {
        self.retained == Unwritten::Changes(Vec::new()) && self.sessions.is_empty()
    }
}

/// The log of sessions in a folder, which one gateway has at a time.
#[derive(Debug)]
pub struct Sessions(Records);

impl Sessions {
    /// Opens a folder, which is made if it does not exist; returns its sessions too.
    ///
    /// # Errors
    /// If the folder cannot be read, or another gateway has it. A full disk is no error.
    pub fn open(folder: &Path) -> io::Result<(Self, Kept)> {
        let mut kept = Kept::default();
        let read = |record: &[u8], now_s| kept.replay(record, now_s).is_some();
        let records = Records::open(folder, LOG, read)?;
        if records.damaged().is_some() {
            // Numbers may be used again: under another name of the storage, devices have had none of them.
            kept.devices.numbers = Default::default();
        }
        Ok((Self(records), kept))
    }

    /// A copy of the log, if a record of it was damaged: that one and all after it are lost.
    pub fn damaged(&self) -> Option<&Path> {
        self.0.damaged()
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.0.folder()
    }

    /// Whether the folder's mark of the time is old.
    pub fn is_mark_due(&self) -> bool {
        self.0.clock.is_due()
    }

    /// Marks the time in the folder.
    pub fn mark(&mut self) {
        self.0.clock.mark();
    }

    /// Whether most of the log may be void.
    pub fn is_large(&self) -> bool {
        self.0.is_large()
    }

    /// Writes and syncs changes; `all` are those that make all sessions, if the log
    /// [is large](Self::is_large).
    ///
    /// # Errors
    /// If the disk is full or fails: then nothing of it counts, and the next call can succeed.
    pub fn save(&mut self, changes: &[Change], all: Option<&[Vec<Change>]>) -> io::Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        let now_s = self.0.clock.now_ms() / 1_000;
        let written = self.0.append(std::iter::once(record(changes, now_s)));
        let Some(all) = all else { return written };
        let replaced = self.0.replace(all.iter().map(|changes| record(changes, now_s)));
        match written {
            // The former log stays, and serves as well.
            Ok(()) => Ok(()),
            // The void part of the log may be all that the disk lacks.
            Err(error) => replaced.map_err(|_| error),
        }
    }
}

/// The bytes of changes at this second since 1970.
fn record(changes: &[Change], now_s: u64) -> Vec<u8> {
    let mut bytes = now_s.to_be_bytes().to_vec();
    changes.iter().for_each(|change| write(&mut bytes, change));
    bytes
}

fn write(to: &mut Vec<u8>, change: &Change) {
    let numbered = |kind: u8, number: u64| [&[kind], &number.to_be_bytes()[..]].concat();
    let with_id = |kind: u8, id: u16| [&[kind], &id.to_be_bytes()[..]].concat();
    match change {
        Change::Message(number, message) => {
            to.extend(numbered(1, *number));
            write_message(to, message);
        }
        Change::Client(name) => {
            to.push(2);
            write_bytes(to, name.as_bytes());
        }
        Change::End => to.push(3),
        Change::Life(Life { level, expires_s, left_s }) => {
            to.extend([4, *level, u8::from(left_s.is_some())]);
            to.extend(expires_s.to_be_bytes());
            to.extend(left_s.unwrap_or_default().to_be_bytes());
        }
        Change::Filter(filter, options) => {
            let Options { qos, no_local, as_published, retained, identifier } = options;
            let flags = u8::from(*no_local) << 2 | u8::from(*as_published) << 3;
            to.extend([5, qos | flags | retained << 4]);
            to.extend(identifier.unwrap_or_default().to_be_bytes());
            write_bytes(to, filter.as_bytes());
        }
        Change::NoFilter(filter) => {
            to.push(6);
            write_bytes(to, filter.as_bytes());
        }
        Change::Waits(Waits { number, qos, retain, subscriptions }) => {
            to.extend(numbered(7, *number));
            to.push(qos | u8::from(*retain) << 2);
            let all: Vec<u8> = subscriptions.iter().flat_map(|own| own.to_be_bytes()).collect();
            write_bytes(to, &all);
        }
        Change::Sent(number, id) => {
            to.extend(numbered(8, *number));
            to.extend(id.to_be_bytes());
        }
        Change::Released(number) => to.extend(numbered(9, *number)),
        Change::Done(number) => to.extend(numbered(10, *number)),
        Change::Received(id) => to.extend(with_id(11, *id)),
        Change::Finished(id) => to.extend(with_id(12, *id)),
        Change::Device(change) => kept_devices::write(to, change),
    }
}

/// Reads what [`write`] has written.
fn read(rest: &mut Reader<'_>) -> Option<Change> {
    let kind = rest.byte()?;
    let number = |rest: &mut Reader<'_>| rest.take(8)?.try_into().ok().map(u64::from_be_bytes);
    let id = |rest: &mut Reader<'_>| rest.take(2)?.try_into().ok().map(u16::from_be_bytes);
    Some(match kind {
        1 => Change::Message(number(rest)?, rest.message()?),
        2 => Change::Client(rest.text()?),
        3 => Change::End,
        4 => {
            let (level, has_left) = (rest.byte()?, rest.byte()? != 0);
            let (expires_s, left_s) = (rest.number()?, rest.number()?);
            Change::Life(Life { level, expires_s, left_s: has_left.then_some(left_s) })
        }
        5 => {
            let (flags, identifier) = (rest.byte()?, rest.number()?);
            let (no_local, as_published) = (flags & 4 != 0, flags & 8 != 0);
            let (qos, retained) = (flags & 3, flags >> 4);
            let identifier = Some(identifier).filter(|own| *own != 0);
            let options = Options { qos, no_local, as_published, retained, identifier };
            Change::Filter(rest.text()?, options)
        }
        6 => Change::NoFilter(rest.text()?),
        7 => {
            let (number, flags) = (number(rest)?, rest.byte()?);
            let own = |bytes: &[u8]| bytes.try_into().ok().map(u32::from_be_bytes);
            let subscriptions = rest.bytes()?.chunks(4).filter_map(own).collect();
            Change::Waits(Waits { number, qos: flags & 3, retain: flags & 4 != 0, subscriptions })
        }
        8 => Change::Sent(number(rest)?, id(rest)?),
        9 => Change::Released(number(rest)?),
        10 => Change::Done(number(rest)?),
        11 => Change::Received(id(rest)?),
        12 => Change::Finished(id(rest)?),
        kind => Change::Device(kept_devices::read(kind, rest)?),
    })
}

impl Kept {
    /// Applies a record at this second since 1970; `None` if it is not one: then nothing of it counts.
    fn replay(&mut self, record: &[u8], now_s: u64) -> Option<()> {
        let mut rest = Reader(record);
        let written_s = rest.take(8)?.try_into().ok().map(u64::from_be_bytes)?;
        let mut changes = Vec::new();
        while !rest.0.is_empty() {
            changes.push(read(&mut rest)?);
        }
        // A clock that was set back makes sessions live longer, never shorter.
        let waited_s = now_s.saturating_sub(written_s);
        let mut client = String::new();
        for change in changes {
            match change {
                Change::Client(name) => client = name,
                Change::End => drop(self.clients.remove(&client)),
                Change::Device(change) => self.devices.apply(change, waited_s),
                Change::Message(number, message) => {
                    if !message.is_expired(waited_s) {
                        self.messages.insert(number, message.leaving(waited_s));
                    }
                }
                change => self.clients.entry(client.clone()).or_default().apply(change, waited_s),
            }
        }
        Some(())
    }
}

impl Saved {
    fn apply(&mut self, change: Change, waited_s: u64) {
        match change {
            Change::Life(life) => {
                let waited_s = u32::try_from(waited_s).unwrap_or(u32::MAX);
                let is_endless = life.expires_s == u32::MAX;
                // Not before the whole time is over.
                self.is_over = !is_endless && life.left_s.is_some_and(|left_s| left_s < waited_s);
                let left_s = life.left_s.map(|left_s| left_s.saturating_sub(waited_s));
                self.life = Life { left_s, ..life };
            }
            Change::Filter(filter, options) => drop(self.filters.insert(filter, options)),
            Change::NoFilter(filter) => drop(self.filters.remove(&filter)),
            Change::Waits(waits) => {
                let number = waits.number;
                self.entries.insert(number, Entry { waits, ..Entry::default() });
            }
            Change::Sent(number, id) => {
                self.entries.get_mut(&number).into_iter().for_each(|own| own.id = id);
            }
            Change::Released(number) => {
                self.entries.get_mut(&number).into_iter().for_each(|own| own.is_released = true);
            }
            Change::Done(number) => drop(self.entries.remove(&number)),
            Change::Received(id) => drop(self.received.insert(id)),
            Change::Finished(id) => drop(self.received.remove(&id)),
            Change::Message(..) | Change::Client(_) | Change::End | Change::Device(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::tests::Folder;

    fn changes() -> Vec<Change> {
        let message = Message { topic: "t".to_owned(), until_s: Some(9), ..Message::default() };
        let options = Options {
            qos: 2,
            no_local: true,
            as_published: true,
            retained: 2,
            identifier: Some(7),
        };
        let waits = Waits { number: 3, qos: 2, retain: true, subscriptions: vec![7, 70_000] };
        vec![
            Change::Message(3, message),
            Change::Client("c".to_owned()),
            Change::Life(Life { level: 5, expires_s: 60, left_s: Some(50) }),
            Change::Filter("t/#".to_owned(), options),
            Change::Filter("u".to_owned(), Options::of(1)),
            Change::NoFilter("u".to_owned()),
            Change::Waits(waits.clone()),
            Change::Waits(Waits { number: 4, ..waits }),
            Change::Sent(3, 77),
            Change::Released(3),
            Change::Done(4),
            Change::Received(5),
            Change::Received(6),
            Change::Finished(6),
        ]
    }

    #[test]
    fn sessions_are_there_again() {
        let folder = Folder::new("kept-again");
        let (mut sessions, kept) = Sessions::open(&folder.0).unwrap();
        assert!(kept.clients.is_empty());
        sessions.save(&changes(), None).unwrap();
        let gone = [Change::Client("d".to_owned()), Change::Received(1), Change::End];
        sessions.save(&gone, None).unwrap();
        drop(sessions);
        let (mut sessions, kept) = Sessions::open(&folder.0).unwrap();
        assert_eq!(kept.clients.keys().collect::<Vec<_>>(), ["c"]);
        let own = &kept.clients["c"];
        assert_eq!((own.life.level, own.life.expires_s, own.is_over), (5, 60, false));
        assert_eq!(own.filters.keys().collect::<Vec<_>>(), ["t/#"]);
        let options = own.filters["t/#"];
        assert!(options.no_local && options.as_published && options.identifier == Some(7));
        assert_eq!((options.qos, options.retained), (2, 2));
        let [entry] = own.entries.values().collect::<Vec<_>>()[..] else { panic!("{own:?}") };
        assert_eq!((entry.waits.number, entry.id, entry.is_released), (3, 77, true));
        assert_eq!(entry.waits.subscriptions, [7, 70_000]);
        assert_eq!(own.received, BTreeSet::from([5]));
        assert_eq!(kept.messages[&3].topic, "t");
        // Written anew, it is the same, but for a second that may have begun meanwhile.
        sessions.save(&gone, Some(&[changes()])).unwrap();
        drop(sessions);
        let [mut before, mut after] =
            [kept, Sessions::open(&folder.0).unwrap().1].map(|k| k.clients);
        for own in before.values_mut().chain(after.values_mut()) {
            assert!((40..=50).contains(&own.life.left_s.take().unwrap()));
        }
        assert_eq!(after, before);
    }

    #[test]
    fn sessions_and_messages_expire_by_the_wall_clock_and_a_clock_that_is_set_back_is_harmless() {
        let at = |now_s| {
            let mut kept = Kept::default();
            kept.replay(&record(&changes(), 1_000), now_s).unwrap();
            let left_s = kept.messages.get(&3).map(|own| own.until_s.unwrap());
            (kept.clients["c"].is_over, kept.clients["c"].life.left_s.unwrap(), left_s)
        };
        assert_eq!(at(1_000), (false, 50, Some(9)));
        assert_eq!(at(1_009), (false, 41, Some(0)));
        assert_eq!(at(1_010), (false, 40, None));
        assert_eq!(at(1_050), (false, 0, None));
        assert_eq!(at(1_051), (true, 0, None));
        assert_eq!(at(10), (false, 50, Some(9)));
        assert_eq!(at(u64::MAX), (true, 0, None));
        let endless = Life { level: 4, expires_s: u32::MAX, left_s: Some(u32::MAX) };
        let mut saved = Saved::default();
        saved.apply(Change::Life(endless), u64::MAX);
        assert!(!saved.is_over);
    }

    #[test]
    fn a_record_that_is_cut_counts_as_a_whole_or_not_at_all() {
        let whole = record(&changes(), 1_000);
        for length in 0..whole.len() {
            let mut kept = Kept::default();
            // Where one change ends, what precedes is a valid record of fewer: its checksum is not.
            if kept.replay(&whole[..length], 1_000).is_none() {
                assert!(kept.clients.is_empty() && kept.messages.is_empty(), "{length}");
            }
        }
    }
}
