//! Intervals at which frames arrive.

use crate::{Instant, Span};

/// Intervals of the frames of a burst at their receiver.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spacing {
    /// The last frame: its message, symbol number, how many were to follow it, and when it arrived.
    last: Option<(u64, u16, u8, Instant)>,
    mean: Option<Span>,
    /// The last interval, and its message.
    newest: Option<(u64, Span)>,
}

impl Spacing {
    /// A frame has arrived.
    pub fn add(&mut self, message: u64, symbol: u16, left: u8, now: Instant) {
        let last = self.last.replace((message, symbol, left, now));
        let Some((known, before, more, at)) = last else { return };
        // Other symbols between the two went to other members, or in another burst.
        let frames = symbol.checked_sub(before).filter(|frames| *frames > 0);
        let is_next = frames == more.checked_sub(left).map(u16::from);
        let Some(frames) = frames.filter(|_| known == message && is_next && more < u8::MAX) else {
            return;
        };
        let gap = (now - at) / u64::from(frames);
        self.newest = Some((message, gap));
        self.mean = Some(self.mean.map_or(gap, |mean| (3 * mean + gap) / 4));
    }

    /// The last interval of this message's frames.
    pub fn of(&self, message: u64) -> Option<Span> {
        self.newest.filter(|(known, _)| *known == message).map(|(_, gap)| gap)
    }

    /// The mean interval; zero before the first.
    pub fn mean(&self) -> Span {
        self.mean.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Span = Span::from_ms(1);

    fn at(ms: u64) -> Instant {
        Instant::START + ms * MS
    }

    #[test]
    fn frames_to_others_are_no_interval() {
        let mut spacing = Spacing::default();
        spacing.add(1, 0, 9, at(0));
        spacing.add(1, 2, 7, at(8));
        assert_eq!((spacing.mean(), spacing.of(1), spacing.of(2)), (4 * MS, Some(4 * MS), None));
        spacing.add(1, 9, 6, at(100));
        spacing.add(2, 10, 5, at(200));
        spacing.add(2, 11, 9, at(300));
        assert_eq!(spacing.mean(), 4 * MS);
        spacing.add(2, 12, 8, at(308));
        assert_eq!(spacing.mean(), 5 * MS);
    }
}
