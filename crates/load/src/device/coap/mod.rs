//! The device's CoAP server.

mod exchanges;
mod observation;
mod pending;
mod request;
mod transfers;

pub(crate) use exchanges::Key;
pub(crate) use pending::PendingRequest;

use super::misbehaviour::Misbehaviour;
use super::queue::Queue;
use super::resource_server::ResourceServer;
use super::settings::DeviceSettings;
use super::timers::{Task, Timers};
use crate::coap::{self, CONTENT, Kind, Message};
use crate::socket::{Address, Batch, Datagrams};
use exchanges::{Exchanges, RequestStatus, digest};
use observation::Observation;
use pending::Content;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering::Relaxed};
use trace::Distribution;
pub(crate) use transfers::Transfers;
use units::{Draw, Purpose, Span};

/// Requests with longer service are acknowledged first, since a client retransmits a
/// confirmable request after 2 s (RFC 7252, section 4.8).
const SLOW: Span = Span::from_s(1);
/// ACK_TIMEOUT and ACK_RANDOM_FACTOR (section 4.8).
const ACK_TIMEOUT: Span = Span::from_s(2);
const ACK_RANDOM_FACTOR: f64 = 1.5;
/// The interval of checks of `stop`.
const CHECK_INTERVAL: Span = Span::from_ms(20);
/// The buffer size for an answer, in bytes: a block and its options.
const ROOM: usize = 2_048;
/// The CoAP server of a device's resources.
pub(crate) struct CoapServer<'a> {
    pub socket: Datagrams,
    resource_server: &'a ResourceServer,
    queue: &'a Queue,
    timers: &'a Timers,
    exchanges: Mutex<Exchanges>,
    observation: Mutex<Observation>,
    /// The time between changes of values, if resources are observable; and the number of
    /// the last change.
    notify: Option<Distribution>,
    changes: AtomicU64,
    ids: AtomicU16,
    draw: Draw,
    drawn: AtomicU64,
}

impl<'a> CoapServer<'a> {
    pub fn new(
        socket: Datagrams,
        settings: &DeviceSettings,
        resource_server: &'a ResourceServer,
        queue: &'a Queue,
        timers: &'a Timers,
    ) -> Self {
        Self {
            socket,
            resource_server,
            queue,
            timers,
            exchanges: Mutex::default(),
            observation: Mutex::default(),
            notify: settings.notify.clone(),
            changes: AtomicU64::new(1),
            ids: AtomicU16::new(clock::now_ns() as u16),
            draw: Draw::new(settings.seed, 0, 3),
            drawn: AtomicU64::new(0),
        }
    }

    /// Receives requests until `stop`. Answers those without a service time.
    pub fn receive(&self, spin: bool, stop: &AtomicBool) {
        // The answers to one batch of requests fit, even if each is sent twice.
        const IN: usize = crate::socket::BATCH / 2;
        let (mut into, mut out) = (Batch::new(ROOM), Batch::new(ROOM));
        let mut transfers = Transfers::default();
        let mut path = Vec::with_capacity(256);
        while !stop.load(Relaxed) {
            let count = into.receive(&self.socket, IN).unwrap_or(0);
            if count == 0 {
                if !spin {
                    self.socket.wait(CHECK_INTERVAL);
                }
                continue;
            }
            // One send for the answers to the whole batch: a system call per datagram would limit
            // the rate.
            for i in 0..count {
                self.datagram(into.get(i), into.name(i), &mut transfers, &mut path, &mut out);
            }
            self.send(&mut out);
        }
    }

    /// Sends the datagrams of the batch, each at most once.
    pub fn send(&self, out: &mut Batch) {
        let mut sent = 0;
        while sent < out.len() {
            match out.send(&self.socket, sent) {
                Ok(count) => sent += count,
                // The error of an earlier answer: this one is not sent yet.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionRefused => {}
                Err(_) => sent += 1,
            }
        }
        out.clear();
    }

    fn datagram(
        &self,
        bytes: &[u8],
        from: &Address,
        transfers: &mut Transfers,
        path: &mut Vec<u8>,
        out: &mut Batch,
    ) {
        let counts = &self.resource_server.counts;
        let message = match Message::parse(bytes) {
            Ok(message) => message,
            Err(malformed) => {
                counts.malformed.fetch_add(1, Relaxed);
                return reset(malformed.reset, from, out);
            }
        };
        let confirmable = message.kind == Kind::Confirmable;
        if !message.is_request() {
            match message.kind {
                Kind::Acknowledgement | Kind::Reset => self.settle(&message, from, out),
                // A confirmable empty message is a CoAP ping (section 4.3); a response
                // matches no request.
                _ => reset(Some(message.id).filter(|_| confirmable), from, out),
            }
            return;
        }
        if !confirmable {
            if message.kind == Kind::NonConfirmable {
                self.request(&message, from, transfers, path, out);
            }
            return;
        }
        let Some(key) = Key::new(from, message.id) else { return };
        let Ok(mut all) = self.exchanges.lock() else { return };
        match all.register(key, digest(bytes), clock::now()) {
            RequestStatus::New => {
                // Answering the request at once locks the exchanges again.
                drop(all);
                return self.request(&message, from, transfers, path, out);
            }
            RequestStatus::Serving => {
                out.push(from, |room| coap::empty(room, Kind::Acknowledgement, message.id));
            }
            RequestStatus::Answered(answer) => out.push(from, |room| copy(room, answer)),
        }
        counts.duplicates.fetch_add(1, Relaxed);
    }

    /// The last change's number in 24 bits (RFC 7641, section 3.4).
    fn sequence(&self) -> u32 {
        (self.changes.load(Relaxed) & 0xff_ffff) as u32
    }

    fn change_later(&self, resource: usize, notify: &Distribution) {
        let index = self.drawn.fetch_add(1, Relaxed);
        let time = notify.draw_ns(self.draw.uniform(Purpose::Notification, index), index);
        let time = Span::from_ns(time).max(Span::from_us(1));
        self.timers.add(clock::now() + time, Task::Change(resource));
    }

    /// Answers a request that has been served, with misbehaviour if configured.
    pub fn reply(&self, pending: &PendingRequest, out: &mut Batch) {
        let (code, resource_server) = (pending.success_code(), self.resource_server);
        let content = Content::Representation(&resource_server.payload, &resource_server.etag);
        match resource_server.misbehaviour() {
            Misbehaviour::None => self.answer(pending, code, content, out),
            Misbehaviour::Duplicate => {
                let at = out.len();
                self.answer(pending, code, content, out);
                if out.len() > at {
                    let again = out.get(at).to_vec();
                    out.push(&pending.to, |room| copy(room, &again));
                }
            }
            Misbehaviour::Silent => self.forget(pending),
            Misbehaviour::Corrupt => {
                self.forget(pending);
                let corrupt = b"\xff\x00 what a strange thing to answer";
                out.push(&pending.to, |room| copy(room, corrupt));
            }
            Misbehaviour::Late => {
                let at = out.len();
                self.answer(pending, code, content, out);
                if out.len() > at {
                    let task = Task::Send(pending.to, out.get(at).to_vec());
                    self.timers.add(clock::now() + resource_server.late_by(), task);
                    // Only the copy that the timer sends goes out.
                    out.pop_last();
                }
            }
        }
    }

    /// Treats the next copy of the request as new.
    fn forget(&self, pending: &PendingRequest) {
        if let (Some(key), Ok(mut all)) = (key_of(pending), self.exchanges.lock()) {
            all.forget(key);
        }
    }

    /// Adds an answer to the batch: with the acknowledgement of a confirmable request, or
    /// as a separate response if the acknowledgement was sent before (section 5.2).
    fn answer(&self, pending: &PendingRequest, code: u8, content: Content, out: &mut Batch) {
        let at = out.len();
        let Some(key) = key_of(pending) else {
            let id = self.id();
            return out.push(&pending.to, |room| {
                pending.write(room, Kind::NonConfirmable, id, code, content)
            });
        };
        let Ok(mut all) = self.exchanges.lock() else { return };
        let separate = all.is_acknowledged(key);
        let (kind, id) = match separate {
            true => (Kind::Confirmable, self.id()),
            false => (Kind::Acknowledgement, pending.id),
        };
        out.push(&pending.to, |room| pending.write(room, kind, id, code, content));
        if out.len() == at {
            return;
        }
        if separate {
            // A duplicate of the request is acknowledged again; its answer is retransmitted
            // separately.
            self.keep(&mut all, pending.to, id, out.get(at), None);
        } else {
            all.answered(key, out.get(at));
        }
    }

    /// Stores a confirmable message, to retransmit it until it is settled.
    fn keep(&self, all: &mut Exchanges, to: Address, id: u16, bytes: &[u8], observer: Option<u64>) {
        let index = self.drawn.fetch_add(1, Relaxed);
        let chance = self.draw.uniform(Purpose::Retransmission, index);
        let factor = 1.0 + chance * (ACK_RANDOM_FACTOR - 1.0);
        let wait = Span::from_ns((ACK_TIMEOUT.as_ns() as f64 * factor) as u64);
        let Some(key) = Key::new(&to, id) else { return };
        if all.sent(key, bytes, wait, observer) {
            self.timers.add(clock::now() + wait, Task::Repeat(key, to));
        }
    }

    fn id(&self) -> u16 {
        self.ids.fetch_add(1, Relaxed)
    }

    /// Schedules the acknowledgement of a confirmable request that is not answered soon.
    fn acknowledge_later(&self, pending: &PendingRequest) {
        if let Some(key) = key_of(pending) {
            self.timers.add(clock::now() + SLOW, Task::Acknowledge(key, pending.to));
        }
    }

    /// Handles the acknowledgement or rejection of a message that the device sent.
    fn settle(&self, message: &Message, from: &Address, out: &mut Batch) {
        let Some(key) = Key::new(from, message.id) else { return };
        let observer = match self.exchanges.lock() {
            Ok(mut all) => all.settle(key),
            Err(_) => None,
        };
        let Ok(mut all) = self.observation.lock() else { return };
        let Some(observer) = observer else {
            // A non-confirmable notification can be rejected, too.
            if let (Kind::Reset, Some(peer)) = (message.kind, from.get()) {
                all.rejected(peer, message.id);
            }
            return;
        };
        if message.kind == Kind::Reset {
            return all.remove(observer);
        }
        let next = all.acknowledged(observer, clock::now());
        drop(all);
        if let Some((next, confirm)) = next {
            self.notify_one(observer, next.pending, confirm, out);
        }
    }

    /// Notifies an observer of the current value.
    fn notify_one(
        &self,
        observer: u64,
        mut pending: PendingRequest,
        confirm: bool,
        out: &mut Batch,
    ) {
        pending.shape.observe = Some(self.sequence());
        self.resource_server.counts.notifications.fetch_add(1, Relaxed);
        let (at, id) = (out.len(), self.id());
        let content =
            Content::Representation(&self.resource_server.payload, &self.resource_server.etag);
        // Without room to keep it for retransmission, it is non-confirmable.
        let room = || self.exchanges.lock().ok().filter(|all| all.has_room());
        let exchanges = if confirm { room() } else { None };
        let kind = if exchanges.is_some() { Kind::Confirmable } else { Kind::NonConfirmable };
        out.push(&pending.to, |room| pending.write(room, kind, id, CONTENT, content));
        match exchanges {
            Some(mut all) if out.len() > at => {
                self.keep(&mut all, pending.to, id, out.get(at), Some(observer));
            }
            other => {
                drop(other);
                if let Ok(mut all) = self.observation.lock() {
                    all.sent_unconfirmed(observer, id);
                }
            }
        }
    }

    /// Runs a scheduled task.
    pub fn work(&self, task: Task, out: &mut Batch) {
        match task {
            Task::Send(to, bytes) => out.push(&to, |room| copy(room, &bytes)),
            Task::Acknowledge(key, to) => {
                if self.exchanges.lock().is_ok_and(|mut all| all.acknowledge(key)) {
                    out.push(&to, |room| coap::empty(room, Kind::Acknowledgement, key.id));
                }
            }
            Task::Repeat(key, to) => {
                let Ok(repeat) = self.exchanges.lock().map(|mut all| all.repeat(key)) else {
                    return;
                };
                match repeat {
                    Ok(Some((bytes, wait))) => {
                        out.push(&to, |room| copy(room, &bytes));
                        self.timers.add(clock::now() + wait, Task::Repeat(key, to));
                    }
                    Err(Some(observer)) => {
                        if let Ok(mut all) = self.observation.lock() {
                            all.remove(observer);
                        }
                    }
                    Ok(None) | Err(None) => {}
                }
            }
            Task::Change(resource) => {
                self.changes.fetch_add(1, Relaxed);
                let changed = match self.observation.lock() {
                    Ok(mut all) => all.changed(resource, clock::now()),
                    Err(_) => return,
                };
                for (observer, one, confirm) in changed {
                    if out.is_full() {
                        self.send(out);
                    }
                    self.notify_one(observer, one.pending, confirm, out);
                }
                // Without observers, values do not change: an unobserved resource costs nothing.
                let again = self.observation.lock().is_ok_and(|mut all| all.is_to_change(resource));
                if let Some(notify) = self.notify.as_ref().filter(|_| again) {
                    self.change_later(resource, notify);
                }
            }
        }
        self.send(out);
    }
}

/// The key of a confirmable request.
fn key_of(pending: &PendingRequest) -> Option<Key> {
    match pending.kind {
        Kind::Confirmable => Key::new(&pending.to, pending.id),
        _ => None,
    }
}

/// Rejects a message (section 4.2).
fn reset(id: Option<u16>, to: &Address, out: &mut Batch) {
    if let Some(id) = id {
        out.push(to, |room| coap::empty(room, Kind::Reset, id));
    }
}

fn copy(room: &mut [u8], bytes: &[u8]) -> usize {
    let length = bytes.len().min(room.len());
    room[..length].copy_from_slice(&bytes[..length]);
    length
}

#[cfg(test)]
mod tests;
