//! Intentional misbehaviour of a device, for tests of clients.

use crate::clock::Nanos;
use units::{Draw, Purpose};

/// The shares of requests, 0 to 1, with each misbehaviour. Chosen at random from the seed
/// and the request's index.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Mischief {
    /// Answered with bytes that are no valid message.
    pub garbage: f64,
    /// Answered twice.
    pub twice: f64,
    /// Answered late, after an additional `late_by`.
    pub late: f64,
    /// The additional delay of a late answer, in ns.
    pub late_by: Nanos,
    /// Not answered.
    pub silent: f64,
}

/// The misbehaviour of one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deed {
    Fair,
    Garbage,
    Twice,
    Late,
    Silent,
}

impl Mischief {
    /// Whether any misbehaviour is configured.
    pub fn is_any(&self) -> bool {
        self.garbage + self.twice + self.late + self.silent > 0.0
    }

    /// The misbehaviour of the answer to request `index`.
    pub(crate) fn deed(&self, draw: Draw, index: u64) -> Deed {
        if !self.is_any() {
            return Deed::Fair;
        }
        let mut chance = draw.uniform(Purpose::Mischief, index);
        for (share, deed) in [
            (self.garbage, Deed::Garbage),
            (self.twice, Deed::Twice),
            (self.late, Deed::Late),
            (self.silent, Deed::Silent),
        ] {
            if chance < share {
                return deed;
            }
            chance -= share;
        }
        Deed::Fair
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deeds_come_by_their_shares() {
        let mischief = Mischief { garbage: 0.1, twice: 0.2, silent: 0.3, ..Mischief::default() };
        let draw = Draw::new(1, 2, 3);
        let of = |deed| (0..10_000).filter(|i| mischief.deed(draw, *i) == deed).count() as f64;
        for (deed, expected) in
            [(Deed::Garbage, 1e3), (Deed::Twice, 2e3), (Deed::Silent, 3e3), (Deed::Fair, 4e3)]
        {
            assert!((of(deed) - expected).abs() < 5.0 * 50.0, "{deed:?}");
        }
        assert_eq!(of(Deed::Late), 0.0);
        assert_eq!(Mischief::default().deed(draw, 0), Deed::Fair);
    }
}
