//! Files that survive a crash, a power cut and a second process.
//!
//! A [`Draft`] gets its name only when all of its bytes are on the disk. The [`Contents`] of a run
//! say which files belong to it, so that a reader notices a missing, cut or changed one. The
//! [`Lock`] of a folder keeps a second process out of it.

mod contents;
mod draft;
mod lock;
mod nameless;
mod space;
mod spill;

pub use contents::{Contents, Damage, Entry};
pub use draft::{Draft, copy, sync, write};
pub use lock::{LOCK, Lock, LockError};
pub use nameless::nameless;
pub use space::{FULL, Reserve, can_allocate, file_size_limit, free_space, is_full, preallocate};
pub use spill::{Spill, Spilled};
