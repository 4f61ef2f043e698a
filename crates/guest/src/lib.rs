//! A guest: a Linux kernel of its own, in which one command of the tool runs in virtual time.
//!
//! ```text
//! host: Guest::boot(&Machine) ── kernel ──> init() ──> the command
//!       next() <── lines of its standard output, its exit status, the console's last words
//!       send() ──> lines of its standard input
//! ```
//! The crate knows nothing of experiments. Its engine is User Mode Linux in time-travel mode:
//! programs cost no time, and the clock moves to the next timer when all of them wait. It needs
//! no privilege, and sees the host's files; it can write to the folders that it is given alone.

mod boot;
mod console;
mod error;
mod guest;
mod kernel;
mod leftovers;
mod machine;
mod running;

pub use boot::{INIT, init};
pub use error::Error;
pub use guest::{Event, Guest};
pub use kernel::{KERNEL, find_kernel};
pub use leftovers::remove_leftovers;
pub use machine::{Machine, Mount};
pub use running::Running;
