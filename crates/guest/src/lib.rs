//! A guest: a Linux kernel of its own, in which one command of the tool runs in virtual time.
//!
//! ```text
//! host: Guest::boot(&Machine) ── kernel ──> init() ──> the command
//!       next() <── lines of its standard output, its exit status, the console's last words
//!       send() ──> lines of its standard input
//! ```
//! The crate knows nothing of experiments, and has two engines. With User Mode Linux in time-travel
//! mode programs cost no time, and the clock moves to the next timer when all of them wait; it
//! sees the host's files, and can write to the folders that it is given alone. With QEMU the clock
//! counts instructions, and the guest has files of its own. Neither needs a privilege.

mod acpi;
mod asked;
mod boot;
mod console;
mod error;
mod files;
mod guest;
mod image;
mod initramfs;
mod kernel;
mod leftovers;
mod libraries;
mod machine;
mod monitor;
mod qemu;
mod randomness;
mod running;
mod snapshot;
mod uml;

pub use boot::{INIT, init};
pub use error::Error;
pub use files::{Entry, in_path};
pub use guest::{Event, Guest};
pub use image::Image;
pub use kernel::{KERNEL, QEMU_KERNEL, find_kernel, find_qemu_kernel};
pub use leftovers::remove_leftovers;
pub use machine::{Engine, Machine, Mount, QemuKernel};
pub use qemu::emulator;
pub use running::Running;
pub use snapshot::remove_states;
