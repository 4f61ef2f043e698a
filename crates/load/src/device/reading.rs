//! Waits for connections and for their bytes.

use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use units::Instant;

/// Reads until there are bytes, or until the time `until`. Returns whether there are.
pub(crate) fn read_on(
    stream: &mut TcpStream,
    into: &mut Vec<u8>,
    stop: &AtomicBool,
    until: Instant,
) -> bool {
    let mut room = [0; 8_192];
    while !stop.load(Relaxed) {
        match stream.read(&mut room) {
            Ok(0) => return false,
            Ok(count) => {
                into.extend_from_slice(&room[..count]);
                return true;
            }
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) =>
            {
                if clock::now() >= until {
                    return false;
                }
            }
            Err(_) => return false,
        }
    }
    false
}

/// Waits for a connection, at most for `most`.
pub(crate) fn wait(listener: &TcpListener, most: Duration) {
    let mut entry = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which lives over the call.
    unsafe { libc::poll(&raw mut entry, 1, most.as_millis() as libc::c_int) };
}
