//! The sender over TCP: plain bytes, HTTP/1.1, MQTT.
//!
//! A connection carries one HTTP request at a time, since a second answer would wait for
//! the first. MQTT messages and plain bytes follow each other without waiting. If no
//! connection is free, a request waits in the queue of its target, at most for the answer
//! timeout. That wait is part of its response time, not slip.

use crate::clock::{self, Nanos};
use crate::connection::{Connection, Progress};
use crate::epoll::Epoll;
use crate::outstanding::Outstanding;
use crate::pacer::{Next, Pacer};
use crate::request_feed::Operation;
use crate::request_queue::{MAX_DUE_PER_TURN, MAX_WAITING, RequestQueue, SlotTimes, Waiting};
use crate::run::Shared;
use crate::settings::Settings;
use crate::targets::Targets;
use crate::template::HTTP;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use trace::Scheme;

/// The interval of timeout checks.
const CHECK_INTERVAL: Nanos = 1_000_000;
/// Within this time before the next request the sender spins instead of sleeping.
const SPIN_WINDOW: Nanos = 100_000;

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
    scheme: Scheme,
    number: usize,
    settings: &'a Settings,
    shared: &'a Shared,
    pacer: Pacer,
    outstanding: Outstanding,
    epoll: Epoll,
    ready: Vec<usize>,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    targets: Targets,
    /// By target number.
    pools: Vec<Pool>,
    made: u64,
    waiting: usize,
    last_check: Nanos,
    margin: Nanos,
}

impl<'a> Sender<'a> {
    pub fn new(
        scheme: Scheme,
        number: usize,
        settings: &'a Settings,
        shared: &'a Shared,
        pacer: Pacer,
        outstanding: Outstanding,
    ) -> io::Result<Self> {
        Ok(Self {
            scheme,
            number,
            settings,
            shared,
            pacer,
            outstanding,
            epoll: Epoll::new()?,
            ready: Vec::new(),
            connections: Vec::new(),
            free: Vec::new(),
            targets: Targets::default(),
            pools: Vec::new(),
            made: 0,
            waiting: 0,
            last_check: 0,
            margin: if settings.spin { Nanos::MAX } else { clock::margin().max(SPIN_WINDOW) },
        })
    }

    /// The outstanding requests, to record errors before the start.
    pub fn outstanding(&mut self) -> &mut Outstanding {
        &mut self.outstanding
    }

    /// Sends until the schedule has ended and all requests are answered or timed out.
    pub fn run(mut self) -> Outstanding {
        loop {
            let now = clock::now();
            if self.shared.stop.load(Relaxed) {
                self.abandon();
            }
            for _ in 0..MAX_DUE_PER_TURN {
                let Some((intended, operation)) = self.pacer.due(now, &mut self.outstanding) else {
                    break;
                };
                self.take(intended, operation, now);
            }
            let busy = self.events(0);
            let now = clock::now();
            if now - self.last_check > CHECK_INTERVAL {
                self.last_check = now;
                self.outstanding.expire(now);
                self.expire(now);
            }
            let finished = self.outstanding.take_finished();
            if finished > 0 {
                self.pacer.finished(finished, now);
            }
            if busy {
                continue;
            }
            let until = match self.pacer.next(&mut self.outstanding) {
                Next::At(at) => at,
                Next::Over if self.outstanding.waiting() == 0 && self.waiting == 0 => break,
                _ => now + CHECK_INTERVAL,
            };
            let left = until.saturating_sub(now);
            if left > self.margin {
                self.events((left - self.margin).min(10 * CHECK_INTERVAL));
            }
        }
        self.outstanding.close();
        self.outstanding
    }

    /// Handles an operation that is due: sends it, or queues it until a connection is free.
    fn take(&mut self, intended: Nanos, operation: Operation, now: Nanos) {
        let behind = now - intended;
        self.shared.behind.store(behind, Relaxed);
        if behind > self.settings.patience {
            self.outstanding.unsent(operation.series);
            self.outstanding.explain("too far behind the schedule: the rest was not sent");
            self.pacer.give_up(&mut self.outstanding);
            return;
        }
        let target = self.targets.find(operation.template, &self.pacer.templates, None);
        let Some(target) = target.map(|target| target as usize) else {
            let to = &self.pacer.templates[operation.template as usize].to;
            let why = to.as_ref().err().map_or("no address", |why| why);
            self.outstanding.unsent(operation.series);
            self.outstanding.explain(why);
            return;
        };
        let number = self.outstanding.queued(operation, intended, clock::now());
        if self.waiting == MAX_WAITING {
            self.outstanding.no_connection(number);
            self.outstanding.explain("too many requests wait for a connection (1,048,576)");
            return;
        }
        self.pools.extend(self.targets.addresses().skip(self.pools.len()).map(Pool::new));
        self.pools[target].queue.push(Waiting { number, intended, operation });
        self.waiting += 1;
        self.serve(target);
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
                Scheme::Http => self.settings.connections,
                _ => 1,
            };
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
            Scheme::Mqtt => self.settings.qos > 0,
            _ => self.settings.answers,
        };
        let template = &self.pacer.templates[operation.template as usize];
        let sent = clock::now();
        let wait = pool.queue.wait(connection.slot(), intended, sent);
        let result = connection.send(template, number, answers, sent);
        self.outstanding.dequeued(number, sent, wait, answers);
        self.shared.behind.store(sent.saturating_sub(intended + wait), Relaxed);
        self.shared.sent.fetch_add(1, Relaxed);
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
        match Connection::open(self.scheme, (to, target), self.settings.from, &name, before) {
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
            self.outstanding.explain(why);
            return;
        }
        while let Some(waiting) = pool.queue.pop() {
            self.waiting -= 1;
            self.outstanding.unreachable(waiting.number, why);
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
            self.outstanding.unreachable(number, why);
        }
        match connection.is_opening() {
            true => self.refuse(target, why),
            false => self.serve(target),
        }
    }

    /// Waits at most `ns` for events on connections and handles them. Returns whether there
    /// were any.
    fn events(&mut self, ns: Nanos) -> bool {
        let mut ready = std::mem::take(&mut self.ready);
        self.epoll.wait(ns, &mut ready);
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
                    self.outstanding.answered(number, clock::now(), code, bad);
                    if spent {
                        return self.close(place, "");
                    }
                    self.freed(place, target);
                    // epoll reports later data.
                    if drained && self.scheme == Scheme::Http {
                        break self.watch(place);
                    }
                }
                Progress::Stray => self.outstanding.stray += 1,
                Progress::Garbage(why) => {
                    self.outstanding.garbage += 1;
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

    /// Closes connections whose oldest request has timed out: a later answer would count as
    /// the answer to the next request. Drops requests that have waited for a connection for
    /// longer than the timeout.
    fn expire(&mut self, now: Nanos) {
        let timeout = self.settings.timeout;
        for place in 0..self.connections.len() {
            let Some(connection) = &self.connections[place] else { continue };
            if connection.since().is_some_and(|since| now.saturating_sub(since) > timeout) {
                let why = if connection.is_opening() {
                    format!(
                        "no connection to {} within the timeout",
                        self.pools[connection.target()].to
                    )
                } else {
                    "connection closed after an answer timed out".to_owned()
                };
                if let Some(number) = connection.in_flight().next() {
                    self.outstanding.time_out(number);
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
                        self.outstanding.too_late(waiting.number);
                        self.outstanding
                            .explain("not sent: this machine was later than the timeout");
                    }
                    false => {
                        self.outstanding.no_connection(waiting.number);
                        let to = pool.to;
                        self.outstanding.explain(&format!(
                            "no connection to {to} became free within the timeout"
                        ));
                    }
                }
            }
        }
    }

    /// Handles a stop: drops the queued requests and the rest of the schedule.
    fn abandon(&mut self) {
        for pool in &mut self.pools {
            while let Some(waiting) = pool.queue.pop() {
                self.outstanding.no_connection(waiting.number);
            }
        }
        self.waiting = 0;
        self.pacer.give_up(&mut self.outstanding);
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
