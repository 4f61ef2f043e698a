//! Message schedule.

use units::{Instant, Span};

/// Message k is scheduled at start + k x every. Messages are never skipped: a late program sends
/// overdue messages at once, and the lateness is recorded.
#[derive(Debug)]
pub struct Schedule {
    every: Span,
    messages: u64,
    start: Option<Instant>,
    next: u64,
}

impl Schedule {
    /// A schedule without a start time.
    pub fn new(every: Span, messages: u64) -> Self {
        Self { every, messages, start: None, next: 0 }
    }

    /// Sets the time of offset 0. Only the first call has an effect.
    pub fn start(&mut self, at: Instant) {
        self.start.get_or_insert(at);
    }

    /// Scheduled time of the next message, if there is one and the start is known.
    pub fn due(&self) -> Option<Instant> {
        if self.next == self.messages {
            return None;
        }
        self.start.map(|start| start + self.every * self.next)
    }

    /// The next message and its scheduled time, if it is due; it counts as sent.
    pub fn take(&mut self, now: Instant) -> Option<(u64, Instant)> {
        let due = self.due().filter(|due| *due <= now)?;
        self.next += 1;
        Some((self.next - 1, due))
    }

    /// Number of messages taken.
    pub fn taken(&self) -> u64 {
        self.next
    }

    /// Whether all messages are taken.
    pub fn over(&self) -> bool {
        self.next == self.messages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_for_its_start_and_skips_nothing() {
        let at = Instant::from_ns;
        let mut schedule = Schedule::new(Span::from_ns(10), 3);
        assert_eq!(schedule.take(at(1_000)), None);
        schedule.start(at(100));
        schedule.start(at(900));
        assert_eq!((schedule.due(), schedule.take(at(99))), (Some(at(100)), None));
        assert_eq!(schedule.take(at(100)), Some((0, at(100))));
        // Late: both overdue messages are returned, with their scheduled times.
        assert_eq!(schedule.take(at(500)), Some((1, at(110))));
        assert!(!schedule.over());
        assert_eq!(schedule.take(at(500)), Some((2, at(120))));
        assert_eq!((schedule.take(at(500)), schedule.due(), schedule.over()), (None, None, true));
    }
}
