//! The sender over UDP: CoAP and plain datagrams.

mod coap;
mod handle;
mod interactions;
mod nstart;
mod observers;
mod sending;

use crate::book::Book;
use crate::clock::{self, Nanos};
use crate::pace::{Next, Pace};
use crate::request_queue::SlotTimes;
use crate::run::{Error, Shared};
use crate::settings::Settings;
use crate::socket::{Batch, Datagrams};
use crate::stamp;
use crate::supply::Operation;
use crate::targets::Targets;
use crate::template::CAME;
use handle::{Handle, MessageIds};
use interactions::Interactions;
use nstart::Nstart;
use observers::Observers;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::Ordering::Relaxed;
use trace::Scheme;
use units::Draw;

/// The maximum number of requests per system call; more would delay the processing of
/// answers.
const OUT: usize = 16;
/// The maximum number of answers per system call; more would delay requests.
const IN: usize = 16;
/// Within this time before the next request the sender spins instead of sleeping.
const AWAKE: Nanos = 100_000;
/// The interval of timeout checks.
const LOOK: Nanos = 1_000_000;
/// Buffer size for other messages than requests, in bytes: a block and the options of the
/// longest URI.
const EXTRA: usize = 8_192;

/// The operation of a request in the batch.
#[derive(Clone, Copy)]
struct Meant {
    intended: Nanos,
    operation: Operation,
    /// Only with NSTART: its operation number, its target and that target's slot.
    slot: Option<(u64, u32, SlotTimes)>,
    id: u16,
}

/// A sender of datagrams.
pub(crate) struct Sender<'a> {
    socket: Datagrams,
    scheme: Scheme,
    settings: &'a Settings,
    shared: &'a Shared,
    pace: Pace,
    book: Book,
    out: Batch,
    /// None while its answers are processed.
    into: Option<Batch>,
    /// Acknowledgements, further blocks, retransmissions.
    extra: Batch,
    meant: Vec<Meant>,
    targets: Targets,
    /// Identifies this run's tokens.
    nonce: u16,
    ids: MessageIds,
    nstart: Option<Nstart>,
    interactions: Interactions,
    observers: Observers,
    margin: Nanos,
    looked: Nanos,
    /// The minimum send time per request of a system call, in ns.
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
        draw: Draw,
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
        let nstart = settings.coap.nstart.filter(|_| scheme == Scheme::Coap).map(Nstart::new);
        let into = match nstart {
            Some(_) => {
                stamp::enable(socket.raw());
                Batch::with_stamps(65_536)
            }
            None => Batch::new(65_536),
        };
        let margin = if settings.spin { Nanos::MAX } else { clock::margin().max(AWAKE) };
        Ok(Self {
            socket,
            scheme,
            settings,
            shared,
            pace,
            book,
            out: Batch::new(65_536),
            into: Some(into),
            extra: Batch::new(EXTRA),
            meant: Vec::with_capacity(OUT),
            targets: Targets::default(),
            nonce,
            ids: MessageIds::new(nonce),
            nstart,
            interactions: Interactions::new(settings.coap, draw),
            observers: Observers::default(),
            margin,
            looked: 0,
            each: Nanos::MAX,
        })
    }

    /// The outstanding requests, to record errors before the start.
    pub fn book(&mut self) -> &mut Book {
        &mut self.book
    }

    /// Sends until the schedule has ended and all requests are answered or timed out.
    pub fn run(mut self) -> Book {
        loop {
            let now = clock::now();
            if self.shared.stop.load(Relaxed) {
                self.abandon(now);
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
                self.expire(now);
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
                Next::Over if self.is_over() => break,
                _ => self.idle(now + LOOK, now),
            }
        }
        self.settle();
        self.book.retransmitted = self.interactions.retransmitted;
        self.book.observed = self.observers.counts;
        self.book
    }

    fn is_over(&self) -> bool {
        let waiting = self.nstart.as_ref().map_or(0, Nstart::waiting);
        self.book.waiting() == 0 && waiting == 0 && self.observers.is_empty()
    }

    /// Handles a stop: drops the requests that wait for NSTART and the rest of the
    /// schedule.
    fn abandon(&mut self, now: Nanos) {
        if let Some(nstart) = &mut self.nstart {
            while let Some((waiting, _)) = nstart.expired(now, 0) {
                self.book.no_connection(waiting.number);
            }
        }
        self.observers.end_all(now);
        self.pace.give_up(&mut self.book);
    }

    /// Receives answers. Returns whether there were any.
    fn receive(&mut self) -> bool {
        let Some(mut into) = self.into.take() else { return false };
        let result = into.receive(&self.socket, IN);
        let any = match result {
            Ok(0) => false,
            Ok(count) => {
                let now = clock::now();
                for i in 0..count {
                    match self.scheme {
                        Scheme::Coap => self.coap(&into, i, now),
                        _ => self.plain(into.get(i), now),
                    }
                }
                self.flush();
                true
            }
            Err(_) => self.returned() > 0,
        };
        self.into = Some(into);
        any
    }

    /// Sends the messages other than requests. Datagrams that the kernel rejects count as
    /// lost.
    fn flush(&mut self) {
        if self.extra.len() > 0 {
            let _ = self.extra.send(&self.socket, 0);
            self.extra.clear();
        }
    }

    fn plain(&mut self, bytes: &[u8], now: Nanos) {
        let token = bytes.first_chunk::<8>().copied().map(u64::from_be_bytes);
        match token.map(|token| Handle::from_token(token, self.nonce)) {
            Some(Some(handle)) => self.book.answered(handle.number(), now, CAME, false),
            Some(None) => self.book.stray += 1,
            None => self.book.garbage += 1,
        }
    }

    /// Handles rejected datagrams: the target is unreachable, or the datagram is too large.
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
                libc::ECONNREFUSED => "nothing listens at the target (connection refused)",
                libc::EHOSTUNREACH => "no such host (host unreachable)",
                libc::ENETUNREACH => "no route to the target (network unreachable)",
                libc::EMSGSIZE => "larger than the MTU allows (EMSGSIZE)",
                _ => "looped back from the network",
            };
            if let Some(handle) = token.and_then(|token| Handle::from_token(token, self.nonce)) {
                self.lost(handle, why);
            }
        }
        count
    }

    /// Waits for an answer or for the next due action.
    fn idle(&mut self, until: Nanos, now: Nanos) {
        let left = until.saturating_sub(now);
        if left > self.margin {
            // Checking timeouts at intervals is enough.
            let next = self.interactions.next().map_or(10 * LOOK, |at| at.saturating_sub(now));
            let _ = self.socket.wait((left - self.margin).min(next.clamp(LOOK, 10 * LOOK)));
        } else {
            std::hint::spin_loop();
        }
    }

    /// Waits a little, to count late and duplicate answers.
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

/// The maximum rate of requests between two CoAP endpoints, per second, without reusing
/// message IDs within their lifetime (RFC 7252, section 4.4): 65,536 in 247 s.
pub const IDS_PER_SECOND: f64 = 65_536.0 / 247.0;
