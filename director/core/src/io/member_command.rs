//! What a member's application asks of its I/O driver.

use crate::session::SessionError;
use crate::uplink::{MessageProperties, Outcome};
use tokio::sync::oneshot;

/// A command of the application.
#[derive(Debug)]
pub(super) enum Command {
    Send {
        what: Outgoing,
        properties: MessageProperties,
        reply: Reply,
        /// Gets the number over all starts of a stored message once it is on the disk.
        on_disk: Option<oneshot::Sender<u64>>,
    },
    Leave,
    ComeBack,
    /// The application has the outcome of a stored message.
    Told(u64),
}

/// What goes to the hub, and has an outcome.
#[derive(Debug)]
pub(super) enum Outgoing {
    Message(Vec<u8>),
    Request(Vec<u8>),
    Publication { topic: String, bytes: Vec<u8> },
    Subscribe(String),
    Unsubscribe(String),
}

/// Where the outcome of a message goes.
pub(super) type Reply = oneshot::Sender<Result<Outcome, SessionError>>;
