//! Intervals at which frames arrive.

use crate::{Instant, Span};

/// Intervals of the frames of bursts at their receiver.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spacing {
    /// The last frame.
    last: Option<Arrival>,
    mean: Option<Span>,
    /// The first frame of the burst that is arriving, once a second one has arrived, and the mean
    /// interval since.
    burst: Option<(Arrival, Span)>,
}

/// A frame that has arrived.
#[derive(Debug, Clone, Copy)]
struct Arrival {
    message: u64,
    symbol: u16,
    /// How many were to follow it.
    left: u8,
    at: Instant,
}

impl Arrival {
    /// Frames from this one to the next that has arrived, if both are of one burst and nothing else went
    /// between them: other symbols went to other members, or in another burst.
    fn frames_to(&self, next: &Self) -> Option<u16> {
        let frames = next.symbol.checked_sub(self.symbol).filter(|frames| *frames > 0)?;
        let is_next = self.left.checked_sub(next.left).map(u16::from) == Some(frames);
        (self.message == next.message && is_next && self.left < u8::MAX).then_some(frames)
    }
}

impl Spacing {
    /// A frame has arrived; `left` are to follow it.
    pub fn add(&mut self, message: u64, symbol: u16, left: u8, now: Instant) {
        let next = Arrival { message, symbol, left, at: now };
        let Some(last) = self.last.replace(next) else { return };
        let Some(frames) = last.frames_to(&next) else {
            self.burst = None;
            return;
        };
        let first = self.burst.map_or(last, |(first, _)| first);
        self.burst = Some((first, (now - first.at) / u64::from(symbol - first.symbol)));
        let gap = (now - last.at) / u64::from(frames);
        self.mean = Some(self.mean.map_or(gap, |mean| (3 * mean + gap) / 4));
    }

    /// The mean interval in the burst of this message that is arriving.
    pub fn of(&self, message: u64) -> Option<Span> {
        self.burst.filter(|(first, _)| first.message == message).map(|(_, interval)| interval)
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
        assert_eq!(spacing.of(1), None);
        spacing.add(1, 2, 7, at(8));
        assert_eq!((spacing.mean(), spacing.of(1), spacing.of(2)), (4 * MS, Some(4 * MS), None));
        spacing.add(1, 9, 6, at(100));
        spacing.add(2, 10, 5, at(200));
        spacing.add(2, 11, 9, at(300));
        assert_eq!(spacing.mean(), 4 * MS);
        spacing.add(2, 12, 8, at(308));
        assert_eq!((spacing.mean(), spacing.of(2)), (5 * MS, Some(8 * MS)));
        // Jitter is distributed over all frames of the burst.
        spacing.add(2, 15, 5, at(320));
        assert_eq!(spacing.of(2), Some(5 * MS));
    }
}
