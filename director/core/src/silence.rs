//! Paths from which nothing comes back.

use crate::Span;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;

/// Timeouts in a row from which a path counts as silent.
const SILENT: u32 = 4;
/// Minimum timeout then, which doubles with each further one: the path may have become slower by
/// orders of magnitude (a device leaves its wireless LAN). TCP in Linux never has less.
const MIN_SILENT: Span = Span::from_ms(200);
/// Maximum of it. RFC 6298, 2.5, has 60 s, of which a path that is back after an outage would lose
/// most.
const MAX_SILENT: Span = Span::from_s(10);
/// Chance of a number of timeouts in a row by losses alone from which losses do not explain them.
const UNLIKELY: f64 = 0.02;
/// Share of attempts with a response from which it is [`SILENT`] in any case, without a logarithm: a little more
/// than 1 - `UNLIKELY`^(1 / `SILENT`), 0.624.
const FEW_LOSSES: f64 = 0.63;
/// Maximum number of timeouts in a row that losses explain: a response to one of ten.
const MAX_EXPLAINED: u32 = 28;
/// Weight of a response in the mean number of attempts.
const WEIGHT: f64 = 0.25;

/// Number of timeouts in a row from which a path counts as silent if this share of attempts has a
/// response, 0 to 1: losses do not explain them.
fn silent_from(share: f64) -> u32 {
    if share >= FEW_LOSSES {
        return SILENT;
    }
    let by_chance = UNLIKELY.ln() / (1.0 - share).max(1e-9).ln();
    (by_chance.ceil().min(f64::from(MAX_EXPLAINED)) as u32).max(SILENT)
}

/// Minimum timeout after this number of timeouts in a row, less those that losses explain.
pub fn least_timeout(timeouts: u32) -> Span {
    match timeouts.checked_sub(SILENT) {
        Some(more) => (MIN_SILENT * (1 << more.min(10))).min(MAX_SILENT),
        None => Span::ZERO,
    }
}

/// Timeouts in a row, and how many of them losses explain.
#[derive(Debug, Clone, Copy)]
pub struct Silence {
    timeouts: u32,
    /// Mean number of attempts up to a response.
    attempts: f64,
}

impl Silence {
    /// No timeout yet.
    pub const fn new() -> Self {
        Self { timeouts: 0, attempts: 1.0 }
    }

    /// One more timeout.
    pub fn timeout(&mut self) {
        self.timeouts = self.timeouts.saturating_add(1);
    }

    /// A response to an attempt, after `before` others of the same message. Returns whether the path
    /// was silent.
    pub fn response(&mut self, before: u32) -> bool {
        let silent_from = silent_from(self.share());
        // Attempts after it were no losses, only late; and an outage says little of losses.
        let attempts = f64::from(before.min(self.timeouts).min(silent_from) + 1);
        self.attempts += WEIGHT * (attempts - self.attempts);
        core::mem::take(&mut self.timeouts) >= silent_from
    }

    /// Share of attempts with a response, 0 to 1.
    fn share(&self) -> f64 {
        1.0 / self.attempts
    }

    /// Whether there was no timeout since the last response.
    pub fn is_none(&self) -> bool {
        self.timeouts == 0
    }

    /// Whether nothing comes back.
    pub fn is_silent(&self) -> bool {
        self.unexplained(0) >= SILENT
    }

    /// The timeouts in a row, or those of a message if they are more, less those that losses explain
    /// and a path without losses does not.
    pub fn unexplained(&self, tries: u32) -> u32 {
        tries.max(self.timeouts).saturating_sub(silent_from(self.share()) - SILENT)
    }

    /// Minimum timeout.
    pub fn least_timeout(&self) -> Span {
        least_timeout(self.unexplained(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_of_a_silent_path_double_to_a_limit() {
        let all: Vec<f64> = (0..7).map(|timeouts| least_timeout(timeouts).as_ms()).collect();
        assert_eq!(all, [0.0, 0.0, 0.0, 0.0, 200.0, 400.0, 800.0]);
        assert_eq!(least_timeout(u32::MAX), MAX_SILENT);
    }

    #[test]
    fn losses_explain_timeouts_in_a_row() {
        // ln 0.02 / ln(1 - share), by hand: 30 % loss in each direction, 58 %.
        assert_eq!([1.0, 0.63, 0.62, 0.49, 0.1764, 0.01].map(silent_from), [4, 4, 5, 6, 21, 28]);
        let mut silence = Silence::new();
        let after = |silence: &mut Silence, timeouts: u32| {
            (0..timeouts).for_each(|_| silence.timeout());
            silence.response(timeouts)
        };
        assert!(after(&mut silence, 4));
        (0..60).for_each(|_| _ = after(&mut silence, 5));
        assert!(!after(&mut silence, 5), "losses: one of six attempts has a response");
        (0..60).for_each(|_| _ = after(&mut silence, 0));
        assert!(!after(&mut silence, 3) && after(&mut silence, 7));
        (0..60).for_each(|_| _ = after(&mut silence, 0));
        (0..60).for_each(|_| {
            (0..5).for_each(|_| silence.timeout());
            assert!(silence.response(0), "the first attempt is late");
        });
    }
}
