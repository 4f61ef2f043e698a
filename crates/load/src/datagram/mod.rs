//! The sender over UDP: CoAP and plain datagrams.

mod coap;
mod handle;
mod interactions;
mod nstart;
mod observers;
mod sending;

use crate::clock::{self, Nanos};
use crate::outstanding::Outstanding;
use crate::pacer::{Next, Pacer};
use crate::request_feed::Operation;
use crate::request_queue::SlotTimes;
use crate::run::{Error, Shared};
use crate::settings::Settings;
use crate::socket::{Batch, Datagrams};
use crate::stamp;
use crate::targets::Targets;
use crate::template::NO_STATUS;
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
const MAX_SEND: usize = 16;
/// The maximum number of answers per system call; more would delay requests.
const MAX_RECEIVE: usize = 16;
/// Within this time before the next request the sender spins instead of sleeping.
const SPIN_WINDOW: Nanos = 100_000;
/// The interval of timeout checks.
const CHECK_INTERVAL: Nanos = 1_000_000;
/// Buffer size for other messages than requests, in bytes: a block and the options of the
/// longest URI.
const EXTRA_BUFFER: usize = 8_192;

/// The operation of a request in the batch.
#[derive(Clone, Copy)]
struct BatchEntry {
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
    pacer: Pacer,
    outstanding: Outstanding,
    out: Batch,
    /// None while its answers are processed.
    into: Option<Batch>,
    /// Acknowledgements, further blocks, retransmissions.
    extra: Batch,
    entries: Vec<BatchEntry>,
    targets: Targets,
    /// Identifies this run's tokens.
    nonce: u16,
    ids: MessageIds,
    nstart: Option<Nstart>,
    interactions: Interactions,
    observers: Observers,
    margin: Nanos,
    last_check: Nanos,
    /// The minimum send time per request of a system call, in ns.
    min_send_time: Nanos,
}

impl<'a> Sender<'a> {
    pub fn new(
        scheme: Scheme,
        ipv4: bool,
        settings: &'a Settings,
        shared: &'a Shared,
        pacer: Pacer,
        outstanding: Outstanding,
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
        let margin = if settings.spin { Nanos::MAX } else { clock::margin().max(SPIN_WINDOW) };
        Ok(Self {
            socket,
            scheme,
            settings,
            shared,
            pacer,
            outstanding,
            out: Batch::new(65_536),
            into: Some(into),
            extra: Batch::new(EXTRA_BUFFER),
            entries: Vec::with_capacity(MAX_SEND),
            targets: Targets::default(),
            nonce,
            ids: MessageIds::new(nonce),
            nstart,
            interactions: Interactions::new(settings.coap, draw),
            observers: Observers::default(),
            margin,
            last_check: 0,
            min_send_time: Nanos::MAX,
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
                self.abandon(now);
            }
            self.fill(now);
            if self.out.len() > 0 {
                self.send();
            }
            let busy = self.receive();
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
            if busy || self.out.len() > 0 {
                continue;
            }
            match self.pacer.next(&mut self.outstanding) {
                Next::At(at) => self.idle(at, now),
                Next::Over if self.is_over() => break,
                _ => self.idle(now + CHECK_INTERVAL, now),
            }
        }
        self.settle();
        self.outstanding.retransmitted = self.interactions.retransmitted;
        self.outstanding.observed = self.observers.counts;
        self.outstanding
    }

    fn is_over(&self) -> bool {
        let waiting = self.nstart.as_ref().map_or(0, Nstart::waiting);
        self.outstanding.waiting() == 0 && waiting == 0 && self.observers.is_empty()
    }

    /// Handles a stop: drops the requests that wait for NSTART and the rest of the
    /// schedule.
    fn abandon(&mut self, now: Nanos) {
        if let Some(nstart) = &mut self.nstart {
            while let Some((waiting, _)) = nstart.expired(now, 0) {
                self.outstanding.no_connection(waiting.number);
            }
        }
        self.observers.end_all(now);
        self.pacer.give_up(&mut self.outstanding);
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

    fn plain(&mut self, bytes: &[u8], now: Nanos) {
        let token = bytes.first_chunk::<8>().copied().map(u64::from_be_bytes);
        match token.map(|token| Handle::from_token(token, self.nonce)) {
            Some(Some(handle)) => self.outstanding.answered(handle.number(), now, NO_STATUS, false),
            Some(None) => self.outstanding.stray += 1,
            None => self.outstanding.garbage += 1,
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

    /// Waits for an answer or for the next due action.
    fn idle(&mut self, until: Nanos, now: Nanos) {
        let left = until.saturating_sub(now);
        if left > self.margin {
            // Checking timeouts at intervals is enough.
            let next =
                self.interactions.next().map_or(10 * CHECK_INTERVAL, |at| at.saturating_sub(now));
            let _ = self
                .socket
                .wait((left - self.margin).min(next.clamp(CHECK_INTERVAL, 10 * CHECK_INTERVAL)));
        } else {
            std::hint::spin_loop();
        }
    }

    /// Waits a little, to count late and duplicate answers.
    fn settle(&mut self) {
        let end = clock::now() + (self.settings.timeout / 10).min(20 * CHECK_INTERVAL);
        while clock::now() < end {
            if !self.receive() {
                let _ = self.socket.wait(CHECK_INTERVAL);
            }
        }
        self.outstanding.close();
    }
}

/// The maximum rate of requests between two CoAP endpoints, per second, without reusing
/// message IDs within their lifetime (RFC 7252, section 4.4): 65,536 in 247 s.
pub const IDS_PER_SECOND: f64 = 65_536.0 / 247.0;
