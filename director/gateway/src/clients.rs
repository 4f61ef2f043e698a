//! The clients of one gateway: their sessions, levels of delivery and wills. No I/O and no clock:
//! packets in, packets and [`Action`]s out.

use crate::budget::{Outflow, Room};
use crate::message::Message;
use crate::packet::{Connect, Packet};
use crate::session::{Origin, Session};
use crate::topic;
use std::collections::HashMap;

/// Maximum number of sessions, also of clients that are not connected.
const MAX_SESSIONS: usize = 10_000;

/// What the gateway is to do for a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Send a packet on a connection.
    Send(u64, Packet),
    /// Close a connection.
    Close(u64),
    /// Publish a message; then call [`Clients::published`], if it has an origin.
    Publish(Option<Origin>, Message),
    /// Subscribe to a filter; then call [`Clients::subscribed`].
    Subscribe(Origin, String, u8),
    /// No client wants this filter any more.
    Unsubscribe(String),
    /// A client has this will from now on, or none.
    Will(String, Option<Message>),
}

/// The clients of a gateway.
#[derive(Default)]
pub struct Clients {
    sessions: HashMap<String, Session>,
    /// Clients of connections.
    names: HashMap<u64, String>,
    /// Number of sessions so far.
    count: u64,
    /// Memory for messages of QoS 1 and 2 to all clients.
    outflow: Outflow,
}

impl Clients {
    /// A connection begins with this packet.
    pub fn connect(&mut self, connection: u64, connect: Connect) -> Vec<Action> {
        let refuse = |code| {
            let answer = Packet::ConnAck { present: false, code };
            vec![Action::Send(connection, answer), Action::Close(connection)]
        };
        // Code 1: an unacceptable version of the protocol (3.2.2.3).
        if !matches!(connect.level, 3 | 4) {
            return refuse(1);
        }
        let mut name = connect.client;
        if name.is_empty() {
            // A client without a name cannot come back to its session (3.1.3.1).
            if !connect.clean {
                return refuse(2);
            }
            // No name of a client contains a zero.
            name = format!("\0{connection}");
        }
        let known = self.sessions.contains_key(&name);
        // Sessions of clients that do not return stay, so their number is bounded. Code 3:
        // unavailable.
        if !known && self.sessions.len() >= MAX_SESSIONS {
            return refuse(3);
        }
        let mut actions = Vec::new();
        // Another connection of the same client ends, with its will (3.1.4).
        if let Some(former) = self.sessions.get(&name).and_then(|session| session.connection) {
            actions.push(Action::Close(former));
            actions.extend(self.close(former, false));
        }
        if connect.clean
            && let Some(session) = self.sessions.remove(&name)
        {
            actions.extend(self.unused(session.filters.into_keys()));
        }
        let present = self.sessions.contains_key(&name);
        self.count += 1;
        let fresh = Session::new(self.count);
        let session = self.sessions.entry(name.clone()).or_insert(fresh);
        session.connection = Some(connection);
        session.clean = connect.clean;
        if connect.will.is_some() {
            actions.push(Action::Will(name.clone(), connect.will.clone()));
        }
        session.will = connect.will;
        self.names.insert(connection, name);
        // The answer precedes all other packets (3.2).
        actions.push(Action::Send(connection, Packet::ConnAck { present, code: 0 }));
        actions.extend(session.resume().into_iter().map(|packet| Action::Send(connection, packet)));
        actions
    }

    /// A connection has ended; `clean` if the client said so.
    pub fn close(&mut self, connection: u64, clean: bool) -> Vec<Action> {
        let Some(name) = self.names.remove(&connection) else { return Vec::new() };
        let Some(session) = self.sessions.get_mut(&name) else { return Vec::new() };
        let mut actions = Vec::new();
        session.connection = None;
        if let Some(will) = session.will.take() {
            // A DISCONNECT discards the will (3.14.4).
            if !clean {
                actions.push(Action::Publish(None, will));
            }
            actions.push(Action::Will(name.clone(), None));
        }
        if session.clean
            && let Some(session) = self.sessions.remove(&name)
        {
            actions.extend(self.unused(session.filters.into_keys()));
        }
        actions
    }

    /// Filters that no client has any more.
    fn unused(&self, filters: impl Iterator<Item = String>) -> Vec<Action> {
        let unused = filters.filter(|filter| self.granted(filter).is_none());
        unused.map(Action::Unsubscribe).collect()
    }

    /// The highest QoS of clients with this filter; `None` if there are none.
    pub fn granted(&self, filter: &str) -> Option<u8> {
        self.sessions.values().filter_map(|session| session.filters.get(filter)).max().copied()
    }

    /// All filters with their highest QoS.
    pub fn filters(&self) -> HashMap<String, u8> {
        let mut all = HashMap::new();
        for (filter, qos) in self.sessions.values().flat_map(|session| &session.filters) {
            let highest: &mut u8 = all.entry(filter.clone()).or_default();
            *highest = (*highest).max(*qos);
        }
        all
    }

    /// All wills.
    pub fn wills(&self) -> Vec<(String, Message)> {
        let will =
            |(name, session): (&String, &Session)| Some((name.clone(), session.will.clone()?));
        self.sessions.iter().filter_map(will).collect()
    }

    /// A packet of a client, and the room of its message.
    pub fn receive(&mut self, connection: u64, packet: Packet, room: Room) -> Vec<Action> {
        let Some(name) = self.names.get(&connection) else { return Vec::new() };
        let Some(session) = self.sessions.get_mut(name) else { return Vec::new() };
        let origin = |session: &Session, id| {
            let (client, room) = (name.clone(), room.clone());
            Origin { client, session: session.number, id, room }
        };
        let send = |packet| Action::Send(connection, packet);
        match packet {
            Packet::Publish { id, message, .. } => match message.qos {
                0 => vec![Action::Publish(None, message)],
                // One that is on its way already has one answer.
                1 if !session.publishing.insert(id) => Vec::new(),
                1 => vec![Action::Publish(Some(origin(session, id)), message)],
                _ => match session.received.get(&id) {
                    Some(true) => vec![send(Packet::PubRec(id))],
                    // It is on its way.
                    Some(false) => Vec::new(),
                    None => {
                        session.received.insert(id, false);
                        vec![Action::Publish(Some(origin(session, id)), message)]
                    }
                },
            },
            Packet::PubRel(id) => {
                session.received.remove(&id);
                vec![send(Packet::PubComp(id))]
            }
            Packet::PubAck(id) | Packet::PubComp(id) => {
                session.finish(id).into_iter().map(send).collect()
            }
            Packet::PubRec(id) => {
                session.release(id);
                vec![send(Packet::PubRel(id))]
            }
            Packet::Subscribe { id, filters } => {
                let origin = origin(session, id);
                let requested = session.subscribe(id, filters);
                let mut actions: Vec<Action> = requested
                    .into_iter()
                    .map(|(filter, qos)| Action::Subscribe(origin.clone(), filter, qos))
                    .collect();
                actions.extend(session.answered(id).map(send));
                actions
            }
            Packet::Unsubscribe { id, filters } => {
                // Others are none of the hub's business.
                let removed: Vec<String> = filters
                    .into_iter()
                    .filter(|filter| session.filters.remove(filter).is_some())
                    .collect();
                let mut actions = vec![send(Packet::UnsubAck(id))];
                actions.extend(self.unused(removed.into_iter()));
                actions
            }
            Packet::PingReq => vec![send(Packet::PingResp)],
            Packet::Disconnect => {
                let mut actions = self.close(connection, true);
                actions.push(Action::Close(connection));
                actions
            }
            // Packets that only a server sends: a protocol error closes the connection (4.8).
            _ => {
                let mut actions = vec![Action::Close(connection)];
                actions.extend(self.close(connection, false));
                actions
            }
        }
    }

    /// The gateway has published a message: the client may forget it.
    pub fn published(&mut self, origin: &Origin) -> Vec<Action> {
        let Some(session) = self.session(origin) else { return Vec::new() };
        let packet = match session.received.get_mut(&origin.id) {
            _ if session.publishing.remove(&origin.id) => Packet::PubAck(origin.id),
            Some(known) => {
                *known = true;
                Packet::PubRec(origin.id)
            }
            None => return Vec::new(),
        };
        session.connection.map(|connection| Action::Send(connection, packet)).into_iter().collect()
    }

    /// A message cannot be published, ever: 3.1.1 has no answer that says so.
    pub fn refused(&mut self, origin: &Origin) -> Vec<Action> {
        let Some(session) = self.session(origin) else { return Vec::new() };
        session.received.remove(&origin.id);
        session.publishing.remove(&origin.id);
        let Some(connection) = session.connection else { return Vec::new() };
        let mut actions = vec![Action::Close(connection)];
        actions.extend(self.close(connection, false));
        actions
    }

    /// A client is subscribed to a filter; `code` is the granted QoS or 0x80.
    pub fn subscribed(&mut self, origin: &Origin, filter: &str, code: u8) -> Vec<Action> {
        let Some(session) = self.session(origin) else { return Vec::new() };
        // The gateway asks for all clients of the filter: this one may have asked for less.
        let code = match session.filters.get(filter) {
            Some(own) if code < 3 => code.min(*own),
            _ => code,
        };
        if code > 2 {
            session.filters.remove(filter);
        }
        let answer = session.granted(origin.id, filter, code);
        let connection = session.connection;
        connection.zip(answer).map(|(to, packet)| Action::Send(to, packet)).into_iter().collect()
    }

    /// Retained messages for a new subscription.
    pub fn retained(&mut self, origin: &Origin, filter: &str, all: Vec<Message>) -> Vec<Action> {
        let outflow = self.outflow.clone();
        let Some(session) = self.session(origin) else { return Vec::new() };
        let Some(granted) = session.filters.get(filter).copied() else { return Vec::new() };
        let (connection, mut packets) = (session.connection, Vec::new());
        for message in all {
            let qos = message.qos.min(granted);
            let payload = outflow.hold(message.payload.len());
            let message = Message { qos, retain: true, ..message };
            packets.extend(session.send(message, payload.as_ref(), &outflow));
        }
        let send = |packet| Some(Action::Send(connection?, packet));
        packets.into_iter().filter_map(send).collect()
    }

    fn session(&mut self, origin: &Origin) -> Option<&mut Session> {
        // The session may have ended meanwhile, and the client may have another one.
        self.sessions.get_mut(&origin.client).filter(|own| own.number == origin.session)
    }

    /// What to report about messages of QoS 1 and 2 that were dropped since the last call.
    pub fn report(&self) -> Option<String> {
        let dropped = self.outflow.dropped();
        (dropped > 0).then(|| {
            format!(
                "{dropped} messages of QoS 1 or 2 to clients were dropped: their clients do not acknowledge \
                 earlier ones. Of these at most 1000 wait for a client, and 64 MiB for all; now {} MiB do",
                self.outflow.used() >> 20
            )
        })
    }

    /// A message for all clients that want it.
    pub fn deliver(&mut self, message: &Message) -> Vec<Action> {
        let mut actions = Vec::new();
        // Once for all sessions, which share it.
        let payload = self.outflow.hold(message.payload.len());
        for session in self.sessions.values_mut() {
            let requested = session.filters.iter();
            let requested = requested.filter(|(filter, _)| topic::matches(filter, &message.topic));
            let Some(granted) = requested.map(|(_, qos)| *qos).max() else { continue };
            let qos = message.qos.min(granted);
            // Only a new subscription gets messages with the flag (3.3.1.3).
            let message = Message { qos, retain: false, ..message.clone() };
            let packet = session.send(message, payload.as_ref(), &self.outflow);
            let packet = session.connection.zip(packet);
            actions.extend(packet.map(|(to, packet)| Action::Send(to, packet)));
        }
        actions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(name: &str) -> Connect {
        Connect { level: 4, client: name.to_owned(), clean: false, keep_alive: 0, will: None }
    }

    fn message(bytes: usize) -> Message {
        Message { topic: "t".to_owned(), payload: vec![0; bytes].into(), qos: 1, retain: false }
    }

    /// What failed before: the number was limited for each client only, so that a few clients that
    /// stay away filled the memory.
    #[test]
    fn messages_to_all_clients_are_limited_in_bytes() {
        let mut clients = Clients { outflow: Outflow::of(100_000), ..Clients::default() };
        for (connection, name) in (0..).zip(["a", "b", "c"]) {
            clients.connect(connection, client(name));
            let filters = vec![("t".to_owned(), 1)];
            let subscribe = Packet::Subscribe { id: 1, filters };
            clients.receive(connection, subscribe, Room::default());
            clients.close(connection, true);
        }
        // Three clients share a payload.
        assert!(clients.deliver(&message(90_000)).is_empty(), "all are away");
        assert!((90_000..100_000).contains(&clients.outflow.used()));
        assert_eq!(clients.report(), None);
        clients.deliver(&message(50_000));
        let report = clients.report().unwrap();
        assert!(report.starts_with("3 messages") && clients.report().is_none(), "{report}");
        // QoS 0 is not kept, so that it needs no room.
        clients.deliver(&Message { qos: 0, ..message(50_000) });
        assert_eq!(clients.report(), None);
        // What all have acknowledged makes room.
        for (connection, name) in (3..).zip(["a", "b", "c"]) {
            let sent = clients.connect(connection, client(name));
            let id = sent.iter().find_map(|action| match action {
                Action::Send(_, Packet::Publish { id, .. }) => Some(*id),
                _ => None,
            });
            clients.receive(connection, Packet::PubAck(id.unwrap()), Room::default());
        }
        assert_eq!(clients.outflow.used(), 0);
        let sent = clients.deliver(&message(50_000));
        assert_eq!((sent.len(), clients.report()), (3, None));
    }
}
