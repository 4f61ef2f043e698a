//! Messages that a former start of a member has stored.

use super::publisher::Command;
use crate::session::SessionError;
use crate::uplink::{Outcome, StoredMessage};
use tokio::sync::{mpsc, oneshot};

/// A message of a former start of the member, which is sent again if it had no outcome.
#[derive(Debug)]
pub struct RestoredMessage {
    /// The message.
    pub message: Vec<u8>,
    /// Its topic, if it has one.
    pub topic: Option<String>,
    pub(super) id: u64,
    pub(super) outcome: oneshot::Receiver<Result<Outcome, SessionError>>,
    pub(super) commands: mpsc::UnboundedSender<Command>,
}

impl RestoredMessage {
    pub(super) fn new(
        stored: &StoredMessage,
        outcome: oneshot::Receiver<Result<Outcome, SessionError>>,
        commands: mpsc::UnboundedSender<Command>,
    ) -> Self {
        let (topic, message) = stored.content();
        Self { message, topic, id: stored.id, outcome, commands }
    }

    /// Waits for its outcome. A further start has this message again until that is known here.
    ///
    /// # Errors
    /// [`SessionError`] if the listener ends before.
    pub async fn outcome(self) -> Result<Outcome, SessionError> {
        let outcome = self.outcome.await.map_err(|_| SessionError::Over)??;
        let _ = self.commands.send(Command::Told(self.id));
        Ok(outcome)
    }
}
