//! The compact form of a map, a tenth of the JSON's size: conditions once for all models, figures
//! with three significant digits.
//!
//! Numbers are big-endian: `DMAP`, format (1), number of conditions (2), the conditions (eight IEEE
//! 754 values of 4 bytes each, in the order of [`Conditions`], round trip in ns); then for each
//! model: its number on the wire (1), number of points (2), and for each point: its conditions (2),
//! delays p50, p90, p99 in ms, delivery, bytes, energy, messages (2 each), and whether an interval of
//! the delay (twice three delays) follows (1).

use super::{Figures, MapError, PerformanceMap, Point, Quantiles};
use crate::Span;
use crate::conditions::Conditions;
use crate::model::ModelId;
#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;

const MAGIC: &[u8] = b"DMAP\x01";
/// Exponent of the smallest digit at 0.
const BIAS: i32 = 20;
/// Number of exponents: six bits.
const EXPONENTS: i32 = 64;

/// A number of three significant digits: ten bits of digits, below six bits of exponent.
fn write_number(value: f64) -> [u8; 2] {
    // Non-negative: a map has no other figures. Beyond the range, the nearest one.
    let exponent = if value > 0.0 { value.log10().floor() as i32 - 2 } else { -BIAS };
    let exponent = exponent.clamp(-BIAS, EXPONENTS - 1 - BIAS);
    let digits = (value / 10_f64.powi(exponent)).round().min(1_023.0) as u16;
    (((exponent + BIAS) as u16) << 10 | digits).to_be_bytes()
}

fn read_number(bytes: [u8; 2]) -> f64 {
    let both = u16::from_be_bytes(bytes);
    let (digits, exponent) = (f64::from(both & 0x3ff), i32::from(both >> 10) - BIAS);
    // Powers of ten up to 22 are exact, so the result is the number nearest to the digits.
    match exponent < 0 {
        true => digits / 10_f64.powi(-exponent),
        false => digits * 10_f64.powi(exponent),
    }
}

fn write_conditions(at: &Conditions) -> impl Iterator<Item = u8> {
    let Conditions { loss, burst, rtt, rate_bit_s, mtu, group, payload, messages_s } = *at;
    let all = [loss, burst, rtt.as_ns_f64(), rate_bit_s, mtu, group, payload, messages_s];
    all.into_iter().flat_map(|value| (value as f32).to_be_bytes())
}

fn write_delays(delays: &Quantiles) -> impl Iterator<Item = u8> {
    [delays.p50, delays.p90, delays.p99].into_iter().flat_map(write_number)
}

/// The rest of a map.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }

    fn count(&mut self) -> Option<usize> {
        self.take().map(|bytes| u16::from_be_bytes(bytes).into())
    }

    fn number(&mut self) -> Option<f64> {
        self.take().map(read_number)
    }

    fn conditions(&mut self) -> Option<Conditions> {
        let mut next = || self.take().map(|bytes| f64::from(f32::from_be_bytes(bytes)));
        Some(Conditions {
            loss: next()?,
            burst: next()?,
            rtt: Span::from_ns_f64(next()?),
            rate_bit_s: next()?,
            mtu: next()?,
            group: next()?,
            payload: next()?,
            messages_s: next()?,
        })
    }

    fn delays(&mut self) -> Option<Quantiles> {
        Some(Quantiles { p50: self.number()?, p90: self.number()?, p99: self.number()? })
    }

    fn figures(&mut self) -> Option<Figures> {
        let mut figures = Figures {
            delay_ms: self.delays()?,
            delay_interval: None,
            delivery: self.number()?,
            bytes: self.number()?,
            energy: self.number()?,
            messages: self.number()?,
        };
        if self.take::<1>()? != [0] {
            figures.delay_interval = Some((self.delays()?, self.delays()?));
        }
        Some(figures)
    }

    fn map(&mut self) -> Option<Vec<(ModelId, Point)>> {
        let count = self.count()?;
        let conditions: Option<Vec<Conditions>> = (0..count).map(|_| self.conditions()).collect();
        let (conditions, mut points) = (conditions?, Vec::new());
        while !self.0.is_empty() {
            let model = ModelId::from_wire(self.take::<1>()?[0])?;
            for _ in 0..self.count()? {
                let at = *conditions.get(self.count()?)?;
                points.push((model, Point { at, figures: self.figures()? }));
            }
        }
        Some(points)
    }
}

impl PerformanceMap {
    /// Reads a map from its compact form.
    ///
    /// # Errors
    /// [`MapError`] if the bytes are not a map, or it has an invalid figure.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, MapError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(MapError::Compact)?;
        let mut map = Self::new();
        for (model, point) in Reader(rest).map().ok_or(MapError::Compact)? {
            if !point.is_valid() {
                return Err(MapError::Figure(model));
            }
            map.add(model, point);
        }
        Ok(map)
    }

    /// Writes the map in its compact form. Figures are rounded to three significant digits, and
    /// conditions to 24 bits.
    ///
    /// # Errors
    /// [`MapError::TooLarge`] if it has more than 65,535 conditions, or points of a model.
    pub fn to_bytes(&self) -> Result<Vec<u8>, MapError> {
        let mut conditions: Vec<Vec<u8>> = Vec::new();
        let mut places = alloc::collections::BTreeMap::new();
        let mut rest = Vec::new();
        let count = |count: usize| u16::try_from(count).map_err(|_| MapError::TooLarge);
        for (model, points) in &self.points {
            rest.push(model.wire());
            rest.extend(count(points.len())?.to_be_bytes());
            for Point { at, figures } in points {
                let at: Vec<u8> = write_conditions(at).collect();
                let place = *places.entry(at.clone()).or_insert_with(|| {
                    conditions.push(at);
                    conditions.len() - 1
                });
                rest.extend(count(place)?.to_be_bytes());
                rest.extend(write_delays(&figures.delay_ms));
                let Figures { delivery, bytes, energy, messages, .. } = *figures;
                rest.extend([delivery, bytes, energy, messages].into_iter().flat_map(write_number));
                rest.push(u8::from(figures.delay_interval.is_some()));
                if let Some((least, most)) = &figures.delay_interval {
                    rest.extend(write_delays(least).chain(write_delays(most)));
                }
            }
        }
        let head = [MAGIC, &count(conditions.len())?.to_be_bytes()].concat();
        Ok([head, conditions.concat(), rest].concat())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::figures;
    use super::*;
    use proptest::prelude::*;

    /// The included map is `map.json` in its compact form; `make map` writes both.
    #[cfg(feature = "map")]
    #[test]
    fn the_included_map_is_that_of_the_file() {
        let text = include_str!("../../map.json");
        let (whole, included) =
            (PerformanceMap::from_json(text).unwrap(), PerformanceMap::shipped());
        let bytes = whole.to_bytes().unwrap();
        assert_eq!(PerformanceMap::from_bytes(&bytes).unwrap(), *included, "run `make map`");
        assert!(bytes.len() * 10 < text.len(), "{} of {}", bytes.len(), text.len());
        for (model, points) in &whole.points {
            for (one, other) in points.iter().zip(&included.points[model]) {
                let rounded = |own: f64| read_number(write_number(own));
                let (own, read) = (one.figures.delay_ms, other.figures.delay_ms);
                assert_eq!(
                    [own.p50, own.p90, own.p99].map(rounded),
                    [read.p50, read.p90, read.p99]
                );
                assert_eq!(one.figures.bytes, other.figures.bytes);
                assert_eq!(one.figures.delivery, other.figures.delivery);
                let place = |point: &Point| point.at.place();
                let near = place(one).iter().zip(place(other)).all(|(a, b)| (a - b).abs() < 1e-5);
                assert!(near, "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn a_map_with_intervals_reads_back_and_others_are_refused() {
        let mut map = PerformanceMap::new();
        let delays = |ms| Quantiles { p50: ms, p90: 2.5 * ms, p99: 0.0 };
        let own = Figures {
            delay_interval: Some((delays(0.002), delays(1.1e6))),
            energy: 0.000_012_3,
            ..figures(123.0, 0.998, 40_400.0)
        };
        map.add(ModelId::Mqtt, Point { at: Conditions::default(), figures: own });
        let bytes = map.to_bytes().unwrap();
        assert_eq!(PerformanceMap::from_bytes(&bytes).unwrap(), map);
        for length in 0..bytes.len() {
            let cut = PerformanceMap::from_bytes(&bytes[..length]);
            // Without models, it is a map without points.
            assert!(cut.is_err() || cut.is_ok_and(|cut| cut.points.is_empty()), "{length}");
        }
        let mut wrong = bytes.clone();
        // The share of delivered messages, after three delays.
        let place = MAGIC.len() + 2 + 32 + 1 + 2 + 2 + 6;
        wrong[place..place + 2].copy_from_slice(&write_number(1.5));
        assert!(matches!(PerformanceMap::from_bytes(&wrong), Err(MapError::Figure(_))));
    }

    proptest! {
        #[test]
        fn numbers_keep_three_digits(digits in 1.0..10.0_f64, exponent in -17..40_i32) {
            let value = digits * 10_f64.powi(exponent);
            let back = read_number(write_number(value));
            prop_assert!((back / value - 1.0).abs() <= 0.005_001, "{} {}", value, back);
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = PerformanceMap::from_bytes(&[MAGIC, &bytes].concat());
        }
    }
}
