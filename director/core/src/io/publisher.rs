//! A member's messages to the hub's application.

use crate::session::SessionError;
use crate::uplink::{MessageProperties, Outcome};
use tokio::sync::{mpsc, oneshot};

/// What a member's application asks of its I/O driver.
#[derive(Debug)]
pub(super) enum Command {
    Send { bytes: Vec<u8>, request: bool, properties: MessageProperties, reply: Reply },
    Leave,
    ComeBack,
}

/// Where the outcome of a message goes.
pub(super) type Reply = oneshot::Sender<Result<Outcome, SessionError>>;

/// Sends messages of a member to the hub's application, at any time.
#[derive(Debug, Clone)]
pub struct Publisher(pub(super) mpsc::UnboundedSender<Command>);

impl Publisher {
    /// Sends a message and waits for its outcome, until its lifetime ends at most.
    ///
    /// # Errors
    /// [`SessionError::Full`] if too many messages are open, [`SessionError::Over`] if the
    /// listener was dropped.
    pub async fn publish(
        &self,
        message: &[u8],
        properties: MessageProperties,
    ) -> Result<Outcome, SessionError> {
        self.send(message, false, properties).await
    }

    /// Sends a request and waits for its outcome, which has the answer.
    ///
    /// # Errors
    /// As [`publish`](Self::publish).
    pub async fn request(
        &self,
        message: &[u8],
        properties: MessageProperties,
    ) -> Result<Outcome, SessionError> {
        self.send(message, true, properties).await
    }

    async fn send(
        &self,
        message: &[u8],
        request: bool,
        properties: MessageProperties,
    ) -> Result<Outcome, SessionError> {
        let (reply, outcome) = oneshot::channel();
        let command = Command::Send { bytes: message.to_vec(), request, properties, reply };
        self.0.send(command).map_err(|_| SessionError::Over)?;
        outcome.await.map_err(|_| SessionError::Over)?
    }

    /// Leaves the session: open messages go first, for 10 s at most.
    pub fn leave(&self) {
        let _ = self.0.send(Command::Leave);
    }

    /// Joins again after [`leave`](Self::leave).
    pub fn come_back(&self) {
        let _ = self.0.send(Command::ComeBack);
    }
}
