//! The sender over TCP: plain bytes, HTTP/1.1, MQTT.
//!
//! A connection carries one HTTP request at a time, since a second answer would wait for
//! the first. MQTT messages and plain bytes follow each other without waiting. If no
//! connection is free, a request waits in the queue of its target, at most for the answer
//! timeout. That wait is part of its response time, not slip.

use crate::connection::{Connection, Progress};
use crate::epoll::Epoll;
use crate::outstanding::Outstanding;
use crate::request_queue::{MAX_WAITING, RequestQueue, SlotTimes, Waiting};
use crate::sender::{Core, Due, Transport};
use crate::template::HTTP;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use trace::Scheme;
use units::{Instant, Span};

/// The connections to one target, and the requests that wait for one.
struct Pool {
    to: SocketAddr,
    connections: Vec<usize>,
    /// Connections that carry one request at a time and are free, the longest free first.
    free: VecDeque<usize>,
    queue: RequestQueue,
    /// The slots of closed connections that have no replacement yet.
    vacated: Vec<SlotTimes>,
}

impl Pool {
    fn new(to: SocketAddr) -> Self {
        let (free, queue) = (VecDeque::new(), RequestQueue::default());
        Self { to, connections: Vec::new(), free, queue, vacated: Vec::new() }
    }
}

/// A sender over TCP.
pub(crate) struct Sender<'a> {
    core: Core<'a>,
    scheme: Scheme,
    number: usize,
    epoll: Epoll,
    ready: Vec<usize>,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    /// By target number.
    pools: Vec<Pool>,
    made: u64,
    waiting: usize,
}

impl<'a> Sender<'a> {
    /// Sender `number`, without connections.
    pub fn new(scheme: Scheme, number: usize, core: Core<'a>) -> io::Result<Self> {
        Ok(Self {
            core,
            scheme,
            number,
            epoll: Epoll::new()?,
            ready: Vec::new(),
            connections: Vec::new(),
            free: Vec::new(),
            pools: Vec::new(),
            made: 0,
            waiting: 0,
        })
    }

    /// Sends queued requests to this target while connections are free.
    fn serve(&mut self, target: usize) {
        loop {
            let pool = &mut self.pools[target];
            if pool.queue.is_empty() {
                return;
            }
            let free = match self.scheme {
                Scheme::Http => pool.free.pop_front(),
                _ => pool.connections.first().copied(),
            };
            let connections = &self.connections;
            let is = |place: usize, what: fn(&Connection) -> bool| {
                connections[place].as_ref().is_some_and(what)
            };
            if let Some(place) = free.filter(|place| is(*place, Connection::is_free)) {
                self.send(place, target);
                continue;
            }
            // One connection is enough if requests do not wait for answers.
            let most = match self.scheme {
                Scheme::Http => self.core.settings.connections,
                _ => 1,
            };
            // No more connections than requests that wait for one.
            let opening = pool.connections.iter().filter(|c| is(**c, Connection::is_opening));
            if pool.connections.len() < most && opening.count() < pool.queue.len() {
                self.open(target);
            }
            return;
        }
    }

    /// Sends the first queued request over a free connection.
    fn send(&mut self, place: usize, target: usize) {
        let pool = &mut self.pools[target];
        let Some(connection) = &mut self.connections[place] else { return };
        let Some(Waiting { number, intended, operation }) = pool.queue.pop() else { return };
        self.waiting -= 1;
        let answers = match self.scheme {
            Scheme::Http => true,
            Scheme::Mqtt => self.core.settings.qos > 0,
            _ => self.core.settings.answers,
        };
        let template = &self.core.pacer.templates[operation.template as usize];
        let sent = clock::now();
        let wait = pool.queue.wait(connection.slot(), intended, sent);
        let result = connection.send(template, number, answers, sent);
        self.core.outstanding.dequeued(number, sent, wait, answers);
        self.core.shared.lag.store((sent - (intended + wait)).as_ns(), Relaxed);
        self.core.shared.sent.fetch_add(1, Relaxed);
        match result {
            Ok(()) => self.watch(place),
            Err(why) => self.close(place, &why),
        }
    }

    /// Opens one more connection to a target.
    fn open(&mut self, target: usize) {
        self.made += 1;
        let name = format!("thingbed-{}-{}-{}", std::process::id(), self.number, self.made);
        let pool = &mut self.pools[target];
        let (to, before) = (pool.to, pool.vacated.pop().unwrap_or_default());
        match Connection::open(self.scheme, (to, target), self.core.settings.from, &name, before) {
            Ok(connection) => {
                let place = self.free.pop().unwrap_or_else(|| {
                    self.connections.push(None);
                    self.connections.len() - 1
                });
                pool.connections.push(place);
                self.epoll.add(place, connection.as_raw_fd(), true);
                self.connections[place] = Some(connection);
            }
            Err(error) => self.refuse(target, &format!("could not connect to {to}: {error}")),
        }
    }

    /// Handles a failed connection attempt. If the target has no other connection, all
    /// queued requests fail.
    fn refuse(&mut self, target: usize, why: &str) {
        let pool = &mut self.pools[target];
        if !pool.connections.is_empty() {
            self.core.outstanding.explain(why);
            return;
        }
        while let Some(waiting) = pool.queue.pop() {
            self.waiting -= 1;
            self.core.outstanding.unreachable(waiting.number, why);
        }
    }

    /// Closes a connection: requests under way on it are lost, queued ones get another
    /// connection.
    fn close(&mut self, place: usize, why: &str) {
        let Some(connection) = self.connections[place].take() else { return };
        self.free.push(place);
        let target = connection.target();
        let pool = &mut self.pools[target];
        pool.connections.retain(|other| *other != place);
        pool.free.retain(|other| *other != place);
        if !connection.is_opening() {
            pool.vacated.push(connection.vacated());
        }
        for number in connection.in_flight() {
            self.core.outstanding.unreachable(number, why);
        }
        match connection.is_opening() {
            true => self.refuse(target, why),
            false => self.serve(target),
        }
    }

    /// Waits at most `most` for events on connections and handles them. Returns whether there
    /// were any.
    fn events(&mut self, most: Span) -> bool {
        let mut ready = std::mem::take(&mut self.ready);
        self.epoll.wait(most, &mut ready);
        for place in &ready {
            self.handle_events(*place);
        }
        let any = !ready.is_empty();
        self.ready = ready;
        any
    }

    fn handle_events(&mut self, place: usize) {
        loop {
            let Some(Some(connection)) = self.connections.get_mut(place) else { return };
            let target = connection.target();
            match connection.advance() {
                Progress::Nothing => {
                    // The peer may have read, which makes room to write.
                    self.serve(target);
                    break self.watch(place);
                }
                Progress::Open => self.freed(place, target),
                Progress::Answer { number, code } => {
                    let (spent, drained) = (connection.is_spent(), connection.is_drained());
                    let bad = code >= HTTP + 400;
                    self.core.outstanding.answered(number, clock::now(), code, bad);
                    if spent {
                        return self.close(place, "");
                    }
                    self.freed(place, target);
                    // epoll reports later data.
                    if drained && self.scheme == Scheme::Http {
                        break self.watch(place);
                    }
                }
                Progress::Unexpected => self.core.outstanding.others.unexpected += 1,
                Progress::Garbage(why) => {
                    self.core.outstanding.others.malformed += 1;
                    return self.close(place, why);
                }
                Progress::Closed(why) => return self.close(place, &why),
            }
        }
    }

    /// Marks a connection as ready for the next request.
    fn freed(&mut self, place: usize, target: usize) {
        if self.scheme == Scheme::Http {
            self.pools[target].free.push_back(place);
        }
        self.serve(target);
    }

    /// Watches for writability only while there is data to write.
    fn watch(&mut self, place: usize) {
        let Some(connection) = &mut self.connections[place] else { return };
        let (fd, write) = (connection.as_raw_fd(), connection.wants_to_write());
        if connection.set_watched(write) {
            self.epoll.change(place, fd, write);
        }
    }
}

impl<'a> Transport<'a> for Sender<'a> {
    fn core(&mut self) -> &mut Core<'a> {
        &mut self.core
    }

    /// Sends an operation, or queues it until a connection is free.
    fn take(&mut self, due: Due, _: Instant) {
        let Due { intended, operation, target } = due;
        let number = self.core.outstanding.queued(operation, intended, clock::now());
        if self.waiting == MAX_WAITING {
            self.core.outstanding.no_connection(number);
            self.core.outstanding.explain("too many requests wait for a connection (1,048,576)");
            return;
        }
        let known = self.pools.len();
        self.pools.extend(self.core.targets.addresses().skip(known).map(Pool::new));
        self.pools[target as usize].queue.push(Waiting { number, intended, operation });
        self.waiting += 1;
        self.serve(target as usize);
    }

    fn turn(&mut self) -> bool {
        self.events(Span::ZERO)
    }

    /// Closes connections whose oldest request has timed out: a later answer would count as
    /// the answer to the next request. Drops requests that have waited for a connection for
    /// longer than the timeout.
    fn expire(&mut self, now: Instant) {
        let timeout = self.core.settings.timeout;
        for place in 0..self.connections.len() {
            let Some(connection) = &self.connections[place] else { continue };
            if connection.since().is_some_and(|since| now - since > timeout) {
                let why = if connection.is_opening() {
                    format!(
                        "no connection to {} within the timeout",
                        self.pools[connection.target()].to
                    )
                } else {
                    "connection closed after an answer timed out".to_owned()
                };
                // Only the oldest has timed out; the others are lost with the connection.
                if let Some(number) = connection.in_flight().next() {
                    self.core.outstanding.time_out(number);
                }
                self.close(place, &why);
            }
        }
        if self.waiting == 0 {
            return;
        }
        for pool in &mut self.pools {
            while let Some(waiting) = pool.queue.expired(now, timeout) {
                self.waiting -= 1;
                match pool.queue.is_machine_bound() {
                    true => {
                        self.core.outstanding.too_late(waiting.number);
                        self.core
                            .outstanding
                            .explain("not sent: this machine was later than the timeout");
                    }
                    false => {
                        self.core.outstanding.no_connection(waiting.number);
                        let to = pool.to;
                        self.core.outstanding.explain(&format!(
                            "no connection to {to} became free within the timeout"
                        ));
                    }
                }
            }
        }
    }

    fn wait(&mut self, span: Span, _: Instant) {
        self.events(span);
    }

    fn is_over(&self) -> bool {
        self.core.outstanding.waiting() == 0 && self.waiting == 0
    }

    fn abandon(&mut self, _: Instant) {
        for pool in &mut self.pools {
            while let Some(waiting) = pool.queue.pop() {
                self.core.outstanding.no_connection(waiting.number);
            }
        }
        self.waiting = 0;
    }

    fn finish(mut self) -> Outstanding {
        self.core.outstanding.close();
        self.core.outstanding
    }
}
