//! Configuration of one direction of a link, and its state at a given time.

use super::failure::{Outcome, expect};
use std::time::{Duration, Instant};

/// A time interval: the test knows only when a command started and when it ended.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    pub begin: Instant,
    pub end: Instant,
}

impl Window {
    /// The current time, for a state that does not change.
    pub fn now() -> Self {
        let now = Instant::now();
        Self { begin: now, end: now }
    }
}

/// A value that may change linearly to another one (ramp).
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    /// Minimum and maximum of the possible values at the start.
    from: (f64, f64),
    to: f64,
    since: Window,
    over: Duration,
}

impl Quantity {
    /// A constant value.
    pub fn fixed(value: f64) -> Self {
        let since = Window::now();
        Self { from: (value, value), to: value, since, over: Duration::ZERO }
    }

    /// Starts a ramp to `to`.
    pub fn change(&mut self, to: f64, since: Window, over: Duration) {
        let from = if over.is_zero() { (to, to) } else { self.during(since) };
        *self = Self { from, to, since, over };
    }

    /// Minimum and maximum of the value in the window.
    pub fn during(&self, at: Window) -> (f64, f64) {
        let share = |elapsed: Duration| match self.over.is_zero() {
            true => 1.0,
            false => (elapsed.as_secs_f64() / self.over.as_secs_f64()).min(1.0),
        };
        let least = share(at.begin.saturating_duration_since(self.since.end));
        let most = share(at.end.saturating_duration_since(self.since.begin));
        let ends = [self.from.0, self.from.1]
            .map(|from| [least, most].map(|share| from + (self.to - from) * share));
        let all = ends.concat();
        (all.iter().copied().fold(f64::MAX, f64::min), all.iter().copied().fold(f64::MIN, f64::max))
    }

    /// Whether the ramp has certainly ended, or certainly not. A ramp between equal values may be
    /// shown or not.
    pub fn has_arrived(&self, at: Window) -> Option<bool> {
        // The lab may show a ramp slightly longer than it lasts.
        const SLACK: Duration = Duration::from_millis(300);
        if self.over.is_zero() || at.begin > self.since.end + self.over + SLACK {
            return Some(true);
        }
        let differs = self.from.0 != self.to && self.from.1 != self.to;
        (differs && at.end < self.since.begin + self.over).then_some(false)
    }
}

/// One direction of a link.
#[derive(Debug, Clone, Copy)]
pub struct Direction {
    /// In ms.
    pub delay: Quantity,
    /// In percent.
    pub loss: Quantity,
    /// In kbit/s; 0 is unlimited.
    pub rate: u32,
    /// Taken down by a command.
    pub down: bool,
}

impl Direction {
    pub fn new(delay: f64) -> Self {
        Self { delay: Quantity::fixed(delay), loss: Quantity::fixed(0.0), rate: 0, down: false }
    }

    /// The configuration of a clone: the final values of ramps, and up.
    pub fn cloned(&self) -> Self {
        Self { loss: Quantity::fixed(self.loss.to), rate: self.rate, ..Self::new(self.delay.to) }
    }

    /// Compares with the output of `link show` after the name, requested in this window.
    pub fn check(&self, whose: &str, shown: &str, at: Window) -> Outcome {
        let differs =
            |expected: String| expect(false, format!("link show {whose}"), expected, shown);
        let (shown, _rejected) = shown.split_once("  [").unwrap_or((shown, ""));
        let (now, target) = match shown.split_once("  -> ") {
            Some((now, target)) => (now, Some(target)),
            None => (shown, None),
        };
        let (now, down) = match now.strip_prefix("DOWN (").and_then(|now| now.strip_suffix(')')) {
            Some(now) => (now, true),
            None => (now, false),
        };
        if down != self.down {
            return differs(format!("down: {}", self.down));
        }
        let arrived = [self.delay, self.loss].map(|quantity| quantity.has_arrived(at));
        let ramp = match arrived {
            [Some(true), Some(true)] => Some(false),
            [Some(false), _] | [_, Some(false)] => Some(true),
            _ => None,
        };
        if ramp.is_some_and(|ramp| ramp != target.is_some()) {
            return differs(format!("a ramp under way: {ramp:?}"));
        }
        let near = |value: f64, (least, most): (f64, f64)| {
            // Shown with two decimal places during a ramp.
            value > least - 0.02 && value < most + 0.02
        };
        let (delay, loss) = (self.delay.during(at), self.loss.during(at));
        let Some(values) = Values::read(now) else { return differs("readable values".into()) };
        if !near(values.delay, delay) || !near(values.loss, loss) || values.rate != self.rate {
            return differs(format!("delay {delay:?} ms, loss {loss:?} %, {} kbit/s", self.rate));
        }
        if let Some(target) = target {
            let same = Values { delay: self.delay.to, loss: self.loss.to, rate: self.rate };
            if Values::read(target) != Some(same) {
                return differs(format!("the target {same:?}"));
            }
        }
        Ok(())
    }
}

/// The values in a text such as `1 Mbit/s, queue 1000, loss 5 % a frame, delay 10 ms`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Values {
    delay: f64,
    loss: f64,
    rate: u32,
}

impl Values {
    fn read(text: &str) -> Option<Self> {
        let mut values = Self { delay: 0.0, loss: 0.0, rate: 0 };
        for part in text.split(", ").filter(|part| *part != "no impairments") {
            if let Some(delay) = part.strip_prefix("delay ") {
                values.delay = delay.parse::<units::Span>().ok()?.as_ns() as f64 / 1e6;
            } else if let Some(loss) = part.strip_prefix("loss ") {
                values.loss = loss.split(' ').next()?.parse().ok()?;
            } else if part.ends_with("bit/s") {
                values.rate = (part.parse::<units::Rate>().ok()?.bit_s() / 1000) as u32;
            } else if !part.starts_with("queue ") {
                return None;
            }
        }
        Some(values)
    }
}
