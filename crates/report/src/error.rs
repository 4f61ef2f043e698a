//! Errors of reading a run folder and of writing a page.

use std::path::PathBuf;

/// Why a folder could not be read, or a report not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be opened or read.
    #[error("cannot read {}: {source}; check that this is the folder of a run or sweep", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A JSON file is damaged or has another format.
    #[error(
        "{} is damaged or from another version of Thingbed: {source}; run the experiment again, \
         or remove the folder from the sweep", path.display()
    )]
    Json {
        /// The file.
        path: PathBuf,
        /// Position and kind of the error.
        source: serde_json::Error,
    },
    /// A parquet file is damaged or has another format.
    #[error(
        "{} cannot be used: {what}; its results are omitted", path.display()
    )]
    Table {
        /// The file.
        path: PathBuf,
        /// The error.
        what: String,
    },
    /// A folder without any run.
    #[error(
        "no run in {}: neither it nor any folder in it has a summary.json; give the folder that \
         `thingbed run` printed at its end{}", path.display(), lines(notes)
    )]
    NoRuns {
        /// The folder.
        path: PathBuf,
        /// What is left of runs without results.
        notes: Vec<String>,
    },
    /// The page cannot be written.
    #[error("cannot write {}: {source}; check the free space and the permissions", path.display())]
    Write {
        /// The page.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
}

/// Notes below an error, each on a line.
fn lines(notes: &[String]) -> String {
    notes.iter().map(|note| format!("\n  {note}")).collect()
}
