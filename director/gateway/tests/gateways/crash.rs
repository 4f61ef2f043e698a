//! The gateways of the hub and of a device, each with a disk, are killed at any moment: what waits at the hub for
//! the device arrives, with QoS 2 once.

use crate::kept::{Folder, store};
use crate::world::{client, message};
use director_gateway::{
    Ack, Connect, Device, Effect, Ended, Hub, KEEPS, Lane, MQTT_5, Message, Options, Packet,
    Publish, Room, Sessions, Side,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const HUB: usize = 0;
const DEVICE: usize = 1;

/// A frame or a timer that is on its way, of this start of its sender.
struct Pending {
    from: usize,
    start: u32,
    lane: Lane,
    /// `None` for a timer.
    frame: Option<Vec<u8>>,
}

/// A gateway and its disk.
struct End<S> {
    side: S,
    sessions: Option<Sessions>,
    folder: Folder,
    start: u32,
    inbox: VecDeque<Packet>,
    connection: u64,
}

/// When a gateway is killed: before or after it has stored what the next event has changed.
#[derive(Debug, Clone, Copy)]
struct Kill {
    at: usize,
    left: u32,
    is_stored: bool,
}

struct Bench {
    hub: End<Hub>,
    device: End<Device>,
    pending: VecDeque<Pending>,
    kill: Option<Kill>,
    connections: u64,
    /// What the client of the device has got, and the numbers of QoS 2 that are not released.
    received: Vec<String>,
    ids: BTreeSet<u16>,
    /// Messages that the hub has not acknowledged, by their numbers.
    open: BTreeMap<u16, String>,
    last: u16,
    loss: f64,
    state: u64,
}

fn open_hub(folder: &Folder, start: u32) -> (Hub, Sessions, Vec<Effect>) {
    let (sessions, kept) = Sessions::open(&folder.0).unwrap();
    let (mut hub, mut effects) = Hub::new(start, 1);
    effects.extend(hub.restore(BTreeMap::new(), kept));
    (hub, sessions, effects)
}

fn open_device(folder: &Folder, start: u32) -> (Device, Sessions, Vec<Effect>) {
    let (sessions, kept) = Sessions::open(&folder.0).unwrap();
    let (mut device, mut effects) = Device::new(start | KEEPS, 60);
    effects.extend(device.restore(kept));
    (device, sessions, effects)
}

fn end<S>(side: S, sessions: Sessions, folder: Folder) -> End<S> {
    let inbox = VecDeque::new();
    End { side, sessions: Some(sessions), folder, start: 1, inbox, connection: 0 }
}

impl Bench {
    fn new(loss: f64, seed: u64) -> Self {
        let folders = [Folder::new(), Folder::new()];
        let (hub, hub_sessions, to_devices) = open_hub(&folders[0], 1);
        let (device, sessions, to_hub) = open_device(&folders[1], 1);
        let [of_hub, of_device] = folders;
        let mut bench = Self {
            hub: end(hub, hub_sessions, of_hub),
            device: end(device, sessions, of_device),
            pending: VecDeque::new(),
            kill: None,
            connections: 0,
            received: Vec::new(),
            ids: BTreeSet::new(),
            open: BTreeMap::new(),
            last: 0,
            loss: 0.0,
            state: seed | 1,
        };
        bench.execute(HUB, to_devices);
        bench.execute(DEVICE, to_hub);
        bench.connect(DEVICE);
        let filters = vec![("t".to_owned(), Options::of(2))];
        bench.send(DEVICE, Packet::Subscribe { id: 1, filters });
        bench.connect(HUB);
        bench.settle();
        bench.loss = loss;
        bench
    }

    fn draw(&mut self) -> f64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.state >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn start_of(&self, at: usize) -> u32 {
        if at == HUB { self.hub.start } else { self.device.start }
    }

    /// Whether a gateway is killed now.
    fn is_killed(&mut self, at: usize, is_stored: bool) -> bool {
        match &mut self.kill {
            Some(kill) if kill.at == at && kill.is_stored == is_stored => {
                let now = kill.left == 0;
                kill.left = kill.left.saturating_sub(1);
                if now {
                    self.kill = None;
                    self.restart(at);
                }
                now
            }
            _ => false,
        }
    }

    fn restart(&mut self, at: usize) {
        let effects = match at {
            HUB => {
                let own = &mut self.hub;
                (own.sessions, own.start) = (None, own.start + 1);
                let (hub, sessions, effects) = open_hub(&own.folder, own.start);
                (own.side, own.sessions, own.connection) = (hub, Some(sessions), 0);
                own.inbox.clear();
                // Its client did not keep its session.
                self.open.clear();
                effects
            }
            _ => {
                let own = &mut self.device;
                (own.sessions, own.start) = (None, own.start + 1);
                let (device, sessions, effects) = open_device(&own.folder, own.start);
                (own.side, own.sessions, own.connection) = (device, Some(sessions), 0);
                own.inbox.clear();
                effects
            }
        };
        self.execute(at, effects);
    }

    /// What follows from an event: nothing, if the gateway is killed. Returns whether it is not.
    fn execute(&mut self, at: usize, mut effects: Vec<Effect>) -> bool {
        if self.is_killed(at, false) {
            return false;
        }
        let anew = self.draw() < 0.1;
        effects.extend(match at {
            HUB => store(&mut self.hub.side, self.hub.sessions.as_mut().unwrap(), anew),
            _ => store(&mut self.device.side, self.device.sessions.as_mut().unwrap(), anew),
        });
        if self.is_killed(at, true) {
            return false;
        }
        let start = self.start_of(at);
        for effect in effects {
            match effect {
                Effect::Send(_, packet) if at == HUB => self.hub.inbox.push_back(packet),
                Effect::Send(_, packet) => self.device.inbox.push_back(packet),
                Effect::Close(_) => panic!("no connection is closed"),
                Effect::Log(_) => {}
                Effect::Later(lane) => {
                    self.pending.push_back(Pending { from: at, start, lane, frame: None });
                }
                Effect::Transport { lane, frame, .. } => {
                    let frame = Some(frame);
                    self.pending.push_back(Pending { from: at, start, lane, frame });
                }
            }
        }
        true
    }

    fn ended(&mut self, at: usize, start: u32, lane: Lane, how: Ended) {
        if self.start_of(at) != start {
            return;
        }
        let effects = match at {
            HUB => self.hub.side.ended(lane, how),
            _ => self.device.side.ended(lane, how),
        };
        self.execute(at, effects);
    }

    /// A frame arrives, or is lost. A library acknowledges it before its gateway has stored it.
    fn arrive(&mut self, index: usize) {
        let Some(Pending { from, start, lane, frame }) = self.pending.remove(index) else { return };
        let Some(frame) = frame else { return self.ended(from, start, lane, Ended::Waited) };
        let is_lost = self.draw() < self.loss;
        let is_reported = self.draw() >= self.loss;
        if from == HUB {
            if !is_lost {
                let effects = self.device.side.receive(&frame);
                self.execute(DEVICE, effects);
            }
            let how = match is_lost || !is_reported {
                true => Ended::Lacking(vec![0]),
                false => Ended::Delivered(Vec::new()),
            };
            return self.ended(HUB, start, lane, how);
        }
        let mut how = Ended::Lost;
        // A frame of a former start can arrive: its datagrams were on their way.
        if !is_lost && start == self.device.start {
            let (answer, effects) = self.hub.side.receive(0, &frame);
            if self.execute(HUB, effects) && is_reported {
                how = Ended::Delivered(answer.unwrap_or_default());
            }
        }
        self.ended(DEVICE, start, lane, how);
    }

    fn connect(&mut self, at: usize) {
        self.connections += 1;
        let connection = self.connections;
        let kept = Connect { level: MQTT_5, expires_s: u32::MAX, ..client("sink") };
        let kept = Connect { clean: false, ..kept };
        let effects = match at {
            HUB => {
                self.hub.connection = connection;
                let actions = self.hub.side.clients().connect(connection, client("source"));
                self.hub.side.act(actions)
            }
            _ => {
                self.device.connection = connection;
                let actions = self.device.side.clients().connect(connection, kept);
                self.device.side.act(actions)
            }
        };
        self.execute(at, effects);
    }

    fn send(&mut self, at: usize, packet: Packet) {
        let effects = match at {
            HUB => {
                let (own, room) = (&mut self.hub, Room::default());
                let actions = own.side.clients().receive(own.connection, packet, room);
                own.side.act(actions)
            }
            _ => {
                let (own, room) = (&mut self.device, Room::default());
                let actions = own.side.clients().receive(own.connection, packet, room);
                own.side.act(actions)
            }
        };
        self.execute(at, effects);
    }

    fn publish(&mut self, text: &str, qos: u8) {
        if self.hub.connection == 0 {
            self.connect(HUB);
        }
        if self.hub.connection == 0 {
            return;
        }
        self.last += 1;
        let (id, message): (u16, Message) = (self.last, message("t", text, qos));
        self.open.insert(id, text.to_owned());
        self.send(HUB, Packet::Publish(Publish { id, message, ..Publish::default() }));
    }

    /// The clients handle their packets; returns texts of messages that the hub has acknowledged.
    fn clients(&mut self) -> Vec<String> {
        let mut acknowledged = Vec::new();
        while let Some(packet) = self.hub.inbox.pop_front() {
            match packet {
                Packet::PubAck(ack) => acknowledged.extend(self.open.remove(&ack.id)),
                Packet::PubRec(ack) => {
                    acknowledged.extend(self.open.remove(&ack.id));
                    self.send(HUB, Packet::PubRel(Ack::new(ack.id)));
                }
                _ => {}
            }
        }
        if self.device.connection == 0 {
            self.connect(DEVICE);
        }
        while let Some(packet) = self.device.inbox.pop_front() {
            match packet {
                Packet::Publish(Publish { id, message, .. }) => {
                    let text = String::from_utf8_lossy(&message.payload).into_owned();
                    if message.qos < 2 || self.ids.insert(id) {
                        self.received.push(text);
                    }
                    let ack = Ack::new(id);
                    let is_second = message.qos == 2;
                    self.send(
                        DEVICE,
                        if is_second { Packet::PubRec(ack) } else { Packet::PubAck(ack) },
                    );
                }
                Packet::PubRel(ack) => {
                    self.ids.remove(&ack.id);
                    self.send(DEVICE, Packet::PubComp(Ack::new(ack.id)));
                }
                _ => {}
            }
        }
        acknowledged
    }

    /// Lets all happen that is on its way; returns texts of messages that the hub has acknowledged.
    fn settle(&mut self) -> Vec<String> {
        let mut acknowledged = Vec::new();
        // Longer than a message waits for a device that does not say that it is stored.
        for _ in 0..200 {
            for _ in 0..1_000 {
                acknowledged.extend(self.clients());
                if self.pending.is_empty() {
                    break;
                }
                self.arrive(0);
            }
            let effects = self.hub.side.tick();
            self.execute(HUB, effects);
            let effects = self.device.side.tick();
            self.execute(DEVICE, effects);
        }
        acknowledged
    }
}

#[derive(Debug, Clone)]
enum Event {
    Publish(u8),
    Arrive(usize),
    Clients,
    Kill(Kill),
}

fn event() -> impl Strategy<Value = Event> {
    let kill = (0_usize..2, 0_u32..4, any::<bool>());
    prop_oneof![
        4 => (1_u8..3).prop_map(Event::Publish),
        8 => (0_usize..100).prop_map(Event::Arrive),
        4 => Just(Event::Clients),
        2 => kill.prop_map(|(at, left, is_stored)| Event::Kill(Kill { at, left, is_stored })),
    ]
}

/// Lets events happen; then each message that the hub has acknowledged has arrived, of QoS 2 once.
fn play(events: Vec<Event>, loss: f64, seed: u64) {
    let mut bench = Bench::new(loss, seed);
    let (mut sent, mut acknowledged) = (Vec::new(), BTreeSet::new());
    for event in events {
        match event {
            Event::Publish(qos) => {
                let text = format!("{} {qos}", sent.len());
                sent.push((qos, text.clone()));
                bench.publish(&text, qos);
            }
            Event::Arrive(index) if !bench.pending.is_empty() => {
                bench.arrive(index % bench.pending.len());
            }
            Event::Arrive(_) => {}
            Event::Clients => acknowledged.extend(bench.clients()),
            Event::Kill(kill) => bench.kill = Some(kill),
        }
    }
    (bench.kill, bench.loss) = (None, 0.0);
    acknowledged.extend(bench.settle());
    for (qos, text) in &sent {
        let count = bench.received.iter().filter(|own| *own == text).count();
        assert!(*qos == 1 || count <= 1, "{} of {}: {:?}", count, text, bench.received);
        let is_there = count > 0 || !acknowledged.contains(text);
        assert!(is_there, "{} is lost: {:?}", text, bench.received);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// What failed before: what waited for a device was gone with the hub's gateway, a message that had reached
    /// the device and was not stored there was lost, and one could arrive twice.
    #[test]
    fn what_waits_for_a_device_arrives_over_kills_of_both_gateways(
        events in prop::collection::vec(event(), 1..150),
        loss in 0.0..0.4_f64,
        seed: u64,
    ) {
        play(events, loss, seed);
    }
}

/// A client of the hub has a will: its connection is lost with the hub's gateway.
#[test]
fn wills_of_clients_of_the_hub_survive_a_kill_of_it() {
    let mut bench = Bench::new(0.0, 7);
    let will = |text: &str, name: &str, delay_s| Connect {
        level: MQTT_5,
        will: Some(message("t", text, 1)),
        will_delay_s: delay_s,
        expires_s: delay_s,
        ..client(name)
    };
    let connect = |bench: &mut Bench, connection, own| {
        let actions = bench.hub.side.clients().connect(connection, own);
        let effects = bench.hub.side.act(actions);
        bench.execute(HUB, effects);
    };
    connect(&mut bench, 101, will("lost", "a", 0));
    connect(&mut bench, 102, will("late", "b", 20));
    connect(&mut bench, 103, will("left", "c", 0));
    connect(&mut bench, 104, Connect { clean: false, ..will("back", "d", 20) });
    let left = Packet::Disconnect { code: 0, expires_s: None, reason: None };
    let actions = bench.hub.side.clients().receive(103, left, Room::default());
    let effects: Vec<Effect> = bench.hub.side.act(actions);
    let effects = effects.into_iter().filter(|own| !matches!(own, Effect::Close(_)));
    bench.execute(HUB, effects.collect());
    bench.restart(HUB);
    connect(&mut bench, 105, Connect { clean: false, ..will("back", "d", 20) });
    assert_eq!(bench.received, Vec::<String>::new());
    bench.settle();
    bench.received.sort();
    assert_eq!(bench.received, ["late", "lost"]);
    // Each once, also over another restart.
    bench.restart(HUB);
    bench.settle();
    bench.received.sort();
    assert_eq!(bench.received, ["back", "late", "lost"]);
}
