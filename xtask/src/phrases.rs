//! Phrases with a plainer or more exact term.

/// A phrase, and what to write instead.
const BANNED: [(&str, &str); 22] = [
    ("whoever", "name the role"),
    ("nobody", "no client, no node, none"),
    ("so many", "N, this number of"),
    ("is had", "is done, exists"),
    ("are had", "are done, exist"),
    ("was had", "was run"),
    ("were had", "were run"),
    ("be had", "be used, be created"),
    ("befall", "inject a fault into"),
    ("befalls", "faults injected into"),
    ("what is asked of", "the configuration of"),
    ("asked against got", "configured against measured"),
    ("holds against", "compares"),
    ("mend", "fix"),
    ("mends", "fixes"),
    ("mended", "fixed"),
    ("stood in the way", "runtime error"),
    ("a way out", "a connection to the outside"),
    ("comes to pass", "happens"),
    ("of its own", "separate"),
    ("of their own", "separate"),
    ("beside", "next to, with, in addition to"),
];
/// Texts that people read.
const ENDINGS: [&str; 7] = ["md", "rs", "py", "yaml", "sh", "toml", "c"];
/// Lists of such phrases, and texts that are quoted as they are.
const EXCLUDED: [&str; 5] = [
    "xtask/src/phrases.rs",
    "crates/thingbed/tests/words.rs",
    "CHANGELOG.md",
    "kernel/patches/",
    "docs/results/",
];

/// The banned phrases in a file, a line each.
pub fn banned(name: &str, text: &str) -> Vec<String> {
    let ending = name.rsplit('.').next().unwrap_or_default();
    if !ENDINGS.contains(&ending) || EXCLUDED.iter().any(|begin| name.starts_with(begin)) {
        return Vec::new();
    }
    let mut found = Vec::new();
    // Line by line, so a phrase with a line break in it is not found.
    for (number, line) in text.lines().enumerate() {
        let line = unquoted(line);
        let words: String = line
            .chars()
            .map(|c| if is_of_word(c) { c.to_ascii_lowercase() } else { ' ' })
            .collect();
        // A full stop within a word is part of a name, such as `a.b`; at its end, it ends a sentence.
        let words = words.split_whitespace().map(|word| word.trim_matches('.'));
        let words = words.collect::<Vec<_>>().join(" ");
        // Spaces at both ends, so that the first and the last word of a line are whole words too.
        let words = format!(" {words} ");
        for (phrase, instead) in BANNED {
            if words.contains(&format!(" {phrase} ")) {
                found.push(format!("{name}:{}: `{phrase}`: write {instead}", number + 1));
            }
        }
    }
    found
}

/// The line without single words in quotes: these are data.
fn unquoted(line: &str) -> String {
    let mut parts = line.split_inclusive(['"', '`']).peekable();
    let mut text = String::new();
    while let Some(part) = parts.next() {
        text.push_str(part);
        let quote = part.chars().last().filter(|last| matches!(last, '"' | '`'));
        let word = parts.peek().and_then(|next| next.strip_suffix(quote?));
        if word.is_some_and(|word| !word.is_empty() && word.chars().all(is_of_word)) {
            parts.next();
        }
    }
    text
}

/// Names in code are no prose: `beside_it` is one word.
fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '-' || c == '.'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_found_in_prose_and_not_in_names() {
        assert_eq!(banned("a.rs", "// Beside it.\n").len(), 1);
        assert_eq!(banned("a.rs", "// It stands beside.\n").len(), 1);
        assert_eq!(banned("a.rs", "fn beside_it() {}\n").len(), 0);
        assert_eq!(banned("a.rs", "user(\"nobody\"); let user = `nobody`;\n").len(), 0);
        assert_eq!(banned("a.rs", "\"name\" nobody, please\n").len(), 1);
        assert_eq!(banned("a.png", "beside it\n").len(), 0);
        assert_eq!(banned("CHANGELOG.md", "beside it\n").len(), 0);
    }
}
