//! Suggestions for unknown words.

/// The candidate nearest to `word`, if it is near enough to suggest.
pub(crate) fn nearest<'a, T: AsRef<str> + ?Sized + 'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a T>,
) -> Option<&'a str> {
    let lower = word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| candidate.as_ref())
        .filter_map(|candidate| {
            let distance = strsim::damerau_levenshtein(&lower, &candidate.to_lowercase());
            // Allow one edit in a short word, and one per three letters of a longer word.
            let longest = word.chars().count().max(candidate.chars().count());
            let begins = lower.len() >= 3 && candidate.to_lowercase().starts_with(&lower);
            (distance <= (longest / 3).max(1) || begins).then_some((distance, candidate))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Keys of earlier versions and their names now.
const RENAMED: [(&str, &str); 2] = [("garbage", "corrupt"), ("twice", "duplicate")];

/// Advice for an unknown key: its name now if it was renamed, or as [`advice`].
pub(crate) fn key_advice(key: &str, known: &[&str]) -> String {
    // An error and no alias: two names of a key would stay in files for ever (decision 72).
    match RENAMED.iter().find(|(former, name)| *former == key && known.contains(name)) {
        Some((_, name)) => format!("this key is now `{name}`"),
        None => advice(key, known),
    }
}

/// `did you mean ...?`, or the list of known words.
pub(crate) fn advice<'a, T: AsRef<str> + ?Sized + 'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a T> + Clone,
) -> String {
    match nearest(word, candidates.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known: {}", list(candidates)),
    }
}

/// Words joined by commas; a long list is truncated.
pub(crate) fn list<'a, T: AsRef<str> + ?Sized + 'a>(
    words: impl IntoIterator<Item = &'a T>,
) -> String {
    const MAX_LISTED: usize = 40;
    let words: Vec<_> = words.into_iter().map(|word| word.as_ref()).collect();
    match words.len() {
        0 => "none".to_owned(),
        n if n > MAX_LISTED => {
            format!("{}, and {} more", words[..MAX_LISTED].join(", "), n - MAX_LISTED)
        }
        _ => words.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_a_stranger_is_not() {
        let known = ["delay", "jitter", "loss", "loss_unit"];
        assert_eq!(nearest("dleay", &known), Some("delay"));
        assert_eq!(nearest("Jiter", &known), Some("jitter"));
        assert_eq!(nearest("lost", &known), Some("loss"));
        assert_eq!(nearest("bandwidth", &known), None);
        assert_eq!(nearest("", &known), None);
    }

    #[test]
    fn advice_lists_what_there_is_when_nothing_is_near() {
        assert_eq!(advice("bandwidth", &["delay", "loss"]), "known: delay, loss");
        assert_eq!(advice::<str>("x", []), "known: none");
    }
}
