//! What a hub's application asks of its session's I/O driver, and the responses.

use crate::session::{Explanation, MessageFrom, SessionError};
use crate::switch::MemberId;
use crate::{ModelId, Span};
use std::collections::BTreeMap;
use tokio::sync::oneshot;

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

/// Where the responses to a message go.
pub(super) type Reply = oneshot::Sender<Result<Collected, SessionError>>;

/// What a hub's application asks of the I/O driver.
#[derive(Debug)]
pub(super) enum Command {
    Send(Sending, Reply),
    /// A message of a topic, to those that have subscribed.
    Publish(String, Vec<u8>, Reply),
    Explain(oneshot::Sender<Explanation>),
    Ready(oneshot::Sender<()>),
    Use(ModelId),
    Revoke(MemberId),
    Admit(MemberId, Vec<u8>, oneshot::Sender<Result<(), SessionError>>),
    Members(oneshot::Sender<Vec<MemberId>>),
    Accept(MessageFrom),
    Answer(MessageFrom, Vec<u8>),
    Refuse(MessageFrom),
}
