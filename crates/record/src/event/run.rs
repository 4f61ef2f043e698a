//! Events of a run: the lines of `events.jsonl`.

use crate::Status;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A line of `events.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunEvent {
    /// Its time, in s relative to offset 0; `None` for a reason of the verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_s: Option<f64>,
    /// What happened.
    #[serde(flatten)]
    pub what: RunEventKind,
}

/// What happened in a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum RunEventKind {
    /// A phase began.
    Phase {
        /// Its name.
        phase: String,
    },
    /// A network's timetable changed it.
    Change {
        /// The network.
        network: String,
        /// The change, as in `plan.json`.
        change: Value,
    },
    /// A user changed links through the control socket.
    #[serde(rename = "change by hand")]
    ManualChange {
        /// The request.
        change: Value,
    },
    /// A fault was injected into the programs of a node.
    Fault {
        /// Its kind, as in the experiment file.
        what: String,
        /// The node.
        node: String,
    },
    /// A reason of the verdict.
    Reason {
        /// The status that it gives.
        status: Status,
        /// The reason as text.
        text: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lines_are_as_documented() {
        let (phase, what) = ("load".to_owned(), "kill".to_owned());
        let (network, node) = ("net".to_owned(), "a".to_owned());
        let text = "a program failed".to_owned();
        let lines = [
            (Some(0.5), RunEventKind::Phase { phase }),
            (Some(1.0), RunEventKind::Change { network, change: json!({"loss": "1 %"}) }),
            (Some(1.5), RunEventKind::ManualChange { change: json!({"end": {}}) }),
            (Some(2.0), RunEventKind::Fault { what, node }),
            (None, RunEventKind::Reason { status: Status::Failed, text }),
        ];
        let texts = [
            json!({"at_s": 0.5, "event": "phase", "phase": "load"}),
            json!({"at_s": 1.0, "event": "change", "network": "net", "change": {"loss": "1 %"}}),
            json!({"at_s": 1.5, "event": "change by hand", "change": {"end": {}}}),
            json!({"at_s": 2.0, "event": "fault", "what": "kill", "node": "a"}),
            json!({"event": "reason", "status": "failed", "text": "a program failed"}),
        ];
        for ((at_s, what), text) in lines.into_iter().zip(texts) {
            let line = RunEvent { at_s, what };
            assert_eq!(json!(line), text);
            assert_eq!(serde_json::from_value::<RunEvent>(text).unwrap(), line);
        }
        let unknown = json!({"at_s": 1.0, "event": "miracle"});
        let error = serde_json::from_value::<RunEvent>(unknown).unwrap_err().to_string();
        assert!(error.contains("miracle"), "{error}");
    }
}
