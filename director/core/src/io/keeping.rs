//! Messages that a hub's application stores.

use super::command::{Command, StoreMessage, StoredSending};
use super::hub::Session;
use crate::session::SessionError;
use crate::switch::MemberId;
use std::path::PathBuf;
use std::sync::PoisonError;
use std::time::Duration;
use tokio::sync::oneshot;

impl Session {
    /// Stores a message for some members and sends it; returns as soon as it is on the disk. From then on it
    /// outlasts this program, and so do its outcomes: how it has ended at each member, at the end of
    /// `lifetime` at the latest. A member's application gets it once at most. After a restart of a member
    /// without a storage, the outcome of what its former start may have had is unknown.
    ///
    /// # Errors
    /// [`SessionError::Storage`] if the hub has no storage or the message could not be written; then it was
    /// not sent. [`SessionError::NoMember`], [`SessionError::Full`], [`SessionError::TooLong`],
    /// [`SessionError::Over`].
    pub async fn store(
        &self,
        members: &[MemberId],
        message: &[u8],
        lifetime: Duration,
    ) -> Result<StoredSending, SessionError> {
        let (reply, receiver) = oneshot::channel();
        let sending = StoreMessage {
            bytes: message.to_vec(),
            to: members.to_vec(),
            lifetime: lifetime.into(),
            reply,
        };
        self.commands.send(Command::Store(sending)).map_err(|_| SessionError::Over)?;
        receiver.await.map_err(|_| SessionError::Over)?
    }

    /// The messages of former starts, if there is a storage ([`Preconnection::storage`]): those without all
    /// outcomes are sent again, and the outcomes of others may not have reached the application. Once; empty
    /// after that.
    ///
    /// [`Preconnection::storage`]: super::Preconnection::storage
    pub fn restored(&self) -> Vec<StoredSending> {
        let mut former = self.former.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut former.restored)
    }

    /// A copy of the storage's log, if it was damaged: messages after the damage are lost, and the
    /// outcomes of those before are unknown.
    pub fn damaged_log(&self) -> Option<PathBuf> {
        let former = self.former.lock().unwrap_or_else(PoisonError::into_inner);
        former.damaged.clone()
    }
}
