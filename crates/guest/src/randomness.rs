//! Seeds the random numbers of a guest that has no entropy from its host.

use nix::errno::Errno;
use std::fs::OpenOptions;
use std::io;
use std::os::fd::AsRawFd;

/// Number of 32-bit words for the kernel: twice what it waits for.
const WORDS: usize = 16;
/// `RNDADDENTROPY` and `RNDRESEEDCRNG` of linux/random.h.
const ADD_ENTROPY: libc::c_ulong = 0x4008_5203;
const RESEED: libc::c_ulong = 0x5207;

/// `struct rand_pool_info` of linux/random.h.
#[repr(C)]
struct Pool {
    bits: i32,
    bytes: i32,
    words: [u32; WORDS],
}

/// Seeds the kernel's random numbers. Without a seed, the first reader waits for a second, in which
/// the kernel gathers jitter in a busy loop.
///
/// # Errors
/// When the kernel refuses it.
pub(crate) fn seed(seed: u64) -> io::Result<()> {
    let pool = Pool { bits: 32 * WORDS as i32, bytes: 4 * WORDS as i32, words: words(seed) };
    let device = OpenOptions::new().write(true).open("/dev/urandom")?;
    // SAFETY: the structure has the kernel's layout and lives over the call; the other call has no
    // argument.
    unsafe {
        Errno::result(libc::ioctl(device.as_raw_fd(), ADD_ENTROPY, &raw const pool))?;
        // The random numbers use the input only after a reseed.
        Errno::result(libc::ioctl(device.as_raw_fd(), RESEED, 0))?;
    }
    Ok(())
}

/// Splitmix64 (Steele, Lea and Flood, OOPSLA 2014), the upper halves.
fn words(mut state: u64) -> [u32; WORDS] {
    std::array::from_fn(|_| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 32) as u32
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_give_words_that_are_their_own() {
        assert_eq!(words(7), words(7));
        assert_ne!(words(7), words(8));
        // The first value of splitmix64 with seed 0 is e220a8397b1dcdaf.
        assert_eq!(words(0)[0], 0xe220_a839);
    }
}
