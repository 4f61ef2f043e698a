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
                word.extend(next);
                rest = &rest[next.map_or(0, char::len_utf8)..];
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

    #[test]
    fn commands_are_split_as_by_a_shell() {
        let split = words(r#"sh -c "echo 'a b'" x\ y '' "q\"r""#);
        assert_eq!(split, ["sh", "-c", "echo 'a b'", "x y", "", "q\"r"]);
        assert!(words("  ").is_empty());
    }

    #[test]
    fn variables_are_not_split() {
        let split = words("run ${A:-x y} '${B:-c d}'$$ ${C");
        assert_eq!(split, ["run", "${A:-x y}", "${B:-c d}$$", "${C"]);
    }
}
