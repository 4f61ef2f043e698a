//! The device's HTTP/1.1: a thread for each connection, which waits while a server
//! thread serves its request.

use super::mischief::Deed;
use super::queue::{Job, Queue};
use super::station::Station;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

/// So many connections at once; more are closed.
const CONNECTIONS: usize = 1_024;
/// The longest head of a request.
const HEAD: usize = 16_384;
/// It looks for the end so often.
const LOOK: Duration = Duration::from_millis(20);

/// Takes connections until `stop`.
pub(crate) fn accept(listener: &TcpListener, station: &Station, queue: &Queue, stop: &AtomicBool) {
    let open = AtomicUsize::new(0);
    thread::scope(|scope| {
        while !stop.load(Relaxed) {
            match listener.accept() {
                Ok((stream, _)) if open.load(Relaxed) < CONNECTIONS => {
                    open.fetch_add(1, Relaxed);
                    let open = &open;
                    scope.spawn(move || {
                        talk(stream, station, queue, stop);
                        open.fetch_sub(1, Relaxed);
                    });
                }
                Ok(_) => {}
                Err(_) => super::echo::wait(listener, LOOK),
            }
        }
    });
}

/// Reads until there are bytes; whether there are.
pub(crate) fn read_on(stream: &mut TcpStream, into: &mut Vec<u8>, stop: &AtomicBool) -> bool {
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
                ) => {}
            Err(_) => return false,
        }
    }
    false
}

fn talk(mut stream: TcpStream, station: &Station, queue: &Queue, stop: &AtomicBool) {
    // An accepted connection may have the listener's way of not waiting.
    let set = stream.set_nonblocking(false).and_then(|()| stream.set_nodelay(true));
    if set.and_then(|()| stream.set_read_timeout(Some(LOOK))).is_err() {
        return;
    }
    let mut bytes = Vec::with_capacity(4_096);
    loop {
        let (used, answer) = loop {
            match parse(&bytes) {
                Parsed::Request { used, resource, head, closes } if bytes.len() >= used => {
                    break (used, (station.find(&resource), head, closes));
                }
                Parsed::Garbage => {
                    station.counts.garbage.fetch_add(1, Relaxed);
                    let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
                    return;
                }
                _ => {}
            }
            if bytes.len() > HEAD + (1 << 20) || !read_on(&mut stream, &mut bytes, stop) {
                return;
            }
        };
        bytes.drain(..used);
        let (resource, head, closes) = answer;
        let status = served(resource, station, queue);
        let deed = if status == "200 OK" { station.deed() } else { Deed::Fair };
        if !write(&mut stream, status, station, deed, head) || closes {
            return;
        }
    }
}

/// Lets a request be served; with what status it ends.
fn served(resource: Option<usize>, station: &Station, queue: &Queue) -> &'static str {
    let Some(resource) = resource else {
        station.counts.unknown.fetch_add(1, Relaxed);
        return "404 Not Found";
    };
    if station.at_once(resource) {
        return "200 OK";
    }
    let (done, told) = sync_channel(1);
    if queue.push(Job::Http { resource, done }) && told.recv().is_ok() {
        return "200 OK";
    }
    station.counts.refused.fetch_add(1, Relaxed);
    "503 Service Unavailable"
}

fn write(stream: &mut TcpStream, status: &str, station: &Station, deed: Deed, head: bool) -> bool {
    let payload: &[u8] = if status == "200 OK" { &station.payload } else { b"" };
    let mut answer =
        format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", payload.len()).into_bytes();
    if !head {
        answer.extend_from_slice(payload);
    }
    match deed {
        Deed::Silent => return true,
        Deed::Garbage => answer = b"what a strange thing to answer\r\n\r\n".to_vec(),
        Deed::Late => thread::sleep(Duration::from_nanos(station.late_by())),
        Deed::Twice => answer.extend(answer.clone()),
        Deed::Fair => {}
    }
    stream.write_all(&answer).is_ok()
}

enum Parsed {
    More,
    Garbage,
    Request {
        /// With its body.
        used: usize,
        resource: Vec<u8>,
        head: bool,
        closes: bool,
    },
}

fn parse(bytes: &[u8]) -> Parsed {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    let used = match request.parse(bytes) {
        Ok(httparse::Status::Complete(used)) => used,
        Ok(httparse::Status::Partial) if bytes.len() < HEAD => return Parsed::More,
        _ => return Parsed::Garbage,
    };
    let path = request.path.unwrap_or_default();
    let path = path.split('?').next().unwrap_or_default();
    let resource = crate::coap::decoded(path.strip_prefix('/').unwrap_or(path));
    let value = |name: &str| {
        let header = request.headers.iter().find(|h| h.name.eq_ignore_ascii_case(name));
        header.and_then(|header| std::str::from_utf8(header.value).ok()).map(str::trim)
    };
    // Bodies in chunks are not what devices are sent.
    if value("transfer-encoding").is_some() {
        return Parsed::Garbage;
    }
    let length = match value("content-length").map(str::parse::<usize>) {
        None => 0,
        Some(Ok(length)) if length <= 1 << 20 => length,
        Some(_) => return Parsed::Garbage,
    };
    let closes = value("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    let head = request.method == Some("HEAD");
    Parsed::Request { used: used + length, resource, head, closes }
}
