//! Writes a member's stored messages, apart from the thread that serves its sockets.

use super::Error;
use super::durable::DurableMessage;
use super::log;
use super::member_command::{Command, Reply};
use super::storage::{Restored, Storage};
use crate::session::Member;
use crate::uplink::StoredChange;
use crate::{Instant, Span};
use std::collections::HashMap;
use std::path::PathBuf;
use tokio::sync::{mpsc, oneshot};

/// Where messages are stored.
#[derive(Debug, Clone)]
pub(super) struct Folder {
    pub path: PathBuf,
    /// Maximum size of all messages, in bytes.
    pub limit: u64,
}

/// Time after which changes that could not be written are written again.
const AGAIN: Span = Span::from_s(1);

/// Changes that are not on the disk, and why.
#[derive(Debug)]
struct Unwritten {
    why: String,
    changes: Vec<StoredChange>,
}

/// The storage of a member, if it has one.
#[derive(Debug)]
pub(super) struct Saver {
    storage: Option<Storage>,
    restored: Option<Restored>,
    /// The stored messages whose outcome the application waits for.
    ids: HashMap<u32, u64>,
    /// Earliest time at which changes that could not be written are written again.
    again_at: Instant,
    folder: PathBuf,
    /// A copy of a damaged log.
    pub damaged: Option<PathBuf>,
}

impl Saver {
    /// Opens the folder.
    ///
    /// # Errors
    /// [`Error::Socket`] with the path and what failed.
    pub fn open(folder: Option<&Folder>, now: Instant) -> Result<Self, Error> {
        let mut saver = Self {
            storage: None,
            restored: None,
            ids: HashMap::new(),
            again_at: Instant::START,
            folder: PathBuf::new(),
            damaged: None,
        };
        let Some(Folder { path, limit }) = folder else { return Ok(saver) };
        saver.folder.clone_from(path);
        let what = || format!("cannot use the storage {}", path.display());
        let (storage, mut restored) = Storage::open(path, *limit, now)
            .map_err(|source| Error::Socket { what: what(), source })?;
        saver.damaged = restored.damaged.take();
        (saver.storage, saver.restored) = (Some(storage), Some(restored));
        Ok(saver)
    }

    /// Gives a member its former messages; returns them, and who waits for their outcomes.
    pub fn restore(
        &mut self,
        member: &mut Member,
        commands: &mpsc::UnboundedSender<Command>,
    ) -> (Vec<DurableMessage>, HashMap<u32, Reply>) {
        let (mut all, mut waiting) = (Vec::new(), HashMap::new());
        let Some(Restored { state, ended, .. }) = self.restored.take() else {
            return (all, waiting);
        };
        for (_, message, outcome) in ended {
            let (reply, receiver) = oneshot::channel();
            let _ = reply.send(Ok(outcome));
            all.push(DurableMessage::new(&message, receiver, commands.clone()));
        }
        let open = state.open.clone();
        for (number, message) in member.store(state).into_iter().zip(open) {
            let (reply, receiver) = oneshot::channel();
            waiting.insert(number, reply);
            all.push(DurableMessage::new(&message, receiver, commands.clone()));
        }
        (all, waiting)
    }

    pub fn has_storage(&self) -> bool {
        self.storage.is_some()
    }

    /// Writes a new message, which has this number in this start. Earlier changes must have been written
    /// ([`Self::save`]).
    ///
    /// # Errors
    /// What failed; then the member does not have the message.
    pub async fn begin(
        &mut self,
        member: &mut Member,
        number: u32,
        now: Instant,
    ) -> Result<(), String> {
        let changes = member.take_changes();
        let ids: Vec<u64> = changes.iter().filter_map(added).collect();
        if let Err(Unwritten { why, .. }) = self.write(changes, now).await {
            member.withdraw_stored(number);
            return Err(why);
        }
        self.ids.extend(ids.into_iter().map(|id| (number, id)));
        Ok(())
    }

    /// Writes what has changed. If that fails, for example on a full disk, the member keeps it, and what
    /// follows from it waits.
    ///
    /// # Errors
    /// What failed.
    pub async fn save(&mut self, member: &mut Member, now: Instant) -> Result<(), String> {
        let written = self.write(member.take_changes(), now).await;
        let Err(Unwritten { why, changes }) = written else {
            self.again_at = now;
            return Ok(());
        };
        self.again_at = now + AGAIN;
        member.keep_changes(changes);
        Err(why)
    }

    /// The same between other events: with a pause after a failure, so that the disk is not busy with
    /// attempts.
    ///
    /// # Errors
    /// Only if there will be no further attempt.
    pub async fn save_in_time(&mut self, member: &mut Member, now: Instant) -> Result<(), String> {
        if now < self.again_at {
            return Ok(());
        }
        let had_storage = self.has_storage();
        self.save(member, now).await.or_else(|why| match had_storage && !self.has_storage() {
            true => Err(why),
            false => Ok(()),
        })
    }

    /// The application waits for the outcome of a stored message elsewhere, and says when it has that
    /// ([`Saver::told`]); returns the message's number over all starts.
    pub fn hand_over(&mut self, number: u32) -> Option<u64> {
        self.ids.remove(&number)
    }

    /// A message of this start has ended, and the application has the outcome (`is_told`).
    pub fn finish(&mut self, number: u32, is_told: bool) {
        if let Some(id) = self.ids.remove(&number)
            && is_told
        {
            self.told(id);
        }
    }

    /// The application has the outcome of a message.
    pub fn told(&mut self, id: u64) {
        if let Some(storage) = &mut self.storage {
            storage.told(id);
        }
    }

    /// Writes changes; they are on the disk when it returns.
    ///
    /// # Errors
    /// What failed; then none of them is. If the storage is lost with them, [`Self::has_storage`] says so.
    async fn write(&mut self, changes: Vec<StoredChange>, now: Instant) -> Result<(), Unwritten> {
        let Some(mut storage) = self.storage.take_if(|_| !changes.is_empty()) else {
            return Ok(());
        };
        // A disk takes long: other tasks go on meanwhile.
        let written = tokio::task::spawn_blocking(move || {
            let written = storage.write(&changes, now);
            (storage, changes, written)
        });
        let (storage, changes, written) = match written.await {
            Ok(ended) => ended,
            Err(error) => return Err(Unwritten { why: error.to_string(), changes: Vec::new() }),
        };
        self.storage = Some(storage);
        let Err(error) = written else { return Ok(()) };
        let folder = self.folder.display();
        let fix = log::fix(&error);
        Err(Unwritten { why: format!("cannot store messages in {folder}: {error}{fix}"), changes })
    }
}

/// The number of a new message.
fn added(change: &StoredChange) -> Option<u64> {
    match change {
        StoredChange::Added(message) => Some(message.id),
        StoredChange::Begun(_) | StoredChange::Ended(..) => None,
    }
}
