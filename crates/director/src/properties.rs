//! What an application asks of a transport, in the words of RFC 9622, section 6.2.

use serde::{Deserialize, Serialize};

/// How much an application wants a property (RFC 9622, 6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preference {
    /// Only models that have it.
    Require,
    /// Rather models that have it.
    Prefer,
    /// All the same.
    #[default]
    NoPreference,
    /// Rather models that have it not.
    Avoid,
    /// Only models that have it not.
    Prohibit,
}

impl Preference {
    /// Whether a model may be chosen that `has` the property or has it not.
    pub fn allows(self, has: bool) -> bool {
        match self {
            Self::Require => has,
            Self::Prohibit => !has,
            Self::Prefer | Self::NoPreference | Self::Avoid => true,
        }
    }

    /// 1 for a wish that is met, -1 for one that is not, 0 where there is none.
    pub fn score(self, has: bool) -> i32 {
        match (self, has) {
            (Self::Prefer, true) | (Self::Avoid, false) => 1,
            (Self::Prefer, false) | (Self::Avoid, true) => -1,
            _ => 0,
        }
    }
}

/// What a session's traffic is like (RFC 9622, 8.1.6, `connCapacityProfile`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CapacityProfile {
    /// Nothing is known of it.
    #[default]
    Default,
    /// It gives way to all other traffic.
    Scavenger,
    /// Short messages whose answers are waited for.
    LowLatencyInteractive,
    /// Short messages that nobody answers.
    LowLatencyNonInteractive,
    /// A stream at a rate.
    ConstantRateStreaming,
    /// As much as there is.
    CapacitySeeking,
}

/// What an application asks of a transport (RFC 9622, 6.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TransportProperties {
    /// All messages arrive, or the session says which have not.
    pub reliability: Preference,
    /// They arrive in the order in which they were sent.
    pub preserve_order: Preference,
    /// They arrive as messages, and not as a stream of bytes.
    pub preserve_msg_boundaries: Preference,
    /// A first message goes without a round trip before it.
    pub zero_rtt_msg: Preference,
    /// One sending reaches many.
    pub multicast: Preference,
    /// What the traffic is like.
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
