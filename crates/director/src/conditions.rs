//! What the network and the application are like: where a session is on the map.

use crate::Nanos;
use serde::{Deserialize, Serialize};

/// Where a session is on the map.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// Share of frames lost on a way, 0 to 1.
    pub loss: f64,
    /// Mean number of frames lost in a row; 1 where losses are independent and rare.
    pub burst: f64,
    /// The way there and back without waiting, in ns.
    pub rtt_ns: Nanos,
    /// What the narrowest part carries, in bit/s.
    pub rate_bit_s: f64,
    /// The largest packet, in bytes.
    pub mtu: f64,
    /// Members of the group; 1 for one peer.
    pub group: f64,
    /// Bytes of a message.
    pub payload: f64,
    /// Messages a second.
    pub messages_s: f64,
}

impl Default for Conditions {
    /// A quiet local network, one peer, small messages.
    fn default() -> Self {
        Self {
            loss: 0.0,
            burst: 1.0,
            rtt_ns: 1_000_000,
            rate_bit_s: 100e6,
            mtu: 1_500.0,
            group: 1.0,
            payload: 100.0,
            messages_s: 1.0,
        }
    }
}

/// Loss is told apart from none by this much, so that its logarithm is one.
const LEAST_LOSS: f64 = 1e-3;
/// With this share of loss the length of its runs counts half.
const BURSTS: f64 = 0.01;

impl Conditions {
    /// Its place in a space in which a step of 1 is about a doubling, by which near points
    /// of the map are found.
    pub(crate) fn place(&self) -> [f64; 8] {
        let log = |value: f64| value.max(1e-9).log2();
        [
            // Loss counts by its odds, since 50 % and 60 % are far apart to a protocol.
            log((self.loss + LEAST_LOSS) / (1.0 - self.loss).max(LEAST_LOSS)),
            // And in how long runs, the more there is of it.
            log(self.burst.max(1.0)) * self.loss / (self.loss + BURSTS),
            log(self.rtt_ns as f64 / 1e6 + 0.1),
            log(self.rate_bit_s),
            log(self.mtu),
            log(self.group),
            log(self.payload + 16.0),
            // What a model does hangs little on it, unless the network is full.
            0.1 * log(self.messages_s),
        ]
    }

    /// The distance to another, in doublings.
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
        let here = Conditions::default();
        assert_eq!(here.distance(&here), 0.0);
        let twice = Conditions { rate_bit_s: 200e6, ..here };
        assert!((here.distance(&twice) - 1.0).abs() < 1e-9);
        let lossy = |loss| Conditions { loss, ..here };
        assert!(lossy(0.3).distance(&lossy(0.6)) > lossy(0.01).distance(&lossy(0.012)));
        assert!(lossy(1.0).distance(&here).is_finite());
    }
}
