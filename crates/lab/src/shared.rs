//! What all nodes of a lab share.

use std::os::fd::OwnedFd;
use std::path::PathBuf;

/// State shared by all nodes.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// With veth pairs, the network namespace of the medium's ends.
    pub wire: Option<OwnedFd>,
    /// Mounts below the host's `/sys`.
    pub mounted: Vec<PathBuf>,
}
