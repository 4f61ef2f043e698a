//! A session on a microcontroller without an operating system: members, and a hub that they talk to,
//! over a simulated path that loses every seventh datagram. Says what it needs of memory, and fails
//! unless each answer arrives. See `scripts/director-embedded.sh`.

#![no_std]
#![no_main]

extern crate alloc;

mod session;

use core::mem::MaybeUninit;
use core::ptr::addr_of_mut;
use embedded_alloc::LlffHeap;
use semihosting::{print, println, process};

#[cfg(target_arch = "arm")]
use cortex_m as _;
#[cfg(target_arch = "riscv32")]
use riscv as _;

#[global_allocator]
static HEAP: LlffHeap = LlffHeap::empty();
const HEAP_BYTES: usize = 1 << 20;
static mut MEMORY: [MaybeUninit<u8>; HEAP_BYTES] = [MaybeUninit::uninit(); HEAP_BYTES];

/// Bytes of the heap in use.
fn heap_used() -> usize {
    HEAP.used()
}

#[cfg_attr(target_arch = "arm", cortex_m_rt::entry)]
#[cfg_attr(target_arch = "riscv32", riscv_rt::entry)]
fn main() -> ! {
    // SAFETY: called once, before anything is allocated, with memory that nothing else uses.
    unsafe { HEAP.init(addr_of_mut!(MEMORY) as usize, HEAP_BYTES) };
    print!("{} B per member at rest; ", session::member_bytes(heap_used));
    match session::run(heap_used) {
        Ok(report) => {
            println!("{report}");
            process::exit(0)
        }
        Err(why) => {
            println!("failed: {why}");
            process::exit(1)
        }
    }
}
