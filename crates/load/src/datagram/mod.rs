//! The sender over UDP: CoAP and plain datagrams.

mod coap;
mod handle;
mod interactions;
mod nstart;
mod observers;
mod sending;

use crate::error::Error;
use crate::outstanding::Outstanding;
use crate::request_feed::Operation;
use crate::request_queue::{MAX_WAITING, SlotTimes, Waiting};
use crate::sender::{CHECK_INTERVAL, Core, Due, Transport};
use crate::socket::{Address, Batch, Datagrams};
use crate::stamp;
use crate::template::NO_STATUS;
use handle::{Handle, MessageIds};
use interactions::Interactions;
use nstart::Nstart;
use observers::Observers;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use trace::Scheme;
use units::{Draw, Instant, Span};

/// The maximum number of requests per system call; more would delay the processing of
/// answers.
const MAX_SEND: usize = 16;
/// The maximum number of answers per system call; more would delay requests.
const MAX_RECEIVE: usize = 16;
/// Buffer size for other messages than requests, in bytes: a block and the options of the
/// longest URI.
const EXTRA_BUFFER: usize = 8_192;

/// The operation of a request in the batch.
#[derive(Clone, Copy)]
struct BatchEntry {
    intended: Instant,
    operation: Operation,
    /// Only with NSTART: its operation number, its target and that target's slot.
    slot: Option<(u64, u32, SlotTimes)>,
    id: u16,
}

/// A sender of datagrams.
pub(crate) struct Sender<'a> {
    core: Core<'a>,
    socket: Datagrams,
    scheme: Scheme,
    out: Batch,
    /// None while its answers are processed.
    into: Option<Batch>,
    /// Acknowledgements, further blocks, retransmissions.
    extra: Batch,
    entries: Vec<BatchEntry>,
    /// Identifies this run's tokens.
    nonce: u16,
    ids: MessageIds,
    nstart: Option<Nstart>,
    interactions: Interactions,
    observers: Observers,
    /// The minimum send time per request of a system call.
    min_send_time: Span,
}

impl<'a> Sender<'a> {
    pub fn new(scheme: Scheme, ipv4: bool, core: Core<'a>, draw: Draw) -> Result<Self, Error> {
        let settings = core.settings;
        let any = if ipv4 {
            IpAddr::V4(Ipv4Addr::UNSPECIFIED)
        } else {
            IpAddr::V6(Ipv6Addr::UNSPECIFIED)
        };
        let from = SocketAddr::new(settings.from.unwrap_or(any), 0);
        let socket = Datagrams::bind(from)
            .and_then(|socket| socket.report_errors(from.is_ipv4()).map(|()| socket))
            .map_err(|source| Error::Socket { from, source })?;
        // Answers to an earlier run have another nonce and count as unexpected.
        let nonce = (clock::now_ns() / 1_000) as u16;
        let nstart = settings.coap.nstart.filter(|_| scheme == Scheme::Coap).map(Nstart::new);
        let into = match nstart {
            Some(_) => {
                stamp::enable(socket.raw());
                Batch::with_stamps(65_536)
            }
            None => Batch::new(65_536),
        };
        Ok(Self {
            core,
            socket,
            scheme,
            out: Batch::new(65_536),
            into: Some(into),
            extra: Batch::new(EXTRA_BUFFER),
            entries: Vec::with_capacity(MAX_SEND),
            nonce,
            ids: MessageIds::new(nonce),
            nstart,
            interactions: Interactions::new(settings.coap, draw),
            observers: Observers::default(),
            min_send_time: Span::MAX,
        })
    }

    /// Receives answers. Returns whether there were any.
    fn receive(&mut self) -> bool {
        let Some(mut into) = self.into.take() else { return false };
        let result = into.receive(&self.socket, MAX_RECEIVE);
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
            // A pending ICMP error fails the next call; its datagram is in the error queue (ip(7),
            // IP_RECVERR).
            Err(_) => self.take_rejected() > 0,
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

    /// Adds a message to the batch of messages other than requests.
    fn push(&mut self, to: &Address, write: impl FnOnce(&mut [u8]) -> usize) {
        if self.extra.is_full() {
            self.flush();
        }
        self.extra.push(to, write);
    }

    fn plain(&mut self, bytes: &[u8], now: Instant) {
        let token = bytes.first_chunk::<8>().copied().map(u64::from_be_bytes);
        match token.map(|token| Handle::from_token(token, self.nonce)) {
            Some(Some(handle)) => {
                self.core.outstanding.answered(handle.number(), now, NO_STATUS, false)
            }
            Some(None) => self.core.outstanding.others.unexpected += 1,
            None => self.core.outstanding.others.malformed += 1,
        }
    }

    /// Handles rejected datagrams: the target is unreachable, or the datagram is too large.
    fn take_rejected(&mut self) -> usize {
        let mut room = [0; 64];
        let mut count = 0;
        while let Some((length, why)) = self.socket.take_rejected(&mut room) {
            count += 1;
            let bytes = &room[..length.min(room.len())];
            let token = match self.scheme {
                // The token follows the header of four bytes (RFC 7252, 3).
                Scheme::Coap => bytes.get(4..12),
                _ => bytes.get(..8),
            };
            let token = token.and_then(|token| token.try_into().ok()).map(u64::from_be_bytes);
            let why = match why {
                libc::ECONNREFUSED => "nothing listens at the target (connection refused)",
                libc::EHOSTUNREACH => "no such host (host unreachable)",
                libc::ENETUNREACH => "no route to the target (network unreachable)",
                libc::EMSGSIZE => "the datagram is larger than the MTU (EMSGSIZE)",
                _ => "rejected by the kernel or the network",
            };
            if let Some(handle) = token.and_then(|token| Handle::from_token(token, self.nonce)) {
                self.lost(handle, why);
            }
        }
        count
    }

    /// Waits a little, to count late and duplicate answers.
    fn settle(&mut self) {
        let end = clock::now() + (self.core.settings.timeout / 10).min(20 * CHECK_INTERVAL);
        while clock::now() < end {
            if !self.receive() {
                let _ = self.socket.wait(CHECK_INTERVAL);
            }
        }
    }
}

impl<'a> Transport<'a> for Sender<'a> {
    fn core(&mut self) -> &mut Core<'a> {
        &mut self.core
    }

    fn has_room(&self) -> bool {
        self.out.len() < MAX_SEND
    }

    fn take(&mut self, due: Due, _: Instant) {
        let Due { intended, operation, target } = due;
        let Some(nstart) = &mut self.nstart else {
            let number = self.core.outstanding.next() + self.out.len() as u64;
            return self.put(intended, operation, number, None);
        };
        let number = self.core.outstanding.queued(operation, intended, clock::now());
        if nstart.waiting() == MAX_WAITING {
            self.core.outstanding.no_connection(number);
            self.core.outstanding.explain("too many requests wait for NSTART (1,048,576)");
            return;
        }
        nstart.push(target, Waiting { number, intended, operation });
    }

    fn turn(&mut self) -> bool {
        let sent = self.send();
        self.receive() || sent
    }

    fn expire(&mut self, now: Instant) {
        self.expire_interactions(now);
    }

    fn wait(&mut self, span: Span, now: Instant) {
        // Checking timeouts at intervals is enough.
        let next = self.interactions.next().map_or(10 * CHECK_INTERVAL, |at| at - now);
        let _ = self.socket.wait(span.min(next.max(CHECK_INTERVAL)));
    }

    fn is_over(&self) -> bool {
        let waiting = self.nstart.as_ref().map_or(0, Nstart::waiting);
        self.core.outstanding.waiting() == 0 && waiting == 0 && self.observers.is_empty()
    }

    fn abandon(&mut self, now: Instant) {
        if let Some(nstart) = &mut self.nstart {
            while let Some((waiting, _)) = nstart.expired(now, Span::ZERO) {
                self.core.outstanding.no_connection(waiting.number);
            }
        }
        self.observers.end_all(now);
    }

    fn finish(mut self) -> Outstanding {
        self.settle();
        let mut outstanding = self.core.outstanding;
        outstanding.close();
        outstanding.others.retransmitted = self.interactions.retransmitted;
        outstanding.observed = self.observers.counts;
        outstanding
    }
}

/// The maximum rate of requests between two CoAP endpoints, per second, without reusing
/// message IDs within their lifetime (RFC 7252, section 4.4): 65,536 in 247 s.
pub const IDS_PER_SECOND: f64 = 65_536.0 / 247.0;
