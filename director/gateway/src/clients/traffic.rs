//! Messages and subscriptions of clients.

use super::{Action, Clients};
use crate::message::{Message, Publisher};
use crate::packet::{Ack, MQTT_5, Options, Packet, Publish};
use crate::reason;
use crate::session::{Origin, Requested, Session};

impl Clients {
    /// A packet of a client.
    pub fn receive(&mut self, connection: u64, packet: Packet) -> Vec<Action> {
        let Some(name) = self.names.get(&connection) else { return Vec::new() };
        let now_s = self.now_s;
        let Some(session) = self.sessions.get_mut(name) else { return Vec::new() };
        let send = |packet| Action::Send(connection, packet);
        match packet {
            Packet::Publish(publish) => self.publish(connection, publish),
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
                    let had = session.filters.remove(&filter).is_some();
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

    fn publish(&mut self, connection: u64, publish: Publish) -> Vec<Action> {
        let (start, now_s) = (self.start, self.now_s);
        let Some(name) = self.names.get(&connection) else { return Vec::new() };
        let Some(session) = self.sessions.get_mut(name) else { return Vec::new() };
        let Publish { id, message, .. } = publish;
        let mut message = message.arrived(now_s);
        // Eight bytes more on the path, so only for messages that would come back.
        if session.keeps_away(&message.topic) {
            message.publisher = Some(Publisher { start, session: session.number as u32 });
        }
        let origin = Origin { client: name.clone(), session: session.number, id };
        match message.qos {
            0 => vec![Action::Publish(None, message)],
            // One that is on its way already has one answer.
            1 if !session.publishing.insert(id) => Vec::new(),
            1 => vec![Action::Publish(Some(origin), message)],
            _ => match session.received.get(&id) {
                Some(true) => vec![Action::Send(connection, Packet::PubRec(Ack::new(id)))],
                // It is on its way.
                Some(false) => Vec::new(),
                None => {
                    session.received.insert(id, false);
                    vec![Action::Publish(Some(origin), message)]
                }
            },
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
        let origin = Origin { client: name.clone(), session: session.number, id };
        let requested = session.subscribe(id, filters);
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
            Some(known) => {
                *known = true;
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
        let code = match session.filters.get(filter) {
            Some(own) if code < 3 => code.min(own.qos),
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
        let now_s = self.now_s;
        let Some(session) = self.session(origin) else { return Vec::new() };
        let Some(granted) = session.filters.get(filter).copied() else { return Vec::new() };
        let (connection, mut packets) = (session.connection, Vec::new());
        for message in all {
            let qos = message.qos.min(granted.qos);
            let message = Message { qos, retain: true, ..message };
            let subscriptions = granted.identifier.into_iter().collect();
            packets.extend(
                session.send(Publish { message, subscriptions, ..Publish::default() }, now_s),
            );
        }
        let send = |packet| Some(Action::Send(connection?, packet));
        packets.into_iter().filter_map(send).collect()
    }

    fn session(&mut self, origin: &Origin) -> Option<&mut Session> {
        // The session may have ended meanwhile, and the client may have another one.
        self.sessions.get_mut(&origin.client).filter(|own| own.number == origin.session)
    }

    /// A message for all clients that want it.
    pub fn deliver(&mut self, message: &Message) -> Vec<Action> {
        let mut actions = Vec::new();
        for session in self.sessions.values_mut() {
            let Some(publish) = session.selects(message, self.start) else { continue };
            let packet = session.connection.zip(session.send(publish, self.now_s));
            actions.extend(packet.map(|(to, packet)| Action::Send(to, packet)));
        }
        actions
    }
}
