//! Counts of messages by protocol and type.

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
    /// By [`crate::zmtp::NAMES`].
    pub zmtp: [u64; crate::zmtp::NAMES.len()],
    /// By [`crate::opcua::NAMES`].
    pub opcua: [u64; crate::opcua::NAMES.len()],
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
            zmtp: [0; crate::zmtp::NAMES.len()],
            opcua: [0; crate::opcua::NAMES.len()],
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
            put("mqtt", crate::mqtt::NAMES[kind].to_owned(), *count);
        }
        for (kind, count) in self.coap_types.iter().enumerate() {
            put("coap", crate::coap::TYPES[kind].to_owned(), *count);
        }
        for (code, count) in self.coap_codes.iter().enumerate() {
            put("coap", crate::coap::code(code as u8), *count);
        }
        for (kind, count) in self.zmtp.iter().enumerate() {
            put("zmtp", crate::zmtp::NAMES[kind].to_owned(), *count);
        }
        for (kind, count) in self.opcua.iter().enumerate() {
            put("opcua", crate::opcua::NAMES[kind].to_owned(), *count);
        }
        counts
    }
}
