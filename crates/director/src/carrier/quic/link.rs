//! One connection: what is under way on it, and what of it came.

use super::settings::MOST_MESSAGE;
use super::{Kind, Message};
use crate::Nanos;
use crate::switch::MessageId;
use bytes::Bytes;
use quinn_proto::{
    Connection, ConnectionError, ConnectionHandle, Dir, Endpoint, EndpointEvent, Event, ReadError,
    StreamEvent, StreamId, VarInt,
};
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

/// Bytes of messages that are here by part; a sender that keeps to its window has fewer.
const MOST_PARTIAL: usize = 8 << 20;

/// Why a connection ends that nobody needs any more.
const RETIRED: VarInt = VarInt::from_u32(1);

/// A message on its stream.
struct Flight {
    message: Message,
    written: usize,
}

/// One connection.
pub struct Link {
    pub handle: ConnectionHandle,
    pub connection: Connection,
    /// Whether this end has begun it.
    pub own: bool,
    /// Whether both ends know each other.
    pub up: bool,
    /// Whether the other end is known to know that.
    confirmed: bool,
    /// Whether it is of no use any more.
    pub over: bool,
    /// Whether its endpoint has forgotten it.
    drained: bool,
    /// By its streams, of which the newest alone may not be wholly written.
    flying: BTreeMap<StreamId, Flight>,
    partial: BTreeMap<StreamId, Vec<u8>>,
    /// When it last heard from the other end, or began to wait for it.
    since: Nanos,
    /// Packets that were told to be lost.
    lost: u64,
}

/// What has come of a connection.
#[derive(Default)]
pub struct Told {
    /// Messages that the other end has.
    pub had: Vec<MessageId>,
    /// Envelopes that are whole.
    pub envelopes: Vec<Vec<u8>>,
    /// The other end has said that all has gone over to another model.
    pub retired: bool,
}

impl Link {
    /// One that begins now.
    pub fn new(
        (handle, connection): (ConnectionHandle, Connection),
        own: bool,
        now: Nanos,
    ) -> Self {
        Self {
            handle,
            connection,
            own,
            up: false,
            confirmed: !own,
            over: false,
            drained: false,
            flying: BTreeMap::new(),
            partial: BTreeMap::new(),
            since: now,
            lost: 0,
        }
    }

    /// A datagram has come.
    pub fn heard(&mut self, now: Nanos) {
        self.since = now;
        self.confirmed |= self.up;
    }

    /// Since when the other end is waited for; never while nothing is.
    pub fn waits_since(&self) -> Option<Nanos> {
        (!self.up || !self.flying.is_empty()).then_some(self.since)
    }

    /// Whether a message is under way here.
    pub fn has(&self, number: MessageId) -> bool {
        self.flying.values().any(|flight| flight.message.number == number)
    }

    /// Takes of what waits as much as goes now.
    pub fn fill(&mut self, kind: Kind, waiting: &mut VecDeque<Message>, now: Nanos) {
        if kind == Kind::Datagrams {
            // One that overtakes the end of the handshake would be lost.
            if !self.confirmed {
                return;
            }
            for message in waiting.drain(..) {
                // What is too long for it was refused; the oldest make room for the newest.
                let _ = self.connection.datagrams().send(message.bytes, true);
            }
            return;
        }
        loop {
            if let Some(mut last) = self.flying.last_entry() {
                let id = *last.key();
                let Flight { message, written } = last.get_mut();
                if *written < message.bytes.len() {
                    let mut stream = self.connection.send_stream(id);
                    *written += stream.write(&message.bytes[*written..]).unwrap_or(0);
                    if *written < message.bytes.len() {
                        return;
                    }
                    // It fails for streams that the other end has stopped: that is told, too.
                    let _ = stream.finish();
                }
            }
            if waiting.is_empty() {
                return;
            }
            let Some(id) = self.connection.streams().open(Dir::Uni) else { return };
            let Some(message) = waiting.pop_front() else { return };
            if self.flying.is_empty() {
                self.since = now;
            }
            self.flying.insert(id, Flight { message, written: 0 });
        }
    }

    /// Gives up what is too late.
    pub fn expire(&mut self, now: Nanos) {
        let late = |flight: &Flight| flight.message.until.is_some_and(|until| until <= now);
        for (id, _) in self.flying.extract_if(.., |_, flight| late(flight)) {
            let _ = self.connection.send_stream(id).reset(VarInt::from_u32(0));
        }
    }

    /// Does what is due by now.
    pub fn run(&mut self, at: Instant) {
        if self.connection.poll_timeout().is_some_and(|due| due <= at) {
            self.connection.handle_timeout(at);
        }
    }

    /// Looks what has happened.
    pub fn settle(&mut self, endpoint: &mut Endpoint, told: &mut Told) {
        loop {
            while let Some(event) = self.connection.poll_endpoint_events() {
                self.drained |= event.is_drained();
                if let Some(back) = endpoint.handle_event(self.handle, event) {
                    self.connection.handle_event(back);
                }
            }
            match self.connection.poll() {
                None => return,
                Some(Event::Connected) => self.up = true,
                Some(Event::ConnectionLost { reason }) => {
                    self.over = true;
                    told.retired |= matches!(reason,
                        ConnectionError::ApplicationClosed(said) if said.error_code == RETIRED);
                }
                Some(Event::DatagramReceived) => {
                    let datagrams = std::iter::from_fn(|| self.connection.datagrams().recv());
                    told.envelopes.extend(datagrams.map(|datagram| datagram.to_vec()));
                }
                Some(Event::Stream(event)) => self.stream(&event, told),
                Some(Event::HandshakeDataReady | Event::DatagramsUnblocked) => {}
            }
        }
    }

    fn stream(&mut self, event: &StreamEvent, told: &mut Told) {
        match *event {
            StreamEvent::Opened { dir } => {
                while let Some(id) = self.connection.streams().accept(dir) {
                    told.envelopes.extend(self.read(id));
                }
            }
            StreamEvent::Readable { id } => told.envelopes.extend(self.read(id)),
            StreamEvent::Finished { id } => {
                told.had.extend(self.flying.remove(&id).map(|flight| flight.message.number));
            }
            StreamEvent::Stopped { id, .. } => {
                self.flying.remove(&id);
                let _ = self.connection.send_stream(id).reset(VarInt::from_u32(0));
            }
            StreamEvent::Writable { .. } | StreamEvent::Available { .. } => {}
        }
    }

    /// What a stream holds, once it is whole.
    fn read(&mut self, id: StreamId) -> Option<Vec<u8>> {
        let mut stream = self.connection.recv_stream(id);
        let mut chunks = stream.read(true).ok()?;
        let bytes = self.partial.entry(id).or_default();
        let whole = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(chunk)) => bytes.extend_from_slice(&chunk.bytes),
                Ok(None) => break Some(true),
                Err(ReadError::Blocked) => break None,
                Err(ReadError::Reset(_)) => break Some(false),
            }
        };
        let _ = chunks.finalize();
        let held: usize = self.partial.values().map(Vec::len).sum();
        self.over |= held > MOST_PARTIAL || self.partial.get(&id)?.len() > MOST_MESSAGE;
        let whole = whole?;
        self.partial.remove(&id).filter(|_| whole)
    }

    /// Packets that were lost since the last time.
    pub fn take_lost(&mut self) -> u32 {
        let lost = self.connection.stats().path.lost_packets;
        let new = lost - std::mem::replace(&mut self.lost, lost);
        u32::try_from(new).unwrap_or(u32::MAX)
    }

    /// Tells the other end that all has gone over to another model.
    pub fn close(&mut self, at: Instant) {
        self.flying.clear();
        self.connection.close(at, RETIRED, Bytes::new());
    }

    /// Ends it; messages that the other end is not known to have, in their order.
    pub fn end(self, endpoint: &mut Endpoint) -> impl DoubleEndedIterator<Item = Message> {
        if !self.drained {
            endpoint.handle_event(self.handle, EndpointEvent::drained());
        }
        self.flying.into_values().map(|flight| flight.message)
    }
}
