//! Messages at a member's application.

use crate::store::StoredFrom;
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
    pub to: AnswerTo,
    pub answers: mpsc::UnboundedSender<(AnswerTo, Option<Vec<u8>>)>,
}

/// What is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AnswerTo {
    Message(MessageId),
    /// A message of the hub's storage, and whether the application has it: if it then drops it without an
    /// answer, it has taken it.
    Stored(StoredFrom, bool),
    /// It was answered.
    Nothing,
}

impl Request {
    /// Answers the message. For one of a topic it does nothing. A message of the hub's storage counts as taken
    /// when it is answered or dropped.
    pub fn reply(self, answer: &[u8]) {
        if let Some(mut own) = self.answer {
            let to = std::mem::replace(&mut own.to, AnswerTo::Nothing);
            let _ = own.answers.send((to, Some(answer.to_vec())));
        }
    }

    /// The application has it now.
    pub(super) fn arrived(mut self) -> Self {
        if let Some(AnswerTo::Stored(_, is_here)) = self.answer.as_mut().map(|own| &mut own.to) {
            *is_here = true;
        }
        self
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        // The hub learns that the application has taken it. One that waits for the application is not taken.
        if let AnswerTo::Stored(_, true) = self.to {
            let _ = self.answers.send((self.to, None));
        }
    }
}
