//! Retained messages in a folder: a log of changes, which is written and synced before the change counts.

use crate::message::Message;
use crate::message::{read_stored, write_stored};
use crate::records::Records;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// Name of the log in the folder.
const LOG: &str = "retained";

/// A retained message that has changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Its topic.
    pub topic: String,
    /// The message, with the time that is left of it; `None` if it is removed.
    pub message: Option<Message>,
}

/// A folder for retained messages, which one gateway has at a time.
#[derive(Debug)]
pub struct Storage(Records);

/// What is not on the disk yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unwritten {
    /// These changes, or nothing.
    Changes(Vec<Change>),
    /// More changes than are listed.
    All,
}

impl Storage {
    /// Opens a folder, which is made if it does not exist; returns its messages too, with the time that
    /// is left of each.
    ///
    /// # Errors
    /// If the folder cannot be read, or another gateway has it. A full disk is no error.
    pub fn open(folder: &Path) -> io::Result<(Self, BTreeMap<String, Message>)> {
        let mut messages = BTreeMap::new();
        let read = |record: &[u8], now_s| replay(&mut messages, record, now_s);
        let mut storage = Self(Records::open(folder, LOG, read)?);
        // The former log serves as well, for example on a full disk.
        let _ = storage.compact(&messages);
        Ok((storage, messages))
    }

    /// A copy of the log, if a record of it was damaged: that one and all after it are lost.
    pub fn damaged(&self) -> Option<&Path> {
        self.0.damaged()
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        self.0.folder()
    }

    /// Writes what is not on the disk yet; `all` are all messages now, needed for [`Unwritten::All`] and
    /// if the log [is large](Self::is_large).
    ///
    /// # Errors
    /// If the disk is full or fails: then nothing of it counts, and the next call can succeed.
    pub fn save(
        &mut self,
        unwritten: &Unwritten,
        all: Option<&BTreeMap<String, Message>>,
    ) -> io::Result<()> {
        match (unwritten, all) {
            (Unwritten::Changes(changes), None) => self.write(changes),
            (Unwritten::All, Some(all)) => self.compact(all),
            (Unwritten::All, None) => Err(io::Error::other("the messages are missing")),
            (Unwritten::Changes(changes), Some(all)) => match self.write(changes) {
                Ok(()) => {
                    // The former log stays if it fails, and serves as well.
                    let _ = self.compact(all);
                    Ok(())
                }
                // The void part of the log may be all that the disk lacks.
                Err(error) => self.compact(all).map_err(|_| error),
            },
        }
    }

    /// Writes and syncs changes.
    ///
    /// # Errors
    /// If the disk is full or fails: then the log ends before them, and the next call can succeed.
    pub fn write(&mut self, changes: &[Change]) -> io::Result<()> {
        let now_s = self.0.clock.now_ms() / 1_000;
        let body = |change: &Change| write_stored(now_s, &change.topic, change.message.as_ref());
        self.0.append(changes.iter().map(body))
    }

    /// Whether most of the log may be void.
    pub fn is_large(&self) -> bool {
        self.0.is_large()
    }

    /// Writes the log anew with these messages only.
    ///
    /// # Errors
    /// If the disk is full or fails: the former log stays.
    pub fn compact(&mut self, messages: &BTreeMap<String, Message>) -> io::Result<()> {
        let now_s = self.0.clock.now_ms() / 1_000;
        let body =
            |(topic, message): (&String, &Message)| write_stored(now_s, topic, Some(message));
        self.0.replace(messages.iter().map(body))
    }
}

/// Applies a record at this time; returns whether it is one.
fn replay(messages: &mut BTreeMap<String, Message>, record: &[u8], now_s: u64) -> bool {
    let Some((written_s, topic, message)) = read_stored(record) else { return false };
    // A clock that was set back makes messages live longer, never shorter.
    let waited_s = now_s.saturating_sub(written_s);
    match message.filter(|message| !message.is_expired(waited_s)) {
        Some(message) => drop(messages.insert(topic, message.leaving(waited_s))),
        None => drop(messages.remove(&topic)),
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::tests::Folder;

    fn change(topic: &str, payload: &str, until_s: Option<u64>) -> Change {
        let (topic, payload) = (topic.to_owned(), payload.as_bytes().into());
        let message = Message { topic: topic.clone(), payload, until_s, ..Message::default() };
        Change { topic, message: Some(message) }
    }

    fn payloads(messages: &BTreeMap<String, Message>) -> Vec<String> {
        let text = |message: &Message| String::from_utf8_lossy(&message.payload).into_owned();
        messages.values().map(text).collect()
    }

    #[test]
    fn messages_are_there_again_and_a_log_does_not_grow_for_ever() {
        let own = Folder::new("storage-again");
        let folder = &own.0;
        let (mut storage, messages) = Storage::open(folder).unwrap();
        assert!(messages.is_empty());
        let removed = Change { topic: "b".to_owned(), message: None };
        let all = [change("a", "1", None), change("b", "2", None), change("a", "3", None), removed];
        storage.write(&all).unwrap();
        // A second gateway must not write to the same log.
        let error = Storage::open(folder).unwrap_err();
        assert!(error.to_string().contains("another gateway"), "{error}");
        drop(storage);
        let (mut storage, messages) = Storage::open(folder).unwrap();
        assert_eq!(payloads(&messages), ["3"]);
        let long = "x".repeat(100_000);
        for _ in 0..40 {
            storage.write(&[change("a", &long, None)]).unwrap();
            if storage.is_large() {
                let Some(last) = change("a", &long, None).message else { panic!() };
                storage.compact(&BTreeMap::from([("a".to_owned(), last)])).unwrap();
                // The new log is locked as well.
                assert!(Storage::open(folder).is_err());
            }
        }
        assert!(std::fs::metadata(folder.join("retained.log")).unwrap().len() < 2 << 20);
        // What is written after a compaction is not lost.
        storage.write(&[change("c", "4", None)]).unwrap();
        drop(storage);
        let (_, messages) = Storage::open(folder).unwrap();
        assert_eq!(payloads(&messages), [long, "4".to_owned()]);
    }

    /// What failed before: the gateway did not start on a full disk.
    #[test]
    fn a_folder_on_a_full_disk_can_be_opened() {
        let own = Folder::new("storage-full");
        let folder = &own.0;
        let (mut storage, _) = Storage::open(folder).unwrap();
        storage.write(&[change("a", "1", None)]).unwrap();
        drop(storage);
        std::os::unix::fs::symlink("/dev/full", folder.join("retained.next")).unwrap();
        let (mut storage, messages) = Storage::open(folder).unwrap();
        assert_eq!(payloads(&messages), ["1"]);
        assert!(folder.join("retained.next").symlink_metadata().is_err());
        storage.save(&Unwritten::Changes(vec![change("b", "2", None)]), None).unwrap();
        let message = change("c", "3", None).message.unwrap();
        let all = BTreeMap::from([("c".to_owned(), message)]);
        storage.save(&Unwritten::All, Some(&all)).unwrap();
        drop(storage);
        assert_eq!(payloads(&Storage::open(folder).unwrap().1), ["3"]);
    }

    /// What failed before: nothing said that the rest of the log was lost.
    #[test]
    fn a_damaged_log_is_copied() {
        let own = Folder::new("storage-damaged");
        let folder = &own.0;
        let (mut storage, _) = Storage::open(folder).unwrap();
        storage.write(&[change("a", "1", None), change("b", "2", None)]).unwrap();
        assert_eq!(storage.damaged(), None);
        drop(storage);
        let mut bytes = std::fs::read(folder.join("retained.log")).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(folder.join("retained.log"), &bytes).unwrap();
        let (storage, messages) = Storage::open(folder).unwrap();
        assert_eq!(payloads(&messages), ["1"]);
        assert_eq!(std::fs::read(storage.damaged().unwrap()).unwrap(), bytes);
        drop(storage);
        assert_eq!(Storage::open(folder).unwrap().0.damaged(), None, "once");
    }

    #[test]
    fn lifetimes_go_on_while_the_gateway_does_not_run() {
        let mut messages = BTreeMap::new();
        for (topic, payload, left_s) in [("short", "1", 5), ("long", "2", 60)] {
            let message = change(topic, payload, Some(left_s)).message;
            let record = write_stored(1_000, topic, message.as_ref());
            assert!(replay(&mut messages, &record, 1_010));
        }
        assert_eq!(payloads(&messages), ["2"]);
        assert_eq!(messages["long"].until_s, Some(50));
        // The clock was set back.
        let record = write_stored(9_000, "a", change("a", "3", Some(5)).message.as_ref());
        assert!(replay(&mut messages, &record, 1_010));
        assert_eq!(messages["a"].until_s, Some(5));
    }
}
