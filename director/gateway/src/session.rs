//! The session of one client (MQTT 5, section 4.1).

mod kept;
mod shadow;

use crate::budget::{Held, OVERHEAD, Outflow, Room};
use crate::message::{Message, Publisher};
use crate::packet::{Ack, Connect, MQTT_5, Options, Packet, Publish};
use crate::reason;
use director::topic;
use shadow::Shadow;
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;

/// Maximum number of messages to a client without its acknowledgement.
const WINDOW: usize = 64;
/// Maximum number of further messages that wait for the client.
const MAX_QUEUE: usize = 1_000;
/// Memory for the packet number of a message of QoS 2, in bytes.
pub const RECEIPT: usize = 64;
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
    /// The number of a message that the client has (QoS 2).
    Released(u64),
}

/// A message for several sessions: its number, and the memory of its payload and properties.
pub struct Shared {
    /// Its number.
    pub number: u64,
    /// The memory.
    pub held: Arc<Held>,
}

/// What became of a message of QoS 2 of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Receipt {
    /// It is on its way to the hub.
    Coming,
    /// It is published; the client learns that when it is stored.
    Published,
    /// The client may know that.
    Acknowledged,
}

/// The packet number of a message of QoS 2 of the client.
pub struct Received {
    /// What became of the message.
    pub receipt: Receipt,
    /// The memory that it is counted for.
    pub _held: Arc<Held>,
}

/// A message with the memory that it is counted for.
struct Stored {
    /// Its number.
    number: u64,
    publish: Publish,
    /// Of its payload and properties, which other sessions may share, and of the rest.
    _held: [Arc<Held>; 2],
}

/// Answers to the filters of a SUBSCRIBE.
struct Grants {
    id: u16,
    filters: Vec<(String, Option<u8>)>,
}

/// A filter that the client subscribes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requested {
    /// The filter.
    pub filter: String,
    /// Its maximum QoS.
    pub qos: u8,
    /// Whether retained messages are to follow.
    pub retained: bool,
}

/// A client's session.
#[derive(Default)]
pub struct Session {
    /// Identifies it among all sessions of the gateway.
    pub number: u64,
    /// Protocol level of its last connection.
    pub level: u8,
    /// Its connection, if the client is connected.
    pub connection: Option<u64>,
    /// Time that it lasts after the connection, in seconds; `u32::MAX` for ever.
    pub expires_s: u32,
    /// The gateway's second in which it ends, without a connection.
    pub ends_at: Option<u64>,
    /// Published if the connection is lost.
    pub will: Option<Message>,
    /// How long after that, in seconds.
    pub will_delay_s: u32,
    /// The gateway's second in which the will of a lost connection is published.
    pub will_at: Option<u64>,
    /// Filters with their options.
    pub filters: BTreeMap<String, Options>,
    /// The memory that they are counted for.
    held: BTreeMap<String, Arc<Held>>,
    /// The same of the client's name and will.
    pub own: Option<Arc<Held>>,
    /// Numbers of QoS 2 messages of the client.
    pub received: BTreeMap<u16, Received>,
    /// Numbers of QoS 1 messages of the client that are not published yet.
    pub publishing: BTreeSet<u16>,
    grants: Vec<Grants>,
    last: u16,
    window: usize,
    /// Maximum length of a packet to the client, in bytes; 0 for any.
    maximum_packet: usize,
    in_flight: VecDeque<(u16, Sent)>,
    queue: VecDeque<Stored>,
    /// What is on the disk of it, if it is.
    shadow: Option<Box<Shadow>>,
}

impl Session {
    /// A session without filters and messages.
    pub fn new(number: u64) -> Self {
        Self { number, window: WINDOW, ..Self::default() }
    }

    /// The client has connected again in this second of the gateway: what it has not acknowledged is
    /// sent again, in order (4.4).
    pub fn resume(&mut self, connection: u64, connect: &Connect, now_s: u64) -> Vec<Packet> {
        self.connection = Some(connection);
        self.level = connect.level;
        (self.expires_s, self.ends_at) = (connect.lifetime_s(), None);
        (self.will, self.will_at) = (connect.will.clone(), None);
        self.will_delay_s = connect.will_delay_s;
        let most = usize::from(connect.receive_maximum);
        self.window = if most == 0 { WINDOW } else { WINDOW.min(most) };
        self.maximum_packet = connect.maximum_packet as usize;
        self.grants.clear();
        // More than the client accepts at a time wait again.
        while self.in_flight.len() > self.window
            && let Some((id, sent)) = self.in_flight.pop_back()
        {
            match sent {
                Sent::Published(stored) => self.queue.push_front(stored),
                // Their messages have arrived, so they do not count (4.9).
                Sent::Released(number) => {
                    self.in_flight.push_back((id, Sent::Released(number)));
                    break;
                }
            }
        }
        let again = |(id, sent): &(u16, Sent)| match sent {
            Sent::Published(Stored { publish, .. }) => {
                let message = publish.message.leaving(now_s);
                let subscriptions = publish.subscriptions.clone();
                let (duplicate, alias) = (true, None);
                Packet::Publish(Publish { duplicate, id: *id, message, alias, subscriptions })
            }
            Sent::Released(_) => Packet::PubRel(Ack::new(*id)),
        };
        let mut packets: Vec<Packet> = self.in_flight.iter().map(again).collect();
        packets.extend(self.fill(now_s));
        packets
    }

    /// A message for the client; the packet to send now, if any. `shared`, its payload and properties, is
    /// counted in `outflow`; `None` if there was no room.
    pub fn send(
        &mut self,
        publish: Publish,
        shared: Option<&Shared>,
        outflow: &Outflow,
        now_s: u64,
    ) -> Option<Packet> {
        if publish.message.qos == 0 {
            // A client that is not connected misses it (QoS 0 promises nothing).
            return self.packet(&publish, 0, now_s);
        }
        let identifiers = size_of_val(&publish.subscriptions[..]);
        let own = outflow.hold(publish.message.topic.len() + identifiers + OVERHEAD);
        match shared.zip(own).filter(|_| self.queue.len() < MAX_QUEUE) {
            Some((shared, own)) => {
                let (number, held) = (shared.number, shared.held.clone());
                self.queue.push_back(Stored { number, publish, _held: [held, own] });
            }
            None => outflow.drop_one(),
        }
        self.fill(now_s).pop()
    }

    /// Messages that wait and have expired make room.
    pub fn forget_expired(&mut self, now_s: u64) {
        self.queue.retain(|stored| !stored.publish.message.is_expired(now_s));
    }

    /// The packet of a message, unless it has expired or is longer than the client accepts
    /// (3.1.2.11.4: then the message counts as delivered).
    fn packet(&self, publish: &Publish, id: u16, now_s: u64) -> Option<Packet> {
        if publish.message.is_expired(now_s) {
            return None;
        }
        let message = publish.message.leaving(now_s);
        let packet = Packet::Publish(Publish { id, message, ..publish.clone() });
        self.accepts(&packet).then_some(packet)
    }

    /// Whether a packet is not longer than the client accepts.
    fn accepts(&self, packet: &Packet) -> bool {
        self.maximum_packet == 0 || packet.encode(self.level).len() <= self.maximum_packet
    }

    /// The reason why the gateway ends the connection; earlier versions than MQTT 5 have none.
    pub fn goodbye(&self, code: u8) -> Option<Packet> {
        let packet = |reason| Packet::Disconnect { code, expires_s: None, reason };
        let long = packet(Some(reason::text(code)));
        // Words only if there is room (3.14.2.2.3).
        let packet = if self.accepts(&long) { long } else { packet(None) };
        (self.level == MQTT_5).then_some(packet)
    }

    /// The next messages for which the window has room.
    fn fill(&mut self, now_s: u64) -> Vec<Packet> {
        let mut packets = Vec::new();
        while self.connection.is_some()
            && self.in_flight.len() < self.window
            && let Some(stored) = self.queue.pop_front()
        {
            let id = self.free();
            if let Some(packet) = self.packet(&stored.publish, id, now_s) {
                packets.push(packet);
                self.in_flight.push_back((id, Sent::Published(stored)));
            }
        }
        packets
    }

    fn free(&mut self) -> u16 {
        loop {
            // A number is never 0 (2.2.1).
            self.last = self.last.checked_add(1).unwrap_or(1);
            if self.in_flight.iter().all(|(id, _)| *id != self.last) {
                return self.last;
            }
        }
    }

    /// The client has received a message of QoS 2; returns whether the number is in use.
    pub fn release(&mut self, id: u16) -> bool {
        let own = self.in_flight.iter_mut().find(|(own, _)| *own == id);
        let release = |sent: &mut Sent| {
            if let Sent::Published(Stored { number, .. }) = sent {
                *sent = Sent::Released(*number);
            }
        };
        own.map(|(_, sent)| release(sent)).is_some()
    }

    /// The client has finished a message; returns what can follow.
    pub fn finish(&mut self, id: u16, now_s: u64) -> Vec<Packet> {
        self.in_flight.retain(|(own, _)| *own != id);
        self.fill(now_s)
    }

    /// A message as the client wants it, or `None` if it does not.
    pub fn selects(&self, message: &Message, start: u32) -> Option<Publish> {
        let own = Publisher { start, session: self.number as u32 };
        let is_own = message.publisher == Some(own);
        let (mut highest, mut retain, mut subscriptions) = (None, false, Vec::new());
        for (filter, options) in &self.filters {
            if (options.no_local && is_own) || !topic::matches(filter, &message.topic) {
                continue;
            }
            highest = highest.max(Some(options.qos));
            // Without the option, only a new subscription gets messages with the flag (3.3.1.3).
            retain |= options.as_published && message.retain;
            subscriptions.extend(options.identifier);
        }
        let qos = message.qos.min(highest?);
        let message = Message { qos, retain, publisher: None, ..message.clone() };
        Some(Publish { message, subscriptions, ..Publish::default() })
    }

    /// Whether a message of the client must not come back to it.
    pub fn keeps_away(&self, topic: &str) -> bool {
        let mut filters = self.filters.iter().filter(|(_, options)| options.no_local);
        filters.any(|(filter, _)| topic::matches(filter, topic))
    }

    /// The client subscribes. Invalid filters, and those beyond the maximum or without room in `states`, are
    /// refused at once; returns the others, each once.
    pub fn subscribe(
        &mut self,
        id: u16,
        filters: Vec<(String, Options)>,
        states: &Outflow,
    ) -> Vec<Requested> {
        let (mut grants, mut requested) = (Vec::new(), Vec::new());
        let mut seen = HashSet::new();
        for (filter, options) in filters {
            let is_known = self.filters.contains_key(&filter);
            let refused = if !topic::is_filter(&filter) {
                Some(reason::FILTER)
            } else if topic::is_shared(&filter) {
                Some(reason::NO_SHARED)
            } else if !is_known && !self.hold(&filter, states) {
                Some(reason::QUOTA)
            } else {
                None
            };
            if refused.is_none() {
                self.filters.insert(filter.clone(), options);
                if seen.insert(filter.clone()) {
                    let retained = match options.retained {
                        0 => true,
                        1 => !is_known,
                        _ => false,
                    };
                    let (filter, qos) = (filter.clone(), options.qos);
                    requested.push(Requested { filter, qos, retained });
                }
            }
            grants.push((filter, refused));
        }
        self.grants.push(Grants { id, filters: grants });
        requested
    }

    /// Whether there is room for a further filter.
    fn hold(&mut self, filter: &str, states: &Outflow) -> bool {
        if self.filters.len() >= MAX_FILTERS {
            return false;
        }
        // In both maps, the gateway's index, and what is known to be on the disk.
        let Some(held) = states.hold(4 * filter.len() + 2 * OVERHEAD) else {
            states.drop_one();
            return false;
        };
        self.held.insert(filter.to_owned(), held);
        true
    }

    /// The client does not want a filter any more; returns whether it had it.
    pub fn forget(&mut self, filter: &str) -> bool {
        self.held.remove(filter);
        self.filters.remove(filter).is_some()
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

    /// Whether a SUBSCRIBE of this connection has no answer yet.
    pub fn awaits(&self, id: u16) -> bool {
        self.grants.iter().any(|own| own.id == id)
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
        let equal = vec![("a/#".to_owned(), Options::of(0)); 10_000];
        let once = Requested { filter: "a/#".to_owned(), qos: 0, retained: true };
        let states = Outflow::default();
        assert_eq!(session.subscribe(7, equal, &states), [once]);
        let Some(Packet::SubAck { codes, .. }) = session.granted(7, "a/#", 0) else { panic!() };
        assert_eq!(codes, [0; 10_000]);
        let many: Vec<_> =
            (0..MAX_FILTERS + 9).map(|number| (format!("b/{number}"), Options::of(1))).collect();
        assert_eq!(session.subscribe(8, many, &states).len(), MAX_FILTERS - 1);
        assert_eq!(session.filters.len(), MAX_FILTERS);
        // One of those that the client has can change.
        let again = vec![("a/#".to_owned(), Options::of(1))];
        assert_eq!(session.subscribe(9, again, &states).len(), 1);
        assert_eq!(session.filters["a/#"].qos, 1);
    }
}
