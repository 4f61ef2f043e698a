//! Transport properties that an application requests, with the terms of RFC 9622, section 6.2.

use serde::{Deserialize, Serialize};

/// Preference level of a property (RFC 9622, 6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preference {
    /// Only models with the property.
    Require,
    /// Prefer models with the property.
    Prefer,
    /// No influence on the choice.
    #[default]
    NoPreference,
    /// Prefer models without the property.
    Avoid,
    /// Only models without the property.
    Prohibit,
}

impl Preference {
    /// Whether the preference permits a model that has (`has`) or lacks the property.
    pub fn allows(self, has: bool) -> bool {
        match self {
            Self::Require => has,
            Self::Prohibit => !has,
            Self::Prefer | Self::NoPreference | Self::Avoid => true,
        }
    }

    /// 1 if a preference is satisfied, -1 if it is violated, 0 without one.
    pub fn score(self, has: bool) -> i32 {
        match (self, has) {
            (Self::Prefer, true) | (Self::Avoid, false) => 1,
            (Self::Prefer, false) | (Self::Avoid, true) => -1,
            _ => 0,
        }
    }
}

/// Traffic type of a session (RFC 9622, 8.1.6, `connCapacityProfile`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CapacityProfile {
    /// Unknown.
    #[default]
    Default,
    /// Yields to all other traffic.
    Scavenger,
    /// Short messages; the sender waits for the answers.
    LowLatencyInteractive,
    /// Short messages without answers.
    LowLatencyNonInteractive,
    /// A stream at a constant rate.
    ConstantRateStreaming,
    /// Uses all available capacity.
    CapacitySeeking,
}

impl CapacityProfile {
    /// The code point of Differentiated Services that RFC 9622, 8.1.6, proposes.
    pub fn dscp(self) -> u8 {
        match self {
            Self::Default => 0,
            // Lower effort (RFC 8622).
            Self::Scavenger => 1,
            // Assured forwarding (RFC 2597): AF41, AF21, AF31, AF11.
            Self::LowLatencyInteractive => 34,
            Self::LowLatencyNonInteractive => 18,
            Self::ConstantRateStreaming => 26,
            Self::CapacitySeeking => 10,
        }
    }
}

/// Transport properties that an application requests (RFC 9622, 6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct TransportProperties {
    /// All messages arrive, or the session reports the lost ones.
    pub reliability: Preference,
    /// Messages arrive in sending order.
    pub preserve_order: Preference,
    /// Messages arrive as messages, not as a byte stream.
    pub preserve_msg_boundaries: Preference,
    /// The first message needs no prior round trip.
    pub zero_rtt_msg: Preference,
    /// One transmission reaches all members.
    pub multicast: Preference,
    /// Traffic type: marks this end's packets ([`CapacityProfile::dscp`]).
    pub conn_capacity_profile: CapacityProfile,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_required_or_prohibited_filters_and_the_rest_scores() {
        use Preference::*;
        for (preference, with, without) in [
            (Require, (true, 0), (false, 0)),
            (Prefer, (true, 1), (true, -1)),
            (NoPreference, (true, 0), (true, 0)),
            (Avoid, (true, -1), (true, 1)),
            (Prohibit, (false, 0), (true, 0)),
        ] {
            let of = |has| (preference.allows(has), preference.score(has));
            assert_eq!((of(true), of(false)), (with, without), "{preference:?}");
        }
    }

    #[test]
    fn names_are_those_of_taps() {
        let asked = TransportProperties { reliability: Preference::Require, ..Default::default() };
        let text = serde_json::to_string(&asked).unwrap();
        assert!(text.contains("\"reliability\":\"require\"") && text.contains("\"zeroRttMsg\""));
        let read: TransportProperties = serde_json::from_str("{\"multicast\":\"avoid\"}").unwrap();
        assert_eq!(read.multicast, Preference::Avoid);
    }
}
