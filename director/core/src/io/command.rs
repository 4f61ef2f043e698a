//! What a hub's application asks of its session's I/O driver, and the responses.

use crate::downlink::Outcomes;
use crate::session::{Explanation, MessageFrom, SessionError};
use crate::switch::MemberId;
use crate::{ModelId, Span};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use tokio::sync::{mpsc, oneshot};

/// Responses to a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Collected {
    /// The answers; empty ones if members only acknowledge.
    pub answers: BTreeMap<MemberId, Vec<u8>>,
    /// Members that have not answered by the deadline.
    pub lacking: Vec<MemberId>,
}

/// A message to send.
#[derive(Debug)]
pub(super) struct Sending {
    pub bytes: Vec<u8>,
    /// Its receivers; all members if there is no list.
    pub to: Option<Vec<MemberId>>,
    /// Its lifetime, if it is not the session's.
    pub lifetime: Option<Span>,
}

/// A message to store.
#[derive(Debug)]
pub(super) struct StoreMessage {
    pub bytes: Vec<u8>,
    pub to: Vec<MemberId>,
    pub lifetime: Span,
    pub reply: oneshot::Sender<Result<StoredSending, SessionError>>,
}

/// A stored message of this start of the hub ([`Session::store`](super::Session::store)), or of a former one
/// ([`Session::restored`](super::Session::restored)): it is sent again to the members that have not said what became of it.
#[derive(Debug)]
pub struct StoredSending {
    /// The message.
    pub message: Vec<u8>,
    /// Its receivers.
    pub members: Vec<MemberId>,
    pub(super) id: u64,
    pub(super) outcomes: oneshot::Receiver<Outcomes>,
    pub(super) commands: mpsc::WeakUnboundedSender<Command>,
}

impl StoredSending {
    /// Waits for its outcomes at all members, until its lifetime ends at most. A further start has this
    /// message again until they are known here. It can be cancelled and called again until it has
    /// returned.
    ///
    /// # Errors
    /// [`SessionError`] if the session ends before, or it has returned before.
    pub async fn outcomes(&mut self) -> Result<Outcomes, SessionError> {
        if self.outcomes.is_terminated() {
            return Err(SessionError::Over);
        }
        let outcomes = (&mut self.outcomes).await.map_err(|_| SessionError::Over)?;
        if let Some(commands) = self.commands.upgrade() {
            let _ = commands.send(Command::Reported(self.id));
        }
        Ok(outcomes)
    }
}

/// Where the responses to a message go.
pub(super) type Reply = oneshot::Sender<Result<Collected, SessionError>>;

/// What a hub's application asks of the I/O driver.
#[derive(Debug)]
pub(super) enum Command {
    Send(Sending, Reply),
    Store(StoreMessage),
    /// The application has the outcomes of a stored message.
    Reported(u64),
    /// A message of a topic, to those that have subscribed.
    Publish(String, Vec<u8>, Reply),
    Explain(oneshot::Sender<Explanation>),
    Ready(oneshot::Sender<()>),
    Use(ModelId),
    Revoke(MemberId, oneshot::Sender<Result<(), SessionError>>),
    Admit(MemberId, Vec<u8>, oneshot::Sender<Result<(), SessionError>>),
    Members(oneshot::Sender<Vec<MemberId>>),
    Present(oneshot::Sender<BTreeMap<MemberId, Option<SocketAddr>>>),
    Accept(MessageFrom),
    Answer(MessageFrom, Vec<u8>),
    Refuse(MessageFrom),
}
