//! Reading `number unit` text.

/// Why a text is not the quantity that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// A bare number where a unit is needed.
    #[error("`{text}` has no unit; write for example `{example}`")]
    MissingUnit {
        /// What was given.
        text: String,
        /// A spelling that would do.
        example: String,
    },
    /// A unit that this quantity does not have.
    #[error("`{unit}` is not a unit of {what}; use one of {known}")]
    UnknownUnit {
        /// The unit as given.
        unit: String,
        /// The quantity's name.
        what: &'static str,
        /// The units that are known, joined by commas.
        known: String,
    },
    /// No number at the start.
    #[error("`{text}` is not {what}; write for example `{example}`")]
    NotANumber {
        /// What was given.
        text: String,
        /// The quantity's name, with its article.
        what: &'static str,
        /// A spelling that would do.
        example: String,
    },
    /// The number is outside what the quantity can hold.
    #[error("`{text}` is out of range: {what} must be between {range}")]
    OutOfRange {
        /// What was given.
        text: String,
        /// The quantity's name.
        what: &'static str,
        /// The range in words.
        range: &'static str,
    },
}

/// What a quantity looks like in text.
pub(crate) struct Syntax {
    /// The quantity's name in error texts.
    pub what: &'static str,
    /// A spelling that parses, shown in errors.
    pub example: &'static str,
    /// The range in words, shown in errors.
    pub range: &'static str,
    /// Unit and its factor to the base unit.
    pub units: &'static [(&'static str, f64)],
    /// The largest value in base units.
    pub max: f64,
}

impl Syntax {
    /// The value of `text` in base units.
    pub fn parse(&self, text: &str) -> Result<f64, ParseError> {
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
        let Some((_, factor)) = self.units.iter().find(|(name, _)| *name == unit) else {
            let known: Vec<_> = self.units.iter().map(|(name, _)| *name).collect();
            return Err(ParseError::UnknownUnit {
                unit: unit.to_owned(),
                what: self.what,
                known: known.join(", "),
            });
        };
        let base = value * factor;
        if !(0.0..=self.max).contains(&base) {
            return Err(ParseError::OutOfRange {
                text: text.to_owned(),
                what: self.what,
                range: self.range,
            });
        }
        Ok(base)
    }
}

/// The length in bytes of the number that `text` starts with. An exponent
/// counts only when a digit follows, so that `1 eV` is not read as `1e`.
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
