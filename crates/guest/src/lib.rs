//! A guest: a separate Linux kernel, in which one command of the tool runs in virtual time.
//!
//! ```text
//! host: Guest::boot(&Machine) ── kernel ──> init() ──> the command
//!       next() <── lines of its standard output, its exit status, the console's last lines
//!       send() ──> lines of its standard input
//! ```
//! The crate does not depend on experiments, and has two engines. With User Mode Linux in
//! time-travel mode, computation takes no time, and the clock moves to the next timer when all
//! programs wait; the guest sees the host's files, and can write only to its writable folders.
//! With QEMU the clock counts instructions, and the guest has its own files. Neither needs a
//! privilege.

mod acpi;
mod boot;
mod console;
mod error;
mod files;
mod guest;
mod image;
mod initramfs;
mod kernel;
mod kernel_process;
mod leftovers;
mod libraries;
mod machine;
mod monitor;
mod open_trace;
mod placement;
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
pub use libraries::library;
pub use machine::{Engine, Machine, Mount, QemuKernel};
pub use qemu::emulator;
pub use running::Running;
pub use snapshot::remove_states;
