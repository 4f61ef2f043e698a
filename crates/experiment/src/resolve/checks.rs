//! Checks of single values that several parts of a file have.

use crate::problem::Problem;
use crate::read::{At, Sink};
use units::Span;

/// Maximum length of an experiment's name in bytes. With the suffixes of drafts and locks it fits in the 255
/// of a file's name.
const NAME_LENGTH: usize = 100;

/// A time that must be above 0.
pub(super) fn positive(at: &Option<At<Span>>, key: &str, sink: &mut Sink) -> Option<Span> {
    let at = at.as_ref()?;
    if at.value == Span::ZERO {
        let problem = Problem::new(format!("`{key}` is 0")).at(at.place);
        sink.add(problem.label("use more than 0"));
        return None;
    }
    Some(at.value)
}

/// Checks that the name can be a folder's name.
pub(super) fn check_name<const AXIS: bool>(name: &At<String, AXIS>, sink: &mut Sink) {
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let text = &name.value;
    // `..` would lead out of the folder of results; drafts and locks begin with a dot, too.
    if text.is_empty()
        || text.starts_with('.')
        || !text.chars().all(fits)
        || text.len() > NAME_LENGTH
    {
        let problem = Problem::new(format!("`{text}` cannot be the name of a folder"));
        sink.add(problem.at(name.place).label(format!(
            "use letters, digits, `-`, `_` and `.`, at most {NAME_LENGTH} characters, not \
             starting with `.`"
        )));
    }
}
