//! Data rate as serialisation time, with a token bucket's burst.

use crate::keys::{Key, Kind, Model};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use units::{Bytes, Instant, Rate, Span};

/// A size that may be negative, such as `-14 B`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SignedBytes(pub i32);

impl FromStr for SignedBytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (sign, size) = match text.trim_start().strip_prefix('-') {
            Some(size) => (-1, size),
            None => (1, text),
        };
        match size.parse::<Bytes>() {
            // No header and no frame is larger.
            Ok(bytes) if bytes.get() <= 65_535 => Ok(Self(sign * bytes.get() as i32)),
            Ok(_) => Err(format!("`{text}` is over 65535 B")),
            Err(error) => Err(error.to_string()),
        }
    }
}

impl TryFrom<String> for SignedBytes {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<SignedBytes> for String {
    fn from(size: SignedBytes) -> Self {
        size.to_string()
    }
}

impl fmt::Display for SignedBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} B", self.0)
    }
}

/// Fixed-size cells of a link, such as ATM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// Bytes of the frame per cell; the last cell is padded.
    pub size: Bytes,
    /// Header bytes per cell.
    #[serde(default)]
    pub overhead: Bytes,
}

pub(crate) const CELLS: Model = Model {
    name: "Cells",
    what: "cells",
    doc: "Cells that a link splits frames into.",
    keys: &[
        Key::new("size", Kind::Size, "Bytes of the frame in each cell; the last cell is padded.")
            .required(),
        Key::new("overhead", Kind::Size, "Bytes of each cell's header. Default: 0 B."),
    ],
};

/// Overhead and cells of a link's wire format: the same three parameters as tc-netem's
/// `rate`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Framing {
    /// Bytes added to each frame; negative for a header that the link does not carry.
    pub overhead: i32,
    /// Cells of the link.
    pub cell: Option<Cell>,
}

impl Framing {
    /// Bytes on the wire for a frame of `len` bytes.
    pub fn on_wire(&self, len: usize) -> u64 {
        let framed = (len as u64).saturating_add_signed(self.overhead.into());
        match self.cell {
            Some(Cell { size, overhead }) if size.get() > 0 => {
                framed.div_ceil(size.get()) * (size.get() + overhead.get())
            }
            _ => framed,
        }
    }
}

/// Sends frames one after another at a rate.
///
/// A virtual schedule (the generic cell rate algorithm, ITU-T I.371): one time represents
/// both bucket and queue.
#[derive(Debug, Clone)]
pub struct Serialiser {
    rate: Rate,
    /// The time that the burst takes at the rate.
    burst: Span,
    busy_until: Instant,
}

impl Serialiser {
    /// A serialiser at `rate` that sends `burst` bytes at once after an idle period.
    pub fn new(rate: Rate, burst: Bytes) -> Self {
        Self { rate, burst: rate.serialisation(burst.get()), busy_until: Instant::START }
    }

    /// End of the last transmission, without a burst.
    pub fn busy_until(&self) -> Instant {
        self.busy_until
    }

    /// Departure time of the last bit of `len` bytes that arrive at `now`.
    pub fn send(&mut self, len: u64, now: Instant) -> Instant {
        self.busy_until = self.busy_until.max(now) + self.rate.serialisation(len);
        now.max(self.busy_until - self.burst)
    }

    /// Changes the rate; frames already sent are not affected.
    pub fn change(&mut self, rate: Rate, burst: Bytes) {
        (self.rate, self.burst) = (rate, rate.serialisation(burst.get()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_times::at;

    fn at_1_mbit(burst: u64) -> Serialiser {
        Serialiser::new(Rate::from_bit_s(1_000_000).unwrap(), Bytes::new(burst))
    }

    #[test]
    fn back_to_back_frames_leave_one_serialisation_time_apart() {
        let mut link = at_1_mbit(0);
        assert_eq!(link.send(125, at(0)), at(1_000_000));
        assert_eq!(link.send(125, at(0)), at(2_000_000));
        assert_eq!(link.send(125, at(10_000_000)), at(11_000_000));
    }

    #[test]
    fn a_burst_passes_at_once_and_then_the_rate_holds() {
        let mut link = at_1_mbit(250);
        let left: Vec<_> = (0..4).map(|_| link.send(125, at(5))).collect();
        assert_eq!(left, [5, 5, 1_000_005, 2_000_005].map(at));
    }

    #[test]
    fn frames_are_carried_with_what_the_link_adds() {
        let bytes = |overhead, cell| Framing { overhead, cell }.on_wire(100);
        assert_eq!([bytes(0, None), bytes(24, None), bytes(-14, None)], [100, 124, 86]);
        // ATM with AAL5: 8 B of trailer, 48 B per cell, 5 B of header each.
        let atm = Cell { size: Bytes::new(48), overhead: Bytes::new(5) };
        assert_eq!(bytes(8, Some(atm)), 3 * 53);
        assert_eq!(Framing { overhead: -200, cell: None }.on_wire(100), 0);
    }

    #[test]
    fn over_a_long_time_throughput_is_the_rate_plus_one_burst() {
        let mut link = at_1_mbit(1_600);
        let last = (0..10_000).map(|_| link.send(100, at(0))).last().unwrap();
        assert_eq!(last, at((10_000 * 100 - 1_600) * 8_000));
    }
}
