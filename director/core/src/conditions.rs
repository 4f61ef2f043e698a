//! Network and traffic conditions: the coordinates of a session on the performance map.

use crate::Span;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;
use serde::{Deserialize, Serialize};

/// Network and traffic conditions of a session.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// Frame loss per direction, 0 to 1.
    pub loss: f64,
    /// Mean number of consecutive lost frames; 1 if losses are independent and rare.
    pub burst: f64,
    /// Round-trip time without queueing; zero if unknown.
    #[serde(rename = "rtt_ns", with = "in_ns")]
    pub rtt: Span,
    /// Data rate of the bottleneck, in bit/s; 0 if unknown.
    pub rate_bit_s: f64,
    /// MTU, in bytes.
    pub mtu: f64,
    /// Members of the group; 1 for a single peer.
    pub group: f64,
    /// Message size, in bytes.
    pub payload: f64,
    /// Messages per second.
    pub messages_s: f64,
}

impl Default for Conditions {
    /// An unknown network without loss, one peer, small messages.
    fn default() -> Self {
        Self {
            loss: 0.0,
            burst: 1.0,
            rtt: Span::ZERO,
            rate_bit_s: 0.0,
            mtu: 1_500.0,
            group: 1.0,
            payload: 100.0,
            messages_s: 1.0,
        }
    }
}

/// A span as its number of ns: maps have numbers.
mod in_ns {
    use crate::Span;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(span: &Span, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(span.as_ns())
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        u64::deserialize(deserializer).map(Span::from_ns)
    }
}

/// Added to the loss before the logarithm, so that loss 0 has one.
const MIN_LOSS: f64 = 1e-3;
/// At this loss, the burst length counts half.
const BURSTS: f64 = 0.01;

impl Conditions {
    /// Coordinates for the search of near map points; a distance of 1 is about a factor of 2.
    pub(crate) fn place(&self) -> [f64; 8] {
        let log = |value: f64| value.max(1e-9).log2();
        [
            // Loss by its odds: 50 % and 60 % differ a lot for a protocol.
            log((self.loss + MIN_LOSS) / (1.0 - self.loss).max(MIN_LOSS)),
            // Burst length, weighted by the loss.
            log(self.burst.max(1.0)) * self.loss / (self.loss + BURSTS),
            log(self.rtt.as_ms() + 0.1),
            log(self.rate_bit_s),
            log(self.mtu),
            log(self.group),
            log(self.payload + 16.0),
            // The message rate has little influence below saturation.
            0.1 * log(self.messages_s),
        ]
    }

    /// Distance to other conditions, in doublings.
    pub fn distance(&self, other: &Self) -> f64 {
        let (here, there) = (self.place(), other.place());
        here.iter().zip(there).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_in_doublings() {
        let here = Conditions { rate_bit_s: 100e6, ..Conditions::default() };
        assert_eq!(here.distance(&here), 0.0);
        let twice = Conditions { rate_bit_s: 200e6, ..here };
        assert!((here.distance(&twice) - 1.0).abs() < 1e-9);
        let lossy = |loss| Conditions { loss, ..here };
        assert!(lossy(0.3).distance(&lossy(0.6)) > lossy(0.01).distance(&lossy(0.012)));
        assert!(lossy(1.0).distance(&here).is_finite());
    }
}
