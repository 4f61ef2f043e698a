//! The loop that sends datagrams and takes their answers: CoAP and plain UDP.

use crate::book::Book;
use crate::clock::{self, Nanos};
use crate::coap::{self, Kind, Message};
use crate::pace::{Next, Pace};
use crate::run::{Error, Shared};
use crate::settings::Settings;
use crate::socket::{Address, Batch, Datagrams};
use crate::template::CAME;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering::Relaxed;
use trace::Scheme;

/// So many requests that are due go with one call: more would keep answers waiting.
const OUT: usize = 16;
/// So many answers are taken with one call, for the same reason the other way round.
const IN: usize = 16;
/// Within this time of the next request it looks at the clock and does not sleep.
const AWAKE: Nanos = 100_000;
/// It looks for timeouts so often.
const LOOK: Nanos = 1_000_000;

/// A sender of datagrams.
pub(crate) struct Sender<'a> {
    socket: Datagrams,
    scheme: Scheme,
    settings: &'a Settings,
    shared: &'a Shared,
    pace: Pace,
    book: Book,
    out: Batch,
    into: Batch,
    thanks: Batch,
    /// What the requests in `out` belong to: when they are meant for, and their series.
    meant: Vec<(Nanos, u32)>,
    /// Where each template goes.
    names: Vec<Option<Address>>,
    /// What makes our numbers ours.
    nonce: u16,
    margin: Nanos,
    looked: Nanos,
    /// The least time that a request of a call has taken.
    each: Nanos,
}

impl<'a> Sender<'a> {
    pub fn new(
        scheme: Scheme,
        ipv4: bool,
        settings: &'a Settings,
        shared: &'a Shared,
        pace: Pace,
        book: Book,
    ) -> Result<Self, Error> {
        let any = if ipv4 {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED)
        } else {
            IpAddr::V6(Ipv6Addr::UNSPECIFIED)
        };
        let from = SocketAddr::new(settings.from.unwrap_or(any), 0);
        let socket = Datagrams::bind(from)
            .and_then(|socket| socket.report_errors(from.is_ipv4()).map(|()| socket))
            .map_err(|source| Error::Socket { from, source })?;
        let nonce = (clock::now() / 1_000) as u16;
        let margin = if settings.spin { Nanos::MAX } else { clock::margin().max(AWAKE) };
        Ok(Self {
            socket,
            scheme,
            settings,
            shared,
            pace,
            book,
            out: Batch::new(65_536),
            into: Batch::new(65_536),
            thanks: Batch::new(64),
            meant: Vec::with_capacity(OUT),
            names: Vec::new(),
            nonce,
            margin,
            looked: 0,
            each: Nanos::MAX,
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
                self.pace.give_up(&mut self.book);
            }
            self.fill(now);
            if self.out.len() > 0 {
                self.send();
            }
            let came = self.receive();
            let now = clock::now();
            if now - self.looked > LOOK {
                self.looked = now;
                self.book.expire(now);
            }
            let finished = self.book.take_finished();
            if finished > 0 {
                self.pace.finished(finished, now);
            }
            if came || self.out.len() > 0 {
                continue;
            }
            match self.pace.next(&mut self.book) {
                Next::At(at) => self.idle(at, now),
                Next::AfterAnswer | Next::Starved => self.idle(now + LOOK, now),
                Next::Over if self.book.waiting() == 0 => break,
                Next::Over => self.idle(now + LOOK, now),
            }
        }
        self.settle();
        self.book
    }

    /// Puts requests that are due into the batch.
    fn fill(&mut self, now: Nanos) {
        self.out.clear();
        self.meant.clear();
        while self.out.len() < OUT {
            let Some((intended, operation)) = self.pace.due(now, &mut self.book) else { break };
            let behind = now - intended;
            self.shared.behind.store(behind, Relaxed);
            if behind > self.settings.patience {
                self.book.unsent(operation.series);
                self.book.explain("too far behind the schedule: the rest was not sent");
                self.pace.give_up(&mut self.book);
                break;
            }
            let place = operation.template as usize;
            self.learn(place);
            let template = &self.pace.templates[place];
            let Some(name) = &self.names[place] else {
                let why = template.to.as_ref().err().map_or("another kind of address", |why| why);
                self.book.unsent(operation.series);
                self.book.explain(why);
                continue;
            };
            let number = self.book.next() + self.out.len() as u64;
            let (token, id) = (self.token(number), (number as u16).wrapping_add(self.nonce));
            let scheme = self.scheme;
            self.out.push(name, |room| {
                let length = template.bytes.len().min(room.len());
                room[..length].copy_from_slice(&template.bytes[..length]);
                match scheme {
                    Scheme::Coap => coap::number(&mut room[..length], id, token),
                    _ => room[..8].copy_from_slice(&token.to_be_bytes()),
                }
                length
            });
            self.meant.push((intended, operation.series));
        }
    }

    /// Where a template goes that was not used before.
    fn learn(&mut self, place: usize) {
        let ipv4 = self.shared.ipv4.load(Relaxed);
        if place < self.names.len() {
            return;
        }
        for template in self.pace.templates.iter().skip(self.names.len()) {
            let to = template.to.as_ref().ok().filter(|to| to.is_ipv4() == ipv4);
            self.names.push(to.map(|to| Address::new(*to)));
        }
    }

    /// A number that says which run and which operation an answer belongs to.
    fn token(&self, number: u64) -> u64 {
        u64::from(self.nonce) << 48 | number & 0xffff_ffff_ffff
    }

    fn number(&self, token: u64) -> Option<u64> {
        (token >> 48 == u64::from(self.nonce)).then_some(token & 0xffff_ffff_ffff)
    }

    /// Hands the batch to the kernel. A request's moment lies within the call by its place
    /// in it, each as long after the one before as the quickest call took for one: if the
    /// CPU was taken away within the call, nobody knows before which of them.
    fn send(&mut self) {
        let answers = self.settings.answers || self.scheme == Scheme::Coap;
        let mut from = 0;
        while from < self.out.len() {
            let before = clock::now();
            let result = self.out.send(&self.socket, from);
            let after = clock::now();
            match result {
                Ok(count) => {
                    self.each = self.each.min((after - before) / count.max(1) as u64);
                    let each = self.each;
                    for i in 0..count {
                        let (intended, series) = self.meant[from + i];
                        self.book.sent(series, intended, before + each * i as u64, answers);
                    }
                    from += count;
                    self.shared.sent.fetch_add(count as u64, Relaxed);
                }
                Err(error) => from += self.not_taken(&error, from, before),
            }
        }
    }

    /// The kernel did not take the request at `at`; how many of them that settles.
    fn not_taken(&mut self, error: &io::Error, at: usize, now: Nanos) -> usize {
        match error.kind() {
            // The buffer is full, or an error of an earlier one was waiting to be told.
            io::ErrorKind::WouldBlock => {
                self.receive();
                return 0;
            }
            io::ErrorKind::Interrupted => return 0,
            _ if self.returned() > 0 => return 0,
            _ => {}
        }
        // ECONNREFUSED may have been taken with the answers just before.
        if error.raw_os_error() == Some(libc::ECONNREFUSED) {
            return 0;
        }
        let (intended, series) = self.meant[at];
        let number = self.book.sent(series, intended, now, true);
        self.book.unreachable(number, &format!("the kernel did not take a datagram: {error}"));
        1
    }

    /// Takes answers; whether there were any.
    fn receive(&mut self) -> bool {
        let count = match self.into.receive(&self.socket, IN) {
            Ok(count) => count,
            Err(_) => return self.returned() > 0,
        };
        if count == 0 {
            return false;
        }
        let now = clock::now();
        for i in 0..count {
            match self.scheme {
                Scheme::Coap => self.coap(i, now),
                _ => self.plain(i, now),
            }
        }
        if self.thanks.len() > 0 {
            let _ = self.thanks.send(&self.socket, 0);
            self.thanks.clear();
        }
        true
    }

    fn plain(&mut self, i: usize, now: Nanos) {
        let number = self.into.get(i).first_chunk::<8>().copied().map(u64::from_be_bytes);
        match number.map(|token| self.number(token)) {
            Some(Some(number)) => self.book.answered(number, now, CAME, false),
            Some(None) => self.book.stray += 1,
            None => self.book.garbage += 1,
        }
    }

    fn coap(&mut self, i: usize, now: Nanos) {
        let Some(message) = Message::parse(self.into.get(i)) else {
            self.book.garbage += 1;
            return;
        };
        if message.kind == Kind::Reset {
            let bits = message.id.wrapping_sub(self.nonce);
            match self.book.ending(bits) {
                Some(number) => {
                    self.book.unreachable(number, "the target refused a message (CoAP reset)");
                }
                None => self.book.stray += 1,
            }
            return;
        }
        // An empty message says that the answer comes by itself.
        if message.code == 0 {
            return;
        }
        // Class 0 is a request: nobody here serves it.
        if message.code < 0x40 {
            self.book.stray += 1;
            return;
        }
        let (kind, id, code) = (message.kind, message.id, u16::from(message.code));
        let number = coap::token_number(message.token).and_then(|token| self.number(token));
        match number {
            Some(number) => self.book.answered(number, now, code, code >= 0x80),
            None => self.book.stray += 1,
        }
        if kind == Kind::Confirmable {
            let reply = if number.is_some() { Kind::Acknowledgement } else { Kind::Reset };
            self.thanks.push(self.into.name(i), |room| coap::answer(room, reply, 0, id, &[], &[]));
        }
    }

    /// Takes datagrams that came back, since nobody is there or the network took none.
    fn returned(&mut self) -> usize {
        let mut room = [0; 64];
        let mut count = 0;
        while let Some((length, why)) = self.socket.returned(&mut room) {
            count += 1;
            let bytes = &room[..length.min(room.len())];
            let token = match self.scheme {
                Scheme::Coap => bytes.get(4..12),
                _ => bytes.get(..8),
            };
            let token = token.and_then(|token| token.try_into().ok()).map(u64::from_be_bytes);
            let why = match why {
                libc::ECONNREFUSED => "nobody listens at the target (connection refused)",
                libc::EHOSTUNREACH => "no such host (host unreachable)",
                libc::ENETUNREACH => "no way there (network unreachable)",
                libc::EMSGSIZE => "too large for the network (EMSGSIZE)",
                _ => "came back from the network",
            };
            if let Some(number) = token.and_then(|token| self.number(token)) {
                self.book.unreachable(number, why);
            }
        }
        count
    }

    /// Waits for an answer or for what is due.
    fn idle(&mut self, until: Nanos, now: Nanos) {
        let left = until.saturating_sub(now);
        if left > self.margin {
            // A look at the timeouts now and then is enough.
            let _ = self.socket.wait((left - self.margin).min(10 * LOOK));
        } else {
            std::hint::spin_loop();
        }
    }

    /// Gives late and repeated answers a last chance to be counted.
    fn settle(&mut self) {
        let end = clock::now() + (self.settings.timeout / 10).min(20 * LOOK);
        while clock::now() < end {
            if !self.receive() {
                let _ = self.socket.wait(LOOK);
            }
        }
        self.book.close();
    }
}

/// Requests a second that one CoAP endpoint may send another before message ids come
/// again within their lifetime (RFC 7252, section 4.4): 65,536 in 247 s.
pub const IDS_PER_SECOND: f64 = 65_536.0 / 247.0;
