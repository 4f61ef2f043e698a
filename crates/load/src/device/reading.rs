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

/// Waits for a connection, at most for `most`.
pub(crate) fn wait(listener: &TcpListener, most: Duration) {
    let mut entry = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which lives over the call.
    unsafe { libc::poll(&raw mut entry, 1, most.as_millis() as libc::c_int) };
}
