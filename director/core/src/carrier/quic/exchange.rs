//! QUIC (RFC 9000) between a hub and its members: one stream or one datagram (RFC 9221) per
//! envelope.
//!
//! An end with a message and without a connection opens one; usually that is the hub. The ends
//! know each other's public keys from the session's keys. A lost or unresponsive connection is
//! replaced, and outstanding messages are sent again. Congestion control is QUIC's, below the
//! session's pacing.
//!
//! A datagram starts with a byte for the model (its high nibble is the version of the wire
//! format, 1) and a byte for session and epoch, so that two epochs can be in use in parallel.

#[cfg(test)]
#[path = "tests.rs"]
mod tests;

use super::link::{Link, LinkEvents, Message};
use super::settings::{self, Ends, ID, Kind, MARK, MAX_MESSAGE, packet, turn};
use crate::carrier::exchange::{Exchange, Incoming};
use crate::carrier::interface::{HubCarrier, MemberCarrier, Params};
use crate::carrier::peers::{Hub, Member};
use crate::keys::Party;
use crate::switch::MessageId;
use crate::{Instant, Span};
use bytes::{Bytes, BytesMut};
use quinn_proto::DatagramEvent;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::Ordering;

/// Overhead of a datagram in a packet, as `quinn-proto` counts it: flags, connection id, packet
/// number, AEAD tag, frame header.
const DATAGRAM_OVERHEAD: usize = 1 + ID + 4 + 16 + 9;
/// Maximum queue length; drops the oldest.
const MAX_WAITING: usize = 1_024;
/// Maximum number of connections with one end: the current one, a lost one, a new one, and one
/// in reserve.
const MAX_LINKS: usize = 4;
/// Minimum timeout of an unresponsive connection, whatever round trip is assumed.
const MIN_TIMEOUT: Span = Span::from_s(3);
/// Placeholder address of the other end: the session does the addressing.
const OTHER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);

/// One end of the connections with one other end.
struct Quic {
    kind: Kind,
    mark: [u8; MARK],
    /// Maximum envelope size, in bytes.
    most: usize,
    ends: Ends,
    /// The instant of time 0.
    base: std::time::Instant,
    /// Connections, oldest first.
    links: Vec<Link>,
    waiting: VecDeque<Message>,
    events: LinkEvents,
    /// Timeout of an unresponsive connection.
    timeout: Span,
    /// Earliest time of the next connection attempt; `MAX` after the model is retired.
    connect_at: Instant,
}

impl Quic {
    fn new(params: &Params, kind: Kind, own: Party, other: Party, member: u16) -> Option<Self> {
        let packet = usize::from(packet(params)?);
        // Differs between any two epochs of a session that are in use in parallel.
        let epoch = (params.epoch as u8).wrapping_add(params.root.session()[0]);
        let (mark, most) = match kind {
            Kind::Streams => (0x19, MAX_MESSAGE),
            Kind::Datagrams => (0x1a, packet - DATAGRAM_OVERHEAD),
        };
        Some(Self {
            kind,
            mark: [mark, epoch],
            most,
            ends: settings::ends(params, kind, own, other, member)?,
            base: std::time::Instant::now(),
            links: Vec::new(),
            waiting: VecDeque::new(),
            events: LinkEvents::default(),
            timeout: MIN_TIMEOUT + 8 * (params.round_trip + turn(params)),
            connect_at: Instant::START,
        })
    }

    fn at(&self, now: Instant) -> std::time::Instant {
        self.base.checked_add(now.since_start().into()).unwrap_or(self.base)
    }

    /// Handles events of connections, and removes dead ones.
    fn settle(&mut self, now: Instant) {
        for link in &mut self.links {
            link.settle(&mut self.ends.endpoint, &mut self.events);
            link.dead |= link.waits_since().is_some_and(|since| since + self.timeout <= now);
        }
        // First drop incomplete incoming connections: a replayed packet can open one.
        if self.links.len() > MAX_LINKS {
            let stranger = self.links.iter().position(|link| !link.established && !link.own);
            self.links[stranger.unwrap_or(0)].dead = true;
        }
        if self.events.retired {
            self.connect_at = Instant::NEVER;
        }
        for link in self.links.extract_if(.., |link| link.dead) {
            // Backwards, so that the oldest is first again.
            for message in link.end(&mut self.ends.endpoint).rev() {
                self.waiting.push_front(message);
            }
        }
    }

    /// Opens a connection if needed; returns the time of the next attempt.
    fn connect(&mut self, now: Instant) -> Option<Instant> {
        // An incoming connection that is not established does not count: a replayed packet can open
        // one.
        if self.waiting.is_empty() || self.links.iter().any(|link| link.established || link.own) {
            return None;
        }
        if now < self.connect_at {
            return Some(self.connect_at).filter(|at| *at < Instant::NEVER);
        }
        // Back off while the other end refuses.
        self.connect_at = now + self.timeout / 8;
        let (at, client) = (self.at(now), self.ends.client.clone());
        // Fails if connection ids are exhausted; retried later.
        let opened = self.ends.endpoint.connect(at, client, OTHER, "member").ok()?;
        self.links.push(Link::new(opened, true, now));
        None
    }

    fn expire(&mut self, now: Instant) {
        self.waiting.retain(|message| message.until.is_none_or(|until| until > now));
        self.links.iter_mut().for_each(|link| link.expire(now));
    }

    fn marked(&self, packet: &[u8]) -> Vec<u8> {
        [&self.mark, packet].concat()
    }
}

impl Exchange for Quic {
    const CONTROLS: bool = true;

    fn send(
        &mut self,
        number: MessageId,
        sealed: Vec<u8>,
        until: Option<Instant>,
    ) -> Result<(), String> {
        if sealed.len() > self.most {
            let (most, length) = (self.most, sealed.len());
            return Err(format!("the message has {length} bytes, this model takes {most} at most"));
        }
        let known = self.waiting.iter().any(|message| message.number == number);
        if known || self.links.iter().any(|link| link.has(number)) {
            return Ok(());
        }
        if self.waiting.len() >= MAX_WAITING {
            self.waiting.pop_front();
        }
        self.waiting.push_back(Message { number, bytes: Bytes::from(sealed), until });
        Ok(())
    }

    fn withdraw(&mut self, number: MessageId) {
        self.waiting.retain(|message| message.number != number);
        self.links.iter_mut().for_each(|link| link.end_if(|message| message.number == number));
    }

    fn receive(&mut self, datagram: &[u8], now: Instant) -> Incoming {
        let Some(packet) = datagram.strip_prefix(&self.mark) else { return Incoming::default() };
        let (at, mut reply) = (self.at(now), Vec::new());
        let endpoint = &mut self.ends.endpoint;
        match endpoint.handle(at, OTHER, None, None, BytesMut::from(packet), &mut reply) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(link) = self.links.iter_mut().find(|link| link.handle == handle) {
                    link.touch(now);
                    link.connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                if let Ok(opened) = endpoint.accept(incoming, at, &mut reply, None) {
                    self.links.push(Link::new(opened, false, now));
                }
            }
            Some(DatagramEvent::Response(_)) | None => {}
        }
        let lost = self.links.iter_mut().map(Link::take_lost).sum();
        let received = self.ends.received.swap(0, Ordering::Relaxed);
        let newest = self.links.iter().rev().find(|link| link.established).filter(|_| received > 0);
        let round_trip = newest.map(|link| link.connection.rtt().into());
        self.settle(now);
        Incoming {
            // Acknowledgements are authenticated.
            genuine: received > 0,
            envelopes: std::mem::take(&mut self.events.envelopes),
            reply: (!reply.is_empty()).then(|| self.marked(&reply)),
            frames: (received, lost),
            round_trip,
            ..Incoming::default()
        }
    }

    fn poll(&mut self, now: Instant) -> (Option<Vec<u8>>, Option<Instant>) {
        let at = self.at(now);
        self.links.iter_mut().for_each(|link| link.run(at));
        self.settle(now);
        self.expire(now);
        let mut wake = self.connect(now);
        if let Some(link) = self.links.iter_mut().rev().find(|link| link.established) {
            link.fill(self.kind, &mut self.waiting, now);
        }
        let mut packet = Vec::new();
        for link in &mut self.links {
            if link.connection.poll_transmit(at, 1, &mut packet).is_some() {
                return (Some(self.marked(&packet)), None);
            }
        }
        for link in &mut self.links {
            let silent = link.waits_since().map(|since| since + self.timeout);
            let due = link.connection.poll_timeout();
            let due =
                due.map(|due| Instant::START + due.saturating_duration_since(self.base).into());
            wake = [wake, silent, due].into_iter().flatten().min();
        }
        (None, wake)
    }

    fn take_delivered(&mut self, delivered: &mut Vec<MessageId>) {
        delivered.append(&mut self.events.delivered);
    }

    fn retire(&mut self, now: Instant) {
        self.waiting.clear();
        self.connect_at = Instant::NEVER;
        let at = self.at(now);
        self.links.iter_mut().for_each(|link| link.close(at));
    }
}

/// The hub's transport.
pub fn hub(params: &Params, kind: Kind) -> Box<dyn HubCarrier> {
    Box::new(Hub::new(params, move |params, member| {
        Quic::new(params, kind, Party::Hub, Party::Member(member), member)
    }))
}

/// The transport of the member with this number.
pub fn member(params: &Params, kind: Kind, number: u16) -> Box<dyn MemberCarrier> {
    let exchange = Quic::new(params, kind, Party::Member(number), Party::Hub, number);
    Box::new(Member::new(params, exchange, kind == Kind::Streams))
}
