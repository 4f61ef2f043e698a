//! Message schedule.

use crate::time::Nanos;

/// Message k is scheduled at start + k x every. Messages are never skipped: a late program sends
/// overdue messages at once, and the lateness is recorded.
#[derive(Debug)]
pub struct Schedule {
    every: Nanos,
    messages: u64,
    start: Option<Nanos>,
    next: u64,
}

impl Schedule {
    /// A schedule without a start time.
    pub fn new(every: Nanos, messages: u64) -> Self {
        Self { every, messages, start: None, next: 0 }
    }

    /// Sets the time of offset 0. Only the first call has an effect.
    pub fn start(&mut self, at: Nanos) {
        self.start.get_or_insert(at);
    }

    /// Scheduled time of the next message, if there is one and the start is known.
    pub fn due(&self) -> Option<Nanos> {
        if self.next == self.messages {
            return None;
        }
        self.start.map(|start| start.saturating_add(self.every.saturating_mul(self.next)))
    }

    /// The next message and its scheduled time, if it is due; it counts as sent.
    pub fn take(&mut self, now: Nanos) -> Option<(u64, Nanos)> {
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
        let mut schedule = Schedule::new(10, 3);
        assert_eq!(schedule.take(1_000), None);
        schedule.start(100);
        schedule.start(900);
        assert_eq!((schedule.due(), schedule.take(99)), (Some(100), None));
        assert_eq!(schedule.take(100), Some((0, 100)));
        // Late: both overdue messages are returned, with their scheduled times.
        assert_eq!(schedule.take(500), Some((1, 110)));
        assert!(!schedule.over());
        assert_eq!(schedule.take(500), Some((2, 120)));
        assert_eq!((schedule.take(500), schedule.due(), schedule.over()), (None, None, true));
    }
}
