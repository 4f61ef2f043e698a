//! The session of one client (MQTT 3.1.1, section 3.1.2.4).

use crate::budget::{Held, OVERHEAD, Outflow, Room};
use crate::message::Message;
use crate::packet::Packet;
use crate::topic;
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;

/// Maximum number of messages to a client without its acknowledgement.
const WINDOW: usize = 64;
/// Maximum number of further messages that wait for the client.
const MAX_QUEUE: usize = 1_000;
/// Maximum number of filters of a client: further ones are refused.
const MAX_FILTERS: usize = 1_000;

/// Which packet of a client something belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The client.
    pub client: String,
    /// The number of its session.
    pub session: u64,
    /// The number of the packet.
    pub id: u16,
    /// The room of its message.
    pub room: Room,
}

/// A message to the client that is not finished.
enum Sent {
    Published(Stored),
    Released,
}

/// A message with the memory that it is counted for.
struct Stored {
    message: Message,
    /// Of its payload, which other sessions may share, and of the rest.
    _held: [Arc<Held>; 2],
}

/// Answers to the filters of a SUBSCRIBE.
struct Grants {
    id: u16,
    filters: Vec<(String, Option<u8>)>,
}

/// A client's session.
pub struct Session {
    /// Identifies it among all sessions of the gateway.
    pub number: u64,
    /// Its connection, if the client is connected.
    pub connection: Option<u64>,
    /// Whether it ends with the connection.
    pub clean: bool,
    /// Published if the connection is lost.
    pub will: Option<Message>,
    /// Filters with their maximum QoS.
    pub filters: BTreeMap<String, u8>,
    /// Numbers of QoS 2 messages of the client, and whether they are published.
    pub received: BTreeMap<u16, bool>,
    /// Numbers of QoS 1 messages of the client that are not published yet.
    pub publishing: BTreeSet<u16>,
    grants: Vec<Grants>,
    last: u16,
    in_flight: VecDeque<(u16, Sent)>,
    queue: VecDeque<Stored>,
}

impl Session {
    /// A session without filters and messages.
    pub fn new(number: u64) -> Self {
        Self {
            number,
            connection: None,
            clean: true,
            will: None,
            filters: BTreeMap::new(),
            received: BTreeMap::new(),
            publishing: BTreeSet::new(),
            grants: Vec::new(),
            last: 0,
            in_flight: VecDeque::new(),
            queue: VecDeque::new(),
        }
    }

    /// The client has connected again: what it has not acknowledged is sent again, in order (4.4).
    pub fn resume(&mut self) -> Vec<Packet> {
        self.grants.clear();
        let again = |(id, sent): &(u16, Sent)| match sent {
            Sent::Published(Stored { message, .. }) => {
                Packet::Publish { duplicate: true, id: *id, message: message.clone() }
            }
            Sent::Released => Packet::PubRel(*id),
        };
        let mut packets: Vec<Packet> = self.in_flight.iter().map(again).collect();
        packets.extend(self.fill());
        packets
    }

    /// A message for the client; the packet to send now, if any. `payload` is counted in `outflow`; `None`
    /// if it has no room there.
    pub fn send(
        &mut self,
        message: Message,
        payload: Option<&Arc<Held>>,
        outflow: &Outflow,
    ) -> Option<Packet> {
        if message.qos == 0 {
            // A client that is not connected misses it (QoS 0 promises nothing).
            return Some(Packet::Publish { duplicate: false, id: 0, message });
        }
        let own = outflow.hold(message.topic.len() + OVERHEAD);
        match payload.cloned().zip(own).filter(|_| self.queue.len() < MAX_QUEUE) {
            Some((payload, own)) => {
                self.queue.push_back(Stored { message, _held: [payload, own] });
            }
            None => outflow.drop_one(),
        }
        self.fill().pop()
    }

    /// The next messages for which the window has room.
    fn fill(&mut self) -> Vec<Packet> {
        let mut packets = Vec::new();
        while self.connection.is_some()
            && self.in_flight.len() < WINDOW
            && let Some(stored) = self.queue.pop_front()
        {
            let (id, message) = (self.free(), stored.message.clone());
            packets.push(Packet::Publish { duplicate: false, id, message });
            self.in_flight.push_back((id, Sent::Published(stored)));
        }
        packets
    }

    fn free(&mut self) -> u16 {
        loop {
            // A number is never 0 (2.3.1).
            self.last = self.last.checked_add(1).unwrap_or(1);
            if self.in_flight.iter().all(|(id, _)| *id != self.last) {
                return self.last;
            }
        }
    }

    /// The client has received a message of QoS 2.
    pub fn release(&mut self, id: u16) {
        if let Some((_, sent)) = self.in_flight.iter_mut().find(|(own, _)| *own == id) {
            *sent = Sent::Released;
        }
    }

    /// The client has finished a message; returns what can follow.
    pub fn finish(&mut self, id: u16) -> Vec<Packet> {
        self.in_flight.retain(|(own, _)| *own != id);
        self.fill()
    }

    /// The client subscribes. Invalid filters, and those beyond the maximum, are refused at once; returns the
    /// others, each once.
    pub fn subscribe(&mut self, id: u16, filters: Vec<(String, u8)>) -> Vec<(String, u8)> {
        let (mut grants, mut requested) = (Vec::new(), Vec::new());
        let mut seen = HashSet::new();
        for (filter, qos) in filters {
            let has_room = self.filters.len() < MAX_FILTERS || self.filters.contains_key(&filter);
            let valid = has_room && topic::is_filter(&filter);
            if valid {
                self.filters.insert(filter.clone(), qos);
            }
            if valid && seen.insert(filter.clone()) {
                requested.push((filter.clone(), qos));
            }
            grants.push((filter, (!valid).then_some(0x80)));
        }
        self.grants.push(Grants { id, filters: grants });
        requested
    }

    /// A filter of a SUBSCRIBE is granted with this code; the answer, if it was the last one.
    pub fn granted(&mut self, id: u16, filter: &str, code: u8) -> Option<Packet> {
        let own = self.grants.iter_mut().find(|own| own.id == id)?;
        // A filter may occur twice in one SUBSCRIBE.
        for (_, granted) in own.filters.iter_mut().filter(|(known, _)| known == filter) {
            *granted = Some(code);
        }
        self.answered(id)
    }

    /// The answer to a SUBSCRIBE, if no filter is open.
    pub fn answered(&mut self, id: u16) -> Option<Packet> {
        let place = self.grants.iter().position(|own| own.id == id)?;
        let codes: Option<Vec<u8>> =
            self.grants[place].filters.iter().map(|(_, code)| *code).collect();
        let codes = codes?;
        self.grants.remove(place);
        Some(Packet::SubAck { id, codes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What failed before: a client could fill the gateway's memory with filters, and one packet with
    /// thousands of equal filters caused as many requests to the hub.
    #[test]
    fn filters_are_limited_and_each_is_requested_once() {
        let mut session = Session::new(1);
        let equal = vec![("a/#".to_owned(), 0); 10_000];
        assert_eq!(session.subscribe(7, equal), [("a/#".to_owned(), 0)]);
        let Some(Packet::SubAck { codes, .. }) = session.granted(7, "a/#", 0) else { panic!() };
        assert_eq!(codes, [0; 10_000]);
        let many: Vec<_> = (0..MAX_FILTERS + 9).map(|number| (format!("b/{number}"), 1)).collect();
        assert_eq!(session.subscribe(8, many).len(), MAX_FILTERS - 1);
        assert_eq!(session.filters.len(), MAX_FILTERS);
        // One of those that the client has can change.
        assert_eq!(session.subscribe(9, vec![("a/#".to_owned(), 1)]).len(), 1);
        assert_eq!(session.filters["a/#"], 1);
    }
}
