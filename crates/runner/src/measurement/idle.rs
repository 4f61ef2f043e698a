//! Idle detection: when no more answers can arrive.

use units::{Instant, Span};

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
    pub(crate) const UNRELIABLE: Self =
        Self { without_frames: Span::from_s(3), without_messages: Span::from_s(130) };
    /// For transports with retransmission, which wait at most 120 s (Linux's TCP_RTO_MAX).
    pub(crate) const RELIABLE: Self =
        Self { without_frames: Span::from_s(130), without_messages: Span::from_s(130) };

    /// Like `RELIABLE`, or a little more than `span` if that is longer.
    pub(crate) fn at_least(span: Span) -> Self {
        let more = span + Span::from_s(10);
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
    last_frame: Instant,
    last_message: Instant,
}

impl IdleTimer {
    /// Starts the timeouts at `from`.
    pub(crate) fn new(from: Instant) -> Self {
        Self { frames: 0, messages: 0, last_frame: from, last_message: from }
    }

    /// Updates the timers from counters: frames ever sent, frames in flight, messages sent and
    /// answered.
    pub(crate) fn saw(&mut self, now: Instant, frames: u64, waiting: u64, messages: u64) {
        // `from` may be in the future: activity before it must not move the timers back.
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
    pub(crate) fn is_over(&self, now: Instant, timeouts: IdleTimeouts) -> bool {
        now > self.last_frame + timeouts.without_frames
            || now > self.last_message + timeouts.without_messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: u64) -> Instant {
        Instant::START + Span::from_s(s)
    }

    #[test]
    fn a_quiet_network_is_over_soon_where_nothing_sends_again() {
        let mut idle_timer = IdleTimer::new(at(10));
        idle_timer.saw(at(11), 5, 0, 1);
        assert!(!idle_timer.is_over(at(13), IdleTimeouts::UNRELIABLE));
        idle_timer.saw(at(14), 5, 2, 1);
        assert!(!idle_timer.is_over(at(16), IdleTimeouts::UNRELIABLE), "frames are under way");
        idle_timer.saw(at(16), 5, 0, 1);
        assert!(idle_timer.is_over(at(18), IdleTimeouts::UNRELIABLE));
        assert!(!idle_timer.is_over(at(18), IdleTimeouts::RELIABLE));
    }

    #[test]
    fn chatter_that_brings_nothing_ends_too() {
        let mut idle_timer = IdleTimer::new(at(0));
        for second in 0..200 {
            idle_timer.saw(at(second), second, 1, 7);
        }
        assert!(idle_timer.is_over(at(200), IdleTimeouts::RELIABLE));
    }
}
