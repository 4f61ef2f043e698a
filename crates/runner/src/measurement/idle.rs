//! Idle detection: when no more answers can arrive.

use units::Span;

/// Idle timeouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IdleTimeouts {
    /// Timeout without a frame, sent or in flight.
    pub without_frames: Span,
    /// Timeout without progress of a message.
    pub without_messages: Span,
}

impl IdleTimeouts {
    /// For transports without retransmission: what is not in flight is lost.
    pub(crate) const UNRELIABLE: Self = Self {
        without_frames: Span::from_ns(3_000_000_000),
        without_messages: Span::from_ns(130_000_000_000),
    };
    /// For transports with retransmission, which wait at most 120 s (Linux's TCP_RTO_MAX).
    pub(crate) const RELIABLE: Self = Self {
        without_frames: Span::from_ns(130_000_000_000),
        without_messages: Span::from_ns(130_000_000_000),
    };

    /// Like `RELIABLE`, or a little more than `span` if that is longer.
    pub(crate) fn at_least(span: Span) -> Self {
        let more = Span::from_ns(span.as_ns().saturating_add(10_000_000_000));
        let Self { without_frames, without_messages } = Self::RELIABLE;
        Self {
            without_frames: without_frames.max(more),
            without_messages: without_messages.max(more),
        }
    }
}

/// Time of the last activity.
#[derive(Debug)]
pub(crate) struct IdleTimer {
    frames: u64,
    messages: u64,
    last_frame: u64,
    last_message: u64,
}

impl IdleTimer {
    /// Starts the timeouts at `from`.
    pub(crate) fn new(from: u64) -> Self {
        Self { frames: 0, messages: 0, last_frame: from, last_message: from }
    }

    /// Updates the timers from counters: frames ever sent, frames in flight, messages sent and
    /// answered.
    pub(crate) fn saw(&mut self, now: u64, frames: u64, waiting: u64, messages: u64) {
        if frames != self.frames || waiting > 0 {
            self.frames = frames;
            self.last_frame = self.last_frame.max(now);
        }
        if messages != self.messages {
            self.messages = messages;
            self.last_message = self.last_message.max(now);
        }
    }

    /// Whether the timeouts have passed.
    pub(crate) fn is_over(&self, now: u64, timeouts: IdleTimeouts) -> bool {
        now > self.last_frame + timeouts.without_frames.as_ns()
            || now > self.last_message + timeouts.without_messages.as_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn a_quiet_network_is_over_soon_where_nothing_sends_again() {
        let mut idle_timer = IdleTimer::new(10 * S);
        idle_timer.saw(11 * S, 5, 0, 1);
        assert!(!idle_timer.is_over(13 * S, IdleTimeouts::UNRELIABLE));
        idle_timer.saw(14 * S, 5, 2, 1);
        assert!(!idle_timer.is_over(16 * S, IdleTimeouts::UNRELIABLE), "frames are under way");
        idle_timer.saw(16 * S, 5, 0, 1);
        assert!(idle_timer.is_over(18 * S, IdleTimeouts::UNRELIABLE));
        assert!(!idle_timer.is_over(18 * S, IdleTimeouts::RELIABLE));
    }

    #[test]
    fn chatter_that_brings_nothing_ends_too() {
        let mut idle_timer = IdleTimer::new(0);
        for second in 0..200 {
            idle_timer.saw(second * S, second, 1, 7);
        }
        assert!(idle_timer.is_over(200 * S, IdleTimeouts::RELIABLE));
    }
}
