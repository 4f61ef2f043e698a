//! Variables of foreign files: `$NAME`, `${NAME:-default}`, `$$`.

/// Maximum nesting of defaults in defaults.
const MAX_DEPTH: usize = 8;

/// A text with variables.
#[derive(Debug, Default)]
pub(super) struct Expanded {
    /// The text in the syntax of experiment files.
    pub text: String,
    /// Its value if no variable is set.
    pub plain: String,
    /// Whether `text` refers to variables.
    pub refers: bool,
    /// Whether a variable must be set.
    pub must: bool,
    /// Whether the value of a variable changes how a shell splits the text.
    pub splits: bool,
    /// Variables that `text` has the value of, because its syntax cannot refer to them.
    pub lost: Vec<String>,
}

/// A part of a text.
enum Part {
    Literal(String),
    Variable(Variable),
}

/// A variable.
struct Variable {
    /// As in the foreign file.
    written: String,
    /// As in experiment files; none if these cannot say it.
    reference: Option<String>,
    /// Value if it is not set.
    plain: String,
    must: bool,
    /// Whether its default refers to another variable.
    nested: bool,
}

/// The text with variables in the syntax of experiment files.
pub(super) fn expanded(text: &str) -> Expanded {
    let mut out = Expanded::default();
    let mut after_dollar = false;
    for part in parts(text, 0) {
        match part {
            Part::Literal(literal) => {
                out.text += &escaped(&literal);
                out.plain += &literal;
                after_dollar = literal.ends_with('$');
            }
            Part::Variable(variable) => {
                let awkward = |c: char| c.is_whitespace() || "'\"\\".contains(c);
                out.splits |= variable.plain.contains(awkward);
                // `$` before a reference would make it literal.
                let reference = variable.reference.filter(|_| !after_dollar);
                if variable.nested || reference.is_none() {
                    out.lost.push(variable.written);
                }
                match reference {
                    Some(reference) => {
                        out.text += &reference;
                        (out.refers, out.must) = (true, out.must || variable.must);
                    }
                    None => out.text += &escaped(&variable.plain),
                }
                out.plain += &variable.plain;
                after_dollar = after_dollar && variable.plain.is_empty();
            }
        }
    }
    out
}

/// A text without variables in the syntax of experiment files.
pub(super) fn escaped(text: &str) -> String {
    text.replace("${", "$${")
}

/// The literal texts, joined, and the variables between them.
fn parts(text: &str, depth: usize) -> Vec<Part> {
    let (mut parts, mut literal, mut rest) = (Vec::new(), String::new(), text);
    while let Some(at) = rest.find('$') {
        literal += &rest[..at];
        rest = &rest[at + 1..];
        let (variable, after) = match rest.as_bytes().first() {
            Some(b'$') => {
                literal.push('$');
                rest = &rest[1..];
                continue;
            }
            Some(b'{') => match closing(&rest[1..]).filter(|_| depth < MAX_DEPTH) {
                Some(end) => (braced(&rest[1..=end], depth), &rest[end + 2..]),
                None => {
                    // Other tools refuse this. What follows cannot be told apart.
                    literal.push('$');
                    break;
                }
            },
            _ => {
                let (name, after) = rest.split_at(name_end(rest));
                (is_name(name).then(|| variable(name, "")), after)
            }
        };
        match variable {
            Some(variable) => {
                parts.push(Part::Literal(std::mem::take(&mut literal)));
                parts.push(Part::Variable(variable));
            }
            None => literal = literal + "$" + &rest[..rest.len() - after.len()],
        }
        rest = after;
    }
    parts.push(Part::Literal(literal + rest));
    parts.retain(|part| !matches!(part, Part::Literal(text) if text.is_empty()));
    parts
}

/// The variable with this text between its braces; none if it is not one.
fn braced(inside: &str, depth: usize) -> Option<Variable> {
    let (name, then) = inside.split_at(name_end(inside));
    if !is_name(name) {
        return None;
    }
    let written = format!("${{{inside}}}");
    let unset = then.strip_prefix(':').unwrap_or(then);
    if let Some(default) = unset.strip_prefix(['-', '=']) {
        return Some(Variable { written, ..with_default(name, default, depth) });
    }
    match unset.chars().next() {
        None if then.is_empty() => Some(Variable { written, ..variable(name, "") }),
        Some('?') => {
            let reference = Some(format!("${{env:{name}}}"));
            Some(Variable { written, reference, must: true, ..variable(name, "") })
        }
        // Another text if it is set: experiment files have none.
        Some('+') => Some(Variable { written, reference: None, ..variable(name, "") }),
        _ => None,
    }
}

fn with_default(name: &str, default: &str, depth: usize) -> Variable {
    let inner = parts(default, depth + 1);
    let nested = inner.iter().any(|part| matches!(part, Part::Variable(_)));
    let values = inner.into_iter().map(|part| match part {
        Part::Literal(text) => text,
        Part::Variable(variable) => variable.plain,
    });
    let plain: String = values.collect();
    let variable = variable(name, &plain);
    // The first `}` ends a reference, and `$` at the end of a default would begin another one.
    let reference = variable.reference.filter(|_| !plain.contains(['$', '}']));
    Variable { reference, nested, ..variable }
}

fn variable(name: &str, default: &str) -> Variable {
    Variable {
        written: format!("${name}"),
        reference: Some(format!("${{env:{name}:-{default}}}")),
        plain: default.to_owned(),
        must: false,
        nested: false,
    }
}

fn name_end(text: &str) -> usize {
    text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(text.len())
}

/// Whether an environment variable of experiment files can have this name.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty()
        && name_end(text) == text.len()
        && !text.starts_with(|c: char| c.is_ascii_digit())
}

/// Position of the brace that closes the one before `text`.
pub(super) fn closing(text: &str) -> Option<usize> {
    let (bytes, mut open) = (text.as_bytes(), 0);
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            b'{' if at > 0 && bytes[at - 1] == b'$' => open += 1,
            b'}' if open == 0 => return Some(at),
            b'}' => open -= 1,
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_have_the_syntax_of_experiment_files() {
        for (text, expected) in [
            ("mqtt://$HOST:${PORT:-1883}/", "mqtt://${env:HOST:-}:${env:PORT:-1883}/"),
            ("${A?needed} ${B-x} ${C:?}", "${env:A} ${env:B:-x} ${env:C}"),
            ("${V:=3} ${V=4}", "${env:V:-3} ${env:V:-4}"),
            ("cost $$5, $${X}", "cost $5, $${X}"),
            ("100 $ each, $1", "100 $ each, $1"),
        ] {
            let expanded = expanded(text);
            assert_eq!(expanded.text, expected);
            assert!(expanded.lost.is_empty(), "{text}");
        }
    }

    #[test]
    fn what_experiment_files_cannot_say_is_the_value_without_variables() {
        for (text, expected, lost) in [
            ("${A:+yes}!", "!", "${A:+yes}"),
            ("${A:-${B:-c}}", "${env:A:-c}", "${A:-${B:-c}}"),
            ("${A:-x$B}y", "${env:A:-x}y", "${A:-x$B}"),
            ("${A:-$$x}", "$x", "${A:-$$x}"),
            ("$$${A:-x}", "$x", "${A:-x}"),
        ] {
            let expanded = expanded(text);
            assert_eq!(expanded.text, expected);
            assert_eq!(expanded.lost, [lost]);
        }
    }

    #[test]
    fn text_that_is_no_variable_stays() {
        for (text, expected) in [
            ("${1A} x", "$${1A} x"),
            ("${", "$${"),
            ("${A ${B}", "$${A $${B}"),
            ("${A.b}", "$${A.b}"),
            ("$", "$"),
        ] {
            let expanded = expanded(text);
            assert_eq!(expanded.text, expected);
            assert_eq!(expanded.plain, text);
        }
        let deep = "${A:-".repeat(50_000) + &"}".repeat(50_000);
        assert!(expanded(&deep).plain.len() <= deep.len());
    }
}
