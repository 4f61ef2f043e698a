//! Echo servers for plain UDP and TCP.

use super::reading::{read_on, wait};
use crate::socket::{Batch, Datagrams};
use std::io::Write;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use units::{Instant, Span};

/// The interval of checks of `stop`.
const CHECK_INTERVAL: Span = Span::from_ms(20);

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
                wait(listener, CHECK_INTERVAL.into());
                continue;
            };
            scope.spawn(move || {
                let set = stream.set_nonblocking(false).and_then(|()| stream.set_nodelay(true));
                let check_interval = Some(CHECK_INTERVAL.into());
                if set.and_then(|()| stream.set_read_timeout(check_interval)).is_err() {
                    return;
                }
                let mut bytes = Vec::new();
                while read_on(&mut stream, &mut bytes, stop, Instant::NEVER) {
                    if stream.write_all(&bytes).is_err() {
                        return;
                    }
                    bytes.clear();
                }
            });
        }
    });
}
