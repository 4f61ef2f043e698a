//! Keys of impairments: their kinds, and their values in the form of the experiment file.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use units::{Rate, Ratio, Span};

/// A key of the experiment file.
#[derive(Debug)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// Kind of its value.
    pub kind: Kind,
    /// Its meaning, with unit and default.
    pub doc: &'static str,
    /// Whether a map must have it.
    pub is_required: bool,
}

/// Kind of a value.
#[derive(Debug)]
pub enum Kind {
    /// `true` or `false`.
    Flag,
    /// A whole number in this range.
    Count {
        /// The smallest.
        least: u32,
        /// The largest; `u32::MAX` if there is no other limit.
        most: u32,
    },
    /// Such as `30 %`.
    Share,
    /// Such as `20 ms`.
    Time,
    /// Such as `127 B`.
    Size,
    /// A size that may be negative.
    SignedSize,
    /// Such as `250 kbit/s`.
    Rate,
    /// A number of frames or a size.
    Limit,
    /// Name of a file.
    File,
    /// One of these words; first the name of the enumeration, for errors.
    Word(&'static str, &'static [&'static str]),
    /// One of the words of a model, each with its meaning, or the model.
    WordOr(&'static [(&'static str, &'static str)], &'static Model),
    /// A map of keys.
    Map(&'static Model),
    /// One such map, or several.
    OneOrMore(&'static Model),
}

/// A map of keys and values with a name.
#[derive(Debug)]
pub struct Model {
    /// Name in the JSON Schema.
    pub name: &'static str,
    /// Name in errors, such as `a slot`.
    pub what: &'static str,
    /// Its meaning.
    pub doc: &'static str,
    /// Its keys.
    pub keys: &'static [Key],
}

impl Key {
    /// An optional key.
    pub const fn new(name: &'static str, kind: Kind, doc: &'static str) -> Self {
        Self { name, kind, doc, is_required: false }
    }

    /// The same key, required in its map.
    pub const fn required(self) -> Self {
        Self { is_required: true, ..self }
    }
}

/// Keys of a link and their values, in the form of the experiment file.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Keys(pub Map<String, Value>);

impl Keys {
    /// Whether the key is given.
    pub fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// The value of a key; `None` without the key, or if its value has another type.
    pub fn get<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        self.read(key).ok().flatten()
    }

    /// As [`Self::get`], but a value of another type is an error.
    ///
    /// # Errors
    /// Says which key has which wrong value.
    pub fn read<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, String> {
        let value = self.0.get(key).filter(|value| !value.is_null());
        let read = value.map(|value| T::deserialize(value));
        read.transpose().map_err(|error| format!("`{key}`: {error}"))
    }

    /// The value of a key, or its default.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_or_default<T: DeserializeOwned + Default>(&self, key: &str) -> Result<T, String> {
        self.read(key).map(Option::unwrap_or_default)
    }

    /// The value of a key of a map that must have it.
    ///
    /// # Errors
    /// If the key is missing, or as [`Self::read`].
    pub fn require<T: DeserializeOwned>(&self, key: &str) -> Result<T, String> {
        self.read(key)?.ok_or_else(|| format!("the key `{key}` is missing"))
    }

    /// Writes a value that differs from the default of its type.
    pub fn put<T: Serialize + PartialEq + Default>(&mut self, key: &str, value: &T) {
        if *value != T::default() {
            self.insert(key, value);
        }
    }

    /// Writes a value.
    pub fn insert(&mut self, key: &str, value: &impl Serialize) {
        self.0.insert(key.to_owned(), serde_json::to_value(value).unwrap_or_default());
    }
}

/// A contradiction in the keys of a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contradiction {
    /// The key, with those in it: `markov.p14`, `outage.0.every`.
    pub at: String,
    /// What is wrong.
    pub text: String,
    /// The fix.
    pub fix: String,
}

/// Contradictions found so far.
#[derive(Debug, Default)]
pub struct Contradictions(pub Vec<Contradiction>);

impl Contradictions {
    /// Adds one at a key.
    pub fn add(&mut self, at: impl Into<String>, text: impl Into<String>, fix: impl Into<String>) {
        self.0.push(Contradiction { at: at.into(), text: text.into(), fix: fix.into() });
    }

    /// Adds one at `key` if it is given without the key that it belongs to.
    pub fn add_without(&mut self, keys: &Keys, key: &str, other: &str, text: &str) {
        if keys.has(key) && !keys.has(other) {
            self.add(key, text, format!("add `{other}`, or remove this"));
        }
    }

    /// Adds one at the second of the `models` that are given, of which a link has one.
    pub fn add_second(&mut self, keys: &Keys, models: &[&str], why: &str) {
        let mut given = models.iter().filter(|model| keys.has(model));
        if let (Some(first), Some(second)) = (given.next(), given.next()) {
            self.add(*second, format!("`{second}` and `{first}` together: {why}"), REMOVE_ONE);
        }
    }
}

/// The fix for two keys of which a link has one.
pub(crate) const REMOVE_ONE: &str = "remove one of them";
/// The fix for a key that does not suit its link.
pub(crate) const REMOVE: &str = "remove this";

/// A value that can be ramped and rounded.
#[derive(Debug)]
pub enum Quantity<'a> {
    /// In ns.
    Time(&'a mut Span),
    /// From 0 to 1.
    Share(&'a mut Ratio),
    /// In bit/s.
    Rate(&'a mut Rate),
}

impl Quantity<'_> {
    /// The value in its unit.
    pub fn get(&self) -> f64 {
        match self {
            Self::Time(span) => span.as_ns() as f64,
            Self::Share(share) => share.fraction(),
            Self::Rate(rate) => rate.bit_s() as f64,
        }
    }

    /// Sets the value in its unit, to the nearest possible one.
    pub fn set(self, value: f64) {
        match self {
            Self::Time(span) => *span = Span::from_ns(value as u64),
            Self::Share(share) => {
                *share = Ratio::from_fraction(value.clamp(0.0, 1.0)).unwrap_or_default();
            }
            Self::Rate(rate) => *rate = Rate::from_bit_s(value as u64).unwrap_or(*rate),
        }
    }
}

/// Text of a share with its correlation; `None` if it is 0.
pub(crate) fn share_text(what: &str, share: Ratio, correlation: Ratio) -> Option<String> {
    if share.fraction() == 0.0 {
        return None;
    }
    let correlated = match correlation.fraction() {
        0.0 => String::new(),
        _ => format!(" (correlation {correlation})"),
    };
    Some(format!("{what} {share}{correlated}"))
}

/// Formats a time in a convenient unit.
pub fn time_text(span: Span) -> String {
    let ns = span.as_ns();
    match ns {
        0 => "0 s".to_owned(),
        n if n < 1_000_000 => span.to_string(),
        n if n < 1_000_000_000 => format!("{} ms", n as f64 / 1e6),
        n if n < 120_000_000_000 => format!("{} s", n as f64 / 1e9),
        n => format!("{} min", (n as f64 / 6e8).round() / 100.0),
    }
}
