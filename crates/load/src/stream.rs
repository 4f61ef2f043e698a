//! The loop that sends over TCP: plain bytes, HTTP/1.1, MQTT.
//!
//! A connection carries one HTTP request at a time, since the next one's answer would
//! wait for this one's; MQTT messages and plain bytes follow each other without waiting.
//! A request that finds no connection free waits here, and that is slip.

use crate::book::Book;
use crate::clock::{self, Nanos, timespec};
use crate::connection::{Connection, Progress};
use crate::pace::{Next, Pace};
use crate::run::Shared;
use crate::settings::Settings;
use crate::supply::Operation;
use crate::template::HTTP;
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use trace::Scheme;

/// It looks for timeouts so often.
const LOOK: Nanos = 1_000_000;
/// Within this time of the next request it looks at the clock and does not sleep.
const AWAKE: Nanos = 100_000;
/// So many events are taken at once.
const EVENTS: usize = 64;

/// One target's connections, and the requests that wait for one.
#[derive(Default)]
struct Pool {
    connections: Vec<usize>,
    waiting: VecDeque<(Nanos, Operation)>,
    /// Why the last one could not be had.
    refused: Option<String>,
}

/// A sender over TCP.
pub(crate) struct Sender<'a> {
    scheme: Scheme,
    number: usize,
    settings: &'a Settings,
    shared: &'a Shared,
    pace: Pace,
    book: Book,
    epoll: OwnedFd,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    pools: HashMap<SocketAddr, Pool>,
    made: u64,
    waiting: usize,
    looked: Nanos,
    margin: Nanos,
}

impl<'a> Sender<'a> {
    pub fn new(
        scheme: Scheme,
        number: usize,
        settings: &'a Settings,
        shared: &'a Shared,
        pace: Pace,
        book: Book,
    ) -> io::Result<Self> {
        // SAFETY: an integer argument; the descriptor is ours if it is one.
        let fd = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            scheme,
            number,
            settings,
            shared,
            pace,
            book,
            // SAFETY: it was just made, and nobody else has it.
            epoll: unsafe { OwnedFd::from_raw_fd(fd) },
            connections: Vec::new(),
            free: Vec::new(),
            pools: HashMap::new(),
            made: 0,
            waiting: 0,
            looked: 0,
            margin: if settings.spin { Nanos::MAX } else { clock::margin().max(AWAKE) },
        })
    }

    /// The book, for what is to be said in it before the start.
    pub fn book(&mut self) -> &mut Book {
        &mut self.book
    }

    /// Sends until the schedule has ended and all answers are in, or their time is over.
    pub fn run(mut self) -> Book {
        loop {
            let now = clock::now();
            if self.shared.stop.load(Relaxed) {
                self.abandon();
            }
            while let Some((intended, operation)) = self.pace.due(now, &mut self.book) {
                self.take(intended, operation, now);
            }
            let came = self.events(0);
            let now = clock::now();
            if now - self.looked > LOOK {
                self.looked = now;
                self.book.expire(now);
                self.expire(now);
            }
            let finished = self.book.take_finished();
            if finished > 0 {
                self.pace.finished(finished, now);
            }
            if came {
                continue;
            }
            let until = match self.pace.next(&mut self.book) {
                Next::At(at) => at,
                Next::Over if self.book.waiting() == 0 && self.waiting == 0 => break,
                _ => now + LOOK,
            };
            let left = until.saturating_sub(now);
            if left > self.margin {
                self.events((left - self.margin).min(10 * LOOK));
            }
        }
        self.book.close();
        self.book
    }

    /// An operation whose moment has come: sent, or kept until a connection is free.
    fn take(&mut self, intended: Nanos, operation: Operation, now: Nanos) {
        let behind = now - intended;
        self.shared.behind.store(behind, Relaxed);
        if behind > self.settings.patience {
            self.book.unsent(operation.series);
            self.book.explain("too far behind the schedule: the rest was not sent");
            self.abandon();
            return;
        }
        let to = match &self.pace.templates[operation.template as usize].to {
            Ok(to) => *to,
            Err(why) => {
                self.book.unsent(operation.series);
                self.book.explain(why);
                return;
            }
        };
        let pool = self.pools.entry(to).or_default();
        pool.waiting.push_back((intended, operation));
        self.waiting += 1;
        self.serve(to);
    }

    /// Sends what waits for this target, as far as connections are free.
    fn serve(&mut self, to: SocketAddr) {
        loop {
            let Some(pool) = self.pools.get(&to) else { return };
            if pool.waiting.is_empty() {
                return;
            }
            let connections = &self.connections;
            let free = pool
                .connections
                .iter()
                .copied()
                .find(|place| connections[*place].as_ref().is_some_and(Connection::is_free));
            let Some(place) = free else {
                let opening = pool
                    .connections
                    .iter()
                    .any(|place| connections[*place].as_ref().is_some_and(Connection::is_opening));
                // One is enough for what does not wait for answers.
                let most = match self.scheme {
                    Scheme::Http => self.settings.connections,
                    _ => 1,
                };
                if pool.connections.len() < most && !(opening && self.scheme != Scheme::Http) {
                    self.open(to);
                }
                return;
            };
            self.send(place, to);
        }
    }

    /// Sends the first that waits over a free connection.
    fn send(&mut self, place: usize, to: SocketAddr) {
        let Some(pool) = self.pools.get_mut(&to) else { return };
        let Some((intended, operation)) = pool.waiting.pop_front() else { return };
        self.waiting -= 1;
        let template = &self.pace.templates[operation.template as usize];
        let Some(connection) = &mut self.connections[place] else { return };
        let number = self.book.next();
        let answers = match self.scheme {
            Scheme::Http => true,
            Scheme::Mqtt => self.settings.qos > 0,
            _ => self.settings.answers,
        };
        let sent = clock::now();
        let result = connection.send(template, number, answers);
        self.book.sent(operation.series, intended, sent, answers);
        self.shared.sent.fetch_add(1, Relaxed);
        match result {
            Ok(()) => self.watch(place),
            Err(why) => self.close(place, &why),
        }
    }

    /// Opens one more connection to a target.
    fn open(&mut self, to: SocketAddr) {
        self.made += 1;
        let name = format!("thingbed-{}-{}-{}", std::process::id(), self.number, self.made);
        match Connection::open(self.scheme, to, self.settings.from, &name) {
            Ok(connection) => {
                let place = self.free.pop().unwrap_or_else(|| {
                    self.connections.push(None);
                    self.connections.len() - 1
                });
                self.register(place, connection.as_raw_fd());
                self.connections[place] = Some(connection);
                self.pools.entry(to).or_default().connections.push(place);
            }
            Err(error) => self.refuse(to, &format!("cannot connect to {to}: {error}")),
        }
    }

    /// Nobody takes what waits for this target.
    fn refuse(&mut self, to: SocketAddr, why: &str) {
        let Some(pool) = self.pools.get_mut(&to) else { return };
        pool.refused = Some(why.to_owned());
        let now = clock::now();
        for (intended, operation) in pool.waiting.drain(..) {
            self.waiting -= 1;
            let number = self.book.sent(operation.series, intended, now, true);
            self.book.unreachable(number, why);
        }
    }

    /// A connection has ended: what was under way on it is lost, and what waits for its
    /// target gets another.
    fn close(&mut self, place: usize, why: &str) {
        let Some(connection) = self.connections[place].take() else { return };
        self.free.push(place);
        let to = connection.target();
        if let Some(pool) = self.pools.get_mut(&to) {
            pool.connections.retain(|other| *other != place);
        }
        let was_opening = connection.is_opening();
        for number in connection.under_way() {
            self.book.unreachable(number, why);
        }
        if was_opening {
            self.refuse(to, why);
        } else {
            self.serve(to);
        }
    }

    /// Waits for at most so long for something to happen on connections, and lets it;
    /// whether anything did.
    fn events(&mut self, ns: Nanos) -> bool {
        // SAFETY: all zero are valid events; they are only read as far as was written.
        let mut events: [libc::epoll_event; EVENTS] = unsafe { std::mem::zeroed() };
        let span = timespec(ns);
        // SAFETY: room for as many as is said, which lives over the call; no signal mask.
        let count = unsafe {
            libc::epoll_pwait2(
                self.epoll.as_raw_fd(),
                events.as_mut_ptr(),
                EVENTS as libc::c_int,
                &raw const span,
                std::ptr::null(),
            )
        };
        for event in events.iter().take(count.max(0) as usize) {
            self.happened(event.u64 as usize);
        }
        count > 0
    }

    fn happened(&mut self, place: usize) {
        loop {
            let Some(Some(connection)) = self.connections.get_mut(place) else { return };
            let to = connection.target();
            match connection.go_on() {
                Progress::Nothing => break self.watch(place),
                Progress::Open => self.serve(to),
                Progress::Answer { number, code } => {
                    let bad = code >= HTTP + 400;
                    self.book.answered(number, clock::now(), code, bad);
                    self.serve(to);
                }
                Progress::Stray => self.book.stray += 1,
                Progress::Garbage(why) => {
                    self.book.garbage += 1;
                    return self.close(place, why);
                }
                Progress::Closed(why) => return self.close(place, &why),
            }
        }
    }

    /// Connections whose oldest request is beyond its time are of no use any more:
    /// an answer that comes now would be taken for the next one's.
    fn expire(&mut self, now: Nanos) {
        let timeout = self.settings.timeout;
        for place in 0..self.connections.len() {
            let Some(connection) = &self.connections[place] else { continue };
            if connection.since().is_some_and(|since| now.saturating_sub(since) > timeout) {
                let why = if connection.is_opening() {
                    format!("no connection to {} in time", connection.target())
                } else {
                    "closed, since an answer did not come in time".to_owned()
                };
                self.book.expire(now);
                self.close(place, &why);
            }
        }
    }

    fn abandon(&mut self) {
        for pool in self.pools.values_mut() {
            for (_, operation) in pool.waiting.drain(..) {
                self.book.unsent(operation.series);
            }
        }
        self.waiting = 0;
        self.pace.give_up(&mut self.book);
    }

    fn register(&self, place: usize, fd: libc::c_int) {
        self.control(libc::EPOLL_CTL_ADD, place, fd, true);
    }

    /// Wants to hear of room to write only when there is something to be written.
    fn watch(&mut self, place: usize) {
        let Some(connection) = &mut self.connections[place] else { return };
        let (fd, write) = (connection.as_raw_fd(), connection.wants_to_write());
        if connection.watched(write) {
            self.control(libc::EPOLL_CTL_MOD, place, fd, write);
        }
    }

    fn control(&self, what: libc::c_int, place: usize, fd: libc::c_int, write: bool) {
        let wanted = libc::EPOLLIN | libc::EPOLLRDHUP | if write { libc::EPOLLOUT } else { 0 };
        let mut event = libc::epoll_event { events: wanted as u32, u64: place as u64 };
        // SAFETY: both descriptors are open, the event lives over the call.
        unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), what, fd, &raw mut event) };
    }
}
