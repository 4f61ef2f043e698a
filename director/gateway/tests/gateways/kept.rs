//! Sessions that are kept in a folder: a gateway that is killed at any moment, and its clients.

use crate::world::{HUB, World, client, message, texts, world};
use director_gateway::{
    Ack, Connect, Device, Effect, Ended, Hub, KEEPS, MQTT_5, Message, Options, Packet, Publish,
    Room, Sessions, Side,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that is removed at the end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("gateway-kept-{}-{number}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Writes what a gateway has not stored; `anew` as a whole.
pub fn store(side: &mut impl Side, sessions: &mut Sessions, anew: bool) -> Vec<Effect> {
    let all = anew.then(|| side.all_sessions());
    sessions.save(&side.unsaved().sessions, all.as_deref()).unwrap();
    side.written()
}

/// A client that keeps its session, of QoS 1 and 2 in both directions.
#[derive(Default)]
struct Program {
    connection: Option<u64>,
    inbox: VecDeque<Packet>,
    /// QoS 2 messages that are not released yet.
    ids: BTreeSet<u16>,
    received: Vec<String>,
    /// Messages without an acknowledgement, and whether they are to be released.
    open: BTreeMap<u16, (Message, bool)>,
    last: u16,
}

/// A hub with its disk.
struct Bench {
    folder: Folder,
    hub: Hub,
    sessions: Option<Sessions>,
    programs: [Program; 2],
    connections: u64,
    starts: u32,
    /// Events until the gateway is killed, and whether it has stored the last one.
    kill: Option<(u32, bool)>,
    anew: u32,
}

const NAMES: [&str; 2] = ["sink", "source"];

impl Bench {
    fn new() -> Self {
        let folder = Folder::new();
        let (sessions, kept) = Sessions::open(&folder.0).unwrap();
        let (mut hub, _) = Hub::new(1, 0);
        hub.restore(BTreeMap::new(), kept);
        Self {
            folder,
            hub,
            sessions: Some(sessions),
            programs: Default::default(),
            connections: 0,
            starts: 1,
            kill: None,
            anew: 0,
        }
    }

    fn restart(&mut self) {
        self.sessions = None;
        let (sessions, kept) = Sessions::open(&self.folder.0).unwrap();
        assert_eq!(sessions.damaged(), None);
        self.starts += 1;
        let (mut hub, _) = Hub::new(self.starts, 0);
        hub.restore(BTreeMap::new(), kept);
        (self.hub, self.sessions, self.kill) = (hub, Some(sessions), None);
        for program in &mut self.programs {
            program.connection = None;
            program.inbox.clear();
        }
    }

    /// What follows from an input: nothing, if the gateway is killed.
    fn execute(&mut self, effects: Vec<Effect>) {
        let is_last = self.kill.is_some_and(|(left, _)| left == 0);
        if is_last && self.kill.is_some_and(|(_, is_stored)| !is_stored) {
            return self.restart();
        }
        self.anew += 1;
        let anew = self.anew.is_multiple_of(7);
        let mut effects = effects;
        if let Some(sessions) = &mut self.sessions {
            effects.extend(store(&mut self.hub, sessions, anew));
        }
        if is_last {
            return self.restart();
        }
        if let Some((left, _)) = &mut self.kill {
            *left -= 1;
        }
        for effect in effects {
            match effect {
                Effect::Send(to, packet) => {
                    let mut all = self.programs.iter_mut();
                    let own = all.find(|own| own.connection == Some(to));
                    own.unwrap().inbox.push_back(packet);
                }
                Effect::Close(closed) => {
                    let all = self.programs.iter_mut();
                    all.filter(|own| own.connection == Some(closed))
                        .for_each(|own| own.connection = None);
                }
                _ => {}
            }
        }
    }

    fn send(&mut self, at: usize, packet: Packet) {
        let Some(connection) = self.programs[at].connection else { return };
        let actions = self.hub.clients().receive(connection, packet, Room::default());
        let effects = self.hub.act(actions);
        self.execute(effects);
    }

    /// Connects, and sends again what is open; returns whether the session was present.
    fn connect(&mut self, at: usize) -> Option<bool> {
        self.connections += 1;
        self.programs[at].connection = Some(self.connections);
        let connect = Connect {
            level: MQTT_5,
            client: NAMES[at].to_owned(),
            expires_s: 60,
            receive_maximum: 3,
            ..Connect::default()
        };
        let actions = self.hub.clients().connect(self.connections, connect);
        let effects = self.hub.act(actions);
        self.execute(effects);
        let Some(Packet::ConnAck { present, .. }) = self.programs[at].inbox.pop_front() else {
            return None;
        };
        let open: Vec<_> = self.programs[at].open.clone().into_iter().collect();
        for (id, (message, is_released)) in open {
            let publish = Publish { id, message, duplicate: true, ..Publish::default() };
            match is_released {
                true => self.send(at, Packet::PubRel(Ack::new(id))),
                false => self.send(at, Packet::Publish(publish)),
            }
        }
        Some(present)
    }

    fn close(&mut self, at: usize) {
        let Some(connection) = self.programs[at].connection.take() else { return };
        self.programs[at].inbox.clear();
        let actions = self.hub.clients().close(connection, false);
        let effects = self.hub.act(actions);
        self.execute(effects);
    }

    fn publish(&mut self, qos: u8, text: &str) {
        let own = &mut self.programs[1];
        own.last += 1;
        let (id, message) = (own.last, message("t", text, qos));
        own.open.insert(id, (message.clone(), false));
        self.send(1, Packet::Publish(Publish { id, message, ..Publish::default() }));
    }

    /// A program handles its next packet; returns whether there was one.
    fn step(&mut self, at: usize) -> bool {
        let own = &mut self.programs[at];
        let Some(packet) = own.inbox.pop_front() else { return false };
        match packet {
            Packet::Publish(Publish { id, message, .. }) => {
                let text = String::from_utf8_lossy(&message.payload).into_owned();
                if message.qos == 1 {
                    own.received.push(text);
                    self.send(at, Packet::PubAck(Ack::new(id)));
                } else {
                    if own.ids.insert(id) {
                        own.received.push(text);
                    }
                    self.send(at, Packet::PubRec(Ack::new(id)));
                }
            }
            Packet::PubRel(ack) => {
                own.ids.remove(&ack.id);
                self.send(at, Packet::PubComp(Ack::new(ack.id)));
            }
            Packet::PubAck(ack) | Packet::PubComp(ack) => drop(own.open.remove(&ack.id)),
            Packet::PubRec(ack) => {
                own.open.get_mut(&ack.id).into_iter().for_each(|own| own.1 = true);
                self.send(at, Packet::PubRel(Ack::new(ack.id)));
            }
            _ => {}
        }
        true
    }

    fn subscribe(&mut self) {
        self.connect(0);
        let filters = vec![("t".to_owned(), Options::of(2))];
        self.send(0, Packet::Subscribe { id: 1, filters });
    }

    /// Lets both programs finish.
    fn finish(&mut self) {
        self.kill = None;
        for (at, name) in NAMES.iter().enumerate() {
            if self.programs[at].connection.is_none() {
                assert_eq!(self.connect(at), Some(true), "{name}");
            }
        }
        while self.step(0) || self.step(1) {}
    }
}

#[derive(Debug, Clone)]
enum Event {
    Publish(u8),
    Step(usize),
    Close(usize),
    Connect(usize),
    Kill(u32, bool),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (1_u8..3).prop_map(Event::Publish),
        6 => (0_usize..2).prop_map(Event::Step),
        1 => (0_usize..2).prop_map(Event::Close),
        3 => (0_usize..2).prop_map(Event::Connect),
        2 => (0_u32..9, any::<bool>()).prop_map(|(left, is_stored)| Event::Kill(left, is_stored)),
    ]
}

/// Lets events happen; then each message has arrived, of QoS 2 once.
fn play(events: Vec<Event>) {
    let mut bench = Bench::new();
    bench.subscribe();
    bench.connect(1);
    let mut sent = Vec::new();
    for event in events {
        match event {
            Event::Publish(qos) => {
                let text = format!("{} {qos}", sent.len());
                sent.push((qos, text.clone()));
                bench.publish(qos, &text);
            }
            Event::Step(at) => drop(bench.step(at)),
            Event::Close(at) => bench.close(at),
            Event::Connect(at) => {
                if bench.programs[at].connection.is_none() {
                    bench.connect(at);
                }
            }
            Event::Kill(left, is_stored) => bench.kill = Some((left, is_stored)),
        }
    }
    bench.finish();
    let received = &bench.programs[0].received;
    for (qos, text) in &sent {
        let count = received.iter().filter(|own| *own == text).count();
        assert!(count == 1 || *qos == 1 && count > 1, "{} of {}: {:?}", count, text, received);
    }
    assert!(bench.programs[1].open.is_empty());
}

/// What failed before: a message got the number of one that the client had and had not released, and was
/// lost.
#[test]
fn a_message_after_a_restart_has_another_number_than_one_that_is_not_released() {
    use Event::{Close, Connect, Kill, Publish, Step};
    play(vec![
        Publish(2),
        Step(0),
        Step(0),
        Close(1),
        Connect(1),
        Kill(0, false),
        Publish(2),
        Kill(2, true),
        Connect(1),
        Publish(1),
    ]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// What failed before: a gateway that was killed lost all sessions and what waited for their clients.
    #[test]
    fn what_waits_for_clients_survives_kills_at_any_moment(
        events in prop::collection::vec(event(), 1..120),
    ) {
        play(events);
    }
}

/// The clock of the state machines, not of the wall: after a restart, what is left counts.
#[test]
fn a_session_expires_over_restarts_and_ends_for_ever() {
    let mut bench = Bench::new();
    bench.subscribe();
    bench.close(0);
    for _ in 0..40 {
        let effects = bench.hub.tick();
        bench.execute(effects);
    }
    // The wall clock says that no second is over, so that the whole time is left.
    bench.restart();
    for _ in 0..61 {
        let effects = bench.hub.tick();
        bench.execute(effects);
    }
    assert_eq!(bench.connect(0), Some(false));
    bench.close(0);
    bench.restart();
    assert_eq!(bench.connect(0), Some(true));
    // A session that the client ends is not there again.
    bench.send(0, Packet::Disconnect { code: 0, expires_s: Some(0), reason: None });
    bench.restart();
    assert_eq!(bench.connect(0), Some(false));
}

/// A session whose client wants a new one, and one that is not kept, leave nothing on the disk.
#[test]
fn a_session_that_has_ended_is_not_there_after_a_restart() {
    let folder = Folder::new();
    let (mut sessions, kept) = Sessions::open(&folder.0).unwrap();
    let (mut hub, _) = Hub::new(1, 0);
    hub.restore(BTreeMap::new(), kept);
    let kept = |clean| Connect { clean, ..client("c") };
    hub.clients().connect(1, kept(false));
    let filters = vec![("old".to_owned(), Options::of(1))];
    hub.clients().receive(1, Packet::Subscribe { id: 1, filters }, Room::default());
    store(&mut hub, &mut sessions, false);
    // Ended, and a new one at once.
    hub.clients().connect(2, kept(true));
    hub.clients().close(2, true);
    hub.clients().connect(3, kept(false));
    store(&mut hub, &mut sessions, false);
    let log = std::fs::metadata(folder.0.join("sessions.log")).unwrap().len();
    // One that is not kept costs nothing.
    hub.clients().connect(4, Connect { clean: true, ..client("d") });
    store(&mut hub, &mut sessions, false);
    assert_eq!(std::fs::metadata(folder.0.join("sessions.log")).unwrap().len(), log);
    drop((hub, sessions));
    let (_, kept) = Sessions::open(&folder.0).unwrap();
    assert_eq!(kept.clients.len(), 1);
    assert!(kept.clients["c"].filters.is_empty(), "{:?}", kept.clients);
}

/// A client that fills its session again and again: the disk has no more than twice what is kept.
#[test]
fn an_attacker_does_not_fill_the_disk() {
    let folder = Folder::new();
    let (mut sessions, kept) = Sessions::open(&folder.0).unwrap();
    let (mut hub, _) = Hub::new(1, 0);
    hub.restore(BTreeMap::new(), kept);
    hub.clients().connect(1, Connect { level: 4, client: "away".to_owned(), ..Connect::default() });
    let filters = vec![("t".to_owned(), Options::of(1))];
    hub.clients().receive(1, Packet::Subscribe { id: 1, filters }, Room::default());
    hub.clients().close(1, true);
    hub.clients().connect(2, client("attacker"));
    let payload = "x".repeat(50_000);
    let mut longest = 0;
    for id in 1..400_u16 {
        let publish = Publish { id, message: message("t", &payload, 1), ..Publish::default() };
        let actions = hub.clients().receive(2, Packet::Publish(publish), Room::default());
        hub.act(actions);
        if id % 40 == 0 {
            // The client begins a new session.
            let clean =
                Connect { level: 4, client: "away".to_owned(), clean: true, ..Connect::default() };
            hub.clients().connect(3, clean);
            hub.clients().close(3, true);
            hub.clients()
                .connect(4, Connect { level: 4, client: "away".to_owned(), ..Connect::default() });
            let filters = vec![("t".to_owned(), Options::of(1))];
            hub.clients().receive(4, Packet::Subscribe { id: 1, filters }, Room::default());
            hub.clients().close(4, true);
        }
        let anew = sessions.is_large();
        store(&mut hub, &mut sessions, anew);
        longest = longest.max(std::fs::metadata(folder.0.join("sessions.log")).unwrap().len());
    }
    // 40 messages of 50 kB are kept at most, and 20 MB were sent.
    assert!(longest < 7_000_000, "{longest}");
}

/// The hub keeps what waits for a device that keeps its sessions, and forgets what that does not want any
/// more.
#[test]
fn what_waits_at_the_hub_for_a_device_survives_a_restart_of_the_device() {
    let folder = Folder::new();
    let mut world = world(0.0, 3);
    world.run();
    let (mut sessions, kept) = Sessions::open(&folder.0).unwrap();
    let (mut device, effects) = Device::new(10 | KEEPS, 60);
    let more = device.restore(kept);
    world.devices[0] = device;
    world.execute(0, effects);
    world.execute(0, more);
    world.connect(0, 1, Connect { clean: false, ..client("kept") });
    world.subscribe(0, 1, "t", 1);
    world.connect(0, 2, client("other"));
    world.subscribe(0, 2, "u", 1);
    world.connect(HUB, 1, client("source"));
    world.run();
    store(&mut world.devices[0], &mut sessions, false);
    world.publish(HUB, 1, 1, message("t", "1", 1));
    world.run();
    store(&mut world.devices[0], &mut sessions, false);
    // The device is gone; its hub does not know that.
    world.publish(HUB, 1, 2, message("t", "2", 1));
    lose_all(&mut world);
    world.publish(HUB, 1, 3, message("t", "3", 1));
    drop(sessions);
    let (mut sessions, kept) = Sessions::open(&folder.0).unwrap();
    let (mut device, effects) = Device::new(11 | KEEPS, 60);
    let more = device.restore(kept);
    world.devices[0] = device;
    world.packets.clear();
    world.execute(0, effects);
    world.execute(0, more);
    world.run();
    world.publish(HUB, 1, 4, message("t", "4", 1));
    world.publish(HUB, 1, 5, message("u", "5", 1));
    let addressed = world.pending.len();
    world.run();
    assert_eq!(addressed, 1, "no client wants `u` any more");
    store(&mut world.devices[0], &mut sessions, false);
    world.connect(0, 3, Connect { clean: false, ..client("kept") });
    assert_eq!(world.answer(0, 3), Some((true, 0)));
    assert_eq!(texts(&world.received(0, 3)), ["1", "2", "3", "4"]);
}

/// What failed before: a message of QoS 2 of a device, which the hub had stored and not acknowledged when it was
/// killed, arrived twice.
#[test]
fn a_message_of_a_device_that_the_hub_has_stored_is_not_new_after_a_restart() {
    let folder = Folder::new();
    let (mut sessions, kept) = Sessions::open(&folder.0).unwrap();
    let (mut hub, _) = Hub::new(1, 1);
    hub.restore(BTreeMap::new(), kept);
    hub.clients().connect(1, Connect { clean: false, ..client("kept") });
    let filters = vec![("t".to_owned(), Options::of(2))];
    hub.clients().receive(1, Packet::Subscribe { id: 1, filters }, Room::default());
    hub.clients().close(1, true);
    let mut world = world(0.0, 1);
    world.connect(0, 1, client("source"));
    world.run();
    world.publish(0, 1, 1, message("t", "1", 2));
    let frame = world.pending.iter().find_map(|pending| match pending {
        crate::world::Pending::Frame { from: 0, frame, .. } => Some(frame.clone()),
        _ => None,
    });
    let frame = frame.expect("a frame with the message");
    for anew in [false, true, false] {
        // In each start the frame arrives again: the device has no acknowledgement.
        hub.receive(0, &frame);
        store(&mut hub, &mut sessions, anew);
        drop(sessions);
        let (again, kept) = Sessions::open(&folder.0).unwrap();
        assert_eq!(kept.clients["kept"].entries.len(), 1, "{anew}");
        sessions = again;
        (hub, _) = Hub::new(2 + u32::from(anew), 1);
        hub.restore(BTreeMap::new(), kept);
    }
}

/// Frames on their way are lost.
fn lose_all(world: &mut World) {
    let lost: Vec<_> = world.pending.drain(..).collect();
    for pending in lost {
        if let crate::world::Pending::Frame { from, lane, members, .. } = pending {
            assert_eq!(from, HUB);
            world.ended(from, lane, Ended::Lacking(members));
        }
    }
}

/// What failed before: a client could have 65,535 numbers of QoS 2 for each session.
#[test]
fn numbers_of_qos_2_are_limited_by_the_receive_maximum() {
    let (mut hub, _) = Hub::new(1, 0);
    let connect = Connect { level: MQTT_5, client: "c".to_owned(), ..Connect::default() };
    hub.clients().connect(1, connect);
    let publish = |hub: &mut Hub, id: u16| {
        let publish = Publish { id, message: message("t", "x", 2), ..Publish::default() };
        let actions = hub.clients().receive(1, Packet::Publish(publish), Room::default());
        hub.act(actions)
    };
    for id in 1..=1_000 {
        let answered = Effect::Send(1, Packet::PubRec(Ack::new(id)));
        assert_eq!(publish(&mut hub, id), [answered]);
    }
    // One that is sent again is no further one.
    assert!(matches!(publish(&mut hub, 7)[..], [Effect::Send(1, Packet::PubRec(_))]));
    let refused = publish(&mut hub, 1_001);
    let [Effect::Send(1, Packet::Disconnect { code: 0x93, .. }), Effect::Close(1)] = refused[..]
    else {
        panic!("{refused:?}")
    };
}
