//! Messages and subscriptions of clients.

use super::{Action, Clients};
use crate::budget::Room;
use crate::message::{Message, Publisher};
use crate::packet::{Ack, MQTT_5, Options, Packet, Publish};
use crate::reason;
use crate::server::MAX_OPEN;
use crate::session::{Origin, RECEIPT, Receipt, Received, Requested, Session, Shared};
use std::collections::BTreeMap;

impl Clients {
    /// A packet of a client, and the room of its message.
    pub fn receive(&mut self, connection: u64, packet: Packet, room: Room) -> Vec<Action> {
        let Some(name) = self.names.get(&connection) else { return Vec::new() };
        let now_s = self.now_s;
        let Some(session) = self.sessions.get_mut(name) else { return Vec::new() };
        if packet != Packet::PingReq {
            self.unsaved.touch(name);
        }
        let send = |packet| Action::Send(connection, packet);
        match packet {
            Packet::Publish(publish) => self.publish(connection, publish, room),
            Packet::Subscribe { id, filters } => self.subscribe(connection, id, filters),
            Packet::PubRel(Ack { id, .. }) => {
                let known = session.received.remove(&id).is_some();
                let code = if known { reason::SUCCESS } else { reason::UNKNOWN_ID };
                vec![send(Packet::PubComp(Ack { id, code }))]
            }
            Packet::PubAck(ack) | Packet::PubComp(ack) => {
                session.finish(ack.id, now_s).into_iter().map(send).collect()
            }
            // The client does not want the message (4.3.3).
            Packet::PubRec(ack) if ack.code >= reason::UNSPECIFIED => {
                session.finish(ack.id, now_s).into_iter().map(send).collect()
            }
            Packet::PubRec(Ack { id, .. }) => {
                let known = session.release(id);
                let code = if known { reason::SUCCESS } else { reason::UNKNOWN_ID };
                vec![send(Packet::PubRel(Ack { id, code }))]
            }
            Packet::Unsubscribe { id, filters } => {
                let (mut removed, mut codes) = (Vec::new(), Vec::new());
                for filter in filters {
                    let before = session.filters.get(&filter).map(|own| own.qos);
                    let had = session.forget(&filter);
                    self.index.change(&filter, before, None);
                    codes.push(if had { reason::SUCCESS } else { reason::NO_SUBSCRIPTION });
                    // Others are none of the hub's business.
                    removed.extend(had.then_some(filter));
                }
                let mut actions = vec![send(Packet::UnsubAck { id, codes })];
                actions.extend(self.unused(removed.into_iter()));
                actions
            }
            Packet::PingReq => vec![send(Packet::PingResp)],
            Packet::Disconnect { code, expires_s, .. } => {
                // A session that was to end with its connection does so (3.14.2.2.2).
                if session.expires_s == 0 && expires_s.is_some_and(|time_s| time_s > 0) {
                    return self.fail(connection, reason::PROTOCOL_ERROR);
                }
                session.expires_s = expires_s.unwrap_or(session.expires_s);
                let mut actions = self.close(connection, code != reason::WITH_WILL);
                actions.push(Action::Close(connection));
                actions
            }
            // A second CONNECT (3.1), and packets that only a server sends (4.13).
            Packet::Connect(_)
            | Packet::ConnAck { .. }
            | Packet::SubAck { .. }
            | Packet::UnsubAck { .. }
            | Packet::PingResp => self.fail(connection, reason::PROTOCOL_ERROR),
        }
    }

    fn publish(&mut self, connection: u64, publish: Publish, room: Room) -> Vec<Action> {
        let (start, now_s) = (self.start, self.now_s);
        let Some(name) = self.names.get(&connection) else { return Vec::new() };
        let Some(session) = self.sessions.get_mut(name) else { return Vec::new() };
        let Publish { id, message, .. } = publish;
        let mut message = message.arrived(now_s);
        // Eight bytes more on the path, so only for messages that would come back.
        if session.keeps_away(&message.topic) {
            message.publisher = Some(Publisher { start, session: session.number as u32 });
        }
        let origin = Origin { client: name.clone(), session: session.number, id, room };
        match message.qos {
            0 => vec![Action::Publish(None, message)],
            // One that is on its way already has one answer.
            1 if !session.publishing.insert(id) => Vec::new(),
            1 => vec![Action::Publish(Some(origin), message)],
            _ => match session.received.get(&id).map(|own| own.receipt) {
                Some(Receipt::Acknowledged) => {
                    vec![Action::Send(connection, Packet::PubRec(Ack::new(id)))]
                }
                // It is on its way, or waits for the disk.
                Some(Receipt::Coming | Receipt::Published) => Vec::new(),
                None => {
                    // Earlier versions have no receive maximum (3.3.4).
                    if session.level == MQTT_5 && session.received.len() >= MAX_OPEN {
                        return self.fail(connection, reason::TOO_MANY);
                    }
                    let Some(_held) = self.states.hold(RECEIPT) else {
                        return self.fail(connection, reason::QUOTA);
                    };
                    session.received.insert(id, Received { receipt: Receipt::Coming, _held });
                    vec![Action::Publish(Some(origin), message)]
                }
            },
        }
    }

    /// A message is published, but its client must not know that before it is stored.
    pub fn accept(&mut self, origin: &Origin) {
        let Some(session) = self.session(origin) else { return };
        if let Some(own) = session.received.get_mut(&origin.id) {
            own.receipt = Receipt::Published;
        }
    }

    fn subscribe(
        &mut self,
        connection: u64,
        id: u16,
        filters: Vec<(String, Options)>,
    ) -> Vec<Action> {
        let Some(name) = self.names.get(&connection) else { return Vec::new() };
        let Some(session) = self.sessions.get_mut(name) else { return Vec::new() };
        let room = Room::default();
        let origin = Origin { client: name.clone(), session: session.number, id, room };
        let qos =
            |session: &Session, filter: &String| session.filters.get(filter).map(|own| own.qos);
        let before: BTreeMap<String, Option<u8>> =
            filters.iter().map(|(filter, _)| (filter.clone(), qos(session, filter))).collect();
        let requested = session.subscribe(id, filters, &self.states);
        for (filter, before) in &before {
            self.index.change(filter, *before, qos(session, filter));
        }
        let mut actions = Vec::new();
        for requested in requested {
            let Requested { filter, qos, retained } = requested;
            actions.push(Action::Subscribe { origin: origin.clone(), filter, qos, retained });
        }
        let answer = session.answered(id);
        actions.extend(answer.map(|packet| Action::Send(connection, packet)));
        actions
    }

    /// The gateway has published a message: the client may forget it.
    pub fn published(&mut self, origin: &Origin) -> Vec<Action> {
        let Some(session) = self.session(origin) else { return Vec::new() };
        let ack = Ack::new(origin.id);
        let packet = match session.received.get_mut(&origin.id) {
            _ if session.publishing.remove(&origin.id) => Packet::PubAck(ack),
            Some(own) => {
                own.receipt = Receipt::Acknowledged;
                Packet::PubRec(ack)
            }
            None => return Vec::new(),
        };
        session.connection.map(|connection| Action::Send(connection, packet)).into_iter().collect()
    }

    /// A message cannot be published, ever.
    pub fn refused(&mut self, origin: &Origin) -> Vec<Action> {
        let Some(session) = self.session(origin) else { return Vec::new() };
        let is_second = session.received.remove(&origin.id).is_some();
        session.publishing.remove(&origin.id);
        let Some(connection) = session.connection else { return Vec::new() };
        // Earlier versions have no answer that says so.
        if session.level < MQTT_5 {
            return self.fail(connection, reason::NOT_POSSIBLE);
        }
        let ack = Ack { id: origin.id, code: reason::NOT_POSSIBLE };
        let packet = if is_second { Packet::PubRec(ack) } else { Packet::PubAck(ack) };
        vec![Action::Send(connection, packet)]
    }

    /// A client is subscribed to a filter; `code` is the granted QoS or a failure.
    pub fn subscribed(&mut self, origin: &Origin, filter: &str, code: u8) -> Vec<Action> {
        let Some(session) = self.session(origin) else { return Vec::new() };
        // The gateway asks for all clients of the filter: this one may have asked for less.
        let before = session.filters.get(filter).map(|own| own.qos);
        let code = match before {
            Some(own) if code < 3 => code.min(own),
            _ => code,
        };
        if code > 2 {
            session.forget(filter);
        }
        let answer = session.granted(origin.id, filter, code);
        let connection = session.connection;
        if code > 2 {
            self.index.change(filter, before, None);
        }
        connection.zip(answer).map(|(to, packet)| Action::Send(to, packet)).into_iter().collect()
    }

    /// Whether a client waits for the answer to this packet.
    pub fn awaits(&self, origin: &Origin) -> bool {
        let session = self.sessions.get(&origin.client).filter(|own| own.number == origin.session);
        session.is_some_and(|own| own.connection.is_some() && own.awaits(origin.id))
    }

    /// Retained messages for a new subscription.
    pub fn retained(&mut self, origin: &Origin, filter: &str, all: Vec<Message>) -> Vec<Action> {
        let (now_s, outflow) = (self.now_s, self.outflow.clone());
        let all: Vec<_> = all.into_iter().map(|own| (self.hold(&own), own)).collect();
        let Some(session) = self.session(origin) else { return Vec::new() };
        let Some(granted) = session.filters.get(filter).copied() else { return Vec::new() };
        let (connection, mut packets) = (session.connection, Vec::new());
        for (shared, message) in all {
            let qos = message.qos.min(granted.qos);
            let message = Message { qos, retain: true, ..message };
            let subscriptions = granted.identifier.into_iter().collect();
            let publish = Publish { message, subscriptions, ..Publish::default() };
            packets.extend(session.send(publish, shared.as_ref(), &outflow, now_s));
        }
        let send = |packet| Some(Action::Send(connection?, packet));
        packets.into_iter().filter_map(send).collect()
    }

    fn session(&mut self, origin: &Origin) -> Option<&mut Session> {
        self.unsaved.touch(&origin.client);
        // The session may have ended meanwhile, and the client may have another one.
        self.sessions.get_mut(&origin.client).filter(|own| own.number == origin.session)
    }

    /// A message for all clients that want it.
    pub fn deliver(&mut self, message: &Message) -> Vec<Action> {
        let mut actions = Vec::new();
        // Once for all sessions.
        let shared = self.hold(message);
        for (name, session) in &mut self.sessions {
            let Some(publish) = session.selects(message, self.start) else { continue };
            if publish.message.qos > 0 && session.is_kept() {
                self.unsaved.touch(name);
                self.unsaved.revision += u64::from(self.unsaved.is_on);
            }
            let packet = session.send(publish, shared.as_ref(), &self.outflow, self.now_s);
            let packet = session.connection.zip(packet);
            actions.extend(packet.map(|(to, packet)| Action::Send(to, packet)));
        }
        actions
    }

    /// Counts what all sessions that get a message share: its payload and properties. `None` if there is
    /// no room.
    pub(super) fn hold(&mut self, message: &Message) -> Option<Shared> {
        self.deliveries += 1;
        let properties = message.properties.as_ref().map_or(0, |all| all.len());
        let held = self.outflow.hold(message.payload.len() + properties)?;
        Some(Shared { number: self.deliveries, held })
    }

    /// What to report about messages of QoS 1 and 2 that were dropped since the last call. Then those that
    /// have expired make room.
    pub fn report(&mut self) -> Option<String> {
        let dropped = self.outflow.take_dropped();
        if dropped == 0 {
            return None;
        }
        let used = self.outflow.used() >> 20;
        self.sessions.values_mut().for_each(|session| session.forget_expired(self.now_s));
        Some(format!(
            "{dropped} messages of QoS 1 or 2 to clients were dropped: their clients do not acknowledge \
             earlier ones. Of these at most 1000 wait for a client, and 64 MiB for all; now {used} MiB do"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Outflow;
    use crate::packet::Connect;

    const NAMES: [&str; 3] = ["a", "b", "c"];

    fn client(name: &str) -> Connect {
        Connect { level: 4, client: name.to_owned(), ..Connect::default() }
    }

    fn message(bytes: usize) -> Message {
        let payload = vec![0; bytes].into();
        Message { topic: "t".to_owned(), payload, qos: 1, ..Message::default() }
    }

    /// Three clients that are away, with sessions that are kept.
    fn clients(most: usize) -> Clients {
        let mut clients = Clients { outflow: Outflow::of(most), ..Clients::new(1) };
        for (connection, name) in (0..).zip(NAMES) {
            clients.connect(connection, client(name));
            let filters = vec![("t".to_owned(), Options::of(1))];
            let subscribe = Packet::Subscribe { id: 1, filters };
            clients.receive(connection, subscribe, Room::default());
            clients.close(connection, true);
        }
        clients
    }

    /// What failed before: the number was limited for each client only, so that a few clients that
    /// stay away filled the memory.
    #[test]
    fn messages_to_all_clients_are_limited_in_bytes() {
        let mut clients = clients(100_000);
        // Three clients share a payload and its properties.
        let properties = Some(vec![0; 10_000].into());
        let first = Message { properties, ..message(80_000) };
        assert!(clients.deliver(&first).is_empty(), "all are away");
        assert!((90_000..100_000).contains(&clients.outflow.used()));
        assert_eq!(clients.report(), None);
        clients.deliver(&message(50_000));
        let report = clients.report().unwrap();
        assert!(report.starts_with("3 messages") && clients.report().is_none(), "{report}");
        // QoS 0 is not kept, so that it needs no room.
        clients.deliver(&Message { qos: 0, ..message(50_000) });
        assert_eq!(clients.report(), None);
        // What all have acknowledged makes room.
        for (connection, name) in (3..).zip(NAMES) {
            let sent = clients.connect(connection, client(name));
            let id = sent.iter().find_map(|action| match action {
                Action::Send(_, Packet::Publish(publish)) => Some(publish.id),
                _ => None,
            });
            let ack = Packet::PubAck(Ack::new(id.unwrap()));
            clients.receive(connection, ack, Room::default());
        }
        assert_eq!(clients.outflow.used(), 0);
        let sent = clients.deliver(&message(50_000));
        assert_eq!((sent.len(), clients.report()), (3, None));
    }

    #[test]
    fn retained_messages_for_a_client_are_limited_too() {
        let mut clients = clients(100_000);
        clients.connect(7, client("d"));
        let filters = vec![("t".to_owned(), Options::of(1))];
        let actions = clients.receive(7, Packet::Subscribe { id: 1, filters }, Room::default());
        let origin = actions.into_iter().find_map(|action| match action {
            Action::Subscribe { origin, .. } => Some(origin),
            _ => None,
        });
        let sent = clients.retained(&origin.unwrap(), "t", vec![message(60_000); 2]);
        assert_eq!(sent.len(), 1);
        assert!(clients.report().unwrap().starts_with("1 messages"));
        clients.close(7, true);
        assert!(clients.outflow.used() > 60_000, "the session is kept");
        clients.connect(8, Connect { clean: true, ..client("d") });
        assert_eq!(clients.outflow.used(), 0);
    }

    #[test]
    fn expired_messages_of_clients_that_are_away_make_room() {
        let mut clients = clients(100_000);
        clients.deliver(&Message { until_s: Some(5), ..message(60_000) });
        clients.deliver(&message(20_000));
        let lasting = clients.outflow.used() - 60_000;
        (0..6).for_each(|_| drop(clients.tick()));
        assert_eq!(clients.report(), None);
        // Those for which there is no room are dropped; those after the report have room.
        clients.deliver(&message(50_000));
        assert!(clients.report().is_some());
        assert!(clients.outflow.used() < lasting);
        clients.deliver(&message(50_000));
        assert_eq!(clients.report(), None);
        let sent = clients.connect(7, client("a"));
        let lengths = sent.iter().filter_map(|action| match action {
            Action::Send(_, Packet::Publish(publish)) => Some(publish.message.payload.len()),
            _ => None,
        });
        assert_eq!(lengths.collect::<Vec<_>>(), [20_000, 50_000]);
    }
}
