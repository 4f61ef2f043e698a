//! Super-frames: TCP data that the kernel leaves to the interface to segment (TSO).
//!
//! A medium that treats a super-frame as one packet would lose 64 KB at once. So the medium
//! stores it once and decides per segment: each segment has a separate length and
//! impairment decision, as on a wire. Neighbouring segments with the same decision stay
//! together.

mod checksum;
mod header;
mod read_buffer;
mod segments;
pub(crate) mod split;

pub use checksum::finish_checksum;
pub use header::{Offload, VNET_HEADER, VnetHeader};
pub use read_buffer::{ReadBuffer, ReadResult};
pub use segments::Segments;
pub use split::{Run, SuperFrame};
