//! The device's HTTP/1.1 server: one thread per connection, which waits while a server
//! thread serves its request.

mod request;

#[cfg(feature = "fuzzing")]
pub(crate) use request::parse;

use super::misbehaviour::Misbehaviour;
use super::queue::{Job, Queue};
use super::reading::{MAX_CONNECTIONS, prepare, read_on, wait_after, write_on};
use super::resource_server::ResourceServer;
use crate::http::Part;
pub(crate) use request::Head;
use request::{ALLOWED, LARGEST_BODY, Request};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;
use units::{Instant, Span};

/// The interval of checks of `stop`.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);
/// The maximum time from the first byte of a request to its end; 408 after that.
const REQUEST_TIMEOUT: Span = Span::from_s(30);
/// How long and how much to read after an error response, so that closing
/// the connection does not discard the response (RFC 9112, section 9.6).
const LINGER: Span = Span::from_ms(500);
const MAX_DISCARDED: usize = 4 << 20;

/// Accepts connections until `stop`.
pub(crate) fn accept(
    listener: &TcpListener,
    resource_server: &ResourceServer,
    queue: &Queue,
    stop: &AtomicBool,
) {
    let open = AtomicUsize::new(0);
    thread::scope(|scope| {
        while !stop.load(Relaxed) {
            match listener.accept() {
                Ok((stream, _)) if open.load(Relaxed) < MAX_CONNECTIONS => {
                    open.fetch_add(1, Relaxed);
                    let open = &open;
                    scope.spawn(move || {
                        serve_connection(stream, resource_server, queue, stop);
                        open.fetch_sub(1, Relaxed);
                    });
                }
                // Dropping the stream closes it.
                Ok(_) => {}
                Err(error) => wait_after(&error, listener, CHECK_INTERVAL),
            }
        }
    });
}

fn serve_connection(
    mut stream: TcpStream,
    resource_server: &ResourceServer,
    queue: &Queue,
    stop: &AtomicBool,
) {
    if prepare(&stream, CHECK_INTERVAL).is_err() {
        return;
    }
    let mut bytes = Vec::with_capacity(4_096);
    loop {
        let request = match request(&mut stream, &mut bytes, stop) {
            Ok(Some(request)) => request,
            Ok(None) => return,
            Err(status) => {
                resource_server.counts.malformed.fetch_add(1, Relaxed);
                return refuse(&mut stream, status, stop);
            }
        };
        resource_server.counts.body_bytes.fetch_add(request.body.received(), Relaxed);
        let status = serve_request(resource_server.find(&request.path), resource_server, queue);
        let misbehaviour =
            if status == "200 OK" { resource_server.misbehaviour() } else { Misbehaviour::None };
        let answer = answer(status, resource_server, misbehaviour, &request);
        if !write_on(&mut stream, &answer, stop) || !request.keep_alive {
            return;
        }
    }
}

/// Reads the next request with its body. None at the end of the connection; Err with the
/// status of the refusal.
fn request(
    stream: &mut TcpStream,
    bytes: &mut Vec<u8>,
    stop: &AtomicBool,
) -> Result<Option<Request>, &'static str> {
    let mut until = Instant::NEVER;
    let mut read = |stream: &mut TcpStream, bytes: &mut Vec<u8>| {
        if until == Instant::NEVER && !bytes.is_empty() {
            until = clock::now() + REQUEST_TIMEOUT;
        }
        match read_on(stream, bytes, stop, until) {
            true => Ok(true),
            false if clock::now() >= until => Err("408 Request Timeout"),
            false => Ok(false),
        }
    };
    let mut request = loop {
        // Empty lines before a request are ignored (RFC 9112, section 2.2).
        let empty = bytes.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
        bytes.drain(..empty);
        match request::parse(bytes) {
            Head::Request(request) => break request,
            Head::Refused(status) => return Err(status),
            Head::More => {}
        }
        if !read(stream, bytes)? {
            return Ok(None);
        }
    };
    bytes.drain(..request.length);
    loop {
        let (used, part) = request.body.parse(bytes);
        bytes.drain(..used);
        match part {
            _ if request.body.received() > LARGEST_BODY => return Err("413 Content Too Large"),
            Part::End => return Ok(Some(request)),
            Part::Bad(_) => return Err("400 Bad Request"),
            Part::More => {}
        }
        // Not for a client that sends its body at once (RFC 9110, section 10.1.1).
        if std::mem::take(&mut request.expects_continue)
            && bytes.is_empty()
            && !write_on(stream, b"HTTP/1.1 100 Continue\r\n\r\n", stop)
        {
            return Ok(None);
        }
        if !read(stream, bytes)? {
            return Ok(None);
        }
    }
}

/// Refuses a request and closes the connection.
fn refuse(stream: &mut TcpStream, status: &str, stop: &AtomicBool) {
    let allow = match status.starts_with("405") {
        true => format!("Allow: {ALLOWED}\r\n"),
        false => String::new(),
    };
    let answer =
        format!("HTTP/1.1 {status}\r\n{allow}Content-Length: 0\r\nConnection: close\r\n\r\n");
    // The client sees the end of the answer, while its data is still read.
    if !write_on(stream, answer.as_bytes(), stop) || stream.shutdown(Shutdown::Write).is_err() {
        return;
    }
    let (until, mut discarded, mut bytes) = (clock::now() + LINGER, 0, Vec::new());
    while discarded < MAX_DISCARDED && clock::now() < until {
        if !read_on(stream, &mut bytes, stop, until) {
            return;
        }
        discarded += bytes.len();
        bytes.clear();
    }
}

/// Serves a request. Returns its status.
fn serve_request(
    resource: Option<usize>,
    resource_server: &ResourceServer,
    queue: &Queue,
) -> &'static str {
    let Some(resource) = resource else {
        resource_server.counts.unknown.fetch_add(1, Relaxed);
        return "404 Not Found";
    };
    if resource_server.at_once(resource) {
        return "200 OK";
    }
    let (done, done_receiver) = sync_channel(1);
    if queue.push(Job::Http { resource, done }) && done_receiver.recv().is_ok() {
        return "200 OK";
    }
    resource_server.counts.refused.fetch_add(1, Relaxed);
    "503 Service Unavailable"
}

/// The bytes of an answer; none for silence. A late answer takes its time here.
fn answer(
    status: &str,
    resource_server: &ResourceServer,
    misbehaviour: Misbehaviour,
    request: &Request,
) -> Vec<u8> {
    let payload: &[u8] = if status == "200 OK" { &resource_server.payload } else { b"" };
    let connection = match (request.keep_alive, request.is_1_0) {
        (false, _) => "Connection: close\r\n",
        (true, true) => "Connection: keep-alive\r\n",
        (true, false) => "",
    };
    let length = payload.len();
    let mut answer =
        format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{connection}\r\n").into_bytes();
    if !request.is_head {
        answer.extend_from_slice(payload);
    }
    match misbehaviour {
        Misbehaviour::Silent => answer.clear(),
        Misbehaviour::Corrupt => answer = b"what a strange thing to answer\r\n\r\n".to_vec(),
        Misbehaviour::Late => thread::sleep(resource_server.late_by().into()),
        Misbehaviour::Duplicate => answer.extend(answer.clone()),
        Misbehaviour::None => {}
    }
    answer
}
