//! Commands and variables of foreign files.

/// Splits a command as a shell does, without running one: blanks separate words, quotes and
/// backslashes keep them together.
pub(super) fn words(command: &str) -> Vec<String> {
    let (mut words, mut word, mut any) = (Vec::new(), String::new(), false);
    let mut chars = command.chars();
    let mut quote = None;
    while let Some(c) = chars.next() {
        match (quote, c) {
            (None, '\'' | '"') => (quote, any) = (Some(c), true),
            (Some(open), _) if open == c => quote = None,
            (Some('\''), _) => word.push(c),
            (_, '\\') => word.extend(chars.next()),
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

/// A text with variables (`$NAME`, `${NAME:-default}`, `$$`) in the syntax of experiment files.
pub(super) fn with_variables(text: &str) -> String {
    let name_at = |text: &str| -> usize {
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        text.find(|c| !word(c)).unwrap_or(text.len())
    };
    let (mut out, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('$') {
        out += &rest[..at];
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            out += if after.starts_with('{') { "$$" } else { "$" };
            rest = after;
        } else if let Some(inner) = rest.strip_prefix('{') {
            let (inside, after) = inner.split_once('}').unwrap_or((inner, ""));
            let (name, then) = inside.split_at(name_at(inside));
            let default = then.strip_prefix(":-").or_else(|| then.strip_prefix('-'));
            out += &match default {
                Some(default) => format!("${{env:{name}:-{default}}}"),
                // A variable that is not set is empty, unless it must be set (`?`).
                None if then.contains('?') => format!("${{env:{name}}}"),
                None => format!("${{env:{name}:-}}"),
            };
            rest = after;
        } else {
            let (name, after) = rest.split_at(name_at(rest));
            out += &if name.is_empty() { "$".to_owned() } else { format!("${{env:{name}:-}}") };
            rest = after;
        }
    }
    out + rest
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
    fn variables_have_the_syntax_of_experiment_files() {
        for (text, expected) in [
            ("mqtt://$HOST:${PORT:-1883}/", "mqtt://${env:HOST:-}:${env:PORT:-1883}/"),
            ("${A?needed} ${B-x}", "${env:A} ${env:B:-x}"),
            ("cost $$5, $${X}", "cost $5, $${X}"),
            ("100 $ each", "100 $ each"),
        ] {
            assert_eq!(with_variables(text), expected);
        }
    }
}
