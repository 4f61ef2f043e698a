//! Messages between the tool and a workload program: JSON, one message per line of a socket.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A message from a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Set up and connected; waiting for the start.
    Ready {},
    /// Progress counters.
    Progress {
        /// Messages sent by a source, received by a sink.
        sent: u64,
        /// Replies received by a source, sent by a sink.
        replies: u64,
    },
    /// Messages received so far by a sink behind a broker, whose sources cannot see them arrive.
    Received {
        /// Their number.
        messages: u64,
    },
    /// The schedule has ended and all expected replies have arrived.
    Done {},
    /// The host is contended, so the measurements are not valid.
    Contended {
        /// The observed contention.
        why: String,
    },
    /// The program cannot continue.
    Failed {
        /// The operation, where it failed, the likely cause and the fix.
        error: String,
    },
}

/// A message to a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Start the schedule.
    Start {
        /// Time of offset 0 of the schedule, in ns of CLOCK_MONOTONIC.
        at_ns: u64,
    },
    /// Stop now.
    Stop {},
}

/// Takes the complete lines out of `unread`, each with its line end.
pub fn take_lines(unread: &mut Vec<u8>) -> Vec<Vec<u8>> {
    let end = unread.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let whole: Vec<u8> = unread.drain(..end).collect();
    whole.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_are_as_documented() {
        let line = |status: &Status| serde_json::to_string(status).unwrap();
        assert_eq!(line(&Status::Ready {}), r#"{"ready":{}}"#);
        let progress = Status::Progress { sent: 2, replies: 1 };
        assert_eq!(line(&progress), r#"{"progress":{"sent":2,"replies":1}}"#);
        assert_eq!(line(&Status::Done {}), r#"{"done":{}}"#);
        let failed = Status::Failed { error: "no".to_owned() };
        assert_eq!(line(&failed), r#"{"failed":{"error":"no"}}"#);
        let start = serde_json::to_string(&Command::Start { at_ns: 7 }).unwrap();
        assert_eq!(start, r#"{"start":{"at_ns":7}}"#);
        assert_eq!(serde_json::to_string(&Command::Stop {}).unwrap(), r#"{"stop":{}}"#);
    }

    #[test]
    fn a_line_is_taken_when_it_is_complete() {
        let mut unread = b"a\n\nb".to_vec();
        assert_eq!(take_lines(&mut unread), [b"a\n".to_vec(), b"\n".to_vec()]);
        unread.extend_from_slice(b"c\n");
        assert_eq!(take_lines(&mut unread), [b"bc\n".to_vec()]);
        assert!(unread.is_empty());
    }
}
