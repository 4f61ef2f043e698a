//! What the files of a cellular trace have in common.

use std::path::{Path, PathBuf};

/// Why a file of a cellular trace is not usable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CellularTraceError {
    /// The file is not readable.
    #[error("could not read {}: {why}", file.display())]
    Unreadable {
        /// Path of the file.
        file: PathBuf,
        /// The system's error message.
        why: String,
    },
    /// A line is not in the format.
    #[error("{}, line {line}: {why}", file.display())]
    Line {
        /// Path of the file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong and what the line should be.
        why: String,
    },
    /// The lines do not suffice.
    #[error("{} {why}", file.display())]
    TooFew {
        /// Path of the file.
        file: PathBuf,
        /// What is missing.
        why: &'static str,
    },
}

/// Lines with text, and their numbers from 1.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(number, text)| (number + 1, text.trim()));
    numbered.filter(|(_, text)| !text.is_empty())
}

/// The content of a file.
pub(super) fn text_of(file: &Path) -> Result<String, CellularTraceError> {
    input::read_to_string(file, input::MAX_DATA).map_err(|error| CellularTraceError::Unreadable {
        file: file.to_owned(),
        why: error.to_string(),
    })
}
