//! The session of one client (MQTT 3.1.1, section 3.1.2.4).

use crate::message::Message;
use crate::packet::Packet;
use crate::topic;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Maximum number of messages to a client without its acknowledgement.
const WINDOW: usize = 64;
/// Maximum number of further messages that wait for the client.
const MAX_QUEUE: usize = 1_000;

/// Which packet of a client something belongs to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The client.
    pub client: String,
    /// The number of its session.
    pub session: u64,
    /// The number of the packet.
    pub id: u16,
}

/// A message to the client that is not finished.
enum Sent {
    Published(Message),
    Released,
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
    queue: VecDeque<Message>,
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
            Sent::Published(message) => {
                Packet::Publish { duplicate: true, id: *id, message: message.clone() }
            }
            Sent::Released => Packet::PubRel(*id),
        };
        let mut packets: Vec<Packet> = self.in_flight.iter().map(again).collect();
        packets.extend(self.fill());
        packets
    }

    /// A message for the client; the packet to send now, if any.
    pub fn send(&mut self, message: Message) -> Option<Packet> {
        if message.qos == 0 {
            // A client that is not connected misses it (QoS 0 promises nothing).
            return Some(Packet::Publish { duplicate: false, id: 0, message });
        }
        if self.queue.len() < MAX_QUEUE {
            self.queue.push_back(message);
        }
        self.fill().pop()
    }

    /// The next messages for which the window has room.
    fn fill(&mut self) -> Vec<Packet> {
        let mut packets = Vec::new();
        while self.connection.is_some()
            && self.in_flight.len() < WINDOW
            && let Some(message) = self.queue.pop_front()
        {
            let id = self.free();
            packets.push(Packet::Publish { duplicate: false, id, message: message.clone() });
            self.in_flight.push_back((id, Sent::Published(message)));
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

    /// The client subscribes; invalid filters are refused at once.
    pub fn subscribe(&mut self, id: u16, filters: &[(String, u8)]) {
        let mut grants = Vec::new();
        for (filter, qos) in filters {
            let valid = topic::is_filter(filter);
            if valid {
                self.filters.insert(filter.clone(), *qos);
            }
            grants.push((filter.clone(), (!valid).then_some(0x80)));
        }
        self.grants.push(Grants { id, filters: grants });
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
