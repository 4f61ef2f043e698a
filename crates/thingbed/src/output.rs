//! What commands print.

use std::io::Write;

/// Prints a result to standard output. A closed pipe, as with `head`, is not an error.
pub(crate) fn say(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Prints a message to standard error, separate from the results.
pub(crate) fn remark(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr(), "{}", printable(&text.to_string()));
}

/// `text` with control characters replaced by spaces: guests, capsules and programs could otherwise
/// send escape sequences to the terminal.
pub(crate) fn printable(text: &str) -> String {
    let keep = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    text.chars().map(|c| if keep(c) { c } else { ' ' }).collect()
}

/// Prints an error in the format of all commands. Errors of experiment files have the prefix
/// already.
pub(crate) fn complain(error: impl std::fmt::Display) {
    let text = error.to_string();
    remark(format_args!("error: {}", text.strip_prefix("error: ").unwrap_or(&text)));
}
