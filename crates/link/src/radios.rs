//! Radios of a channel that are switched off.

use std::collections::BTreeMap;
use units::Instant;

/// When the radios of a channel were off, by link.
#[derive(Debug, Clone, Default)]
pub struct Radios {
    /// Last time at which a radio was off, of those that ever were; [`Instant::NEVER`]: it is off.
    last_off: BTreeMap<usize, Instant>,
}

impl Radios {
    /// Switches the radio of `link` off or on at `now`.
    pub(crate) fn set(&mut self, link: usize, is_on: bool, now: Instant) {
        match is_on {
            false => drop(self.last_off.insert(link, Instant::NEVER)),
            true if self.is_off(link) => drop(self.last_off.insert(link, now)),
            true => {}
        }
    }

    /// Whether the radio of `link` is off.
    pub fn is_off(&self, link: usize) -> bool {
        self.last_off.get(&link) == Some(&Instant::NEVER)
    }

    /// Whether the radio of `link` has been off at any time from `since` on. What it has sent, received
    /// or kept from then on is lost.
    pub fn was_off_since(&self, link: usize, since: Instant) -> bool {
        self.last_off.get(&link).is_some_and(|last| *last > since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_times::at;

    #[test]
    fn what_began_before_the_power_came_back_is_lost() {
        let mut radios = Radios::default();
        radios.set(1, true, at(1));
        assert!(!radios.is_off(1) && !radios.was_off_since(1, at(0)), "it was never off");
        radios.set(1, false, at(5));
        assert!(radios.is_off(1) && radios.was_off_since(1, at(9)) && !radios.is_off(0));
        radios.set(1, false, at(6));
        radios.set(1, true, at(10));
        // Switched on again while on: nothing happens.
        radios.set(1, true, at(20));
        assert!(!radios.is_off(1) && !radios.was_off_since(0, at(0)));
        assert_eq!(
            [4, 7, 9, 10, 15].map(|since| radios.was_off_since(1, at(since))),
            [true, true, true, false, false]
        );
    }
}
