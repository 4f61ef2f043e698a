//! Commands of foreign files.

use super::reader::Reader;
use super::variables::{Expanded, closing, escaped, expanded};
use crate::source::Place;

/// Splits a command as a shell does, without running one: blanks separate words, quotes and
/// backslashes keep them together. Variables stay.
pub(super) fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut any) = (Vec::new(), String::new(), false);
    let (mut rest, mut quote) = (command, None);
    while let Some(c) = rest.chars().next() {
        // Other tools replace variables first, also between single quotes.
        let variable = variable_at(rest);
        if variable > 0 {
            word += &rest[..variable];
            rest = &rest[variable..];
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match (quote, c) {
            (None, '\'' | '"') => (quote, any) = (Some(c), true),
            (Some(open), _) if open == c => quote = None,
            // In single quotes a backslash is itself (POSIX.1-2017, XCU 2.2.2).
            (Some('\''), _) => word.push(c),
            (_, '\\') => {
                let next = rest.chars().next();
                let escapes = escapes(next, quote.is_some());
                if !escapes {
                    word.push(c);
                } else if next != Some('\n') {
                    word.extend(next);
                }
                rest = &rest[next.filter(|_| escapes).map_or(0, char::len_utf8)..];
            }
            (None, _) if c.is_whitespace() => {
                if any || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                any = false;
            }
            _ => word.push(c),
        }
    }
    if any || !word.is_empty() {
        words.push(word);
    }
    words
}

/// Whether a backslash before `next` is an escape character and not itself (POSIX.1-2017, XCU 2.2.1
/// and 2.2.3).
fn escapes(next: Option<char>, in_double_quotes: bool) -> bool {
    next.is_some_and(|next| !in_double_quotes || "$`\"\\\n".contains(next))
}

/// Length of the variable or of the `$$` with which the text begins.
fn variable_at(text: &str) -> usize {
    match text.as_bytes() {
        [b'$', b'$', ..] => 2,
        [b'$', b'{', ..] => closing(&text[2..]).map_or(0, |end| end + 3),
        _ => 0,
    }
}

/// The words of a command that is one text, with variables in the syntax of experiment files. `what` is
/// the command in notes.
pub(super) fn split(text: &str, what: &str, place: Place, reader: &mut Reader) -> Vec<Expanded> {
    let all = expanded(text);
    if all.splits {
        reader.note(place, format!("{what}: its variables are replaced by their defaults"));
        let literal =
            |word: String| Expanded { text: escaped(&word), plain: word, ..Expanded::default() };
        return words(&all.plain).into_iter().map(literal).collect();
    }
    let mut words: Vec<Expanded> = words(text).iter().map(|word| expanded(word)).collect();
    // Other tools split after they replaced variables, so that an empty one is no word.
    let is_empty = |word: &Expanded| word.refers && !word.must && word.plain.is_empty();
    for word in words.iter().filter(|word| is_empty(word)) {
        reader.note(place, format!("`{}` of {what}: empty, so it is no word", word.text));
    }
    words.retain(|word| !is_empty(word));
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;

    #[test]
    fn commands_are_split_as_by_a_shell() {
        let split = words(r#"sh -c "echo 'a b'" x\ y '' "q\"r""#);
        assert_eq!(split, ["sh", "-c", "echo 'a b'", "x y", "", "q\"r"]);
        assert!(words("  ").is_empty());
    }

    /// POSIX.1-2017, XCU 2.2: the expected words are those of a shell.
    #[test]
    fn quotes_and_backslashes_are_those_of_posix() {
        for (command, expected) in [
            // 2.2.3: in double quotes, a backslash is special only before $ ` " \\ and a newline.
            (r#"grep "\d+\.\w" f"#, &["grep", r"\d+\.\w", "f"][..]),
            (r#"printf "a\tb\n""#, &["printf", r"a\tb\n"]),
            (r#""C:\\temp\x""#, &[r"C:\temp\x"]),
            (r#""a\"b\\" c"#, &[r#"a"b\"#, "c"]),
            (r#""a\`b""#, &["a`b"]),
            (r#""it\'s""#, &[r"it\'s"]),
            ("\"a\\\nb\"", &["ab"]),
            // 2.2.1: outside quotes, before any character; before a newline it joins the lines.
            (r"\d \\ \' \ x", &["d", r"\", "'", " x"]),
            ("run \\\n  --fast a\\\nb", &["run", "--fast", "ab"]),
            // 2.2.2: in single quotes, none is special.
            (r"'\d\\' '\'", &[r"\d\\", r"\"]),
            (r#"a"b c"'d e'f"#, &["ab cd ef"]),
            (r#"'"' "'" """#, &["\"", "'", ""]),
            // A backslash at the very end is itself.
            (r"a\", &[r"a\"]),
            (r#""a\"#, &[r"a\"]),
        ] {
            assert_eq!(words(command), expected, "{command}");
        }
    }

    #[test]
    fn variables_are_not_split() {
        let split = words("run ${A:-x y} '${B:-c d}'$$ ${C");
        assert_eq!(split, ["run", "${A:-x y}", "${B:-c d}$$", "${C"]);
    }
    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        /// All texts without variables, patterns and control operators are split as by the shell.
        #[test]
        fn texts_are_split_as_by_this_machines_shell(
            pieces in proptest::collection::vec(
                prop_oneof![
                    Just("a"), Just("b c"), Just(" "), Just("\t"), Just("'"), Just("\""), Just("\\"),
                    Just("\\\\"), Just("\\\""), Just("\\n"), Just("\"a\\\nb\""), Just("é"), Just("=-"),
                ],
                0..10,
            )
        ) {
            let text = pieces.concat();
            let script = format!("set -- {text}\nfor word; do printf '%s\\0' \"$word\"; done");
            let shell = Command::new("sh").arg("-c").arg(&script).output().unwrap();
            // An open quote takes the rest of the script in; `set --` alone has no words.
            prop_assume!(shell.status.success() && !is_open(&text));
            let shown = String::from_utf8(shell.stdout).unwrap();
            let expected: Vec<&str> = shown.split_terminator('\0').collect();
            prop_assert_eq!(words(&text), expected, "{}", text);
        }
    }

    /// Whether a quote is open at the end, or a backslash is the last character.
    fn is_open(text: &str) -> bool {
        let probe = format!("{text} x");
        words(&probe).last().map(String::as_str) != Some("x")
    }
}
