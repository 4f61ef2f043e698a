//! Writes a member's stored messages, apart from the thread that serves its sockets.

use super::Error;
use super::durable::DurableMessage;
use super::member_command::{Command, Reply};
use super::storage::{Restored, Storage};
use crate::Instant;
use crate::session::Member;
use crate::uplink::StoredChange;
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

/// The storage of a member, if it has one.
#[derive(Debug)]
pub(super) struct Saver {
    storage: Option<Storage>,
    restored: Option<Restored>,
    /// The stored messages whose outcome the application waits for.
    ids: HashMap<u32, u64>,
    /// A copy of a damaged log.
    pub damaged: Option<PathBuf>,
}

impl Saver {
    /// Opens the folder.
    ///
    /// # Errors
    /// [`Error::Socket`] with the path and what failed.
    pub fn open(folder: Option<&Folder>, now: Instant) -> Result<Self, Error> {
        let mut saver = Self { storage: None, restored: None, ids: HashMap::new(), damaged: None };
        let Some(Folder { path, limit }) = folder else { return Ok(saver) };
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

    /// A message has a number in this start.
    pub fn begin(&mut self, number: u32, changes: &[StoredChange]) {
        for change in changes {
            if let StoredChange::Added(message) = change {
                self.ids.insert(number, message.id);
            }
        }
    }

    /// A message was not stored.
    pub fn forget(&mut self, number: u32) {
        self.ids.remove(&number);
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
    /// What failed; then none of them is.
    pub async fn write(&mut self, changes: Vec<StoredChange>, now: Instant) -> Result<(), String> {
        let Some(mut storage) = self.storage.take_if(|_| !changes.is_empty()) else {
            return Ok(());
        };
        // A disk takes long: other tasks go on meanwhile.
        let written = tokio::task::spawn_blocking(move || {
            let written = storage.write(&changes, now);
            (storage, written)
        });
        let (storage, written) = written.await.map_err(|error| error.to_string())?;
        self.storage = Some(storage);
        written.map_err(|error| format!("cannot store messages: {error}"))
    }
}
