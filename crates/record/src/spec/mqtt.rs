//! The spec of an MQTT client.

use super::{MAX_MESSAGE, Spec, TlsFiles};
use crate::MqttVersion;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Spec of one client.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MqttSpec {
    /// Name of this node.
    pub node: String,
    /// Client identifier, unique at the broker.
    pub client: String,
    /// Node of the broker.
    pub broker: String,
    /// Address of the broker, or its name if a certificate is checked against it.
    pub host: String,
    /// Port of the broker.
    pub port: u16,
    /// MQTT version.
    pub version: MqttVersion,
    /// QoS level of messages and subscription, 0 to 2.
    pub qos: u8,
    /// TLS files; none disables TLS.
    #[serde(default)]
    pub tls: Option<TlsFiles>,
    /// Keep-alive interval in whole seconds, 5 or more, the minimum of libmosquitto.
    pub keep_alive_s: u16,
    /// Whether the broker discards the session when the connection ends.
    pub clean_session: bool,
    /// Initial reconnect delay after a lost or refused connection, in ns; doubles with each
    /// failure.
    pub reconnect_min_ns: u64,
    /// Maximum reconnect delay, in ns.
    pub reconnect_max_ns: u64,
    /// When to connect, in ns from offset 0; none connects before the start.
    #[serde(default)]
    pub join_ns: Option<u64>,
    /// Timeout of the first connection, including retries, in ns.
    pub connect_limit_ns: u64,
    /// Topic filter of the subscription.
    #[serde(default)]
    pub subscribe: Option<String>,
    /// Numbers of the messages that arrive by the subscription; others are foreign.
    pub expected: Vec<u64>,
    /// Topic of published messages.
    #[serde(default)]
    pub publish: Option<String>,
    /// Messages to publish: number, and scheduled time in ns from offset 0.
    pub schedule: Vec<(u64, u64)>,
    /// Payload file.
    pub payload: PathBuf,
    /// Output file of events.
    pub events: PathBuf,
}

impl Spec for MqttSpec {
    const PROGRAM: &'static str = "mqtt";

    fn check(&self) -> Result<(), String> {
        for (key, text) in [("client", &self.client), ("host", &self.host)] {
            if text.is_empty() || text.contains('\0') {
                return Err(format!("{key} is {text:?}; it must be a text without zero bytes"));
            }
        }
        if self.qos > 2 {
            return Err(format!("qos is {}; MQTT has 0, 1 and 2", self.qos));
        }
        if self.port == 0 {
            return Err("port must be from 1 to 65535".into());
        }
        if self.keep_alive_s < 5 {
            return Err(format!("keep_alive_s is {}; it must be 5 or more", self.keep_alive_s));
        }
        if self.reconnect_min_ns == 0 || self.reconnect_max_ns < self.reconnect_min_ns {
            return Err("reconnect_min_ns must be above 0 and not above reconnect_max_ns".into());
        }
        if self.schedule.iter().any(|(number, _)| *number > MAX_MESSAGE) {
            return Err(format!("message numbers go up to {MAX_MESSAGE}"));
        }
        if self.schedule.windows(2).any(|pair| pair[0].1 > pair[1].1) {
            return Err("the schedule must be sorted by time".into());
        }
        if !self.schedule.is_empty() && self.publish.is_none() {
            return Err("a schedule needs `publish`, a topic".into());
        }
        let topics = self.subscribe.iter().chain(&self.publish);
        // A topic name must not have wildcards (MQTT 3.1.1, 4.7.1); a filter could, but workloads
        // use none.
        if topics.clone().any(|topic| topic.is_empty() || topic.contains(['\0', '+', '#'])) {
            return Err("a topic must not be empty or contain `+`, `#` or a zero byte".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::error_with;
    use super::*;
    use serde_json::{Value, json};

    fn example() -> Value {
        json!({"node": "meter-1", "client": "meter-1-0", "broker": "broker",
            "host": "10.0.0.1", "port": 1883, "version": "5", "qos": 2, "keep_alive_s": 60,
            "clean_session": true, "reconnect_min_ns": 1, "reconnect_max_ns": 2,
            "connect_limit_ns": 5, "subscribe": "a/b", "expected": [1, 2], "publish": "a/c",
            "schedule": [[0, 0], [3, 10]], "payload": "/p", "events": "/e.csv"})
    }

    #[test]
    fn a_spec_in_json_is_read() {
        let spec = MqttSpec::parse(&example().to_string()).unwrap();
        assert_eq!((spec.version, spec.qos, spec.schedule[1]), (MqttVersion::V5, 2, (3, 10)));
        assert_eq!((spec.join_ns, spec.tls), (None, None));
    }

    #[test]
    fn says_what_is_wrong() {
        for (key, value, word) in [
            ("version", json!("3.1"), "3.1.1"),
            ("qos", json!(3), "0, 1 and 2"),
            ("port", json!(0), "65535"),
            ("keep_alive_s", json!(1), "5 or more"),
            ("schedule", json!([[0, 9], [1, 8]]), "sorted by time"),
            ("schedule", json!([[10_000_000_000u64, 9]]), "9999999999"),
            ("publish", json!("a/#"), "topic"),
            ("publish", Value::Null, "topic"),
            ("reconnect_min_ns", json!(0), "reconnect_min_ns"),
        ] {
            let error = error_with::<MqttSpec>(example(), key, value);
            assert!(error.contains(word), "{key}: {error}");
        }
    }
}
