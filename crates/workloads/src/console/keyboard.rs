//! Input that waits to be entered on a machine's terminal.

use units::{Instant, Span};

/// Most input that waits for the machine to read it, in bytes; further input is lost, as on a serial
/// line without flow control.
const MOST: usize = 1 << 16;
/// How long the machine must be silent before the next key is entered without an echo of the one before.
const SILENCE: Span = Span::from_ms(100);
/// How long the next key waits at most, whatever the machine prints.
const LONGEST: Span = Span::from_ms(1_000);

/// Input that waits. It is entered key by key, each after the echo of the one before: a serial line has
/// no flow control, and firmware keeps few keys (a PC's BIOS 15). A machine that prints something else
/// is likely to read none at that time.
#[derive(Debug, Default)]
pub(super) struct Keyboard {
    waiting: Vec<u8>,
    last: Option<Entered>,
}

/// The last key, whose echo has not come.
#[derive(Debug)]
struct Entered {
    key: u8,
    at: Instant,
    /// When it was entered, or when the machine has printed something since.
    heard: Instant,
}

impl Entered {
    /// When the next key is entered without an echo of this one.
    fn end(&self) -> Instant {
        (self.heard + SILENCE).min(self.at + LONGEST)
    }

    fn is_echo(&self, printed: &[u8]) -> bool {
        let is_end = |key: u8| matches!(key, b'\r' | b'\n');
        printed.iter().any(|byte| *byte == self.key || is_end(*byte) && is_end(self.key))
    }
}

impl Keyboard {
    /// Takes input.
    pub fn take(&mut self, entered: &[u8]) {
        let room = MOST.saturating_sub(self.waiting.len());
        self.waiting.extend(&entered[..entered.len().min(room)]);
    }

    /// The machine has printed something, maybe the echo of the last key.
    pub fn hear(&mut self, printed: &[u8], now: Instant) {
        match &mut self.last {
            Some(last) if last.is_echo(printed) => self.last = None,
            Some(last) => last.heard = now,
            None => {}
        }
    }

    /// What to enter at `now`.
    pub fn ready(&self, now: Instant) -> &[u8] {
        let waiting = &self.waiting[..];
        match &self.last {
            Some(last) if now < last.end() => &[],
            _ => &waiting[..waiting.len().min(1)],
        }
    }

    /// `length` bytes of what was ready were entered at `now`.
    pub fn entered(&mut self, length: usize, now: Instant) {
        let key = self.waiting.drain(..length).next_back();
        self.last = key.map(|key| Entered { key, at: now, heard: now });
    }

    /// How long to wait until there is more to enter: `None` without an end.
    pub fn pause(&self, now: Instant) -> Option<Span> {
        let last = self.last.as_ref().filter(|_| !self.waiting.is_empty())?;
        Some(last.end() - now)
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
        keys.take(b"a\rc");
        assert_eq!(keys.ready(start), b"a");
        keys.entered(1, start);
        assert_eq!((keys.ready(start), keys.pause(start)), (&[][..], Some(SILENCE)));
        keys.hear(b"a", start);
        assert_eq!(keys.ready(start), b"\r");
        keys.entered(1, start);
        keys.hear(b"\n", start);
        assert_eq!(keys.ready(start), b"c");
        keys.entered(1, start);
        assert_eq!(keys.pause(start), None);
    }

    /// A machine that still prints the answer to the last line does not read the next one.
    #[test]
    fn other_output_is_no_echo_but_keys_do_not_wait_without_an_end() {
        let mut keys = Keyboard::default();
        let start = Instant::from_ns(5);
        keys.take(b"abc");
        keys.entered(1, start);
        let later = |ms| start + Span::from_ms(ms);
        keys.hear(b"more lines\n", later(60));
        assert_eq!(keys.ready(later(159)), b"");
        assert_eq!(keys.ready(later(160)), b"b");
        for ms in 1..20 {
            keys.hear(b".", later(60 * ms));
        }
        assert_eq!(keys.ready(later(999)), b"");
        assert_eq!(
            (keys.ready(later(1_000)), keys.pause(later(1_000))),
            (&b"b"[..], Some(Span::ZERO))
        );
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
