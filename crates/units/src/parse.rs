//! Parser for `number unit` text.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// Why a text is not a valid quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// A bare number where a unit is needed.
    #[error("`{text}` has no unit; write for example `{example}`")]
    MissingUnit {
        /// The input.
        text: String,
        /// A valid spelling.
        example: String,
    },
    /// A unit that this quantity does not accept.
    #[error("`{unit}` is not a unit of {what}; use one of {known}")]
    UnknownUnit {
        /// The unit in the input.
        unit: String,
        /// The quantity's name, with its article.
        what: &'static str,
        /// The accepted units, separated by commas.
        known: String,
    },
    /// No number at the start.
    #[error("`{text}` is not {what}; write for example `{example}`")]
    NotANumber {
        /// The input.
        text: String,
        /// The quantity's name, with its article.
        what: &'static str,
        /// A valid spelling.
        example: String,
    },
    /// The number is outside the quantity's range.
    #[error("`{text}` is out of range: {what} must be between {range}")]
    OutOfRange {
        /// The input.
        text: String,
        /// The quantity's name, with its article.
        what: &'static str,
        /// The range in words.
        range: &'static str,
    },
}

/// Text syntax of a quantity.
pub(crate) struct Syntax {
    /// The quantity's name in error messages, with its article.
    pub what: &'static str,
    /// A valid spelling, shown in error messages.
    pub example: &'static str,
    /// The range in words, shown in error messages.
    pub range: &'static str,
    /// Units and their factors to the base unit.
    pub units: &'static [(&'static str, f64)],
    /// The smallest value, in base units.
    pub min: f64,
    /// The largest value, in base units.
    pub max: f64,
}

impl Syntax {
    /// Parses `text` to a value in base units.
    pub fn parse(&self, text: &str) -> Result<f64, ParseError> {
        self.read(text).map(|(base, ..)| base)
    }

    /// Parses `text` to the next whole number of base units. The unit's factor must be whole.
    pub fn parse_whole(&self, text: &str) -> Result<u64, ParseError> {
        let (base, number, factor) = self.read(text)?;
        Ok(exact(number, factor as u64).unwrap_or_else(|| nearest(base)))
    }

    /// The value in base units, its number and the factor of its unit.
    fn read<'t>(&self, text: &'t str) -> Result<(f64, &'t str, f64), ParseError> {
        let trimmed = text.trim();
        let end = number_len(trimmed);
        let (number, unit) = (&trimmed[..end], trimmed[end..].trim());
        let Ok(value) = number.parse::<f64>() else {
            return Err(ParseError::NotANumber {
                text: text.to_owned(),
                what: self.what,
                example: self.example.to_owned(),
            });
        };
        if unit.is_empty() {
            let unit = self.example.split(' ').nth(1).unwrap_or_default();
            return Err(ParseError::MissingUnit {
                text: text.to_owned(),
                example: format!("{number} {unit}"),
            });
        }
        // Case matters: mA and MA, or ms and Ms, differ by far.
        let Some((_, factor)) = self.units.iter().find(|(name, _)| *name == unit) else {
            let known: Vec<_> = self.units.iter().map(|(name, _)| *name).collect();
            return Err(ParseError::UnknownUnit {
                unit: unit.to_owned(),
                what: self.what,
                known: known.join(", "),
            });
        };
        let base = value * factor;
        // Also excludes infinity, as of `1e999`.
        if !(self.min..=self.max).contains(&base) {
            return Err(ParseError::OutOfRange {
                text: text.to_owned(),
                what: self.what,
                range: self.range,
            });
        }
        Ok((base, number, *factor))
    }
}

/// `number` times `factor`, to the next whole number. Exact, unlike an `f64`, which has no single
/// nanosecond above 104 days. `None` for a number with an exponent or with too many digits.
fn exact(number: &str, factor: u64) -> Option<u64> {
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let places = u32::try_from(part.len()).ok().filter(|places| *places <= 15)?;
    let scale = 10_u128.pow(places);
    let value = |digits: &str| match digits {
        "" => Some(0),
        digits => digits.parse::<u64>().ok().map(u128::from),
    };
    let scaled = (value(whole)?.checked_mul(scale)? + value(part)?) * u128::from(factor);
    u64::try_from((scaled + scale / 2) / scale).ok()
}

/// The next whole number, as `f64::round`, which needs the standard library. `value` is not
/// negative.
pub(crate) fn nearest(value: f64) -> u64 {
    let below = value as u64;
    below + u64::from(value - below as f64 >= 0.5)
}

/// The length in bytes of the number at the start of `text`. An exponent counts only if a
/// digit follows, so `1 eV` is not read as `1e`.
fn number_len(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    let mut at = usize::from(matches!(bytes.first(), Some(b'-' | b'+')));
    while digit(at) || bytes.get(at) == Some(&b'.') {
        at += 1;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(at + 1), Some(b'-' | b'+')));
        if digit(at + 1 + sign) {
            at += 1 + sign;
            while digit(at) {
                at += 1;
            }
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn rounding_is_that_of_the_standard_library() {
        let near = |half: f64| [half.next_down(), half, half.next_up()];
        let values = [0.5, 1.5, 2.5, 1e9 + 0.5, 4_503_599_627_370_495.5, 36e15];
        for value in values.into_iter().flat_map(near).chain([0.0, 1.0]) {
            assert_eq!(nearest(value), value.round() as u64, "{value}");
        }
    }
}
