//! What commands print.

use std::io::{self, Write};
use std::sync::OnceLock;

/// Why a result could not be printed.
static LOST: OnceLock<io::Error> = OnceLock::new();

/// Prints a result to standard output. A closed pipe, as with `head`, is not an error; others are in
/// [`lost`].
pub(crate) fn say(text: impl std::fmt::Display) {
    print(&printable(&text.to_string()));
}

/// As [`say`], for a text with colours.
pub(crate) fn say_styled(text: impl std::fmt::Display) {
    print(&with_colours(&text.to_string()));
}

fn print(text: &str) {
    // No `println!`: it panics when the pipe is closed.
    match writeln!(io::stdout(), "{text}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => drop(LOST.set(error)),
        _ => {}
    }
}

/// Why a part of the results could not be printed, for example because the disk is full.
pub(crate) fn lost() -> Option<&'static io::Error> {
    LOST.get()
}

/// `text` as by [`printable`], but with the escape sequences that set colours and weights.
fn with_colours(text: &str) -> String {
    const BEGIN: &str = "\u{1b}[";
    let mut parts = text.split(BEGIN);
    let mut result = printable(parts.next().unwrap_or_default());
    for part in parts {
        // Only sequences of digits and `;` that end in `m` set colours (SGR, ECMA-48, 8.3.117);
        // others move the cursor or change the title, and text from files could use them.
        let end = part.find(|c: char| !c.is_ascii_digit() && c != ';');
        let is_colour = end.is_some_and(|end| part[end..].starts_with('m'));
        result.push_str(if is_colour { BEGIN } else { " [" });
        result.push_str(&printable(part));
    }
    result
}

/// Prints a message to standard error, separate from the results.
pub(crate) fn remark(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{}", printable(&text.to_string()));
}

/// `text` with control characters replaced by spaces: guests, capsules and programs could otherwise
/// send escape sequences to the terminal.
pub(crate) fn printable(text: &str) -> String {
    // The second kind changes the direction of text, so that it reads otherwise than it is.
    let is_direction = |c| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let keep = |c: char| !(c.is_control() || is_direction(c)) || matches!(c, '\n' | '\t');
    text.chars().map(|c| if keep(c) { c } else { ' ' }).collect()
}

/// Prints an error in the format of all commands. Errors of experiment files have the prefix
/// already.
pub(crate) fn complain(error: impl std::fmt::Display) {
    let text = error.to_string();
    remark(format_args!("error: {}", text.strip_prefix("error: ").unwrap_or(&text)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        let text = "a\u{1b}]0;title\u{7}\tb\u{9b}2J\r\u{202e}c\n";
        assert_eq!(printable(text), "a ]0;title \tb 2J  c\n");
        let styled = "\u{1b}[1;31mred\u{1b}[0m \u{1b}[2J\u{1b}]0;x\u{1b}[";
        assert_eq!(with_colours(styled), "\u{1b}[1;31mred\u{1b}[0m  [2J ]0;x [");
    }
}
