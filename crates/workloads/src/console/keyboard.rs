//! Input that waits to be entered on a machine's terminal.

use units::{Instant, Span};

/// Most input that waits for the machine to read it, in bytes; further input is lost, as on a serial
/// line without flow control.
const MOST: usize = 1 << 16;
/// How long the next key waits for the echo of the one before.
const ECHO: Span = Span::from_ms(100);

/// Input that waits. It is entered key by key, each after the echo of the one before: a serial line has
/// no flow control, and firmware keeps few keys (a PC's BIOS 15).
#[derive(Debug, Default)]
pub(super) struct Keyboard {
    waiting: Vec<u8>,
    /// When the next key is entered at the latest.
    next: Option<Instant>,
}

impl Keyboard {
    /// Takes input.
    pub fn take(&mut self, entered: &[u8]) {
        let room = MOST.saturating_sub(self.waiting.len());
        self.waiting.extend(&entered[..entered.len().min(room)]);
    }

    /// The machine has printed something, likely the echo of the last key.
    pub fn hear(&mut self) {
        self.next = None;
    }

    /// What to enter at `now`.
    pub fn ready(&self, now: Instant) -> &[u8] {
        let waiting = &self.waiting[..];
        match self.next {
            Some(next) if now < next => &[],
            _ => &waiting[..waiting.len().min(1)],
        }
    }

    /// `length` bytes of what was ready were entered at `now`.
    pub fn entered(&mut self, length: usize, now: Instant) {
        self.waiting.drain(..length);
        self.next = (length > 0).then(|| now + ECHO);
    }

    /// How long to wait until there is more to enter: `None` without an end.
    pub fn pause(&self, now: Instant) -> Option<Span> {
        let next = self.next.filter(|_| !self.waiting.is_empty())?;
        Some(next - now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_wait_for_the_echo_or_a_tenth_of_a_second() {
        let mut keys = Keyboard::default();
        let start = Instant::from_ns(5);
        assert_eq!((keys.ready(start), keys.pause(start)), (&[][..], None));
        keys.take(b"abc");
        assert_eq!(keys.ready(start), b"a");
        keys.entered(1, start);
        assert_eq!((keys.ready(start), keys.pause(start)), (&[][..], Some(ECHO)));
        keys.hear();
        assert_eq!(keys.ready(start), b"b");
        keys.entered(1, start);
        assert_eq!(keys.ready(start + ECHO), b"c");
        keys.entered(1, start + ECHO);
        assert_eq!(keys.pause(start), None);
    }

    #[test]
    fn what_waits_has_a_limit() {
        let mut keys = Keyboard::default();
        for _ in 0..3 {
            keys.take(&[b'x'; MOST - 1]);
        }
        assert_eq!(keys.waiting.len(), MOST);
    }
}
