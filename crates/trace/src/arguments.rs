//! Parser for the `kind:value,key=value` syntax of distributions and arrival processes.

use units::Span;

/// Why a text is not a valid distribution, arrival process or mix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}`: {why}")]
pub struct ParseError {
    /// The invalid text.
    pub text: String,
    /// What is wrong, and what to write instead.
    pub why: String,
}

/// A parsed text: its kind, the values without a key, and the values by key.
#[derive(Debug)]
pub(crate) struct Arguments<'a> {
    text: &'a str,
    pub kind: &'a str,
    pub bare: Vec<&'a str>,
    keys: Vec<(&'a str, &'a str)>,
}

impl<'a> Arguments<'a> {
    pub fn read(text: &'a str) -> Self {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let mut args = Self { text, kind: kind.trim(), bare: Vec::new(), keys: Vec::new() };
        for part in rest.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            match part.split_once('=') {
                Some((key, value)) => args.keys.push((key.trim(), value.trim())),
                None => args.bare.push(part),
            }
        }
        args
    }

    pub fn error(&self, why: impl std::fmt::Display) -> ParseError {
        ParseError { text: self.text.to_owned(), why: why.to_string() }
    }

    /// Removes and returns the value of `key`.
    pub fn take(&mut self, key: &str) -> Option<&'a str> {
        let at = self.keys.iter().position(|(known, _)| *known == key)?;
        Some(self.keys.remove(at).1)
    }

    /// The value of `key`, or the first value without a key.
    pub fn main(&mut self, key: &str) -> Result<&'a str, ParseError> {
        match self.take(key) {
            Some(value) => Ok(value),
            None if self.bare.is_empty() => {
                Err(self.error(format_args!("`{key}` is missing; write for example `{key}=20ms`")))
            }
            None => Ok(self.bare.remove(0)),
        }
    }

    /// A time above 0 under `key`, or the first value without a key.
    pub fn span(&mut self, key: &str) -> Result<Span, ParseError> {
        let value = self.main(key)?;
        let span: Span = value.parse().map_err(|error| self.error(error))?;
        if span == Span::ZERO { Err(self.error(format_args!("`{key}` is 0"))) } else { Ok(span) }
    }

    /// A number above 0 under `key`.
    pub fn number(&mut self, key: &str) -> Result<f64, ParseError> {
        let value = self.main(key)?;
        match value.parse::<f64>() {
            // `parse` also accepts `inf` and `NaN`.
            Ok(number) if number.is_finite() && number > 0.0 => Ok(number),
            _ => Err(self.error(format_args!("`{key}` must be a number above 0, not `{value}`"))),
        }
    }

    /// Rejects unknown keys and extra values.
    pub fn done<T>(self, value: T) -> Result<T, ParseError> {
        if let Some((key, _)) = self.keys.first() {
            return Err(self.error(format_args!("`{}` has no `{key}`", self.kind)));
        }
        match self.bare.first() {
            Some(left) => Err(self.error(format_args!("unexpected value `{left}`"))),
            None => Ok(value),
        }
    }
}
