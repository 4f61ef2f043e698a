//! Waits for connections, for their bytes, and for room for the answers.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use units::Instant;

/// The maximum number of connections of the HTTP server, and of the TCP echo server; further ones
/// are closed.
pub(crate) const MAX_CONNECTIONS: usize = 1_024;

/// Sets up an accepted connection: reads and writes wait for `most` at once.
pub(crate) fn prepare(stream: &TcpStream, most: Duration) -> io::Result<()> {
    // An accepted connection may inherit the listener's non-blocking mode.
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(most))?;
    stream.set_write_timeout(Some(most))
}

/// Whether the operation can be repeated.
fn is_transient(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// Writes until all bytes are written or until `stop`: a client may never read. Returns whether
/// all are written.
pub(crate) fn write_on(stream: &mut TcpStream, mut bytes: &[u8], stop: &AtomicBool) -> bool {
    while !bytes.is_empty() && !stop.load(Relaxed) {
        match stream.write(bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if is_transient(&error) => {}
            Err(_) => return false,
        }
    }
    bytes.is_empty()
}

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
            Err(error) if is_transient(&error) => {
                if clock::now() >= until {
                    return false;
                }
            }
            Err(_) => return false,
        }
    }
    false
}

/// Whether a connection was not accepted for want of descriptors or memory. It stays in the queue, so
/// its listener is readable at once again: a loop that only polls would spin.
#[must_use]
pub fn is_exhausted(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    matches!(code, Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

/// Waits after a failed accept: for a connection, or for what it lacked, at most for `most`.
pub(crate) fn wait_after(error: &io::Error, listener: &TcpListener, most: Duration) {
    match is_exhausted(error) {
        true => std::thread::sleep(most),
        false => wait(listener, most),
    }
}

/// Waits for a connection, at most for `most`.
fn wait(listener: &TcpListener, most: Duration) {
    let mut entry = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which lives over the call.
    unsafe { libc::poll(&raw mut entry, 1, most.as_millis() as libc::c_int) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What failed: without descriptors a device took a whole CPU, because its listener was readable.
    #[test]
    fn a_listener_without_descriptors_waits_although_it_is_readable() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _waiting = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let most = Duration::from_millis(50);
        for code in [libc::EMFILE, libc::ENFILE, libc::ENOBUFS, libc::ENOMEM] {
            let begin = clock::now();
            wait_after(&io::Error::from_raw_os_error(code), &listener, most);
            assert!(Duration::from(clock::now() - begin) >= most, "{code}");
        }
        for code in [libc::EAGAIN, libc::ECONNABORTED] {
            assert!(!is_exhausted(&io::Error::from_raw_os_error(code)), "{code}");
        }
    }
}
