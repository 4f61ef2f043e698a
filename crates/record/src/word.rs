//! Types whose values are a few words in files.

/// Gives a type its words: `WHAT` names the type in errors, `WORDS` has each word and its value,
/// `text` returns the word of a value. Files and JSON use the same words.
macro_rules! words {
    ($kind:ident, $what:literal: $($word:expr => $value:expr),+ $(,)?) => {
        impl $kind {
            /// Name of the type, for errors.
            pub const WHAT: &'static str = $what;
            /// Each word and its value.
            pub const WORDS: &'static [(&'static str, Self)] = &[$(($word, $value)),+];

            /// The word in files.
            pub fn text(self) -> &'static str {
                let found = Self::WORDS.iter().find(|(_, value)| *value == self);
                found.map_or("", |(word, _)| word)
            }
        }

        impl std::fmt::Display for $kind {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.text())
            }
        }

        impl serde::Serialize for $kind {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.text())
            }
        }

        impl<'de> serde::Deserialize<'de> for $kind {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                // Not `&str`, which cannot be read from a text with escapes or from a stream.
                let given = <std::borrow::Cow<'de, str>>::deserialize(from)?;
                let found = Self::WORDS.iter().find(|(word, _)| *word == given);
                found.map(|(_, value)| *value).ok_or_else(|| {
                    let known: Vec<&str> = Self::WORDS.iter().map(|(word, _)| *word).collect();
                    let known = known.join(", ");
                    serde::de::Error::custom(format!("`{given}` is not {}; known: {known}", $what))
                })
            }
        }

        impl schemars::JsonSchema for $kind {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($kind).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                let words: Vec<&str> = Self::WORDS.iter().map(|(word, _)| *word).collect();
                schemars::json_schema!({ "enum": words })
            }
        }
    };
}

pub(crate) use words;

#[cfg(test)]
mod tests {
    use crate::{DirectorModel, InteractionPattern, MqttVersion};

    #[test]
    fn files_and_json_use_the_same_words() {
        for (word, pattern) in InteractionPattern::WORDS {
            assert_eq!(pattern.text(), *word);
            let json = serde_json::to_value(pattern).unwrap();
            assert_eq!(json, *word);
            assert_eq!(serde_json::from_value::<InteractionPattern>(json).unwrap(), *pattern);
        }
        let patterns = InteractionPattern::WORDS.iter();
        let fixed = patterns.filter_map(|(word, _)| word.strip_prefix("director/"));
        assert!(fixed.eq(DirectorModel::WORDS.iter().map(|(word, _)| *word)));
    }

    #[test]
    fn an_unknown_word_is_an_error_with_the_known_ones() {
        let error = serde_json::from_str::<MqttVersion>("\"3.1\"").unwrap_err().to_string();
        assert!(error.contains("`3.1` is not a version of MQTT; known: 3.1.1, 5"), "{error}");
    }
}
