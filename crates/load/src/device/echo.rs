//! Echo servers for plain UDP and TCP.

use super::reading::{MAX_CONNECTIONS, prepare, read_on, wait_after, write_on};
use crate::socket::{Batch, Datagrams};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
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
    let open = AtomicUsize::new(0);
    thread::scope(|scope| {
        while !stop.load(Relaxed) {
            match listener.accept() {
                Ok((stream, _)) if open.load(Relaxed) < MAX_CONNECTIONS => {
                    open.fetch_add(1, Relaxed);
                    let open = &open;
                    scope.spawn(move || {
                        echo(stream, stop);
                        open.fetch_sub(1, Relaxed);
                    });
                }
                // Dropping the stream closes it.
                Ok(_) => {}
                Err(error) => wait_after(&error, listener, CHECK_INTERVAL.into()),
            }
        }
    });
}

fn echo(mut stream: TcpStream, stop: &AtomicBool) {
    if prepare(&stream, CHECK_INTERVAL.into()).is_err() {
        return;
    }
    let mut bytes = Vec::new();
    while read_on(&mut stream, &mut bytes, stop, Instant::NEVER)
        && write_on(&mut stream, &bytes, stop)
    {
        bytes.clear();
    }
}
