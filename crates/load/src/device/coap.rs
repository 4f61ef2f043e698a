//! The device's CoAP.

use super::DeviceSettings;
use super::later::Later;
use super::mischief::Deed;
use super::queue::{Job, Queue};
use super::station::Station;
use crate::clock::{self, Nanos};
use crate::coap::{self, CHANGED, CONTENT, Kind, Message, NOT_FOUND, UNAVAILABLE};
use crate::socket::{Address, Batch, Datagrams};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A client sends a confirmable request again after 2 s (RFC 7252, section 4.8); what
/// takes longer than this is acknowledged first.
const SLOW: Nanos = 1_000_000_000;
/// It looks for the end so often.
const LOOK: Nanos = 20_000_000;

/// A request that is to be answered.
#[derive(Clone, Copy)]
pub(crate) struct Question {
    pub resource: usize,
    to: Address,
    kind: Kind,
    code: u8,
    id: u16,
    token: [u8; 8],
    length: usize,
}

impl Question {
    fn new(message: &Message, to: &Address, resource: usize) -> Self {
        let mut token = [0; 8];
        let length = message.token.len().min(8);
        token[..length].copy_from_slice(&message.token[..length]);
        let (kind, code, id) = (message.kind, message.code, message.id);
        Self { resource, to: *to, kind, code, id, token, length }
    }

    fn token(&self) -> &[u8] {
        &self.token[..self.length]
    }

    /// Acknowledges a confirmable request that will take long: what is left to answer.
    pub fn before(mut self, time: Nanos, socket: &Datagrams, out: &mut Batch) -> Self {
        if time > SLOW && self.kind == Kind::Confirmable {
            let id = self.id;
            out.push(&self.to, |room| coap::answer(room, Kind::Acknowledgement, 0, id, &[], &[]));
            let _ = out.send(socket, 0);
            out.clear();
            self.kind = Kind::NonConfirmable;
        }
        self
    }

    fn write(&self, code: u8, payload: &[u8], out: &mut Batch) {
        let kind = match self.kind {
            Kind::Confirmable => Kind::Acknowledgement,
            _ => Kind::NonConfirmable,
        };
        out.push(&self.to, |room| coap::answer(room, kind, code, self.id, self.token(), payload));
    }
}

/// Puts the answer to a request into the batch, spoiled if it is its turn.
pub(crate) fn reply(question: &Question, station: &Station, later: &Later, out: &mut Batch) {
    let code = if question.code == 1 || question.code == 5 { CONTENT } else { CHANGED };
    match station.deed() {
        Deed::Fair => question.write(code, &station.payload, out),
        Deed::Twice => {
            question.write(code, &station.payload, out);
            question.write(code, &station.payload, out);
        }
        Deed::Silent => {}
        Deed::Garbage => out.push(&question.to, |room| {
            let garbage = b"\xff\x00 what a strange thing to answer";
            room[..garbage.len()].copy_from_slice(garbage);
            garbage.len()
        }),
        Deed::Late => {
            let at = out.len();
            question.write(code, &station.payload, out);
            if out.len() > at {
                later.add(clock::now() + station.late_by(), question.to, out.get(at));
                out.take_back();
            }
        }
    }
}

/// Takes requests until `stop`; those that take no time are answered here.
pub(crate) fn receive(
    socket: &Datagrams,
    settings: &DeviceSettings,
    station: &Station,
    queue: &Queue,
    later: &Later,
    stop: &AtomicBool,
) {
    // Answers to one batch of requests fit, though each may be sent twice.
    const IN: usize = crate::socket::BATCH / 2;
    let mut into = Batch::new(2_048);
    let mut out = Batch::new(2_048);
    let mut path = Vec::with_capacity(256);
    while !stop.load(Relaxed) {
        let count = into.receive(socket, IN).unwrap_or(0);
        if count == 0 {
            if !settings.spin {
                socket.wait(LOOK);
            }
            continue;
        }
        for i in 0..count {
            let Some(message) = Message::parse(into.get(i)) else {
                station.counts.garbage.fetch_add(1, Relaxed);
                continue;
            };
            take(&message, into.name(i), station, queue, later, &mut path, &mut out);
        }
        let mut sent = 0;
        while sent < out.len() {
            match out.send(socket, sent) {
                Ok(count) => sent += count,
                // An error that an earlier answer met: this one is still to go.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {}
                Err(_) => sent += 1,
            }
        }
        out.clear();
    }
}

fn take(
    message: &Message,
    from: &Address,
    station: &Station,
    queue: &Queue,
    later: &Later,
    path: &mut Vec<u8>,
    out: &mut Batch,
) {
    // Class 0 and a detail: a request. An empty confirmable message asks for life.
    if message.code == 0 && message.kind == Kind::Confirmable {
        let id = message.id;
        return out.push(from, |room| coap::answer(room, Kind::Reset, 0, id, &[], &[]));
    }
    if message.code == 0 || message.code >= 0x20 {
        return;
    }
    message.path(path);
    let Some(resource) = station.find(path) else {
        let question = Question::new(message, from, 0);
        if path == b".well-known/core" {
            let links: Vec<_> = station.paths().map(|path| format!("</{path}>")).collect();
            let mut links = links.join(",").into_bytes();
            // One datagram that crosses any link (section 4.6).
            links.truncate(1_024);
            return question.write(CONTENT, &links, out);
        }
        station.counts.unknown.fetch_add(1, Relaxed);
        return question.write(NOT_FOUND, b"no such resource", out);
    };
    let question = Question::new(message, from, resource);
    if station.at_once(resource) {
        return reply(&question, station, later, out);
    }
    if !queue.push(Job::Coap(question)) {
        station.counts.refused.fetch_add(1, Relaxed);
        question.write(UNAVAILABLE, b"too many requests wait", out);
    }
}
