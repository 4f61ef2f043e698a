//! The versions of MQTT.

use crate::word::words;

/// MQTT version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MqttVersion {
    /// MQTT 3.1.1 (OASIS 2014).
    V311,
    /// MQTT 5.0 (OASIS 2019).
    V5,
}

words!(MqttVersion, "a version of MQTT": "3.1.1" => Self::V311, "5" => Self::V5);
