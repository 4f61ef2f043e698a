//! Lines for the log of this program: its standard error.

/// Writes a line to the log. `eprintln!` would end the program if the disk of the log is full.
#[macro_export]
macro_rules! log {
    ($($text:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), "thingbed-workload: {}", format_args!($($text)*));
    }};
}

/// A text of another program for a message: in one line, without control characters, of at most
/// `longest` characters.
pub(crate) fn one_line(text: &str, longest: usize) -> String {
    let visible = |c: char| if c.is_control() { ' ' } else { c };
    text.chars().map(visible).take(longest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_text_is_one_line_without_escape_sequences() {
        assert_eq!(one_line("a\r\nb\0\u{1b}[2J\u{85}\u{e9}", 400), "a  b  [2J \u{e9}");
        assert_eq!(one_line(&"\u{e9}".repeat(9), 4), "\u{e9}".repeat(4));
    }
}
