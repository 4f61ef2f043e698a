//! Retained messages in a folder: a log of changes, each with a checksum, which is written and synced
//! before the change counts. A log that has grown is written anew and replaces the former one.

use crate::message::Message;
use crate::message::{read_stored, write_stored};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The log in the folder, and the one that is to replace it.
const LOG: &str = "retained.log";
const NEXT: &str = "retained.next";
/// A copy of a log that was damaged.
const DAMAGED: &str = "retained.damaged";
/// A log of this length is written anew if less than half of it is still valid, in bytes.
const LARGE: u64 = 1 << 20;
/// Length and checksum of a record, in bytes.
const HEAD: usize = 8;

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
pub struct Storage {
    folder: PathBuf,
    log: File,
    /// Length of the log, and how much of it the last compaction wrote, in bytes.
    length: u64,
    compacted: u64,
    /// Whether a part of a record may follow.
    is_torn: bool,
    /// A copy of the log, if it was damaged at the start.
    damaged: Option<PathBuf>,
}

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
        std::fs::create_dir_all(folder)?;
        let path = folder.join(LOG);
        let mut log = OpenOptions::new().read(true).append(true).create(true).open(&path)?;
        lock(&log)?;
        let mut bytes = Vec::new();
        log.read_to_end(&mut bytes)?;
        let Valid { messages, length: valid, is_damaged } = read_log(&bytes, unix_s());
        let damaged = is_damaged.then(|| copy_of(folder, &bytes)).flatten();
        // What follows was not synced when the gateway or its machine stopped: it never counted.
        log.set_len(valid as u64)?;
        let (folder, length) = (folder.to_owned(), valid as u64);
        let mut storage = Self { folder, log, length, compacted: 0, is_torn: false, damaged };
        // The former log serves as well, for example on a full disk.
        let _ = storage.compact(&messages);
        Ok((storage, messages))
    }

    /// A copy of the log, if a record of it was damaged: that one and all after it are lost.
    pub fn damaged(&self) -> Option<&Path> {
        self.damaged.as_deref()
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
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
        let now_s = unix_s();
        let bytes: Vec<u8> = changes.iter().flat_map(|change| record(change, now_s)).collect();
        self.cut()?;
        if let Err(error) = self.log.write_all(&bytes).and_then(|()| self.log.sync_data()) {
            self.is_torn = true;
            // Before the next record at the latest.
            let _ = self.cut();
            return Err(error);
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Removes the part of a record at the end: all that follows it would be lost.
    fn cut(&mut self) -> io::Result<()> {
        if self.is_torn {
            self.log.set_len(self.length)?;
            self.is_torn = false;
        }
        Ok(())
    }

    /// Whether most of the log may be void.
    pub fn is_large(&self) -> bool {
        self.length > LARGE.max(2 * self.compacted)
    }

    /// Writes the log anew with these messages only.
    ///
    /// # Errors
    /// If the disk is full or fails: the former log stays.
    pub fn compact(&mut self, messages: &BTreeMap<String, Message>) -> io::Result<()> {
        let path = self.folder.join(NEXT);
        let (next, length) = match renamed(&path, &self.folder.join(LOG), messages) {
            Ok(renamed) => renamed,
            Err(error) => {
                // It must not take the room that the next record needs.
                let _ = std::fs::remove_file(&path);
                // Each attempt writes all messages: the next one when the log is twice as long.
                self.compacted = self.length;
                return Err(error);
            }
        };
        // From here on the former log has no name, so that a record in it would be lost.
        (self.log, self.length, self.compacted) = (next, length, length);
        self.is_torn = false;
        File::open(&self.folder)?.sync_all()
    }
}

/// Writes messages to a file and renames it over another one; returns it with its length.
fn renamed(
    path: &Path,
    to: &Path,
    messages: &BTreeMap<String, Message>,
) -> io::Result<(File, u64)> {
    // Appends: after a failed write, the next record goes to the end that is left.
    let mut next = OpenOptions::new().append(true).create(true).open(path)?;
    next.set_len(0)?;
    let (now_s, mut length) = (unix_s(), 0);
    for (topic, message) in messages {
        let change = Change { topic: topic.clone(), message: Some(message.clone()) };
        let bytes = record(&change, now_s);
        next.write_all(&bytes)?;
        length += bytes.len() as u64;
    }
    next.sync_all()?;
    // Before it has the name, so that no other gateway can take it in between.
    lock(&next)?;
    std::fs::rename(path, to)?;
    Ok((next, length))
}

/// Copies a damaged log; `None` if that fails: the rest of it cannot be read in any case.
fn copy_of(folder: &Path, bytes: &[u8]) -> Option<PathBuf> {
    let copy = folder.join(DAMAGED);
    let written = std::fs::write(&copy, bytes);
    if written.is_err() {
        // On a full disk it must not take the room that the next record needs.
        let _ = std::fs::remove_file(&copy);
    }
    written.ok().map(|()| copy)
}

fn lock(file: &File) -> io::Result<()> {
    file.try_lock().map_err(|_| io::Error::other("another gateway uses this folder"))
}

/// Seconds since 1970: lifetimes go on while the gateway does not run.
fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// The bytes of a change: length, checksum, time, topic, message.
fn record(change: &Change, now_s: u64) -> Vec<u8> {
    let body = write_stored(now_s, &change.topic, change.message.as_ref());
    let mut bytes = (body.len() as u32).to_be_bytes().to_vec();
    bytes.extend(crc32fast::hash(&body).to_be_bytes());
    bytes.extend(body);
    bytes
}

/// What a log has.
struct Valid {
    messages: BTreeMap<String, Message>,
    /// Length of its valid part, in bytes.
    length: usize,
    /// Whether a whole record that is not valid follows.
    is_damaged: bool,
}

/// The messages of a log at this time.
fn read_log(bytes: &[u8], now_s: u64) -> Valid {
    let (mut messages, mut at, mut is_damaged) = (BTreeMap::new(), 0, false);
    while let Some((head, rest)) = bytes[at..].split_first_chunk::<HEAD>() {
        let [a, b, c, d, checksum @ ..] = *head;
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        let Some(body) = rest.get(..length) else { break };
        if crc32fast::hash(body) != u32::from_be_bytes(checksum) {
            is_damaged = true;
            break;
        }
        let Some((written_s, topic, message)) = read_stored(body) else { break };
        at += HEAD + length;
        let waited_s = now_s.saturating_sub(written_s);
        match message.filter(|message| !message.is_expired(waited_s)) {
            Some(message) => drop(messages.insert(topic, message.leaving(waited_s))),
            None => drop(messages.remove(&topic)),
        }
    }
    Valid { messages, length: at, is_damaged }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn folder(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("gateway-storage-{name}-{}", std::process::id()))
    }

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
        let folder = folder("again");
        let (mut storage, messages) = Storage::open(&folder).unwrap();
        assert!(messages.is_empty());
        let removed = Change { topic: "b".to_owned(), message: None };
        let all = [change("a", "1", None), change("b", "2", None), change("a", "3", None), removed];
        storage.write(&all).unwrap();
        // A second gateway must not write to the same log.
        let error = Storage::open(&folder).unwrap_err();
        assert!(error.to_string().contains("another gateway"), "{error}");
        drop(storage);
        let (mut storage, messages) = Storage::open(&folder).unwrap();
        assert_eq!(payloads(&messages), ["3"]);
        let long = "x".repeat(100_000);
        for _ in 0..40 {
            storage.write(&[change("a", &long, None)]).unwrap();
            if storage.is_large() {
                let Some(last) = change("a", &long, None).message else { panic!() };
                storage.compact(&BTreeMap::from([("a".to_owned(), last)])).unwrap();
                // The new log is locked as well.
                assert!(Storage::open(&folder).is_err());
            }
        }
        assert!(std::fs::metadata(folder.join(LOG)).unwrap().len() < 2 * LARGE);
        // What is written after a compaction is not lost.
        storage.write(&[change("c", "4", None)]).unwrap();
        drop(storage);
        let (_, messages) = Storage::open(&folder).unwrap();
        assert_eq!(payloads(&messages), [long, "4".to_owned()]);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// What failed before: the gateway ended, and a record that was written in part was the end of the log.
    #[test]
    fn a_record_that_was_written_in_part_hides_no_later_one() {
        let folder = folder("torn");
        let (mut storage, _) = Storage::open(&folder).unwrap();
        storage.write(&[change("a", "1", None)]).unwrap();
        // Neither writing nor cutting works.
        let broken = File::open(folder.join(LOG)).unwrap();
        let log = std::mem::replace(&mut storage.log, broken);
        (&log).write_all(&record(&change("b", "2", None), 1)[..12]).unwrap();
        storage.write(&[change("b", "2", None)]).unwrap_err();
        storage.log = log;
        storage.write(&[change("c", "3", None)]).unwrap();
        drop(storage);
        let (_, messages) = Storage::open(&folder).unwrap();
        assert_eq!(payloads(&messages), ["1", "3"]);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// What failed before: the gateway did not start on a full disk.
    #[test]
    fn a_folder_on_a_full_disk_can_be_opened() {
        let folder = folder("full");
        let (mut storage, _) = Storage::open(&folder).unwrap();
        storage.write(&[change("a", "1", None)]).unwrap();
        drop(storage);
        std::os::unix::fs::symlink("/dev/full", folder.join(NEXT)).unwrap();
        let (mut storage, messages) = Storage::open(&folder).unwrap();
        assert_eq!(payloads(&messages), ["1"]);
        assert!(folder.join(NEXT).symlink_metadata().is_err());
        storage.save(&Unwritten::Changes(vec![change("b", "2", None)]), None).unwrap();
        let message = change("c", "3", None).message.unwrap();
        let all = BTreeMap::from([("c".to_owned(), message)]);
        storage.save(&Unwritten::All, Some(&all)).unwrap();
        drop(storage);
        assert_eq!(payloads(&Storage::open(&folder).unwrap().1), ["3"]);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// What failed before: nothing said that the rest of the log was lost.
    #[test]
    fn a_damaged_log_is_copied() {
        let folder = folder("damaged");
        let (mut storage, _) = Storage::open(&folder).unwrap();
        storage.write(&[change("a", "1", None), change("b", "2", None)]).unwrap();
        assert_eq!(storage.damaged(), None);
        drop(storage);
        let mut bytes = std::fs::read(folder.join(LOG)).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(folder.join(LOG), &bytes).unwrap();
        let (storage, messages) = Storage::open(&folder).unwrap();
        assert_eq!(payloads(&messages), ["1"]);
        assert_eq!(std::fs::read(storage.damaged().unwrap()).unwrap(), bytes);
        drop(storage);
        assert_eq!(Storage::open(&folder).unwrap().0.damaged(), None, "once");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn lifetimes_go_on_while_the_gateway_does_not_run() {
        let log = [
            record(&change("short", "1", Some(5)), 1_000),
            record(&change("long", "2", Some(60)), 1_000),
        ];
        let Valid { messages, is_damaged, .. } = read_log(&log.concat(), 1_010);
        assert!(!is_damaged);
        assert_eq!(payloads(&messages), ["2"]);
        assert_eq!(messages["long"].until_s, Some(50));
    }

    proptest! {
        /// Wherever a log ends or is damaged, the records before are read, and nothing else.
        #[test]
        fn a_damaged_end_is_dropped(at: prop::sample::Index, bit in 0..8, cut: bool) {
            let parts = [("a", "1"), ("b", "2"), ("c", "3")]
                .map(|(topic, payload)| record(&change(topic, payload, None), 1));
            let mut log = parts.concat();
            let at = at.index(log.len());
            if cut {
                log.truncate(at);
            } else {
                log[at] ^= 1_u8 << bit;
            }
            let whole = parts.iter().scan(0, |end, part| {
                *end += part.len();
                Some(*end)
            });
            let whole = whole.filter(|end| *end <= at).count();
            let valid = read_log(&log, 1);
            prop_assert_eq!(payloads(&valid.messages), ["1", "2", "3"][..whole].to_vec());
            prop_assert!(!(cut && valid.is_damaged));
            prop_assert_eq!(valid.length, parts[..whole].concat().len());
        }
    }
}
