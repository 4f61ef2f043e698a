//! The folder of a hub's stored messages.

use super::folder_clock::FolderClock;
use super::log::{self, Log};
use super::record::{Wall, decode_outcome, encode_outcome, fresh, take};
use super::writer::{Store, check_room};
use crate::Instant;
use crate::downlink::{HubChange, HubMessage, HubState, Outcomes, Receiver};
use crate::store::{StoreId, Token};
use crate::switch::MemberId;
use crate::uplink::Outcome;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Name of the log in the folder.
const LOG: &str = "hub.log";
/// Maximum size of a log beyond twice the limit of messages, in bytes: their ends at members.
const ENDS: u64 = 16 << 20;

/// Kinds of records.
const STORE: u8 = 1;
const ADDED: u8 = 2;
const BEGUN: u8 = 3;
const ENDED: u8 = 4;
const REPORTED: u8 = 5;

/// A message whose outcomes the application may not have.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Kept {
    /// The end of its lifetime, in ms since 1970.
    until_ms: u64,
    to: BTreeMap<MemberId, Receiver>,
    body: Vec<u8>,
}

/// Where a hub's messages are stored.
#[derive(Debug)]
pub(super) struct HubStorage {
    log: Log,
    clock: FolderClock,
    /// Maximum size of all messages, in bytes.
    limit: u64,
    store: StoreId,
    next: u64,
    kept: BTreeMap<u64, Kept>,
    size: u64,
}

/// What a folder had at the start.
#[derive(Debug)]
pub(super) struct HubRestored {
    /// Messages that have no outcome at some member.
    pub state: HubState,
    /// Messages with all outcomes, which the application may not have.
    pub ended: Vec<(HubMessage, Outcomes)>,
    /// A copy of a damaged log.
    pub damaged: Option<PathBuf>,
}

impl HubStorage {
    /// Opens a folder.
    ///
    /// # Errors
    /// What failed, with the path.
    pub fn open(folder: &Path, limit: u64, now: Instant) -> io::Result<(Self, HubRestored)> {
        let (log, contents) = Log::open(folder, LOG, 2 * limit + ENDS)?;
        let (store, kept) = (fresh()?, BTreeMap::new());
        let clock = FolderClock::open(folder);
        let mut storage = Self { log, clock, limit, store, next: 1, kept, size: 0 };
        contents.records.iter().for_each(|record| storage.replay(record));
        if contents.damaged.is_some() {
            // Numbers may be used again, and ends be lost: members have had none of another storage, and what
            // they have had of the former one is not known.
            storage.store = fresh()?;
            let open = storage.kept.values_mut().flat_map(|kept| kept.to.values_mut());
            let open = open.filter(|own| matches!(own, Receiver::Open(_)));
            open.for_each(|own| *own = Receiver::Open(Some(Token::default())));
        }
        // On a full disk the former log serves as well, if it names the storage.
        let is_named = |record: &Vec<u8>| record.first() == Some(&STORE);
        if let Err(error) = storage.compact()
            && (contents.damaged.is_some() || !contents.records.iter().any(is_named))
        {
            let why = format!("{error}{}", log::fix(&error));
            return Err(io::Error::new(error.kind(), why));
        }
        let clock = Wall::of(&mut storage.clock, now);
        let state = HubState { store: storage.store, next: storage.next, open: Vec::new() };
        let mut restored = HubRestored { state, ended: Vec::new(), damaged: contents.damaged };
        for (id, Kept { until_ms, to, body }) in &storage.kept {
            let (id, until) = (*id, clock.of_ms(*until_ms));
            let message = HubMessage { id, body: body.clone(), until, to: to.clone() };
            let outcome = |(member, own): (&MemberId, &Receiver)| match own {
                Receiver::Over(outcome) => Some((*member, outcome.clone())),
                Receiver::Open(_) => None,
            };
            let outcomes: Option<Outcomes> = to.iter().map(outcome).collect();
            match outcomes {
                Some(outcomes) => restored.ended.push((message, outcomes)),
                None => restored.state.open.push(message),
            }
        }
        Ok((storage, restored))
    }

    /// A record of the log takes effect; one that is not valid has none.
    fn replay(&mut self, record: &[u8]) {
        let _ = self.apply(record);
    }

    fn apply(&mut self, record: &[u8]) -> Option<()> {
        let (kind, mut rest) = record.split_first()?;
        match *kind {
            STORE => {
                let (store, next) = (take(&mut rest)?, u64::from_be_bytes(take(&mut rest)?));
                (self.store, self.next) = (store, self.next.max(next));
            }
            BEGUN => {
                let (member, token) = (MemberId::from_be_bytes(take(&mut rest)?), take(&mut rest)?);
                for kept in self.kept.values_mut() {
                    if let Some(own @ Receiver::Open(_)) = kept.to.get_mut(&member) {
                        *own = Receiver::Open(Some(token));
                    }
                }
            }
            ADDED => {
                let id = u64::from_be_bytes(take(&mut rest)?);
                let kept = decode(rest)?;
                self.next = self.next.max(id.saturating_add(1));
                self.size += kept.size();
                self.kept.insert(id, kept);
            }
            ENDED => {
                let id = u64::from_be_bytes(take(&mut rest)?);
                let member = MemberId::from_be_bytes(take(&mut rest)?);
                let outcome = decode_outcome(rest)?;
                let kept = self.kept.get_mut(&id)?;
                self.size = self.size.saturating_sub(kept.size());
                kept.to.insert(member, Receiver::Over(outcome));
                self.size += kept.size();
            }
            REPORTED => self.remove(u64::from_be_bytes(take(&mut rest)?)),
            _ => {}
        }
        Some(())
    }

    fn remove(&mut self, id: u64) {
        if let Some(kept) = self.kept.remove(&id) {
            self.size = self.size.saturating_sub(kept.size());
        }
    }

    fn compact(&mut self) -> io::Result<()> {
        let mut records = vec![[&[STORE][..], &self.store, &self.next.to_be_bytes()].concat()];
        let added = |(id, kept): (&u64, &Kept)| {
            [&[ADDED][..], &id.to_be_bytes(), &encode(kept.until_ms, &kept.to, &kept.body)].concat()
        };
        records.extend(self.kept.iter().map(added));
        self.log.compact(&records)
    }
}

impl Store for HubStorage {
    type Change = HubChange;

    fn write(&mut self, changes: &[HubChange], now: Instant) -> io::Result<()> {
        let clock = Wall::of(&mut self.clock, now);
        let mut room = self.limit.saturating_sub(self.size);
        let records = changes.iter().map(|change| record(change, clock, &mut room));
        let records: Vec<Vec<u8>> = records.collect();
        let is_new = |change: &HubChange| matches!(change, HubChange::Added(_));
        let added = changes.iter().zip(&records).filter(|(change, _)| is_new(change));
        let added: u64 = added.map(|(_, record)| record.len() as u64).sum();
        check_room(self.size, added, self.limit)?;
        self.log.append(&records)?;
        records.iter().for_each(|record| self.replay(record));
        if self.log.is_large() {
            // The former log stays if it fails, and serves as well.
            let _ = self.compact();
        }
        Ok(())
    }

    fn report(&mut self, id: u64) {
        let record = [&[REPORTED][..], &id.to_be_bytes()].concat();
        let _ = self.log.note(&record);
        self.remove(id);
    }
}

impl Kept {
    /// About what it takes in the log, in bytes.
    fn size(&self) -> u64 {
        let answers = self.to.values().map(|own| match own {
            Receiver::Over(Outcome::Acknowledged(Some(answer))) => answer.len(),
            _ => 0,
        });
        (self.body.len() + 16 * self.to.len() + answers.sum::<usize>()) as u64
    }
}

/// The bytes of a change. Answers for which there is no `room`, in bytes, are not written: this start has them, and to
/// the next one their messages are acknowledged.
fn record(change: &HubChange, clock: Wall, room: &mut u64) -> Vec<u8> {
    match change {
        HubChange::Added(message) => {
            let kept = encode(clock.ms_of(message.until), &message.to, &message.body);
            [&[ADDED][..], &message.id.to_be_bytes(), &kept].concat()
        }
        HubChange::Begun(member, token) => [&[BEGUN][..], &member.to_be_bytes(), token].concat(),
        HubChange::Ended(id, member, outcome) => {
            let (id, member) = (id.to_be_bytes(), member.to_be_bytes());
            let outcome = match outcome {
                Outcome::Acknowledged(Some(answer)) if answer.len() as u64 > *room => {
                    encode_outcome(&Outcome::Acknowledged(None))
                }
                outcome => encode_outcome(outcome),
            };
            *room = room.saturating_sub(outcome.len() as u64);
            [&[ENDED][..], &id, &member, &outcome].concat()
        }
    }
}

/// The end of its lifetime, its receivers, and the message.
fn encode(until_ms: u64, to: &BTreeMap<MemberId, Receiver>, body: &[u8]) -> Vec<u8> {
    let mut bytes = until_ms.to_be_bytes().to_vec();
    bytes.extend((to.len() as u32).to_be_bytes());
    for (member, own) in to {
        let state = match own {
            Receiver::Open(None) => vec![0],
            Receiver::Open(Some(token)) => [&[1][..], token].concat(),
            Receiver::Over(outcome) => [&[2][..], &encode_outcome(outcome)].concat(),
        };
        bytes.extend(member.to_be_bytes());
        bytes.extend((state.len() as u32).to_be_bytes());
        bytes.extend(state);
    }
    bytes.extend(body);
    bytes
}

/// What [`encode`] has written.
fn decode(bytes: &[u8]) -> Option<Kept> {
    let mut rest = bytes;
    let until_ms = u64::from_be_bytes(take(&mut rest)?);
    let mut to = BTreeMap::new();
    for _ in 0..u32::from_be_bytes(take(&mut rest)?) {
        let member = MemberId::from_be_bytes(take(&mut rest)?);
        let length = u32::from_be_bytes(take(&mut rest)?) as usize;
        let (mut state, after) = rest.split_at_checked(length)?;
        rest = after;
        let own = match take(&mut state)? {
            [0] => Receiver::Open(None),
            [1] => Receiver::Open(Some(take(&mut state)?)),
            _ => Receiver::Over(decode_outcome(state)?),
        };
        to.insert(member, own);
    }
    Some(Kept { until_ms, to, body: rest.to_vec() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Span;
    use crate::uplink::Failure;

    /// A folder that is removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("director-hub-{name}-{}", std::process::id());
            let folder = Self(std::env::temp_dir().join(name));
            let _ = std::fs::remove_dir_all(&folder.0);
            folder
        }

        fn open(&self) -> io::Result<(HubStorage, HubRestored)> {
            HubStorage::open(&self.0, 1_000, Instant::START)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn added(id: u64, to: &[MemberId], bytes: usize) -> HubChange {
        let to = to.iter().map(|member| (*member, Receiver::Open(None))).collect();
        let until = Instant::START + Span::from_s(60);
        HubChange::Added(HubMessage { id, body: vec![id as u8; bytes], until, to })
    }

    #[test]
    fn what_was_written_is_there_again() {
        let folder = Folder::new("again");
        let (mut storage, before) = folder.open().unwrap();
        assert_eq!((before.state.next, before.state.open.len()), (1, 0));
        let unknown = |id, member| HubChange::Ended(id, member, Outcome::Unknown);
        let answer = Outcome::Acknowledged(Some(b"yes".to_vec()));
        let changes = [
            added(1, &[0, 7], 10),
            HubChange::Begun(7, [9; 8]),
            HubChange::Ended(1, 0, answer.clone()),
            added(2, &[3], 10),
            unknown(2, 3),
            added(3, &[3], 10),
            unknown(3, 3),
        ];
        storage.write(&changes, Instant::START).unwrap();
        storage.report(3);
        assert!(folder.open().unwrap_err().to_string().contains("another program"));
        drop(storage);
        for _ in 0..2 {
            // The second time from a log that was written anew.
            let (_, HubRestored { state, ended, damaged }) = folder.open().unwrap();
            assert_eq!((state.store, state.next, damaged), (before.state.store, 4, None));
            let [message] = &state.open[..] else { panic!("{state:?}") };
            assert_eq!(message.to[&0], Receiver::Over(answer.clone()));
            assert_eq!(message.to[&7], Receiver::Open(Some([9; 8])));
            assert_eq!((message.id, &message.body[..]), (1, &[1; 10][..]));
            let [(message, outcomes)] = &ended[..] else { panic!("{ended:?}") };
            assert_eq!((message.id, outcomes[&3].clone()), (2, Outcome::Unknown));
        }
    }

    #[test]
    fn limits_full_disks_and_damage_are_errors_in_words() {
        let folder = Folder::new("limits");
        std::fs::create_dir_all(&folder.0).unwrap();
        let next = folder.0.join(format!("{LOG}.next"));
        std::os::unix::fs::symlink("/dev/full", &next).unwrap();
        // Without a name of the storage, members could not say which messages they have had.
        folder.open().unwrap_err();
        let (mut storage, before) = folder.open().unwrap();
        let error = storage.write(&[added(1, &[0], 2_000)], Instant::START).unwrap_err();
        assert!(error.to_string().contains("exceed the limit of 1000"), "{error}");
        let too_long = Outcome::Failed(Failure::TooLong { bytes: 7, most: 5 });
        let changes = [added(1, &[0, 1], 10), HubChange::Ended(1, 1, too_long)];
        storage.write(&changes, Instant::START).unwrap();
        drop(storage);
        std::os::unix::fs::symlink("/dev/full", &next).unwrap();
        let (storage, restored) = folder.open().unwrap();
        assert_eq!((restored.state.store, restored.state.open.len()), (before.state.store, 1));
        drop(storage);
        let log = folder.0.join(LOG);
        let mut bytes = std::fs::read(&log).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(&log, &bytes).unwrap();
        let (_, HubRestored { state, damaged, .. }) = folder.open().unwrap();
        assert_eq!(std::fs::read(damaged.unwrap()).unwrap(), bytes);
        assert_ne!(state.store, before.state.store);
        // It may have been sent: under no token of a member is it sent again.
        assert_eq!(state.open[0].to[&0], Receiver::Open(Some(Token::default())));
    }

    /// What failed before: answers had no limit, and with a log that is too long the next start failed.
    #[test]
    fn long_answers_do_not_keep_the_next_start_away() {
        let folder = Folder::new("answers");
        let open = || HubStorage::open(&folder.0, 1 << 20, Instant::START);
        let (mut storage, _) = open().unwrap();
        let all: Vec<MemberId> = (0..1_000).collect();
        storage.write(&[added(1, &all, 10)], Instant::START).unwrap();
        let answer = Outcome::Acknowledged(Some(vec![7; 100_000]));
        for some in all[1..].chunks(50) {
            let ended = some.iter().map(|member| HubChange::Ended(1, *member, answer.clone()));
            storage.write(&ended.collect::<Vec<_>>(), Instant::START).unwrap();
        }
        drop(storage);
        let (_, restored) = open().unwrap();
        let over = |own: &&Receiver| matches!(own, Receiver::Over(Outcome::Acknowledged(_)));
        let [message] = &restored.state.open[..] else { panic!() };
        assert_eq!(message.to.values().filter(over).count(), 999);
        let whole = message.to.values().filter(|own| **own == Receiver::Over(answer.clone()));
        assert!((1..11).contains(&whole.count()));
    }
}
