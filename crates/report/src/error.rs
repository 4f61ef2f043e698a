//! What can go wrong when a run folder is read or a page is written.

use std::path::PathBuf;

/// Why a folder could not be read, or a report not written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or folder could not be opened or read.
    #[error("cannot read {}: {source}; check that this is the folder of a run or sweep", path.display())]
    Read {
        /// What was to be read.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A JSON file does not hold what it should.
    #[error(
        "{} is damaged or from another version of Thingbed: {source}; run the experiment again, \
         or remove the folder from the sweep", path.display()
    )]
    Json {
        /// The file.
        path: PathBuf,
        /// Where and what.
        source: serde_json::Error,
    },
    /// A parquet file does not hold what it should.
    #[error(
        "{} cannot be used: {what}; the figures from it are left out", path.display()
    )]
    Table {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A folder without a single run in it.
    #[error(
        "no run in {}: neither it nor any folder in it has a summary.json; give the folder that \
         `thingbed run` printed at its end", path.display()
    )]
    NoRuns {
        /// The folder.
        path: PathBuf,
    },
    /// The page could not be written.
    #[error("cannot write {}: {source}; check the free space and the permissions", path.display())]
    Write {
        /// The page.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}
