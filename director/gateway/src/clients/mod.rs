//! The clients of one gateway: their sessions, levels of delivery and wills. No I/O and no clock:
//! packets in, packets and [`Action`]s out.

mod index;
mod kept;
mod traffic;
mod unsaved;

use crate::budget::{OVERHEAD, Outflow};
use crate::message::Message;
use crate::packet::{Connect, HEAD, MAX_PACKET, MQTT_5, Packet};
use crate::property::{Properties, id};
use crate::reason;
use crate::server::{MAX_ALIASES, MAX_OPEN};
use crate::session::{Origin, Session};
use index::Index;
use std::collections::HashMap;
use unsaved::Unsaved;

/// Maximum number of sessions, also of clients that are not connected.
const MAX_SESSIONS: usize = 10_000;

/// Minimum time between two reports of refused clients, in seconds.
const REPORT_EVERY_S: u64 = 60;

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
    Subscribe {
        /// The packet that it belongs to.
        origin: Origin,
        /// The filter.
        filter: String,
        /// Its maximum QoS.
        qos: u8,
        /// Whether retained messages are to follow.
        retained: bool,
    },
    /// No client wants this filter any more.
    Unsubscribe(String),
    /// A client has this will from now on, or none.
    Will(String, Option<Message>),
}

/// Why a CONNECT is refused.
struct Refusal {
    /// The code before MQTT 5 (3.1.1, 3.2.2.3).
    old: u8,
    /// The reason code.
    code: u8,
}

/// The clients of a gateway.
pub struct Clients {
    start: u32,
    /// Seconds since the start.
    now_s: u64,
    sessions: HashMap<String, Session>,
    /// Clients of connections.
    names: HashMap<u64, String>,
    /// Number of sessions so far.
    count: u64,
    /// Filters of all sessions.
    index: Index,
    /// Number of messages to clients so far.
    deliveries: u64,
    /// What the disk does not have of sessions that are kept.
    unsaved: Unsaved,
    /// Memory for messages of QoS 1 and 2 to all clients.
    outflow: Outflow,
    /// Memory for their names, filters and wills.
    states: Outflow,
    /// Memory for filters and wills that wait for the hub.
    pub backlog: Outflow,
    /// Clients that were refused because of `MAX_SESSIONS` since the last report, and the second from
    /// which the next one can be.
    refused: u64,
    report_at: u64,
}

impl Clients {
    /// No clients; `start` is different for each start of a gateway.
    pub fn new(start: u32) -> Self {
        let (sessions, names) = (HashMap::new(), HashMap::new());
        let outflow = Outflow::default();
        let (states, backlog) = (Outflow::default(), Outflow::default());
        Self {
            start,
            now_s: 0,
            sessions,
            names,
            count: 0,
            index: Index::default(),
            deliveries: 0,
            unsaved: Unsaved::default(),
            outflow,
            states,
            backlog,
            refused: 0,
            report_at: 0,
        }
    }

    /// Seconds since the start.
    pub fn now_s(&self) -> u64 {
        self.now_s
    }

    /// A second is over.
    pub fn tick(&mut self) -> Vec<Action> {
        self.now_s += 1;
        let (mut actions, mut over) = (Vec::new(), Vec::new());
        for (name, session) in &mut self.sessions {
            // Not before the whole time is over.
            if session.will_at.is_some_and(|at| at < self.now_s) {
                actions.extend(publish_will(name, session, self.now_s));
                self.unsaved.touch(name);
            }
            if session.ends_at.is_some_and(|at| at < self.now_s) {
                over.push(name.clone());
            }
        }
        over.iter().for_each(|name| actions.extend(self.end(name)));
        actions
    }

    /// A session is over.
    fn end(&mut self, name: &str) -> Vec<Action> {
        let Some(mut session) = self.sessions.remove(name) else { return Vec::new() };
        if session.is_on_disk() {
            self.unsaved.end(name);
        }
        self.unsaved.touch(name);
        // The will does not wait longer than its session (3.1.3.2.2).
        let mut actions = publish_will(name, &mut session, self.now_s);
        for (filter, options) in &session.filters {
            self.index.change(filter, Some(options.qos), None);
        }
        actions.extend(self.unused(session.filters.into_keys()));
        actions
    }

    /// Why a client cannot connect, if it cannot.
    fn refusal(&self, connect: &Connect) -> Option<Refusal> {
        if !(3..=MQTT_5).contains(&connect.level) {
            return Some(Refusal { old: 1, code: reason::VERSION });
        }
        if connect.has_method {
            return Some(Refusal { old: 5, code: reason::AUTHENTICATION });
        }
        // Before MQTT 5, a client without a name cannot come back to its session (3.1.1, 3.1.3.1).
        if connect.client.is_empty() && !connect.clean && connect.level < MQTT_5 {
            return Some(Refusal { old: 2, code: reason::CLIENT_NAME });
        }
        // Its will, and then the end of it, would wait for the hub as well.
        if connect.will.is_some() && self.backlog.is_full() {
            return Some(Refusal { old: 3, code: reason::BUSY });
        }
        // Sessions of clients that do not return stay, so their number is bounded.
        let is_full = self.sessions.len() >= MAX_SESSIONS;
        (is_full && !self.sessions.contains_key(&connect.client))
            .then_some(Refusal { old: 3, code: reason::QUOTA })
    }

    /// What to report of clients and filters that were refused, once a minute.
    pub fn report_refused(&mut self) -> Option<String> {
        if self.now_s < self.report_at {
            return None;
        }
        let (refused, filters) = (std::mem::take(&mut self.refused), self.states.take_dropped());
        if refused + filters == 0 {
            return None;
        }
        self.report_at = self.now_s + REPORT_EVERY_S;
        let (sessions, used) = (self.sessions.len(), self.states.used() >> 20);
        let fix = match self.unsaved.is_on {
            true => "stop the gateway, remove sessions.log in its --storage, and start it",
            false => "restart the gateway",
        };
        Some(format!(
            "{refused} clients and {filters} filters were refused: {sessions} of {MAX_SESSIONS} sessions exist, \
             also of clients that are away, and their names, filters and wills have {used} of 64 MiB. A client that does not come back should connect with clean session 1, or in MQTT 5 with a \
             session expiry interval; {fix} to end the sessions of those that are gone"
        ))
    }

    /// A name for a client that has none.
    fn free_name(&self, connect: &Connect, connection: u64) -> String {
        if connect.level < MQTT_5 {
            // No name of a client contains a zero.
            return format!("\0{connection}");
        }
        let (start, mut number) = (self.start, connection);
        loop {
            let name = format!("gateway-{start:08x}-{number}");
            if !self.sessions.contains_key(&name) {
                return name;
            }
            number = number.wrapping_add(1);
        }
    }

    /// A connection begins with this packet.
    pub fn connect(&mut self, connection: u64, connect: Connect) -> Vec<Action> {
        let will = connect.will.as_ref().map_or(0, Message::size);
        let held = self.states.hold(connect.client.len() + will + OVERHEAD);
        let full = held.is_none().then_some(Refusal { old: 3, code: reason::QUOTA });
        if let Some(Refusal { old, code }) = self.refusal(&connect).or(full) {
            match code {
                reason::QUOTA => self.refused += 1,
                reason::BUSY => self.backlog.drop_one(),
                _ => {}
            }
            let code = if connect.level == MQTT_5 { code } else { old };
            let properties = Properties::default();
            let answer = Packet::ConnAck { present: false, code, properties };
            return vec![Action::Send(connection, answer), Action::Close(connection)];
        }
        let mut properties = supported();
        let mut name = connect.client.clone();
        if name.is_empty() {
            name = self.free_name(&connect, connection);
            properties = properties.text(id::ASSIGNED_NAME, &name);
        }
        let mut actions = Vec::new();
        // Another connection of the same client ends (3.1.4).
        if let Some(former) = self.sessions.get(&name).and_then(|session| session.connection) {
            actions.extend(self.fail(former, reason::TAKEN_OVER));
        }
        if connect.clean {
            actions.extend(self.end(&name));
        }
        let present = self.sessions.contains_key(&name);
        self.count += 1;
        let fresh = Session::new(self.count);
        let session = self.sessions.entry(name.clone()).or_insert(fresh);
        // A client that is back in time has no will that waits (3.1.3.2.2).
        if connect.will.is_some() || session.will.is_some() {
            actions.push(Action::Will(name.clone(), connect.will.clone()));
        }
        let packets = session.resume(connection, &connect, self.now_s);
        session.own = held;
        self.unsaved.touch(&name);
        self.names.insert(connection, name);
        // The answer precedes all other packets (3.2).
        let answer = Packet::ConnAck { present, code: reason::SUCCESS, properties };
        actions.push(Action::Send(connection, answer));
        actions.extend(packets.into_iter().map(|packet| Action::Send(connection, packet)));
        actions
    }

    /// A connection has ended; `clean` if the client said so.
    pub fn close(&mut self, connection: u64, clean: bool) -> Vec<Action> {
        let Some(name) = self.names.remove(&connection) else { return Vec::new() };
        let Some(session) = self.sessions.get_mut(&name) else { return Vec::new() };
        let mut actions = Vec::new();
        self.unsaved.touch(&name);
        session.connection = None;
        if session.will.is_some() {
            if clean {
                // A DISCONNECT discards the will (3.14.4).
                session.will = None;
                actions.push(Action::Will(name.clone(), None));
            } else if session.will_delay_s == 0 {
                actions.extend(publish_will(&name, session, self.now_s));
            } else {
                session.will_at = Some(self.now_s + u64::from(session.will_delay_s));
            }
        }
        match session.expires_s {
            0 => actions.extend(self.end(&name)),
            u32::MAX => {}
            time_s => session.ends_at = Some(self.now_s + u64::from(time_s)),
        }
        actions
    }

    /// The gateway ends a connection; a client of MQTT 5 gets the reason.
    pub fn fail(&mut self, connection: u64, code: u8) -> Vec<Action> {
        let session = self.names.get(&connection).and_then(|name| self.sessions.get(name));
        let goodbye = session.and_then(|session| session.goodbye(code));
        let mut actions = Vec::new();
        actions.extend(goodbye.map(|packet| Action::Send(connection, packet)));
        actions.push(Action::Close(connection));
        actions.extend(self.close(connection, false));
        actions
    }

    /// Filters that no client has any more.
    fn unused(&self, filters: impl Iterator<Item = String>) -> Vec<Action> {
        let unused = filters.filter(|filter| self.granted(filter).is_none());
        unused.map(Action::Unsubscribe).collect()
    }

    /// The highest QoS of clients with this filter; `None` if there are none.
    pub fn granted(&self, filter: &str) -> Option<u8> {
        self.index.highest(filter)
    }

    /// All filters with their highest QoS.
    pub fn filters(&self) -> HashMap<String, u8> {
        self.index.all()
    }

    /// All wills.
    pub fn wills(&self) -> Vec<(String, Message)> {
        let will =
            |(name, session): (&String, &Session)| Some((name.clone(), session.will.clone()?));
        self.sessions.iter().filter_map(will).collect()
    }
}

/// The will of a client whose connection is lost.
fn publish_will(name: &str, session: &mut Session, now_s: u64) -> Vec<Action> {
    session.will_at = None;
    let Some(will) = session.will.take() else { return Vec::new() };
    let publish = Action::Publish(None, will.arrived(now_s));
    vec![publish, Action::Will(name.to_owned(), None)]
}

/// What the gateway supports (3.2.2.3); all else is the default.
fn supported() -> Properties {
    Properties::default()
        .number(id::RECEIVE_MAXIMUM, MAX_OPEN as u16)
        .long(id::MAXIMUM_PACKET, (MAX_PACKET + HEAD) as u32)
        .number(id::ALIAS_MAXIMUM, MAX_ALIASES)
        .flag(id::SHARED, false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::budget::Room;
    use crate::packet::Options;

    /// What failed before: nothing in the log said so.
    #[test]
    fn clients_beyond_the_maximum_number_of_sessions_are_refused_with_a_reason_and_a_report() {
        let mut clients = Clients::new(1);
        let client = |number: usize, level: u8| Connect {
            level,
            client: number.to_string(),
            ..Connect::default()
        };
        for number in 0..MAX_SESSIONS {
            clients.connect(number as u64, client(number, 4));
            clients.close(number as u64, true);
        }
        assert_eq!(clients.report_refused(), None);
        for (level, expected) in [(4, 3), (MQTT_5, 0x97)] {
            let actions = clients.connect(20_000, client(MAX_SESSIONS, level));
            let [Action::Send(_, Packet::ConnAck { code, .. }), Action::Close(_)] = actions[..]
            else {
                panic!("{actions:?}")
            };
            assert_eq!(code, expected);
        }
        let report = clients.report_refused().unwrap();
        let expected = "2 clients and 0 filters were refused: 10000 of 10000 sessions exist";
        assert!(report.starts_with(expected), "{report}");
        // One that has a session can come back.
        let back = clients.connect(20_001, client(7, 4));
        assert!(matches!(back[0], Action::Send(_, Packet::ConnAck { present: true, code: 0, .. })));
        for second in 1..=60 {
            clients.connect(20_002, client(MAX_SESSIONS, 4));
            clients.tick();
            assert_eq!(clients.report_refused().is_some(), second == 60, "{second}");
        }
    }
    /// What failed before: one client could have 64 MB of filters, and each further one as much.
    #[test]
    fn filters_and_wills_of_all_clients_are_limited_in_bytes() {
        let mut clients = Clients { states: Outflow::of(1 << 20), ..Clients::new(1) };
        let connect = |name: &str, will: usize| {
            let payload = vec![0; will].into();
            let will = (will > 0).then(|| Message { payload, ..Message::default() });
            Connect { level: 4, client: name.to_owned(), will, ..Connect::default() }
        };
        clients.connect(1, connect("a", 0));
        let filter = |number: u8| (format!("{number}/{}", "x".repeat(60_000)), Options::of(0));
        let filters: Vec<_> = (0..20).map(filter).collect();
        let subscribe = Packet::Subscribe { id: 1, filters: filters.clone() };
        let requested = clients.receive(1, subscribe, Room::default());
        assert_eq!(requested.len(), 4, "four times the size of each");
        assert!(clients.report_refused().unwrap().starts_with("0 clients and 16 filters"));
        let refused = clients.connect(2, connect("b", 100_000));
        assert!(matches!(refused[0], Action::Send(_, Packet::ConnAck { code: 3, .. })));
        // What the client gives up makes room.
        let filters = filters.into_iter().map(|(filter, _)| filter).collect();
        clients.receive(1, Packet::Unsubscribe { id: 2, filters }, Room::default());
        let accepted = clients.connect(2, connect("b", 100_000));
        let is_accepted =
            |own: &Action| matches!(own, Action::Send(_, Packet::ConnAck { code: 0, .. }));
        assert!(accepted.iter().any(is_accepted), "{accepted:?}");
        clients.close(2, true);
        clients.connect(3, Connect { clean: true, ..connect("b", 0) });
        clients.close(3, true);
        clients.connect(4, Connect { clean: true, ..connect("a", 0) });
        clients.close(4, true);
        assert_eq!(clients.states.used(), 0);
    }

    /// What failed before: each filter of a client that began a new session was looked for in all sessions,
    /// 10,000,000 times here.
    #[test]
    fn a_client_with_many_filters_that_comes_back_does_not_hold_up_the_gateway() {
        let mut clients = Clients::new(1);
        let client = |number: usize| Connect {
            level: 4,
            client: number.to_string(),
            clean: number == 0,
            ..Connect::default()
        };
        for number in 0..MAX_SESSIONS {
            clients.connect(number as u64, client(number));
        }
        let filters = (0..1_000).map(|number| (format!("t/{number}"), Options::of(1))).collect();
        clients.receive(0, Packet::Subscribe { id: 1, filters }, Room::default());
        assert_eq!(clients.filters().len(), 1_000);
        let other = vec![("t/7".to_owned(), Options::of(2))];
        clients.receive(1, Packet::Subscribe { id: 1, filters: other }, Room::default());
        assert_eq!(clients.granted("t/7"), Some(2));
        clients.index.steps.set(0);
        let actions = clients.connect(20_000, client(0));
        let unused = |own: &&Action| matches!(own, Action::Unsubscribe(_));
        assert_eq!(actions.iter().filter(unused).count(), 999);
        assert_eq!(clients.index.steps.get(), 2_000);
        assert_eq!((clients.granted("t/6"), clients.granted("t/7")), (None, Some(2)));
    }
}
