//! The folder of a member's stored messages.

use super::folder_clock::FolderClock;
use super::log::{self, Log};
use super::receipt_log::{self, Receipts};
use super::record::{Wall, decode_outcome, encode_outcome, fresh};
use super::writer::{Store, check_room};
use crate::Instant;
use crate::store::Token;
use crate::uplink::{Outcome, SenderId, StoredChange, StoredMessage, StoredState};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Name of the log in the folder.
const LOG: &str = "outgoing.log";
/// Maximum size of a log beyond twice the limit of messages, in bytes: ends of messages, and twice what became
/// of 4,000 messages of each of four hubs, with answers of 1 KiB.
const ENDS: u64 = 40 << 20;

/// Kinds of records.
const SENDER: u8 = 1;
const ADDED: u8 = 2;
const BEGUN: u8 = 3;
const ENDED: u8 = 4;
const TOLD: u8 = 5;

/// A record of a message that has no outcome yet, or whose outcome the application may not have.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kept {
    /// As it was added, with the token under which it may have been sent.
    added: Vec<u8>,
    ended: Option<Vec<u8>>,
}

/// Where a member's messages are stored.
#[derive(Debug)]
pub(super) struct Storage {
    log: Log,
    clock: FolderClock,
    /// Maximum size of all messages, in bytes.
    limit: u64,
    sender: SenderId,
    next: u64,
    kept: BTreeMap<u64, Kept>,
    size: u64,
    receipts: Receipts,
}

/// What a folder had at the start.
#[derive(Debug)]
pub(super) struct Restored {
    /// Messages without an outcome.
    pub state: StoredState,
    /// Messages whose outcome the application may not have.
    pub ended: Vec<(u64, StoredMessage, Outcome)>,
    /// A copy of a damaged log.
    pub damaged: Option<PathBuf>,
}

impl Storage {
    /// Opens a folder.
    ///
    /// # Errors
    /// What failed, with the path.
    pub fn open(folder: &Path, limit: u64, now: Instant) -> io::Result<(Self, Restored)> {
        let longest = 2 * limit + ENDS;
        let (log, contents) = Log::open(folder, LOG, longest)?;
        let sender = fresh()?;
        let (kept, size) = (BTreeMap::new(), 0);
        let receipts = Receipts::default();
        let mut storage = Self {
            log,
            clock: FolderClock::open(folder),
            limit,
            sender,
            next: 1,
            kept,
            size,
            receipts,
        };
        contents.records.iter().for_each(|record| storage.replay(record));
        if contents.damaged.is_some() {
            // Numbers may be used again, and ends be lost: under another name the hub has had none of
            // these messages, and what it has had of the former sender is not known.
            storage.sender = fresh()?;
            storage.begin(Token::default());
            storage.receipts.forget();
        }
        // On a full disk the former log serves as well, if it names the sender.
        let is_named = |record: &Vec<u8>| record.first() == Some(&SENDER);
        if let Err(error) = storage.compact()
            && (contents.damaged.is_some() || !contents.records.iter().any(is_named))
        {
            let why = format!("{error}{}", log::fix(&error));
            return Err(io::Error::new(error.kind(), why));
        }
        let clock = Wall::of(&mut storage.clock, now);
        let mut restored = Restored {
            state: StoredState {
                sender: storage.sender,
                next: storage.next,
                open: Vec::new(),
                receipts: storage.receipts.all(),
            },
            ended: Vec::new(),
            damaged: contents.damaged,
        };
        for (id, kept) in &storage.kept {
            let Some(message) = decode(*id, &kept.added, clock) else { continue };
            match kept.ended.as_deref().and_then(decode_outcome) {
                None => restored.state.open.push(message),
                Some(outcome) => restored.ended.push((*id, message, outcome)),
            }
        }
        Ok((storage, restored))
    }

    /// A record of the log takes effect.
    fn replay(&mut self, record: &[u8]) {
        self.receipts.replay(record);
        let Some((kind, rest)) = record.split_first() else { return };
        if *kind == SENDER || *kind == BEGUN {
            match (*kind, rest) {
                (SENDER, rest) => {
                    let Some((sender, next)) = rest.split_first_chunk() else { return };
                    let Ok(next) = <[u8; 8]>::try_from(next) else { return };
                    self.sender = *sender;
                    self.next = self.next.max(u64::from_be_bytes(next));
                }
                (_, rest) => {
                    let Ok(token) = Token::try_from(rest) else { return };
                    self.begin(token);
                }
            }
            return;
        }
        let Some((id, rest)) = rest.split_first_chunk() else { return };
        let id = u64::from_be_bytes(*id);
        match *kind {
            ADDED if decode(id, rest, Wall::default()).is_some() => {
                self.next = self.next.max(id.saturating_add(1));
                self.size += rest.len() as u64;
                self.kept.insert(id, Kept { added: rest.to_vec(), ended: None });
            }
            ENDED => {
                if let Some(kept) = self.kept.get_mut(&id) {
                    kept.ended = Some(rest.to_vec());
                }
            }
            TOLD => self.remove(id),
            _ => {}
        }
    }

    fn remove(&mut self, id: u64) {
        if let Some(kept) = self.kept.remove(&id) {
            self.size = self.size.saturating_sub(kept.added.len() as u64);
        }
    }

    /// All messages so far may have been sent.
    fn begin(&mut self, token: Token) {
        let open = self.kept.values_mut().filter(|kept| kept.ended.is_none());
        open.for_each(|kept| mark(&mut kept.added, token));
    }

    fn compact(&mut self) -> io::Result<()> {
        let mut records = vec![[&[SENDER][..], &self.sender, &self.next.to_be_bytes()].concat()];
        for (id, kept) in &self.kept {
            let id = id.to_be_bytes();
            records.push([&[ADDED][..], &id, &kept.added].concat());
            let ended = kept.ended.iter().map(|ended| [&[ENDED][..], &id, ended].concat());
            records.extend(ended);
        }
        records.extend(self.receipts.records());
        self.log.compact(&records)
    }
}

impl Store for Storage {
    type Change = StoredChange;

    fn write(&mut self, changes: &[StoredChange], now: Instant) -> io::Result<()> {
        let clock = Wall::of(&mut self.clock, now);
        let records: Vec<Vec<u8>> = changes.iter().map(|change| record(change, clock)).collect();
        let added: usize = changes
            .iter()
            .zip(&records)
            .filter(|(change, _)| matches!(change, StoredChange::Added(_)))
            .map(|(_, record)| record.len())
            .sum();
        check_room(self.size, added as u64, self.limit)?;
        self.log.append(&records)?;
        records.iter().for_each(|record| self.replay(record));
        if self.log.is_large() {
            // The former log stays if it fails, and serves as well.
            let _ = self.compact();
        }
        Ok(())
    }

    fn report(&mut self, id: u64) {
        let record = [&[TOLD][..], &id.to_be_bytes()].concat();
        let _ = self.log.note(&record);
        self.remove(id);
    }
}

/// The bytes of a change.
fn record(change: &StoredChange, clock: Wall) -> Vec<u8> {
    match change {
        StoredChange::Receipt(change) => receipt_log::record(change),
        StoredChange::Begun(token) => [&[BEGUN][..], token].concat(),
        StoredChange::Ended(id, outcome) => {
            let outcome = encode_outcome(outcome);
            [&[ENDED][..], &id.to_be_bytes(), &outcome].concat()
        }
        StoredChange::Added(message) => {
            let until = clock.ms_of(message.until).to_be_bytes();
            let begun = message.begun.unwrap_or_default();
            let flags = [u8::from(message.begun.is_some()), message.kind];
            let priority = message.priority.to_be_bytes();
            let parts: [&[u8]; 7] = [
                &[ADDED],
                &message.id.to_be_bytes(),
                &flags,
                &begun,
                &until,
                &priority,
                &message.body,
            ];
            parts.concat()
        }
    }
}

/// Marks a message as one that may have been sent.
fn mark(added: &mut [u8], token: Token) {
    if let Some(([begun, _], rest)) = added.split_first_chunk_mut::<2>()
        && let Some((own, _)) = rest.split_first_chunk_mut::<8>()
    {
        (*begun, *own) = (1, token);
    }
}

/// A message, from its record after kind and number.
fn decode(id: u64, added: &[u8], clock: Wall) -> Option<StoredMessage> {
    let ([begun, kind], rest) = added.split_first_chunk()?;
    let (token, rest) = rest.split_first_chunk::<8>()?;
    let (until, rest) = rest.split_first_chunk()?;
    let (priority, body) = rest.split_first_chunk()?;
    Some(StoredMessage {
        id,
        kind: *kind,
        body: body.to_vec(),
        priority: u32::from_be_bytes(*priority),
        until: clock.of_ms(u64::from_be_bytes(*until)),
        begun: (*begun != 0).then_some(*token),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Span;

    /// What failed before: a member did not start on a full disk, though it could read its messages.
    #[test]
    fn a_folder_on_a_full_disk_can_be_opened() {
        let name = format!("director-storage-open-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let next = folder.join(format!("{LOG}.next"));
        let full = || std::os::unix::fs::symlink("/dev/full", &next).unwrap();
        let open = || Storage::open(&folder, 1_000, Instant::START);
        std::fs::create_dir_all(&folder).unwrap();
        full();
        // Without a name for the sender it could not say which messages the hub has had.
        open().unwrap_err();
        let (mut storage, before) = open().unwrap();
        let message = StoredMessage {
            id: 1,
            kind: 0,
            body: b"a reading".to_vec(),
            priority: 100,
            until: Instant::START + Span::from_s(60),
            begun: None,
        };
        storage.write(&[StoredChange::Added(message)], Instant::START).unwrap();
        drop(storage);
        full();
        let (_storage, restored) = open().unwrap();
        assert_eq!(restored.state.sender, before.state.sender);
        assert_eq!(restored.state.open[0].body, b"a reading");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
