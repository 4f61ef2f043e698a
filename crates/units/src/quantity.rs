//! Quantities: time span, amount of data, data rate, share.

use crate::parse::{ParseError, Syntax, nearest};
use alloc::borrow::ToOwned;
use alloc::string::String;
use core::{fmt, str::FromStr};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

/// A time span, stored in nanoseconds: 0 to about 584 years.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Span(u64);

/// An amount of data in bytes, with decimal (`kB`) and binary (`KiB`) multiples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Bytes(u64);

/// A data rate of at least 1 bit/s: a link with rate 0 carries nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

/// A share from 0 to 1, written in percent.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
pub struct Ratio(f64);

const SPAN: Syntax = Syntax {
    what: "a time",
    example: "20 ms",
    range: "0 ns and 10000 h",
    units: &[("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("min", 60e9), ("h", 3600e9)],
    min: 0.0,
    max: 36e15,
};
const BYTES: Syntax = Syntax {
    what: "a size",
    example: "127 B",
    range: "0 B and 1 PB",
    units: &[
        ("B", 1.0),
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
    ],
    min: 0.0,
    max: 1e15,
};
const RATE: Syntax = Syntax {
    what: "a data rate",
    example: "250 kbit/s",
    range: "1 bit/s and 10 Tbit/s",
    units: &[("bit/s", 1.0), ("kbit/s", 1e3), ("Mbit/s", 1e6), ("Gbit/s", 1e9), ("Tbit/s", 1e12)],
    min: 0.0,
    max: 1e13,
};
const RATIO: Syntax = Syntax {
    what: "a share",
    example: "30 %",
    range: "0 % and 100 %",
    units: &[("%", 0.01)],
    min: 0.0,
    max: 1.0,
};

impl Span {
    /// Zero time.
    pub const ZERO: Self = Self(0);
    /// The longest span, 584 years.
    pub const MAX: Self = Self(u64::MAX);

    /// A span of `ns` nanoseconds.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// A span of `us` microseconds; the longest one if that is longer.
    pub const fn from_us(us: u64) -> Self {
        Self(us.saturating_mul(1_000))
    }

    /// A span of `ms` milliseconds; the longest one if that is longer.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000))
    }

    /// A span of `s` seconds; the longest one if that is longer.
    pub const fn from_s(s: u64) -> Self {
        Self(s.saturating_mul(1_000_000_000))
    }

    /// The span in nanoseconds.
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// The span in microseconds.
    pub const fn as_us(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// A span of `ns` nanoseconds, rounded down to a whole one; zero for a negative number and for
    /// NaN, the longest span for one that is too large.
    pub const fn from_ns_f64(ns: f64) -> Self {
        Self(ns as u64)
    }

    /// The span in nanoseconds, as a number for formulas.
    pub const fn as_ns_f64(self) -> f64 {
        self.0 as f64
    }

    /// The span in milliseconds.
    pub const fn as_ms(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// The span in seconds.
    pub const fn as_s(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

impl Bytes {
    /// Zero bytes.
    pub const ZERO: Self = Self(0);

    /// An amount of `bytes` bytes.
    pub const fn new(bytes: u64) -> Self {
        Self(bytes)
    }

    /// The amount in bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl Rate {
    /// A rate in bit/s; `None` for 0.
    pub const fn from_bit_s(bit_s: u64) -> Option<Self> {
        if bit_s == 0 { None } else { Some(Self(bit_s)) }
    }

    /// The rate in bit/s.
    pub const fn bit_s(self) -> u64 {
        self.0
    }

    /// Serialisation time of `bytes` at this rate, rounded up to a whole nanosecond so that
    /// the rate is never exceeded.
    pub fn serialisation(self, bytes: u64) -> Span {
        // 2.3 GB already exceed 64 bits here.
        let ns = (u128::from(bytes) * 8 * 1_000_000_000).div_ceil(u128::from(self.0));
        Span(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

impl Ratio {
    /// 0 %.
    pub const ZERO: Self = Self(0.0);

    /// A share from a fraction; `None` outside 0 to 1.
    pub fn from_fraction(fraction: f64) -> Option<Self> {
        (0.0..=1.0).contains(&fraction).then_some(Self(fraction))
    }

    /// The share as a fraction, 0 to 1.
    pub fn fraction(self) -> f64 {
        self.0
    }

    /// The share in percent, 0 to 100.
    pub fn percent(self) -> f64 {
        self.0 * 100.0
    }
}

impl FromStr for Span {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        Ok(Self(SPAN.parse_whole(text)?))
    }
}

impl FromStr for Bytes {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        Ok(Self(BYTES.parse_whole(text)?))
    }
}

impl FromStr for Rate {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::from_bit_s(RATE.parse_whole(text)?).ok_or(ParseError::OutOfRange {
            text: text.to_owned(),
            what: RATE.what,
            range: RATE.range,
        })
    }
}

impl FromStr for Ratio {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, ParseError> {
        Ok(Self(RATIO.parse(text)?))
    }
}

/// Writes `value` in the largest unit that keeps it a whole number.
fn write_whole(f: &mut fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> fmt::Result {
    // Exact, so that a text that is read again gives the same quantity.
    let fits = |factor: u64| value != 0 && value.is_multiple_of(factor);
    let (unit, factor) = units.iter().rev().find(|(_, factor)| fits(*factor)).unwrap_or(&units[0]);
    write!(f, "{} {unit}", value / factor)
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)];
        write_whole(f, self.0, &units)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_whole(f, self.0, &[("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)])
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units =
            [("bit/s", 1), ("kbit/s", 1_000), ("Mbit/s", 1_000_000), ("Gbit/s", 1_000_000_000)];
        write_whole(f, self.0, &units)
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", nearest(self.percent() * 1e9) as f64 / 1e9)
    }
}

/// Serialises as text, in both directions.
macro_rules! as_text {
    ($($kind:ty),*) => {$(
        impl Serialize for $kind {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $kind {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }
    )*};
}
as_text!(Span, Bytes, Rate, Ratio);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_people_write() {
        assert_eq!("20 ms".parse(), Ok(Span::from_ns(20_000_000)));
        assert_eq!("0.15s".parse(), Ok(Span::from_ns(150_000_000)));
        assert_eq!("127 B".parse(), Ok(Bytes::new(127)));
        assert_eq!("1e3 bit/s".parse::<Rate>().unwrap().bit_s(), 1_000);
        assert_eq!("30 %".parse::<Ratio>().unwrap().fraction(), 0.3);
    }

    #[test]
    fn a_bare_number_is_refused_with_what_to_write() {
        let text = "30".parse::<Span>().unwrap_err().to_string();
        assert_eq!(text, "`30` has no unit; write for example `30 ms`");
        let text = "100".parse::<Rate>().unwrap_err().to_string();
        assert_eq!(text, "`100` has no unit; write for example `100 kbit/s`");
    }

    #[test]
    fn nonsense_and_excess_are_refused() {
        assert!(matches!("130 %".parse::<Ratio>(), Err(ParseError::OutOfRange { .. })));
        assert!(matches!("-1 ms".parse::<Span>(), Err(ParseError::OutOfRange { .. })));
        assert!(matches!("0 bit/s".parse::<Rate>(), Err(ParseError::OutOfRange { .. })));
        assert!(matches!("fast".parse::<Rate>(), Err(ParseError::NotANumber { .. })));
        assert!(matches!("1 Mb/s".parse::<Rate>(), Err(ParseError::UnknownUnit { .. })));
        assert!(matches!("é".parse::<Span>(), Err(ParseError::NotANumber { .. })));
    }

    #[test]
    fn what_is_written_reads_back() {
        for text in ["0 ns", "1500 us", "90 s", "1 ns"] {
            assert_eq!(text.parse::<Span>().unwrap().to_string(), text);
        }
        for text in ["113 B", "64 KiB"] {
            assert_eq!(text.parse::<Bytes>().unwrap().to_string(), text);
        }
        let rate: Rate = serde_json::from_str("\"250 kbit/s\"").unwrap();
        assert_eq!(serde_json::to_string(&rate).unwrap(), "\"250 kbit/s\"");
        assert_eq!("30 %".parse::<Ratio>().unwrap().to_string(), "30 %");
    }

    #[test]
    fn formulas_round_down_and_stay_in_range() {
        let spans = [-1.0, f64::NAN, 1.9, 1e30].map(Span::from_ns_f64);
        assert_eq!(spans, [Span::ZERO, Span::ZERO, Span::from_ns(1), Span::MAX]);
        assert_eq!(Span::from_us(3).as_ns_f64(), 3_000.0);
    }

    /// What failed: a time above 104 days lost single nanoseconds when its text was read again.
    #[test]
    fn large_quantities_are_read_exactly() {
        for ns in [9_007_199_254_740_993, 35_999_999_999_999_999, 36_000_000_000_000_000] {
            let span = Span::from_ns(ns);
            assert_eq!(span.to_string().parse::<Span>().unwrap(), span);
        }
        let bytes = Bytes::new(999_999_999_999_999);
        assert_eq!(bytes.to_string().parse::<Bytes>().unwrap(), bytes);
        for (text, ns) in [
            ("9007199.254740993 s", 9_007_199_254_740_993),
            ("0.5 ns", 1),
            ("0.49 ns", 0),
            (".5 us", 500),
            ("1.5e3 ms", 1_500_000_000),
            ("0.0000000000000000001 h", 0),
            ("+2 s", 2_000_000_000),
            ("-0 s", 0),
        ] {
            assert_eq!(text.parse::<Span>().unwrap(), Span::from_ns(ns), "{text}");
        }
    }

    #[test]
    fn a_127_byte_frame_at_250_kbit_takes_4_064_ms() {
        let rate = Rate::from_bit_s(250_000).unwrap();
        assert_eq!(rate.serialisation(127), Span::from_ns(4_064_000));
    }
}
