//! Kernel arrival times of received bytes, so that a delay of the sender does not count as
//! a delay of the target.

use std::io;
use std::os::fd::RawFd;
use units::Instant;

/// Enables the kernel's arrival times for a socket (SO_TIMESTAMPNS; for TCP since Linux
/// 4.16). Without them the time of reading is used.
pub(crate) fn enable(fd: RawFd) {
    let on: libc::c_int = 1;
    let size = size_of::<libc::c_int>() as libc::socklen_t;
    let (level, option) = (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS);
    // SAFETY: the value is an int that lives over the call; the size is correct.
    unsafe { libc::setsockopt(fd, level, option, (&raw const on).cast(), size) };
}

/// Reads from a stream: the number of bytes, and the arrival time of the last of them on
/// CLOCK_MONOTONIC; the current time if the kernel does not report one.
pub(crate) fn receive(fd: RawFd, room: &mut [u8]) -> io::Result<(usize, Instant)> {
    let mut control = [0u64; 8];
    let mut part = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
    // SAFETY: all zero is a header without parts.
    let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
    header.msg_iov = &raw mut part;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr().cast();
    header.msg_controllen = size_of_val(&control) as _;
    // SAFETY: everything that the header points to lives over the call and is writable.
    let got = unsafe { libc::recvmsg(fd, &raw mut header, libc::MSG_DONTWAIT) };
    if got < 0 {
        return Err(io::Error::last_os_error());
    }
    let now = clock::now();
    // SAFETY: the kernel has filled in the header, and the control buffer still lives.
    let stamp = unsafe { stamp(&header) };
    Ok((got as usize, stamp.map_or(now, |stamp| clock::from_realtime(stamp, now))))
}

/// The arrival time in a header's control messages, in ns since 1970.
///
/// # Safety
/// The kernel must have filled in the header, and its control buffer must be alive.
pub(crate) unsafe fn stamp(header: &libc::msghdr) -> Option<u64> {
    // SAFETY: as the caller promises; a time is plain integers, read unaligned.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(header);
        while !at.is_null() {
            let kind = ((*at).cmsg_level, (*at).cmsg_type);
            if kind == (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) {
                let time = libc::CMSG_DATA(at).cast::<libc::timespec>().read_unaligned();
                return Some(clock::timespec_ns(time));
            }
            at = libc::CMSG_NXTHDR(header, at);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use units::Span;

    /// The kernel enables timestamps a moment after the request. After that, the arrival
    /// time is before the time of reading, even if the read is late.
    #[test]
    fn bytes_arrive_before_they_are_read() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        enable(far.as_raw_fd());
        let mut room = [0; 16];
        let mut early = 0;
        for _ in 0..20 {
            near.write_all(b"x").unwrap();
            let sent = clock::now();
            std::thread::sleep(std::time::Duration::from_millis(20));
            let (count, arrived) = receive(far.as_raw_fd(), &mut room).unwrap();
            let read = clock::now();
            assert!(count == 1 && arrived <= read);
            // By the time of reading, this would be 20 ms after it was sent.
            early += u32::from(arrived < sent + Span::from_ms(10));
        }
        assert!(early > 0, "the kernel reported no arrival time");
        drop(near);
        assert_eq!(receive(far.as_raw_fd(), &mut room).unwrap().0, 0);
    }
}
