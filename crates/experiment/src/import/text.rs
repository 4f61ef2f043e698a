//! Foreign text in YAML, in comments and in shell commands.

/// Whether a character ends a line for some reader of YAML, or hides or reorders what a terminal
/// shows (YAML 1.1, 4.1.4; Unicode TR 36, bidirectional text).
fn is_hidden(c: char) -> bool {
    let marks = ['\u{61c}', '\u{200e}', '\u{200f}', '\u{feff}', '\u{fffe}', '\u{ffff}'];
    c.is_control()
        || marks.contains(&c)
        || ('\u{2028}'..='\u{202e}').contains(&c)
        || ('\u{2066}'..='\u{2069}').contains(&c)
}

/// Maximum length of a line that quotes a foreign file, in characters.
const MAX_LINE: usize = 500;

/// The text as one line, for comments and terminals.
pub(super) fn line(text: &str) -> String {
    let shown = |c: char| match c {
        // A line end would leave the comment, and what follows would be part of the experiment.
        '\n' | '\r' | '\t' => ' ',
        c if is_hidden(c) => char::REPLACEMENT_CHARACTER,
        c => c,
    };
    let mut chars = text.chars();
    let mut line: String = chars.by_ref().take(MAX_LINE).map(shown).collect();
    if chars.next().is_some() {
        line.push_str("...");
    }
    line
}

/// A list in one line.
pub(super) fn list(items: &[String]) -> String {
    format!("[{}]", items.iter().map(|item| scalar(item)).collect::<Vec<_>>().join(", "))
}

/// A text as YAML, quoted if it could mean something else.
pub(super) fn scalar(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./+-".contains(c);
    // YAML 1.1 has more booleans than 1.2, and other programs may read the file, too.
    // Words of YAML 1.1 and 1.2, for any reader of the file.
    let words = ["null", "~", "true", "false", "yes", "no", "on", "off"];
    let safe = text.chars().all(plain)
        && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '/')
        && !words.contains(&text.to_ascii_lowercase().as_str());
    if safe { text.to_owned() } else { quoted(text) }
}

/// A text in double quotes.
fn quoted(text: &str) -> String {
    let mut quoted = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            c if is_hidden(c) => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// A text as one word of a shell.
pub(super) fn shell_word(text: &str) -> String {
    let text = line(text);
    let plain = |c: char| c.is_ascii_alphanumeric() || "._/:@%+=,-".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::{self, Content};

    #[test]
    fn every_text_is_read_as_it_was() {
        let odd = "a\"b\\c\n\r\t\u{0}\u{1b}[31m\u{7f}\u{85}\u{2028}\u{202e}\u{feff}é😀 # x: y";
        for text in [odd, "", "null", "~", "on", "- x", "{a}", "&a", "*a", "!t", "%x", "a: b"] {
            let (root, _) = tree::parse(&format!("{0}: [{0}]\n", scalar(text))).unwrap();
            let Content::Map(entries) = root.content else { panic!() };
            assert_eq!(entries[0].0.text, text);
            let Content::List(items) = &entries[0].1.content else { panic!() };
            assert_eq!(items[0].content, Content::Scalar(text.to_owned()));
        }
        assert!(!scalar(odd).contains(is_hidden));
    }

    #[test]
    fn a_line_hides_nothing() {
        assert_eq!(line("a\nb\u{1b}[2J\u{202e}c"), "a b\u{fffd}[2J\u{fffd}c");
        assert_eq!(line(&"é".repeat(600)).chars().count(), MAX_LINE + 3);
    }

    #[test]
    fn a_shell_takes_a_word_as_text() {
        assert_eq!(shell_word("ghcr.io/a/b:1.2@sha256:ab"), "ghcr.io/a/b:1.2@sha256:ab");
        assert_eq!(shell_word("x; $(id) 'y'\n"), "'x; $(id) '\\''y'\\'' '");
        assert_eq!(shell_word(""), "''");
    }
}
