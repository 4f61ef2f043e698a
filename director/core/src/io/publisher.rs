//! A member's messages to the hub's application.

use super::durable::DurableMessage;
use super::member_command::{Command, Outgoing};
use crate::session::SessionError;
use crate::uplink::{MessageProperties, Outcome};
use tokio::sync::{mpsc, oneshot};

/// Sends messages of a member to the hub's application, at any time.
#[derive(Debug, Clone)]
pub struct Publisher(pub(super) mpsc::UnboundedSender<Command>);

impl Publisher {
    /// Sends a message and waits for its outcome, until its lifetime ends at most.
    ///
    /// # Errors
    /// [`SessionError::Full`] if too many messages are open, [`SessionError::TooLong`] above 4 MiB,
    /// [`SessionError::Over`] if the listener was dropped.
    pub async fn publish(
        &self,
        message: &[u8],
        properties: MessageProperties,
    ) -> Result<Outcome, SessionError> {
        self.send(Outgoing::Message(message.to_vec()), properties).await
    }

    /// Stores a message and sends it; returns as soon as it is on the disk. From then on it outlasts
    /// this program, and so does its outcome.
    ///
    /// # Errors
    /// As [`publish`](Self::publish), and [`SessionError::Storage`] if the member has no storage or
    /// the message could not be written; then it was not sent.
    pub async fn store(
        &self,
        message: &[u8],
        properties: MessageProperties,
    ) -> Result<DurableMessage, SessionError> {
        let (reply, outcome) = oneshot::channel();
        let (sender, on_disk) = oneshot::channel();
        let properties = MessageProperties { stored: true, ..properties };
        let what = Outgoing::Message(message.to_vec());
        let command = Command::Send { what, properties, reply, on_disk: Some(sender) };
        self.0.send(command).map_err(|_| SessionError::Over)?;
        let Ok(id) = on_disk.await else {
            let error = outcome.await.map_err(|_| SessionError::Over)?;
            return Err(error.err().unwrap_or(SessionError::Over));
        };
        let (message, commands) = (message.to_vec(), self.0.clone());
        Ok(DurableMessage { message, topic: None, id, outcome, commands })
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
        self.send(Outgoing::Request(message.to_vec()), properties).await
    }

    /// Sends a message of a topic to the hub's application and to the other members that have
    /// subscribed to it, and waits for its outcome: what became of it at the hub's application. The
    /// hub sends it on when that has taken it.
    ///
    /// # Errors
    /// As [`publish`](Self::publish), and [`SessionError::Topic`] if the topic is not valid.
    pub async fn publish_to(
        &self,
        topic: &str,
        message: &[u8],
        properties: MessageProperties,
    ) -> Result<Outcome, SessionError> {
        let (topic, bytes) = (topic.to_owned(), message.to_vec());
        self.send(Outgoing::Publication { topic, bytes }, properties).await
    }

    /// Subscribes to the topics that a filter selects, with the wildcards of MQTT (`+` is any
    /// level, `#` all further ones). [`Listener::next`](super::Listener::next) gives the messages.
    /// The subscription holds when the outcome is acknowledged; the library repeats it whenever the
    /// member joins again, until [`unsubscribe`](Self::unsubscribe).
    ///
    /// # Errors
    /// As [`publish`](Self::publish), and [`SessionError::Topic`] if the filter is not valid or the
    /// member has too many.
    pub async fn subscribe(&self, filter: &str) -> Result<Outcome, SessionError> {
        self.send(Outgoing::Subscribe(filter.to_owned()), MessageProperties::default()).await
    }

    /// Ends a subscription.
    ///
    /// # Errors
    /// As [`publish`](Self::publish).
    pub async fn unsubscribe(&self, filter: &str) -> Result<Outcome, SessionError> {
        self.send(Outgoing::Unsubscribe(filter.to_owned()), MessageProperties::default()).await
    }

    async fn send(
        &self,
        what: Outgoing,
        properties: MessageProperties,
    ) -> Result<Outcome, SessionError> {
        let (reply, outcome) = oneshot::channel();
        let command = Command::Send { what, properties, reply, on_disk: None };
        self.0.send(command).map_err(|_| SessionError::Over)?;
        outcome.await.map_err(|_| SessionError::Over)?
    }

    /// Whether its listener is over: dropped, or without a storage that it needs. Sending is an error then.
    pub fn is_over(&self) -> bool {
        self.0.is_closed()
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
