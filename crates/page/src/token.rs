//! The secret that a browser needs.

use std::fmt::Write as _;
use std::io;

/// Shortest token that a user may set, in characters.
const SHORTEST: usize = 16;

/// The secret that a browser needs; not in any debug output.
pub(crate) struct Token(String);

impl Token {
    /// A new random token of 256 bits.
    pub(crate) fn random() -> io::Result<Self> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
        let mut text = String::with_capacity(64);
        for byte in bytes {
            let _ = write!(text, "{byte:02x}");
        }
        Ok(Self(text))
    }

    /// A token that the user chose.
    pub(crate) fn chosen(text: String) -> io::Result<Self> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if text.len() < SHORTEST || !text.chars().all(plain) {
            let why = format!(
                "the token must have {SHORTEST} characters or more, of letters, digits, `-` and `_`"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        Ok(Self(text))
    }

    /// The token, to give to the user.
    pub(crate) fn text(&self) -> &str {
        &self.0
    }

    /// Whether `text` is the token. The time that it takes does not depend on where they differ.
    pub(crate) fn is(&self, text: &str) -> bool {
        let (own, given) = (self.0.as_bytes(), text.as_bytes());
        let differs = own.iter().zip(given).fold(0, |all, (a, b)| all | (a ^ b));
        own.len() == given.len() && std::hint::black_box(differs) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_differ_and_know_themselves() {
        let (one, other) = (Token::random().unwrap(), Token::random().unwrap());
        assert_eq!(one.text().len(), 64);
        assert!(one.is(one.text()) && !one.is(other.text()));
        assert!(!one.is("") && !one.is(&one.text()[1..]) && !one.is(&format!("{}0", one.text())));
    }

    #[test]
    fn a_chosen_token_is_long_and_plain() {
        assert!(Token::chosen("a-long_enough-1234".to_owned()).is_ok());
        for weak in ["short", "", "with spaces and more of it", "quote\"quote\"quote\""] {
            assert!(Token::chosen(weak.to_owned()).is_err(), "{weak}");
        }
    }
}
