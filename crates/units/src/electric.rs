//! Electrical quantities: current, voltage, charge, clock frequency.

use crate::parse::{ParseError, Syntax};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use std::{fmt, str::FromStr};

/// A quantity stored as a number in its base unit.
macro_rules! real {
    ($(#[$doc:meta])* $kind:ident, $base:ident, $doc_base:literal, $syntax:ident = $of:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default)]
        pub struct $kind(f64);

        const $syntax: Syntax = $of;

        impl $kind {
            #[doc = concat!("The quantity in ", $doc_base, ".")]
            pub fn $base(self) -> f64 {
                self.0
            }
        }

        impl FromStr for $kind {
            type Err = ParseError;
            fn from_str(text: &str) -> Result<Self, ParseError> {
                $syntax.parse(text).map(Self)
            }
        }

        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write_real(f, self.0, $syntax.units)
            }
        }

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
    };
}

pub(crate) use real;

real!(
    /// An electric current, 0 A to 100 A.
    Current, amperes, "amperes", CURRENT = Syntax {
        what: "a current",
        example: "4.6 mA",
        range: "0 A and 100 A",
        units: &[("nA", 1e-9), ("uA", 1e-6), ("mA", 1e-3), ("A", 1.0)],
        min: 0.0,
        max: 100.0,
    }
);
real!(
    /// A voltage, 0 V to 1000 V.
    Voltage, volts, "volts", VOLTAGE = Syntax {
        what: "a voltage",
        example: "3.3 V",
        range: "0 V and 1000 V",
        units: &[("mV", 1e-3), ("V", 1.0)],
        min: 0.0,
        max: 1000.0,
    }
);
real!(
    /// A battery charge, 0 Ah to 10,000 Ah.
    Charge, ampere_hours, "ampere hours", CHARGE = Syntax {
        what: "a charge",
        example: "220 mAh",
        range: "0 mAh and 10000 Ah",
        units: &[("mAh", 1e-3), ("Ah", 1.0)],
        min: 0.0,
        max: 1e4,
    }
);
real!(
    /// A clock frequency, 0 Hz to 100 GHz.
    Frequency, hertz, "hertz", FREQUENCY = Syntax {
        what: "a frequency",
        example: "200 MHz",
        range: "0 Hz and 100 GHz",
        units: &[("Hz", 1.0), ("kHz", 1e3), ("MHz", 1e6), ("GHz", 1e9)],
        min: 0.0,
        max: 1e11,
    }
);

impl Frequency {
    /// A frequency in hertz; `None` outside 0 Hz to 100 GHz.
    pub fn from_hertz(hertz: f64) -> Option<Self> {
        (0.0..=FREQUENCY.max).contains(&hertz).then_some(Self(hertz))
    }
}

/// Writes `value` in the largest unit that gives at least 1.
pub(crate) fn write_real(
    f: &mut fmt::Formatter<'_>,
    value: f64,
    units: &[(&str, f64)],
) -> fmt::Result {
    // The tolerance is for factors such as 1e-3, which are not exact in binary.
    let fits = |factor: f64| value >= factor * (1.0 - 1e-12);
    let (unit, factor) = units.iter().rev().find(|(_, factor)| fits(*factor)).unwrap_or(&units[0]);
    // Nine decimals hide the rounding of the factors.
    write!(f, "{} {unit}", (value / factor * 1e9).round() / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_what_data_sheets_say() {
        for text in ["4.6 mA", "1.5 uA", "100 nA", "1 A", "0 nA"] {
            assert_eq!(text.parse::<Current>().unwrap().to_string(), text);
        }
        assert_eq!("3.3 V".parse::<Voltage>().unwrap().volts(), 3.3);
        assert_eq!("2600 mAh".parse::<Charge>().unwrap().to_string(), "2.6 Ah");
        assert_eq!("0.2 GHz".parse::<Frequency>().unwrap().to_string(), "200 MHz");
        assert_eq!("4600 uA".parse::<Current>().unwrap().amperes(), 4.6e-3);
    }

    #[test]
    fn a_bare_number_and_a_strange_unit_are_refused() {
        let text = "4.6".parse::<Current>().unwrap_err().to_string();
        assert_eq!(text, "`4.6` has no unit; write for example `4.6 mA`");
        assert!(matches!("3 mA".parse::<Voltage>(), Err(ParseError::UnknownUnit { .. })));
        assert!(matches!("-1 V".parse::<Voltage>(), Err(ParseError::OutOfRange { .. })));
        assert_eq!(Frequency::from_hertz(-1.0), None);
    }
}
