//! Topics and filters (MQTT 3.1.1, section 4.7).

#[cfg(not(feature = "std"))]
use crate::platform::prelude::*;

/// Maximum number of filters of a member.
pub const MAX_FILTERS: usize = 64;
/// Maximum length of a topic or filter in a session, in bytes.
pub const MAX_LENGTH: usize = 256;

/// A topic or filter that a session does not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopicError {
    /// Messages cannot have it.
    #[error("`{0}` is not a topic: use 1 to {MAX_LENGTH} bytes without `+` and `#`")]
    Topic(String),
    /// Subscriptions cannot have it.
    #[error(
        "`{0}` is not a filter: use 1 to {MAX_LENGTH} bytes, with `+` as a whole level, and `#` as the last one"
    )]
    Filter(String),
    /// Too many subscriptions.
    #[error("the member has {MAX_FILTERS} subscriptions: unsubscribe one, or use wildcards")]
    TooMany,
}

/// Checks the topic of a message in a session.
///
/// # Errors
/// [`TopicError::Topic`].
pub fn check_topic(topic: &str) -> Result<(), TopicError> {
    match is_topic(topic) && topic.len() <= MAX_LENGTH {
        true => Ok(()),
        false => Err(TopicError::Topic(shown(topic))),
    }
}

/// Checks the filter of a subscription in a session.
///
/// # Errors
/// [`TopicError::Filter`].
pub fn check_filter(filter: &str) -> Result<(), TopicError> {
    match is_filter(filter) && filter.len() <= MAX_LENGTH {
        true => Ok(()),
        false => Err(TopicError::Filter(shown(filter))),
    }
}

/// The start of a text of any length, for an error.
fn shown(text: &str) -> String {
    text.chars().take(80).collect()
}

/// Whether a text can be a message's topic.
pub fn is_topic(topic: &str) -> bool {
    !topic.is_empty() && !topic.contains(['+', '#'])
}

/// Whether a text is a valid filter.
pub fn is_filter(filter: &str) -> bool {
    let levels = filter.split('/').count();
    let valid = |(index, level): (usize, &str)| match level {
        "+" => true,
        // `#` must be the last level (4.7.1.2).
        "#" => index + 1 == levels,
        other => !other.contains(['+', '#']),
    };
    !filter.is_empty() && filter.split('/').enumerate().all(valid)
}

/// Whether a filter is that of a shared subscription (MQTT 5, 4.8.2).
pub fn is_shared(filter: &str) -> bool {
    filter.starts_with("$share/")
}

/// Whether a filter selects a topic.
pub fn matches(filter: &str, topic: &str) -> bool {
    // Wildcards at the start do not select topics of the server (4.7.2).
    if topic.starts_with('$') && filter.starts_with(['+', '#']) {
        return false;
    }
    let (mut filter, mut topic) = (filter.split('/'), topic.split('/'));
    loop {
        match (filter.next(), topic.next()) {
            // `a/#` selects `a`, too (4.7.1.2).
            (Some("#"), _) | (None, None) => return true,
            (Some("+"), Some(_)) => {}
            (Some(requested), Some(level)) if requested == level => {}
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_those_of_the_standard() {
        // The examples of section 4.7.
        for topic in ["sport/tennis/player1", "sport/tennis/player1/ranking"] {
            assert!(matches("sport/tennis/player1/#", topic), "{topic}");
        }
        assert!(matches("sport/#", "sport") && matches("#", "a/b"));
        assert!(matches("sport/tennis/+", "sport/tennis/player1"));
        assert!(!matches("sport/tennis/+", "sport/tennis/player1/ranking"));
        assert!(!matches("sport/+", "sport") && matches("sport/+", "sport/"));
        assert!(matches("+/+", "/finance") && matches("/+", "/finance"));
        assert!(!matches("+", "/finance") && !matches("a", "A"));
        assert!(!matches("#", "$SYS/x") && !matches("+/x", "$SYS/x"));
        assert!(matches("$SYS/#", "$SYS/x"));
        for filter in ["#", "a/#", "+", "+/b/#", "/", "a//b"] {
            assert!(is_filter(filter), "{filter}");
        }
        for filter in ["", "a#", "a/#/b", "a+", "#/"] {
            assert!(!is_filter(filter), "{filter}");
        }
        assert!(is_topic("a") && !is_topic("") && !is_topic("a/+"));
    }
}
