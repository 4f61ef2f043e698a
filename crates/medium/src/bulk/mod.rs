//! Super-frames: what a kernel hands over when it leaves the cutting of TCP into
//! segments to the interface (TSO).
//!
//! A medium that took one for one packet would lose 64 KB at a time. So it is kept
//! whole in memory and split in thought: each segment has a length and a fate of
//! its own, as on a wire, and neighbours that share a fate travel on together.

mod checksum;
mod header;
mod intake;
mod segments;
pub(crate) mod split;

pub use checksum::finish_checksum;
pub use header::{Offload, VNET_HEADER, VnetHeader};
pub use intake::{Came, Intake};
pub use segments::Segments;
pub use split::{Run, SuperFrame};
