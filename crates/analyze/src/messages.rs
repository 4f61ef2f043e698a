//! Counts of messages by protocol and type.

use crate::message_names;
use std::collections::BTreeMap;

/// The number of messages of each type, by protocol.
pub(crate) type Counts = BTreeMap<&'static str, BTreeMap<String, u64>>;

/// The counters: fixed arrays with room for every type.
#[derive(Debug)]
pub(crate) struct Messages {
    /// By packet type.
    pub mqtt: [u64; 16],
    /// By type, and by code.
    pub coap_types: [u64; 4],
    pub coap_codes: [u64; 256],
    /// By [`message_names::ZMTP`].
    pub zmtp: [u64; message_names::ZMTP.len()],
    /// By [`message_names::OPCUA`].
    pub opcua: [u64; message_names::OPCUA.len()],
    /// All protocols together.
    pub all: u64,
    /// How often parsing resumed at a later message after invalid bytes.
    pub resyncs: u64,
    /// Bytes skipped before parsing resumed.
    pub skipped: u64,
}

impl Default for Messages {
    fn default() -> Self {
        Self {
            mqtt: [0; 16],
            coap_types: [0; 4],
            coap_codes: [0; 256],
            zmtp: [0; message_names::ZMTP.len()],
            opcua: [0; message_names::OPCUA.len()],
            all: 0,
            resyncs: 0,
            skipped: 0,
        }
    }
}

impl Messages {
    /// The counts that are not zero.
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::new();
        let mut put = |protocol, name: String, count: u64| {
            if count > 0 {
                *counts.entry(protocol).or_default().entry(name).or_default() += count;
            }
        };
        for (kind, count) in self.mqtt.iter().enumerate() {
            put("mqtt", message_names::MQTT[kind].to_owned(), *count);
        }
        for (kind, count) in self.coap_types.iter().enumerate() {
            put("coap", message_names::COAP[kind].to_owned(), *count);
        }
        for (code, count) in self.coap_codes.iter().enumerate() {
            put("coap", message_names::coap_code(code as u8), *count);
        }
        for (kind, count) in self.zmtp.iter().enumerate() {
            put("zmtp", message_names::ZMTP[kind].to_owned(), *count);
        }
        for (kind, count) in self.opcua.iter().enumerate() {
            put("opcua", message_names::OPCUA[kind].to_owned(), *count);
        }
        counts
    }
}
