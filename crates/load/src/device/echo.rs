//! Echo servers for plain UDP and TCP.

use super::http::read_on;
use crate::socket::{Batch, Datagrams};
use crate::time::Nanos;
use std::io::Write;
use std::net::TcpListener;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// The interval of checks of `stop`, in ns.
const CHECK_INTERVAL: Nanos = 20_000_000;

/// Echoes datagrams until `stop`.
pub(crate) fn datagrams(socket: &Datagrams, spin: bool, stop: &AtomicBool) {
    let mut batch = Batch::new(65_536);
    while !stop.load(Relaxed) {
        let count = batch.receive(socket, crate::socket::BATCH).unwrap_or(0);
        let mut sent = 0;
        while sent < count {
            sent += batch.send(socket, sent).unwrap_or(1);
        }
        if count == 0 && !spin {
            socket.wait(CHECK_INTERVAL);
        }
    }
}

/// Echoes the bytes of connections until `stop`.
pub(crate) fn streams(listener: &TcpListener, stop: &AtomicBool) {
    thread::scope(|scope| {
        while !stop.load(Relaxed) {
            let Ok((mut stream, _)) = listener.accept() else {
                wait(listener, Duration::from_nanos(CHECK_INTERVAL));
                continue;
            };
            scope.spawn(move || {
                let set = stream.set_nonblocking(false).and_then(|()| stream.set_nodelay(true));
                let check_interval = Some(Duration::from_nanos(CHECK_INTERVAL));
                if set.and_then(|()| stream.set_read_timeout(check_interval)).is_err() {
                    return;
                }
                let mut bytes = Vec::new();
                while read_on(&mut stream, &mut bytes, stop, Nanos::MAX) {
                    if stream.write_all(&bytes).is_err() {
                        return;
                    }
                    bytes.clear();
                }
            });
        }
    });
}

/// Waits for a connection, at most for `most`.
pub(crate) fn wait(listener: &TcpListener, most: Duration) {
    let mut entry = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, which lives over the call.
    unsafe { libc::poll(&raw mut entry, 1, most.as_millis() as libc::c_int) };
}
