//! Texts that select values of axes, such as `model=udp-rr|tcp-ps,network="a,b"`: of `--only` and
//! `--set`, and of cells in messages.
//!
//! A word with a special character (`|`, `,`, `=`), with a blank at an end, or with `"` at its start
//! is written in double quotes; between these, `\"` is a quote and `\\` a backslash.

use std::borrow::Cow;
use std::fmt;

/// Separates axes.
const AXES: char = ',';
/// Separates the values of an axis.
const VALUES: char = '|';
/// Separates an axis from its values.
const IS: char = '=';

/// Values of an axis.
///
/// Its text can be parsed again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AxisValues {
    /// Name of the axis.
    pub axis: String,
    /// One value or more.
    pub values: Vec<String>,
}

impl AxisValues {
    /// Parses `axis=value,axis=value|value`. Blanks around words do not count.
    ///
    /// # Errors
    /// A part is not `AXIS=VALUE`, or a quote is not closed, or a text follows it.
    pub fn parse_all(text: &str) -> Result<Vec<Self>, String> {
        let (mut reader, mut all) = (Reader { rest: text }, Vec::new());
        while reader.rest.chars().any(|c| c != AXES && !c.is_whitespace()) {
            reader.rest = reader.rest.trim_start_matches(|c: char| c == AXES || c.is_whitespace());
            let part = reader.rest;
            let axis = reader.word(&[IS, AXES])?;
            let has_values = reader.takes(IS) && !reader.is_at_end_of(AXES);
            if axis.is_empty() || !has_values {
                let part = part.split(AXES).next().unwrap_or(part).trim_end();
                return Err(format!("`{part}` is not AXIS=VALUE"));
            }
            all.push(Self { axis, values: reader.values(&[VALUES, AXES])? });
        }
        Ok(all)
    }
}

impl fmt::Display for AxisValues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values: Vec<_> = self.values.iter().map(|value| quoted(value)).collect();
        write!(f, "{}{IS}{}", quoted(&self.axis), values.join(&VALUES.to_string()))
    }
}

/// Parses the values of one axis, such as `1 %|"a|b"`.
///
/// # Errors
/// A quote is not closed, or a text follows it.
pub fn values(text: &str) -> Result<Vec<String>, String> {
    Reader { rest: text }.values(&[VALUES])
}

/// `KEY=VALUE`, with the value as typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting<'t> {
    /// The key, without quotes.
    pub key: String,
    /// Whether the key was quoted, so that it is one name also if it contains dots.
    pub is_quoted: bool,
    /// The value, with its quotes.
    pub value: &'t str,
}

impl<'t> Setting<'t> {
    /// Parses a setting.
    ///
    /// # Errors
    /// There is no key, no `=` or no value, or a quote is not closed, or a text follows it.
    pub fn parse(text: &'t str) -> Result<Self, String> {
        let mut reader = Reader { rest: text };
        let is_quoted = text.trim_start().starts_with('"');
        let key = reader.word(&[IS])?;
        let has_value = reader.takes(IS) && !reader.rest.trim().is_empty();
        if key.is_empty() || !has_value {
            return Err("not KEY=VALUE".to_owned());
        }
        Ok(Self { key, is_quoted, value: reader.rest.trim() })
    }
}

/// The text as a word of a selection, quoted if needed.
pub fn quoted(text: &str) -> Cow<'_, str> {
    let is_plain = !text.is_empty()
        && text.trim() == text
        && !text.starts_with('"')
        && !text.contains([AXES, VALUES, IS]);
    match is_plain {
        true => text.into(),
        false => format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\"")).into(),
    }
}

/// Reads words from the start of a text.
struct Reader<'t> {
    rest: &'t str,
}

impl Reader<'_> {
    /// The word up to one of `ends`, which remains, or up to the end.
    fn word(&mut self, ends: &[char]) -> Result<String, String> {
        self.rest = self.rest.trim_start();
        if self.rest.starts_with('"') {
            let word = self.inside_quotes()?;
            self.rest = self.rest.trim_start();
            if !self.rest.is_empty() && !self.rest.starts_with(ends) {
                return Err(format!("`{}` follows a closing quote", self.rest));
            }
            return Ok(word);
        }
        let (word, rest) = self.rest.split_at(self.rest.find(ends).unwrap_or(self.rest.len()));
        self.rest = rest;
        Ok(word.trim_end().to_owned())
    }

    /// The text between the quote at the start and the next one.
    fn inside_quotes(&mut self) -> Result<String, String> {
        let (mut word, mut escaped) = (String::new(), false);
        for (at, c) in self.rest.char_indices().skip(1) {
            match c {
                '"' if !escaped => {
                    self.rest = &self.rest[at + 1..];
                    return Ok(word);
                }
                '\\' if !escaped => {
                    escaped = true;
                    continue;
                }
                // Before all other characters a backslash is itself, as in shells.
                _ if escaped && c != '"' && c != '\\' => word.push('\\'),
                _ => {}
            }
            word.push(c);
            escaped = false;
        }
        Err(format!("`{}` has no closing quote", self.rest))
    }

    /// The values up to one of `ends`, of which [`VALUES`] is one.
    fn values(&mut self, ends: &[char]) -> Result<Vec<String>, String> {
        let mut values = vec![self.word(ends)?];
        while self.takes(VALUES) {
            values.push(self.word(ends)?);
        }
        Ok(values)
    }

    /// Whether `c` is next; then it is skipped.
    fn takes(&mut self, c: char) -> bool {
        let rest = self.rest.strip_prefix(c);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Whether nothing but blanks remains before the next `end`.
    fn is_at_end_of(&self, end: char) -> bool {
        let rest = self.rest.trim_start();
        rest.is_empty() || rest.starts_with(end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cell;
    use proptest::prelude::*;

    fn parsed(text: &str) -> Result<Vec<(String, Vec<String>)>, String> {
        let all = AxisValues::parse_all(text)?;
        Ok(all.into_iter().map(|part| (part.axis, part.values)).collect())
    }

    #[test]
    fn words_are_plain_or_quoted() {
        for (text, expected) in [
            ("", &[][..]),
            (" , ,", &[]),
            ("a=1", &[("a", &["1"][..])]),
            (" a = 1 | 2 , b=x y ,", &[("a", &["1", "2"]), ("b", &["x y"])]),
            // In a value, `=` needs no quotes, as before there were quotes.
            ("a=b=c", &[("a", &["b=c"])]),
            (r#"a="x|y"|z"#, &[("a", &["x|y", "z"])]),
            (r#"a = "x,y" , b="1=2""#, &[("a", &["x,y"]), ("b", &["1=2"])]),
            (r#""a=b,c|d"=1"#, &[("a=b,c|d", &["1"])]),
            (r#"a="",b=" x ""#, &[("a", &[""]), ("b", &[" x "])]),
            (r#"a="say \"hi\" \\ \d""#, &[("a", &[r#"say "hi" \ \d"#])]),
            // A quote inside a plain word is itself: a size in inches.
            (r#"size=5"|7""#, &[("size", &["5\"", "7\""])]),
            (r"path=C:\x|C:\y", &[("path", &[r"C:\x", r"C:\y"])]),
        ] {
            let expected: Vec<(String, Vec<String>)> = expected
                .iter()
                .map(|(axis, values)| {
                    ((*axis).to_owned(), values.iter().map(|value| (*value).to_owned()).collect())
                })
                .collect();
            assert_eq!(parsed(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn incomplete_selections_say_what_is_wrong() {
        for (text, error) in [
            ("ideal", "`ideal` is not AXIS=VALUE"),
            ("a=1,ideal,b=2", "`ideal` is not AXIS=VALUE"),
            ("a=", "`a=` is not AXIS=VALUE"),
            ("a= ,b=1", "`a=` is not AXIS=VALUE"),
            ("=x", "`=x` is not AXIS=VALUE"),
            (r#"a="x"#, r#"`"x` has no closing quote"#),
            (r#"a="x\""#, r#"`"x\"` has no closing quote"#),
            (r#"a="x"y|z"#, "`y|z` follows a closing quote"),
            (r#""a"b=1"#, "`b=1` follows a closing quote"),
        ] {
            assert_eq!(parsed(text).unwrap_err(), error, "{text}");
        }
    }

    #[test]
    fn a_setting_is_split_at_the_first_equals_sign_outside_quotes() {
        let setting = |text| Setting::parse(text).map(|s| (s.key, s.is_quoted, s.value));
        assert_eq!(setting("a.b = x=y "), Ok(("a.b".to_owned(), false, "x=y")));
        assert_eq!(setting(r#""a=b" = "x""#), Ok(("a=b".to_owned(), true, r#""x""#)));
        for text in ["a", "a=", "a= ", "=1", r#""a=1"#, r#""a"b=1"#, r#"""=1"#] {
            assert!(setting(text).is_err(), "{text}");
        }
        assert_eq!(values(r#"1 %| "a|b" |c,d"#).unwrap(), ["1 %", "a|b", "c,d"]);
        assert!(values(r#""a"#).is_err());
    }

    proptest! {
        #[test]
        fn the_text_of_a_cell_selects_its_values(
            axes in proptest::collection::vec((r#"[ab"\\|,= ]{1,6}"#, r#"[ab"\\|,= é]{0,6}"#), 1..4)
        ) {
            let cell: Cell = axes.clone().into_iter().collect();
            let read = parsed(&cell.to_string()).unwrap();
            let read: Vec<_> = read.into_iter().map(|(axis, v)| (axis, v.concat())).collect();
            prop_assert_eq!(read, axes);
        }

        #[test]
        fn a_text_is_parsed_again(
            axis in r#"[ab"\\|,= ]{1,6}"#, values in proptest::collection::vec(r#"[a"\\|,= ]{0,5}"#, 1..4)
        ) {
            let one = AxisValues { axis, values };
            prop_assert_eq!(AxisValues::parse_all(&one.to_string()), Ok(vec![one]));
        }

        #[test]
        fn no_text_panics(text in r#"[ab"\\|,= é]{0,12}"#) {
            let _ = AxisValues::parse_all(&text);
            let _ = (Setting::parse(&text), values(&text));
        }
    }
}
