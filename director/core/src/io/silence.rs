//! A hub that does not answer its member.

use crate::{Instant, Span};

/// Time without an answer of the hub after which a member says so.
pub(super) const AFTER: Span = Span::from_s(10);

/// How long a member has been without a hub.
#[derive(Debug, Default)]
pub(super) struct Silence {
    since: Option<Instant>,
    is_said: bool,
}

impl Silence {
    /// Whether it is time to say that the hub does not answer: once, until it has answered.
    pub fn is_due(&mut self, has_hub: bool, now: Instant) -> bool {
        if has_hub {
            *self = Self::default();
            return false;
        }
        let since = *self.since.get_or_insert(now);
        let is_due = now >= since + AFTER && !self.is_said;
        self.is_said |= is_due;
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_hub_is_said_once_until_it_has_answered() {
        let mut silence = Silence::default();
        let mut said =
            |has_hub: bool, s: u64| silence.is_due(has_hub, Instant::START + Span::from_s(s));
        assert_eq!(
            [said(false, 1), said(false, 10), said(false, 11), said(false, 30)],
            [false, false, true, false]
        );
        assert_eq!(
            [said(true, 31), said(false, 32), said(false, 41), said(false, 42)],
            [false, false, false, true]
        );
    }
}
