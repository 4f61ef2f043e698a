//! Events of messages: of interactions, and of clients of a broker.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The peer of a message to all receivers.
pub const ALL_PEERS: &str = "*";

/// An event of a message, as the program with the events `E` saw it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MessageEvent<'a, E> {
    /// What happened.
    pub event: E,
    /// Message number; 0 for an event of the connection.
    pub message: u64,
    /// The node at the other end, or [`ALL_PEERS`].
    pub peer: Cow<'a, str>,
    /// Time of the event, in ns of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Scheduled time of `sent`, or for `reply_sent` the time at which the message was received.
    pub intended_ns: Option<u64>,
    /// Payload bytes.
    pub bytes: u64,
}

/// What happens to messages at their source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SourceEvent {
    /// It sent a message.
    #[default]
    Sent,
    /// It received a reply.
    ReplyReceived,
    /// A reply arrived again.
    Duplicate,
}

/// What happens to messages at a sink.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SinkEvent {
    /// It received a message.
    #[default]
    Received,
    /// It sent a reply.
    ReplySent,
    /// A message arrived again.
    Duplicate,
}

/// What happens to messages at a client of a broker, and to its connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClientEvent {
    /// It published a message.
    #[default]
    Sent,
    /// The broker acknowledged a message.
    Acknowledged,
    /// It received a message.
    Received,
    /// A message arrived again.
    Duplicate,
    /// It connected to the broker.
    Connected,
    /// It lost its connection to the broker.
    Disconnected,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{read, written};

    #[test]
    fn lines_are_as_documented() {
        let sent = MessageEvent {
            event: SourceEvent::Sent,
            message: 3,
            peer: ALL_PEERS.into(),
            time_ns: 25,
            intended_ns: Some(20),
            bytes: 1699,
        };
        let received = SourceEvent::ReplyReceived;
        let reply = MessageEvent {
            event: received,
            peer: "c-1".into(),
            time_ns: 30,
            intended_ns: None,
            ..sent.clone()
        };
        let text = written(&[sent.clone(), reply.clone()]);
        assert_eq!(
            text,
            "event,message,peer,time_ns,intended_ns,bytes\n\
             sent,3,*,25,20,1699\nreply_received,3,c-1,30,,1699\n"
        );
        assert_eq!(read::<MessageEvent<'_, SourceEvent>>(text.as_bytes()).unwrap(), [sent, reply]);
    }

    #[test]
    fn an_event_of_another_program_is_an_error() {
        let text =
            written(&[MessageEvent::<ClientEvent>::default()]).replace("sent", "acknowledged");
        assert!(read::<MessageEvent<'_, ClientEvent>>(text.as_bytes()).is_ok());
        let error = read::<MessageEvent<'_, SourceEvent>>(text.as_bytes()).unwrap_err();
        assert!(error.contains("acknowledged") && error.contains("reply_received"), "{error}");
    }
}
