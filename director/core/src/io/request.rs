//! Messages at a member's application.

use crate::switch::MessageId;
use tokio::sync::mpsc;

/// A received message, which can be answered.
#[derive(Debug)]
pub struct Request {
    /// The message.
    pub message: Vec<u8>,
    /// Its topic, if it is one that this member has subscribed to.
    pub topic: Option<String>,
    /// Where an answer goes; a message of a topic has none.
    pub(super) answer: Option<Answering>,
}

/// Where an answer goes.
#[derive(Debug)]
pub(super) struct Answering {
    pub number: MessageId,
    pub answers: mpsc::UnboundedSender<(MessageId, Vec<u8>)>,
}

impl Request {
    /// Answers the message. For one of a topic it does nothing.
    pub fn reply(self, answer: &[u8]) {
        if let Some(Answering { number, answers }) = self.answer {
            let _ = answers.send((number, answer.to_vec()));
        }
    }
}
