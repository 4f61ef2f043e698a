//! Leaving the session.

/// Whether the member leaves the session.
#[derive(Default)]
pub(super) struct Leaving {
    /// The number of the message that says so; `Some(0)` after the member has left.
    pub message: Option<u32>,
    /// Whether it joins again then.
    pub comes_back: bool,
}
