//! Messages of members, at the hub's application.

use super::command::Command;
use crate::session::MessageFrom;
use crate::switch::MemberId;
use tokio::sync::mpsc;

/// Maximum number of messages that wait for the application; further ones are refused.
pub(super) const ROOM: usize = 1_024;

/// Messages that members send at any time, in the order of arrival.
#[derive(Debug)]
pub struct Inbox(pub(super) mpsc::Receiver<Incoming>);

impl Inbox {
    /// The next message; each is delivered once. The member learns that the application has it.
    /// `None` if the session is over.
    pub async fn next(&mut self) -> Option<Incoming> {
        let mut incoming = self.0.recv().await?;
        incoming.state = State::Taken;
        if !incoming.is_request {
            incoming.finish(Command::Accept(incoming.from));
        }
        Some(incoming)
    }
}

/// Whether the application has the message, and whether the member knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Taken,
    Finished,
}

/// A message of a member.
#[derive(Debug)]
pub struct Incoming {
    /// The message.
    pub message: Vec<u8>,
    /// Whether the member waits for an answer.
    pub is_request: bool,
    /// Its topic, if it has one: the other members that have subscribed to it get it, too.
    pub topic: Option<String>,
    from: MessageFrom,
    state: State,
    commands: mpsc::UnboundedSender<Command>,
}

impl Incoming {
    pub(super) fn new(
        from: MessageFrom,
        message: Vec<u8>,
        is_request: bool,
        commands: mpsc::UnboundedSender<Command>,
    ) -> Self {
        let topic = None;
        Self { message, is_request, topic, from, state: State::Waiting, commands }
    }

    pub(super) fn of_topic(mut self, topic: String) -> Self {
        self.topic = Some(topic);
        self
    }

    /// The member that has sent it.
    pub fn member(&self) -> MemberId {
        self.from.member
    }

    /// Answers a request. For other messages it does nothing. A request that is dropped without
    /// an answer ends as acknowledged.
    pub fn reply(mut self, answer: &[u8]) {
        self.finish(Command::Answer(self.from, answer.to_vec()));
    }

    fn finish(&mut self, command: Command) {
        if self.state != State::Finished {
            self.state = State::Finished;
            let _ = self.commands.send(command);
        }
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        // The member gets a reply in any case, and need not wait for the end of the message's
        // lifetime.
        let command = match self.state {
            State::Waiting => Command::Refuse(self.from),
            State::Taken | State::Finished => Command::Accept(self.from),
        };
        self.finish(command);
    }
}
