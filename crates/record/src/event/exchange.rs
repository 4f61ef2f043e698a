//! Events of exchanges: what drivers did, what servers received, and the sections of each exchange.

use crate::word::words;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt;

/// An exchange, as its driver saw it. Times are in ns of CLOCK_MONOTONIC.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExchangeEvent {
    /// Exchange number.
    pub message: u64,
    /// Payload size in bytes.
    pub bytes: u64,
    /// Intended start, at the earliest after the previous exchange.
    pub intended_ns: u64,
    /// Delay of the intended start behind the schedule, in ns.
    pub held_ns: u64,
    /// Actual start.
    pub begin_ns: u64,
    /// Actual end.
    pub end_ns: u64,
    /// When the peer received the payload, if the protocol reports it.
    pub received_ns: Option<u64>,
    /// Why it failed; `None` for a successful exchange.
    pub failure: Option<FailureReason>,
    /// Details of the failure, one line; may be empty.
    pub detail: String,
}

/// A payload that a server received, or why none can arrive.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Receipt {
    /// The sender: a node or an address.
    pub peer: String,
    /// Exchange number, if the payload has one.
    pub message: Option<u64>,
    /// Payload size in bytes.
    pub bytes: u64,
    /// Time of receipt, in ns of CLOCK_MONOTONIC.
    pub time_ns: u64,
    /// Why no payload can arrive from this peer from now on.
    pub failure: Option<FailureReason>,
    /// Details of the failure, one line; may be empty.
    pub detail: String,
}

/// Times and frames of a section. Times are in ns of CLOCK_MONOTONIC; bytes include link headers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SectionEvent {
    /// Exchange number; `None` for the total.
    pub message: Option<u64>,
    /// The section.
    pub section: Section,
    /// Start.
    pub begin_ns: u64,
    /// End.
    pub end_ns: u64,
    /// Bytes that the driving node sent.
    pub out_bytes: u64,
    /// Bytes that it received.
    pub in_bytes: u64,
    /// Frames that it sent.
    pub out_frames: u64,
    /// Frames that it received.
    pub in_frames: u64,
}

/// A section of an exchange.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(into = "String", try_from = "String")]
pub enum Section {
    /// All frames at the interface since the start, related to the exchanges or not; its event has
    /// no exchange number.
    #[default]
    All,
    /// Transport connect: TCP or QUIC handshake, including DTLS or TLS.
    TransportConnect,
    /// Application protocol connect: MQTT CONNECT, OPC UA channel and session.
    ProtocolConnect,
    /// Payload transfer, until the driver knows it is complete.
    Payload,
    /// Transfer of one block, from 1.
    Block(u32),
    /// Application protocol close.
    ProtocolClose,
    /// Transport close.
    TransportClose,
}

/// The words of the sections, except blocks.
const SECTIONS: [(&str, Section); 6] = [
    ("all", Section::All),
    ("transport_connect", Section::TransportConnect),
    ("protocol_connect", Section::ProtocolConnect),
    ("payload", Section::Payload),
    ("protocol_close", Section::ProtocolClose),
    ("transport_close", Section::TransportClose),
];

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Block(number) = self {
            return write!(f, "payload_{number}");
        }
        let found = SECTIONS.iter().find(|(_, section)| section == self);
        f.write_str(found.map_or("", |(word, _)| word))
    }
}

impl From<Section> for String {
    fn from(section: Section) -> Self {
        section.to_string()
    }
}

impl TryFrom<String> for Section {
    type Error = String;

    fn try_from(word: String) -> Result<Self, String> {
        // Before blocks: `payload` has no number.
        if let Some((_, section)) = SECTIONS.iter().find(|(known, _)| *known == word) {
            return Ok(*section);
        }
        let block = word.strip_prefix("payload_").and_then(|number| number.parse().ok());
        block.map(Self::Block).ok_or_else(|| format!("`{word}` is not a section of an exchange"))
    }
}

impl JsonSchema for Section {
    fn schema_name() -> Cow<'static, str> {
        "Section".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let words: Vec<&str> = SECTIONS.iter().map(|(word, _)| *word).collect();
        json_schema!({ "anyOf": [{ "enum": words }, { "type": "string", "pattern": "^payload_[0-9]+$" }] })
    }
}

/// Class of a failure, as named in result tables.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum FailureReason {
    /// No program listens on the port.
    Refused,
    /// No route to the host.
    Unreachable,
    /// Timeout: permanent loss, or a silent peer.
    Timeout,
    /// An open connection ended before the exchange was complete.
    Lost,
    /// A certificate of either side is not trusted.
    Certificate,
    /// The peer rejected a connection, session or subscription.
    Rejected,
    /// The peer answered with an error status.
    Status,
    /// The received payload differs from the sent one.
    Corrupt,
    /// The stack or protocol does not support the requested operation.
    Unsupported,
    /// The run was stopped.
    Stopped,
    /// Any other failure.
    #[default]
    Other,
}

words!(FailureReason, "a reason of a failure":
    "refused" => Self::Refused,
    "unreachable" => Self::Unreachable,
    "timeout" => Self::Timeout,
    "lost" => Self::Lost,
    "certificate" => Self::Certificate,
    "rejected" => Self::Rejected,
    "status" => Self::Status,
    "corrupt" => Self::Corrupt,
    "unsupported" => Self::Unsupported,
    "stopped" => Self::Stopped,
    "other" => Self::Other,
);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{read, written};

    #[test]
    fn exchanges_read_back_with_failures() {
        let well = ExchangeEvent {
            message: 3,
            bytes: 100,
            intended_ns: 5,
            held_ns: 1,
            begin_ns: 6,
            end_ns: 9,
            received_ns: Some(8),
            ..ExchangeEvent::default()
        };
        let failed = ExchangeEvent {
            received_ns: None,
            failure: Some(FailureReason::Status),
            detail: "4.04, \"not found\"".to_owned(),
            ..well.clone()
        };
        let text = written(&[well.clone(), failed.clone()]);
        assert_eq!(
            text,
            "message,bytes,intended_ns,held_ns,begin_ns,end_ns,received_ns,failure,detail\n\
             3,100,5,1,6,9,8,,\n3,100,5,1,6,9,,status,\"4.04, \"\"not found\"\"\"\n"
        );
        assert_eq!(read::<ExchangeEvent>(text.as_bytes()).unwrap(), [well, failed]);
        let error = read::<ExchangeEvent>(text.replace("status", "fate").as_bytes()).unwrap_err();
        assert!(error.contains("`fate` is not a reason of a failure; known: refused"), "{error}");
    }

    #[test]
    fn receipts_read_back() {
        let receipt = Receipt { peer: "a".to_owned(), bytes: 7, time_ns: 2, ..Receipt::default() };
        let text = written(std::slice::from_ref(&receipt));
        assert_eq!(text, "peer,message,bytes,time_ns,failure,detail\na,,7,2,,\n");
        assert_eq!(read::<Receipt>(text.as_bytes()).unwrap(), [receipt]);
    }

    #[test]
    fn each_section_has_a_word() {
        let sections = SECTIONS.iter().map(|(_, section)| *section).chain([Section::Block(12)]);
        let rows: Vec<SectionEvent> =
            sections.map(|section| SectionEvent { section, ..SectionEvent::default() }).collect();
        let text = written(&rows);
        let head = "message,section,begin_ns,end_ns,out_bytes,in_bytes,out_frames,in_frames\n";
        assert!(
            text.starts_with(&format!("{head},all,0,0,0,0,0,0\n,transport_connect,")),
            "{text}"
        );
        assert!(text.ends_with(",payload_12,0,0,0,0,0,0\n"), "{text}");
        assert_eq!(read::<SectionEvent>(text.as_bytes()).unwrap(), rows);
        let error = read::<SectionEvent>(text.replace("_12", "_x").as_bytes()).unwrap_err();
        assert!(error.contains("`payload_x` is not a section"), "{error}");
    }
}
