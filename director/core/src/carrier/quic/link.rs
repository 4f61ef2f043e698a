//! A QUIC connection and its outstanding messages.

use super::settings::{Kind, MAX_MESSAGE};
use crate::switch::MessageId;
use crate::turn::first_in_time;
use crate::{Instant, Span};
use bytes::Bytes;
use quinn_proto::{
    Connection, ConnectionError, ConnectionHandle, Dir, Endpoint, EndpointEvent, Event, ReadError,
    StreamEvent, StreamId, VarInt,
};
use std::collections::{BTreeMap, VecDeque};

/// An envelope for the other end.
pub struct Message {
    pub number: MessageId,
    pub bytes: Bytes,
    pub until: Option<Instant>,
}

/// Maximum bytes of incomplete messages; a sender that respects its window stays below.
const MAX_PARTIAL: usize = 8 << 20;

/// Close code of a connection of a retired model.
const RETIRED: VarInt = VarInt::from_u32(1);

/// An outgoing message on its stream.
struct Flight {
    message: Message,
    written: usize,
}

/// A connection.
pub struct Link {
    pub handle: ConnectionHandle,
    pub connection: Connection,
    /// Whether this end has opened it.
    pub own: bool,
    /// Whether the handshake is complete.
    pub established: bool,
    /// Whether the other end is known to have completed it.
    confirmed: bool,
    /// Whether it is unusable.
    pub dead: bool,
    /// Whether the endpoint has dropped it.
    drained: bool,
    /// Messages by stream; only the newest may be partly written.
    in_flight: BTreeMap<StreamId, Flight>,
    partial: BTreeMap<StreamId, Vec<u8>>,
    /// Time of the last datagram from the other end, or of the start of waiting for it.
    since: Instant,
    /// Packets reported as lost.
    lost: u64,
}

/// Events of connections.
#[derive(Default)]
pub struct LinkEvents {
    /// Messages that the other end has received.
    pub delivered: Vec<MessageId>,
    /// Completed envelopes.
    pub envelopes: Vec<Vec<u8>>,
    /// Whether the other end has retired the model.
    pub retired: bool,
}

impl Link {
    /// A connection that starts now.
    pub fn new(
        (handle, connection): (ConnectionHandle, Connection),
        own: bool,
        now: Instant,
    ) -> Self {
        Self {
            handle,
            connection,
            own,
            established: false,
            // The accepting end completes the handshake last (RFC 8446, 2), so it needs no sign of
            // the other.
            confirmed: !own,
            dead: false,
            drained: false,
            in_flight: BTreeMap::new(),
            partial: BTreeMap::new(),
            since: now,
            lost: 0,
        }
    }

    /// Records a received datagram.
    pub fn touch(&mut self, now: Instant) {
        self.since = now;
        self.confirmed |= self.established;
    }

    /// Start of waiting for the other end; `None` if nothing is outstanding.
    pub fn waits_since(&self) -> Option<Instant> {
        (!self.established || !self.in_flight.is_empty()).then_some(self.since)
    }

    /// Whether a message is outstanding on this connection.
    pub fn has(&self, number: MessageId) -> bool {
        self.in_flight.values().any(|flight| flight.message.number == number)
    }

    /// Sends queued messages as far as flow control permits.
    pub fn fill(&mut self, kind: Kind, waiting: &mut VecDeque<Message>, now: Instant) {
        if kind == Kind::Datagrams {
            // A datagram that overtakes the end of the handshake would be lost.
            if !self.confirmed {
                return;
            }
            for message in waiting.drain(..) {
                // `send` has rejected messages that are too long; the oldest are dropped if full.
                let _ = self.connection.datagrams().send(message.bytes, true);
            }
            return;
        }
        loop {
            if let Some(mut last) = self.in_flight.last_entry() {
                let id = *last.key();
                let Flight { message, written } = last.get_mut();
                if *written < message.bytes.len() {
                    let mut stream = self.connection.send_stream(id);
                    *written += stream.write(&message.bytes[*written..]).unwrap_or(0);
                    if *written < message.bytes.len() {
                        return;
                    }
                    // Fails if the other end has stopped the stream, which is an event as well.
                    let _ = stream.finish();
                }
            }
            if waiting.is_empty() {
                return;
            }
            let Some(id) = self.connection.streams().open(Dir::Uni) else { return };
            let needed = now + 2 * Span::from(self.connection.rtt());
            let ends = waiting.iter().map(|message| message.until);
            let next = first_in_time(ends, needed).and_then(|next| waiting.remove(next));
            let Some(message) = next else { return };
            if self.in_flight.is_empty() {
                // A connection without outstanding messages may be silent: the wait for the other
                // end begins here.
                self.since = now;
            }
            self.in_flight.insert(id, Flight { message, written: 0 });
        }
    }

    /// Resets streams of expired messages.
    pub fn expire(&mut self, now: Instant) {
        self.end_if(|message| message.until.is_some_and(|until| until <= now));
    }

    /// Resets the streams of these messages.
    pub fn end_if(&mut self, is_over: impl Fn(&Message) -> bool) {
        for (id, _) in self.in_flight.extract_if(.., |_, flight| is_over(&flight.message)) {
            let _ = self.connection.send_stream(id).reset(VarInt::from_u32(0));
        }
    }

    /// Handles due timers.
    pub fn run(&mut self, at: std::time::Instant) {
        if self.connection.poll_timeout().is_some_and(|due| due <= at) {
            self.connection.handle_timeout(at);
        }
    }

    /// Handles pending events.
    pub fn settle(&mut self, endpoint: &mut Endpoint, events: &mut LinkEvents) {
        loop {
            while let Some(event) = self.connection.poll_endpoint_events() {
                self.drained |= event.is_drained();
                if let Some(back) = endpoint.handle_event(self.handle, event) {
                    self.connection.handle_event(back);
                }
            }
            match self.connection.poll() {
                None => return,
                Some(Event::Connected) => self.established = true,
                Some(Event::ConnectionLost { reason }) => {
                    self.dead = true;
                    events.retired |= matches!(reason,
                        ConnectionError::ApplicationClosed(output) if output.error_code == RETIRED);
                }
                Some(Event::DatagramReceived) => {
                    let datagrams = std::iter::from_fn(|| self.connection.datagrams().recv());
                    events.envelopes.extend(datagrams.map(|datagram| datagram.to_vec()));
                }
                Some(Event::Stream(event)) => self.stream(&event, events),
                Some(Event::HandshakeDataReady | Event::DatagramsUnblocked) => {}
            }
        }
    }

    fn stream(&mut self, event: &StreamEvent, events: &mut LinkEvents) {
        match *event {
            StreamEvent::Opened { dir } => {
                while let Some(id) = self.connection.streams().accept(dir) {
                    events.envelopes.extend(self.read(id));
                }
            }
            StreamEvent::Readable { id } => events.envelopes.extend(self.read(id)),
            StreamEvent::Finished { id } => {
                events
                    .delivered
                    .extend(self.in_flight.remove(&id).map(|flight| flight.message.number));
            }
            StreamEvent::Stopped { id, .. } => {
                self.in_flight.remove(&id);
                let _ = self.connection.send_stream(id).reset(VarInt::from_u32(0));
            }
            // Each poll tries to write (`fill`).
            StreamEvent::Writable { .. } | StreamEvent::Available { .. } => {}
        }
    }

    /// The content of a stream, if complete.
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
        self.dead |= held > MAX_PARTIAL || self.partial.get(&id)?.len() > MAX_MESSAGE;
        let whole = whole?;
        self.partial.remove(&id).filter(|_| whole)
    }

    /// Lost packets since the last call.
    pub fn take_lost(&mut self) -> u32 {
        let lost = self.connection.stats().path.lost_packets;
        let new = lost - std::mem::replace(&mut self.lost, lost);
        u32::try_from(new).unwrap_or(u32::MAX)
    }

    /// Closes the connection because the model is retired.
    pub fn close(&mut self, at: std::time::Instant) {
        self.in_flight.clear();
        self.connection.close(at, RETIRED, Bytes::new());
    }

    /// Removes the connection; returns its outstanding messages in order.
    pub fn end(self, endpoint: &mut Endpoint) -> impl DoubleEndedIterator<Item = Message> {
        if !self.drained {
            endpoint.handle_event(self.handle, EndpointEvent::drained());
        }
        self.in_flight.into_values().map(|flight| flight.message)
    }
}
