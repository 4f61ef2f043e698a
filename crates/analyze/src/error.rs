//! Errors of an analysis.

use std::io;

/// Why there is no analysis. A capture that is damaged further on is not an error: its
/// [`crate::Analysis`] covers the part before the damage and says so.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The source cannot be read.
    #[error("could not read the capture: {0}")]
    Read(#[from] io::Error),
    /// The source is neither pcap nor pcapng.
    #[error(
        "this is not a packet capture: it is neither pcap nor pcapng. If it is compressed, \
         decompress it first; if another program wrote it, save it there as pcapng"
    )]
    Unknown,
    /// The source has no bytes.
    #[error("the capture is empty: even the file header is missing")]
    Empty,
    /// The capture lacks a capture point.
    #[error("the capture has no capture point `{missing}`; it has {}", list(.known))]
    NoPoint {
        /// The requested name.
        missing: String,
        /// The names of the capture points that it has.
        known: Vec<String>,
    },
}

fn list(names: &[String]) -> String {
    let some: Vec<_> = names.iter().take(8).map(|name| format!("`{name}`")).collect();
    match (names.len(), some.join(", ")) {
        (0, _) => "none".to_owned(),
        (n, some) if n > 8 => format!("{some} and {} more", n - 8),
        (_, some) => some,
    }
}
