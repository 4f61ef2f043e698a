//! Exit statuses.

/// Exit status of a command.
// The order matters: `max` of two statuses gives the one to report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Status {
    /// Success.
    Fine = 0,
    /// Runtime error.
    Failed = 1,
    /// Wrong arguments or experiment file.
    Wrong = 2,
    /// A run is invalid.
    Invalid = 3,
    /// All runs completed, but a program failed or an expectation does not hold.
    Unexpected = 4,
    /// Interrupted by the user.
    // 128 plus SIGINT's number, as shells report it.
    Interrupted = 130,
}
