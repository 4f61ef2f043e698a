//! Messages of a hub whose senders wait for the responses.

use super::command::{Collected, Command, Sending};
use super::hub::Session;
use crate::Span;
use crate::session::SessionError;
use crate::switch::MemberId;
use std::time::Duration;
use tokio::sync::oneshot;

impl Session {
    /// Sends a message to all members and waits for their answers or acknowledgements, until all
    /// have responded or the deadline has passed.
    ///
    /// # Errors
    /// [`SessionError`] if no model can carry the message, or the session is over.
    pub async fn collect(&self, message: &[u8]) -> Result<Collected, SessionError> {
        self.send(message, None, None).await
    }

    /// Sends a message to one member and waits for its answer; `None` if there is none by the
    /// deadline.
    ///
    /// # Errors
    /// [`SessionError`] if no model can carry the message, or the session is over.
    pub async fn request(
        &self,
        member: MemberId,
        message: &[u8],
    ) -> Result<Option<Vec<u8>>, SessionError> {
        let collected = self.send(message, Some(vec![member]), None).await?;
        Ok(collected.answers.into_values().next())
    }

    /// Sends a message to some members and waits for their answers, as [`collect`](Self::collect)
    /// does. By multicast, the libraries of other members get the message too, and drop it.
    ///
    /// # Errors
    /// [`SessionError`] if no model can carry the message, there is no such member, or the session is
    /// over.
    pub async fn collect_from(
        &self,
        members: &[MemberId],
        message: &[u8],
    ) -> Result<Collected, SessionError> {
        self.send(message, Some(members.to_vec()), None).await
    }

    /// Sends a message to some members, as [`collect_from`](Self::collect_from) does, and waits for
    /// `lifetime` at most.
    ///
    /// # Errors
    /// [`SessionError`] if no model can carry the message, too many are open, or the session is
    /// over.
    pub async fn send_within(
        &self,
        members: &[MemberId],
        message: &[u8],
        lifetime: Duration,
    ) -> Result<Collected, SessionError> {
        self.send(message, Some(members.to_vec()), Some(lifetime.into())).await
    }

    async fn send(
        &self,
        message: &[u8],
        to: Option<Vec<MemberId>>,
        lifetime: Option<Span>,
    ) -> Result<Collected, SessionError> {
        let (reply, receiver) = oneshot::channel();
        let sending = Sending { bytes: message.to_vec(), to, lifetime };
        self.commands.send(Command::Send(sending, reply)).map_err(|_| SessionError::Over)?;
        receiver.await.map_err(|_| SessionError::Over)?
    }

    /// Sends a message of a topic to the members that have subscribed to it, and waits until all
    /// have acknowledged it, or its deadline has passed. Without any it is over at once.
    ///
    /// # Errors
    /// [`SessionError`] if the topic is not valid, no model can carry the message, too many are
    /// open, or the session is over.
    pub async fn publish(&self, topic: &str, message: &[u8]) -> Result<Collected, SessionError> {
        let (reply, receiver) = oneshot::channel();
        let command = Command::Publish(topic.to_owned(), message.to_vec(), reply);
        self.commands.send(command).map_err(|_| SessionError::Over)?;
        receiver.await.map_err(|_| SessionError::Over)?
    }
}
