//! Lines for the operator, on standard error.

use std::fmt::Display;
use std::io::{self, Write};

/// Writes a line at once. `eprintln!` would end the gateway if the disk of the log is full, or if its
/// reader has ended.
pub fn say(text: impl Display) {
    let _ = writeln!(io::stderr(), "{NAME}: {text}");
}

const NAME: &str = "director-gateway";
/// Maximum number of lines in a second: clients cause some of them.
const MAX_LINES: u32 = 20;
/// Maximum length of a line, in characters.
const LONGEST: usize = 500;

/// Limits the number of lines, and what they contain.
#[derive(Debug, Default)]
pub struct Log {
    lines: u32,
    dropped: u64,
}

impl Log {
    /// Writes a line, if this second has room for it.
    pub fn write(&mut self, text: &str) {
        self.line(text).iter().for_each(say);
    }

    /// A second is over.
    pub fn tick(&mut self) {
        self.end_second().iter().for_each(say);
    }

    fn line(&mut self, text: &str) -> Option<String> {
        if self.lines >= MAX_LINES {
            self.dropped += 1;
            return None;
        }
        self.lines += 1;
        Some(printable(text))
    }

    fn end_second(&mut self) -> Option<String> {
        self.lines = 0;
        let dropped = std::mem::take(&mut self.dropped);
        (dropped > 0).then(|| format!("{dropped} further lines in this second were not written"))
    }
}

/// A text without control characters: a topic of a client could contain a line of its choice, or commands
/// for a terminal.
fn printable(text: &str) -> String {
    let mut line = String::new();
    for (index, letter) in text.chars().enumerate() {
        match letter {
            _ if index == LONGEST => {
                line.push_str("...");
                break;
            }
            _ if letter.is_control() => line.extend(letter.escape_default()),
            _ => line.push(letter),
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What failed before: a client could write lines of its choice, any number of them.
    #[test]
    fn clients_cannot_write_lines_of_their_choice_or_too_many() {
        let mut log = Log::default();
        let line =
            log.line("a message of a\ndirector-gateway: all is well\x1b[2J\u{85}ü is too long");
        let expected =
            "a message of a\\ndirector-gateway: all is well\\u{1b}[2J\\u{85}ü is too long";
        assert_eq!(line.as_deref(), Some(expected));
        assert!(log.line(&"x".repeat(70_000)).unwrap().len() < 600);
        let written = (2..100).filter_map(|_| log.line("x")).count();
        assert_eq!(written as u32, MAX_LINES - 2);
        let dropped = log.end_second().unwrap();
        assert!(dropped.contains("80 further lines"), "{dropped}");
        assert_eq!(log.end_second(), None);
        assert!(log.line("x").is_some());
    }
}
