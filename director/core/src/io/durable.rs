//! Messages of a member that are on its disk.

use super::member_command::Command;
use crate::session::SessionError;
use crate::uplink::{Outcome, StoredMessage};
use tokio::sync::{mpsc, oneshot};

/// A message on the member's disk: of this start ([`Publisher::store`](super::Publisher::store)), or
/// of a former one, sent again if it had no outcome ([`Listener::restored`](super::Listener::restored)).
#[derive(Debug)]
pub struct DurableMessage {
    /// The message.
    pub message: Vec<u8>,
    /// Its topic, if it has one.
    pub topic: Option<String>,
    pub(super) id: u64,
    pub(super) outcome: oneshot::Receiver<Result<Outcome, SessionError>>,
    pub(super) commands: mpsc::UnboundedSender<Command>,
}

impl DurableMessage {
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
    pub async fn outcome(mut self) -> Result<Outcome, SessionError> {
        self.next_outcome().await
    }

    /// The same, which can be cancelled and called again until it has returned.
    ///
    /// # Errors
    /// As [`outcome`](Self::outcome), and if it has returned before.
    pub async fn next_outcome(&mut self) -> Result<Outcome, SessionError> {
        if self.outcome.is_terminated() {
            return Err(SessionError::Over);
        }
        let outcome = (&mut self.outcome).await.map_err(|_| SessionError::Over)??;
        let _ = self.commands.send(Command::Told(self.id));
        Ok(outcome)
    }
}
