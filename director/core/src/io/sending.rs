//! Stored messages of a hub: who waits for their outcomes.

use super::Error;
use super::command::{Command, StoreMessage, StoredSending};
use super::hub_storage::{HubRestored, HubStorage};
use super::writer::{Changing, Folder, Unwritten, Writer};
use crate::downlink::{HubChange, HubMessage, Outcomes, Receiver};
use crate::session::{Hub, SessionError};
use crate::switch::MemberId;
use crate::{Instant, Span};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use tokio::sync::{mpsc, oneshot};

/// What former starts have left, until the application takes it.
#[derive(Debug, Default)]
pub(super) struct Former {
    pub restored: Vec<StoredSending>,
    pub damaged: Option<PathBuf>,
}

impl Changing<HubChange> for Hub {
    fn take_changes(&mut self) -> Vec<HubChange> {
        Self::take_changes(self)
    }

    fn keep_changes(&mut self, changes: Vec<HubChange>) {
        Self::keep_changes(self, changes);
    }
}

/// The storage of a hub, if it has one, and who waits for outcomes.
pub(super) struct Sendings {
    pub writer: Writer<HubStorage>,
    waiting: HashMap<u64, oneshot::Sender<Outcomes>>,
    commands: mpsc::WeakUnboundedSender<Command>,
}

impl Sendings {
    /// Opens the folder, and gives the hub its former messages; returns them too.
    ///
    /// # Errors
    /// [`Error::Socket`] with the path and what failed.
    pub fn open(
        folder: Option<&Folder>,
        hub: &mut Hub,
        now: Instant,
        commands: &mpsc::UnboundedSender<Command>,
    ) -> Result<(Self, Former), Error> {
        let mut sendings = Self {
            writer: Writer::new(None, PathBuf::new()),
            waiting: HashMap::new(),
            commands: commands.downgrade(),
        };
        let Some(Folder { path, limit }) = folder else { return Ok((sendings, Former::default())) };
        let (storage, restored) = HubStorage::open(path, *limit, now).map_err(|source| {
            Error::Socket { what: format!("cannot use the storage {}", path.display()), source }
        })?;
        sendings.writer = Writer::new(Some(storage), path.clone());
        let HubRestored { state, ended, damaged } = restored;
        let mut all = Vec::new();
        for (message, outcomes) in ended {
            let sending = sendings.sending(&message);
            sendings.finish(message.id, outcomes);
            all.push(sending);
        }
        all.extend(state.open.iter().map(|message| sendings.sending(message)));
        all.sort_by_key(|sending| sending.id);
        hub.store(state);
        Ok((sendings, Former { restored: all, damaged }))
    }

    fn sending(&mut self, message: &HubMessage) -> StoredSending {
        let (sender, outcomes) = oneshot::channel();
        self.waiting.insert(message.id, sender);
        StoredSending {
            message: message.body.clone(),
            members: message.to.keys().copied().collect(),
            id: message.id,
            outcomes,
            commands: self.commands.clone(),
        }
    }

    /// Stores a message, and replies when it is on the disk.
    pub async fn begin(&mut self, message: StoreMessage, hub: &mut Hub, now: Instant) {
        let StoreMessage { bytes, to, lifetime, reply } = message;
        let stored = self.write(&bytes, &to, lifetime, hub, now).await;
        let stored = stored.map(|id| {
            let to = to.into_iter().map(|member| (member, Receiver::Open(None)));
            let (until, to) = (now + lifetime, to.collect::<BTreeMap<_, _>>());
            self.sending(&HubMessage { id, body: bytes, until, to })
        });
        // Without a receiver, a further start has the message again.
        drop(reply.send(stored));
    }

    async fn write(
        &mut self,
        bytes: &[u8],
        to: &[MemberId],
        lifetime: Span,
        hub: &mut Hub,
        now: Instant,
    ) -> Result<u64, SessionError> {
        // Earlier changes first: they must not be lost if this message has no room.
        self.writer.save(hub, now).await.map_err(SessionError::Storage)?;
        let id = hub.send_stored_to(to, bytes, lifetime, now)?;
        if let Err(Unwritten { why, .. }) = self.writer.write(hub.take_changes(), now).await {
            hub.withdraw_stored(id);
            return Err(SessionError::Storage(why));
        }
        Ok(id)
    }

    /// A message has ended at all of its receivers.
    pub fn finish(&mut self, id: u64, outcomes: Outcomes) {
        // If the application does not wait for it, a further start has it.
        if let Some(waiting) = self.waiting.remove(&id) {
            let _ = waiting.send(outcomes);
        }
    }
}
