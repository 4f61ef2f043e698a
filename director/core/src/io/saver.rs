//! The stored messages of a member: who waits for their outcomes, and their storage.

use super::Error;
use super::durable::DurableMessage;
use super::member_command::{Command, Reply};
use super::storage::{Restored, Storage};
use super::writer::{Changing, Folder, Unwritten, Writer};
use crate::Instant;
use crate::session::Member;
use crate::uplink::StoredChange;
use std::collections::HashMap;
use std::path::PathBuf;
use tokio::sync::{mpsc, oneshot};

impl Changing<StoredChange> for Member {
    fn take_changes(&mut self) -> Vec<StoredChange> {
        Self::take_changes(self)
    }

    fn keep_changes(&mut self, changes: Vec<StoredChange>) {
        Self::keep_changes(self, changes);
    }
}

/// The storage of a member, if it has one.
#[derive(Debug)]
pub(super) struct Saver {
    pub writer: Writer<Storage>,
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
        let open = |Folder { path, limit }: &Folder| {
            let what = || format!("cannot use the storage {}", path.display());
            Storage::open(path, *limit, now)
                .map_err(|source| Error::Socket { what: what(), source })
        };
        let opened = folder.map(open).transpose()?;
        let (storage, mut restored) = opened.unzip();
        let damaged = restored.as_mut().and_then(|own| own.damaged.take());
        let path = folder.map(|folder| folder.path.clone()).unwrap_or_default();
        Ok(Self { writer: Writer::new(storage, path), restored, ids: HashMap::new(), damaged })
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

    /// Writes a new message, which has this number in this start. Earlier changes must have been written
    /// ([`Writer::save`]).
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
        if let Err(Unwritten { why, .. }) = self.writer.write(changes, now).await {
            member.withdraw_stored(number);
            return Err(why);
        }
        self.ids.extend(ids.into_iter().map(|id| (number, id)));
        Ok(())
    }

    /// The application waits for the outcome of a stored message elsewhere, and says when it has that
    /// ([`Writer::report`]); returns the message's number over all starts.
    pub fn hand_over(&mut self, number: u32) -> Option<u64> {
        self.ids.remove(&number)
    }

    /// A message of this start has ended, and the application has the outcome (`is_reported`).
    pub fn finish(&mut self, number: u32, is_reported: bool) {
        if let Some(id) = self.ids.remove(&number)
            && is_reported
        {
            self.writer.report(id);
        }
    }
}

/// The number of a new message.
fn added(change: &StoredChange) -> Option<u64> {
    match change {
        StoredChange::Added(message) => Some(message.id),
        StoredChange::Begun(_) | StoredChange::Ended(..) | StoredChange::Receipt(_) => None,
    }
}
