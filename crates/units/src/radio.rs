//! Quantities of radio links: attenuation, power level, distance.

use crate::electric::{real, write_real};
use crate::parse::{ParseError, Syntax};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use std::{fmt, str::FromStr};

real!(
    /// An attenuation, 0 dB to 300 dB.
    Attenuation, decibels, "decibels", ATTENUATION = Syntax {
        what: "an attenuation",
        example: "40.2 dB",
        range: "0 dB and 300 dB",
        units: &[("dB", 1.0)],
        min: 0.0,
        max: 300.0,
    }
);
real!(
    /// A power level, -200 dBm to 100 dBm.
    PowerLevel, dbm, "decibels above one milliwatt", POWER_LEVEL = Syntax {
        what: "a power level",
        example: "-85 dBm",
        range: "-200 dBm and 100 dBm",
        units: &[("dBm", 1.0)],
        min: -200.0,
        max: 100.0,
    }
);
real!(
    /// A signed distance along an axis, -1000 km to 1000 km.
    Distance, metres, "metres", DISTANCE = Syntax {
        what: "a distance",
        example: "30 m",
        range: "-1000 km and 1000 km",
        units: &[("m", 1.0), ("km", 1e3)],
        min: -1e6,
        max: 1e6,
    }
);

impl Attenuation {
    /// An attenuation in decibels; `None` outside 0 dB to 300 dB.
    pub fn from_decibels(decibels: f64) -> Option<Self> {
        (ATTENUATION.min..=ATTENUATION.max).contains(&decibels).then_some(Self(decibels))
    }
}

impl PowerLevel {
    /// A power level in dBm; `None` outside -200 dBm to 100 dBm.
    pub fn from_dbm(dbm: f64) -> Option<Self> {
        (POWER_LEVEL.min..=POWER_LEVEL.max).contains(&dbm).then_some(Self(dbm))
    }
}

impl Distance {
    /// A distance in metres; `None` outside -1000 km to 1000 km.
    pub fn from_metres(metres: f64) -> Option<Self> {
        (DISTANCE.min..=DISTANCE.max).contains(&metres).then_some(Self(metres))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_of_radios_are_read_and_written_with_their_sign() {
        for text in ["-85 dBm", "0 dBm", "20 dBm", "-97.5 dBm"] {
            assert_eq!(text.parse::<PowerLevel>().unwrap().to_string(), text);
        }
        for text in ["-30 m", "0 m", "12.5 m", "2 km"] {
            assert_eq!(text.parse::<Distance>().unwrap().to_string(), text);
        }
        assert_eq!("-2 km".parse::<Distance>().unwrap().metres(), -2000.0);
        assert_eq!("40.2 dB".parse::<Attenuation>().unwrap().decibels(), 40.2);
    }

    #[test]
    fn a_wrong_unit_or_value_of_a_radio_is_refused() {
        for text in ["-1 dB", "301 dB", "40 dBm", "40"] {
            assert!(text.parse::<Attenuation>().is_err(), "{text}");
        }
        for text in ["-85 dB", "-201 dBm", "nan dBm", "1e999 dBm"] {
            assert!(text.parse::<PowerLevel>().is_err(), "{text}");
        }
        assert!("3 mm".parse::<Distance>().is_err() && "1001 km".parse::<Distance>().is_err());
        assert_eq!(PowerLevel::from_dbm(f64::NAN), None);
        assert_eq!(Distance::from_metres(1e7), None);
        assert_eq!(Attenuation::from_decibels(-0.1), None);
    }
}
