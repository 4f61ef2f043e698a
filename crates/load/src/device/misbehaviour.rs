//! Intentional misbehaviour of a device, for tests of clients.

use units::{Draw, Purpose, Span};

/// The shares of requests, 0 to 1, with each misbehaviour. Chosen at random from the seed
/// and the request's index.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MisbehaviourShares {
    /// Answered with bytes that are no valid message.
    pub corrupt: f64,
    /// Answered twice.
    pub duplicate: f64,
    /// Answered late, after an additional `late_by`.
    pub late: f64,
    /// The additional delay of a late answer.
    pub late_by: Span,
    /// Not answered.
    pub silent: f64,
}

/// The misbehaviour of one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Misbehaviour {
    None,
    Corrupt,
    Duplicate,
    Late,
    Silent,
}

impl MisbehaviourShares {
    /// Whether any misbehaviour is configured.
    pub fn is_any(&self) -> bool {
        self.corrupt + self.duplicate + self.late + self.silent > 0.0
    }

    /// The misbehaviour of the answer to request `index`.
    pub(crate) fn misbehaviour(&self, draw: Draw, index: u64) -> Misbehaviour {
        if !self.is_any() {
            return Misbehaviour::None;
        }
        // One draw for all: the shares exclude each other, and each is exact.
        let mut chance = draw.uniform(Purpose::Misbehaviour, index);
        for (share, misbehaviour) in [
            (self.corrupt, Misbehaviour::Corrupt),
            (self.duplicate, Misbehaviour::Duplicate),
            (self.late, Misbehaviour::Late),
            (self.silent, Misbehaviour::Silent),
        ] {
            if chance < share {
                return misbehaviour;
            }
            chance -= share;
        }
        Misbehaviour::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_misbehaviour_has_its_share() {
        let shares = MisbehaviourShares {
            corrupt: 0.1,
            duplicate: 0.2,
            silent: 0.3,
            ..MisbehaviourShares::default()
        };
        let draw = Draw::new(1, 2, 3);
        let of = |misbehaviour| {
            (0..10_000).filter(|i| shares.misbehaviour(draw, *i) == misbehaviour).count() as f64
        };
        for (misbehaviour, expected) in [
            (Misbehaviour::Corrupt, 1e3),
            (Misbehaviour::Duplicate, 2e3),
            (Misbehaviour::Silent, 3e3),
            (Misbehaviour::None, 4e3),
        ] {
            assert!((of(misbehaviour) - expected).abs() < 5.0 * 50.0, "{misbehaviour:?}");
        }
        assert_eq!(of(Misbehaviour::Late), 0.0);
        assert_eq!(MisbehaviourShares::default().misbehaviour(draw, 0), Misbehaviour::None);
    }
}
