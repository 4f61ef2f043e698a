//! What stands in the way of any result at all.

use std::io;

/// Why there is no analysis. A capture that is damaged further on is no error:
/// its [`crate::Analysis`] is of what could be read, and says so.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The source could not be read.
    #[error("could not read the capture: {0}")]
    Read(#[from] io::Error),
    /// It is neither pcap nor pcapng.
    #[error(
        "this is no capture: it begins neither as pcap nor as pcapng. If it is compressed, \
         unpack it first; if another program wrote it, have it saved as pcapng"
    )]
    Unknown,
    /// There is nothing in it.
    #[error("the capture is empty: not even its header was written")]
    Empty,
    /// A capture point that was asked for is not there.
    #[error("there is no capture point `{asked}` in this capture; it has {}", list(.there))]
    NoPoint {
        /// What was asked for.
        asked: String,
        /// What there is.
        there: Vec<String>,
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
