//! Gateways of a hub and three devices, whose frames are lost, delivered twice, or delivered without
//! a confirmation: levels of delivery, order, retained messages, wills, restarts.

use director_gateway::{
    Connect, Device, Effect, Ended, Hub, LIFETIME, Lane, Message, Packet, Room, Side,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};

/// The end of a gateway: a device, or the hub.
const HUB: usize = 3;

/// A frame or a timer that is on its way.
enum Pending {
    Frame { from: usize, lane: Lane, frame: Vec<u8>, members: Vec<u32> },
    Later { from: usize, lane: Lane },
}

struct World {
    hub: Hub,
    devices: Vec<Device>,
    pending: VecDeque<Pending>,
    /// Packets to each connection of each gateway.
    packets: BTreeMap<(usize, u64), Vec<Packet>>,
    closed: Vec<(usize, u64)>,
    loss: f64,
    state: u64,
}

fn world(loss: f64, state: u64) -> World {
    let (hub, effects) = Hub::new(1, 3);
    let mut world = World {
        hub,
        devices: Vec::new(),
        pending: VecDeque::new(),
        packets: BTreeMap::new(),
        closed: Vec::new(),
        loss,
        state: state | 1,
    };
    world.execute(HUB, effects);
    for member in 0..3 {
        let (device, effects) = Device::new(10 + member, 60);
        world.devices.push(device);
        world.execute(member as usize, effects);
    }
    world
}

impl World {
    fn draw(&mut self) -> f64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.state >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn execute(&mut self, from: usize, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send(to, packet) => {
                    self.packets.entry((from, to)).or_default().push(packet);
                }
                Effect::Close(connection) => self.closed.push((from, connection)),
                Effect::Log(_) => {}
                Effect::Later(lane) => self.pending.push_back(Pending::Later { from, lane }),
                Effect::Transport { lane, frame, members, lifetime, .. } => {
                    assert!(lifetime <= LIFETIME);
                    self.pending.push_back(Pending::Frame { from, lane, frame, members });
                }
            }
        }
    }

    fn ended(&mut self, at: usize, lane: Lane, how: Ended) {
        let effects = match at {
            HUB => self.hub.ended(lane, how),
            device => self.devices[device].ended(lane, how),
        };
        self.execute(at, effects);
    }

    /// Lets all frames arrive, in any order.
    fn run(&mut self) {
        for _ in 0..100_000 {
            if self.pending.is_empty() {
                return;
            }
            let index = (self.draw() * self.pending.len() as f64) as usize;
            let Some(next) = self.pending.remove(index) else { return };
            match next {
                Pending::Later { from, lane } => self.ended(from, lane, Ended::Waited),
                Pending::Frame { from: HUB, lane, frame, members } => {
                    let mut lacking = Vec::new();
                    for member in members {
                        let fate = self.draw();
                        // The director delivers a message once; it can be lost after that.
                        if fate >= self.loss {
                            let effects = self.devices[member as usize].receive(&frame);
                            self.execute(member as usize, effects);
                        }
                        if fate < self.loss * 1.5 {
                            lacking.push(member);
                        }
                    }
                    let how = match lacking.is_empty() {
                        true => Ended::Delivered(Vec::new()),
                        false => Ended::Lacking(lacking),
                    };
                    self.ended(HUB, lane, how);
                }
                Pending::Frame { from, lane, frame, .. } => {
                    let fate = self.draw();
                    let mut how = Ended::Lost;
                    if fate >= self.loss {
                        let (answer, effects) = self.hub.receive(from as u32, &frame);
                        self.execute(HUB, effects);
                        if fate >= self.loss * 1.5 {
                            how = Ended::Delivered(answer.unwrap_or_default());
                        }
                    }
                    self.ended(from, lane, how);
                }
            }
        }
        panic!("frames without an end");
    }

    fn input(&mut self, at: usize, input: Input) {
        let clients = match at {
            HUB => self.hub.clients(),
            device => self.devices[device].clients(),
        };
        let actions = match input {
            Input::Connect(connection, connect) => clients.connect(connection, connect),
            Input::Packet(connection, packet) => {
                clients.receive(connection, packet, Room::default())
            }
            Input::Close(connection) => clients.close(connection, false),
        };
        let effects = match at {
            HUB => self.hub.act(actions),
            device => self.devices[device].act(actions),
        };
        self.execute(at, effects);
    }

    fn connect(&mut self, at: usize, connection: u64, connect: Connect) {
        self.input(at, Input::Connect(connection, connect));
    }

    fn send(&mut self, at: usize, connection: u64, packet: Packet) {
        self.input(at, Input::Packet(connection, packet));
    }

    fn publish(&mut self, at: usize, connection: u64, id: u16, message: Message) {
        self.send(at, connection, Packet::Publish { duplicate: false, id, message });
    }

    fn subscribe(&mut self, at: usize, connection: u64, filter: &str, qos: u8) {
        let filters = vec![(filter.to_owned(), qos)];
        self.send(at, connection, Packet::Subscribe { id: 1, filters });
    }

    /// Messages that a connection has received so far; acknowledges them.
    fn received(&mut self, at: usize, connection: u64) -> Vec<Message> {
        let mut messages = Vec::new();
        while let Some(packets) = self.packets.get_mut(&(at, connection)).map(std::mem::take) {
            if packets.is_empty() {
                break;
            }
            for packet in packets {
                match packet {
                    Packet::Publish { id, message, .. } => {
                        match message.qos {
                            0 => {}
                            1 => self.send(at, connection, Packet::PubAck(id)),
                            _ => self.send(at, connection, Packet::PubRec(id)),
                        }
                        messages.push(message);
                    }
                    Packet::PubRel(id) => self.send(at, connection, Packet::PubComp(id)),
                    _ => {}
                }
            }
        }
        messages
    }

    fn has(&self, at: usize, connection: u64, packet: &Packet) -> bool {
        self.packets.get(&(at, connection)).is_some_and(|all| all.contains(packet))
    }
}

enum Input {
    Connect(u64, Connect),
    Packet(u64, Packet),
    Close(u64),
}

fn client(name: &str) -> Connect {
    Connect { level: 4, client: name.to_owned(), clean: true, keep_alive: 60, will: None }
}

fn message(topic: &str, text: &str, qos: u8) -> Message {
    Message { topic: topic.to_owned(), payload: text.as_bytes().into(), qos, retain: false }
}

fn texts(messages: &[Message]) -> Vec<String> {
    messages.iter().map(|own| String::from_utf8_lossy(&own.payload).into_owned()).collect()
}

#[test]
fn a_message_reaches_clients_of_all_devices_and_of_the_hub_and_is_then_acknowledged() {
    let mut world = world(0.0, 1);
    for at in 0..=HUB {
        world.connect(at, 1, client("c"));
        world.subscribe(at, 1, "a/#", 1);
    }
    world.run();
    world.publish(0, 1, 7, message("a/b", "17", 1));
    assert!(!world.has(0, 1, &Packet::PubAck(7)), "the hub does not have it yet");
    world.run();
    assert!(world.has(0, 1, &Packet::PubAck(7)));
    for at in 0..=HUB {
        assert!(world.has(at, 1, &Packet::SubAck { id: 1, codes: vec![1] }), "{at}");
        assert_eq!(world.received(at, 1), [message("a/b", "17", 1)], "{at}");
    }
    // Downgraded to what the client asked for; without a subscription there is nothing.
    world.connect(1, 2, client("d"));
    world.subscribe(1, 2, "a/b", 0);
    world.send(2, 1, Packet::Unsubscribe { id: 3, filters: vec!["a/#".to_owned()] });
    world.run();
    world.publish(HUB, 1, 8, message("a/b", "18", 2));
    world.run();
    assert_eq!(world.received(1, 2), [message("a/b", "18", 0)]);
    assert!(world.received(2, 1).is_empty());
}

#[test]
fn retained_messages_come_with_a_subscription_and_an_empty_one_removes_them() {
    let mut world = world(0.3, 5);
    world.connect(0, 1, client("meter"));
    for n in 0..200_u16 {
        let text = format!("{n} {}", "x".repeat(100));
        let retained = Message { retain: true, ..message(&format!("r/{n:03}"), &text, 1) };
        world.publish(0, 1, n + 1, retained);
    }
    world.run();
    world.publish(0, 1, 900, Message { retain: true, ..message("r/000", "", 1) });
    world.run();
    world.connect(2, 1, client("late"));
    world.subscribe(2, 1, "r/+", 1);
    world.run();
    let received = world.received(2, 1);
    assert!(received.iter().all(|message| message.retain));
    let topics: Vec<&str> = received.iter().map(|message| message.topic.as_str()).collect();
    let requested: Vec<String> = (1..200).map(|n| format!("r/{n:03}")).collect();
    assert_eq!(topics, requested);
}

#[test]
fn wills_follow_lost_clients_lost_devices_and_restarts() {
    let mut world = world(0.0, 9);
    world.connect(HUB, 1, client("watch"));
    world.subscribe(HUB, 1, "gone/#", 1);
    let with_will = |name: &str| Connect {
        will: Some(message(&format!("gone/{name}"), name, 1)),
        ..client(name)
    };
    for (at, name) in [(0, "lost"), (0, "polite"), (1, "silent"), (2, "restarted")] {
        let connection = if name == "polite" { 2 } else { 1 };
        world.connect(at, connection, with_will(name));
    }
    world.run();
    world.input(0, Input::Close(1));
    world.send(0, 2, Packet::Disconnect);
    world.run();
    assert_eq!(texts(&world.received(HUB, 1)), ["lost"]);
    // Device 2 starts again.
    let (device, effects) = Device::new(99, 60);
    world.devices[2] = device;
    world.execute(2, effects);
    world.run();
    assert_eq!(texts(&world.received(HUB, 1)), ["restarted"]);
    // Device 1 reports every minute, until it does not.
    for second in 0..300 {
        if second < 200 {
            let effects = world.devices[1].tick();
            world.execute(1, effects);
        }
        let effects = world.hub.tick();
        world.execute(HUB, effects);
        world.run();
        let delivered = texts(&world.received(HUB, 1));
        assert_eq!(!delivered.is_empty(), second == 270, "{second} {delivered:?}");
    }
}

#[test]
fn a_session_that_is_kept_gets_what_it_has_missed_also_after_a_restart_of_the_hub() {
    let mut world = world(0.0, 3);
    let kept = Connect { clean: false, ..client("kept") };
    world.connect(0, 1, kept.clone());
    world.subscribe(0, 1, "t", 1);
    world.run();
    world.input(0, Input::Close(1));
    let (hub, effects) = Hub::new(2, 3);
    world.hub = hub;
    world.execute(HUB, effects);
    world.run();
    world.connect(HUB, 1, client("source"));
    for n in 1..=3 {
        world.publish(HUB, 1, n, message("t", &n.to_string(), 1));
    }
    world.run();
    world.connect(0, 2, kept);
    assert!(world.has(0, 2, &Packet::ConnAck { present: true, code: 0 }));
    assert_eq!(texts(&world.received(0, 2)), ["1", "2", "3"]);
    // The other connection of the same client is closed.
    world.connect(0, 3, Connect { clean: false, ..client("kept") });
    assert!(world.closed.contains(&(0, 2)));
    world.connect(0, 4, Connect { level: 5, ..client("five") });
    assert!(world.has(0, 4, &Packet::ConnAck { present: false, code: 1 }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever is lost: QoS 2 arrives once, QoS 1 at least once, both in order; and acknowledged
    /// after the hub has them.
    #[test]
    fn levels_of_delivery_hold_over_any_loss(
        seed: u64,
        loss in 0.0..0.6_f64,
        qos in 1_u8..3,
        from in prop::collection::vec((0_usize..4, 0_usize..2), 1..60),
    ) {
        let mut world = world(loss, seed);
        for at in 0..=HUB {
            world.connect(at, 1, client("sink"));
            world.subscribe(at, 1, "+", 2);
            world.connect(at, 2, client("source"));
        }
        world.run();
        let mut sent: BTreeMap<(usize, usize), Vec<String>> = BTreeMap::new();
        for (index, (at, topic)) in (1_u16..).zip(from) {
            let text = format!("{at} {topic} {index}");
            world.publish(at, 2, index, message(&format!("t{at}{topic}"), &text, qos));
            sent.entry((at, topic)).or_default().push(text);
            if index % 7 == 0 {
                world.run();
            }
        }
        world.run();
        let all: usize = sent.values().map(Vec::len).sum();
        for at in 0..=HUB {
            let received = world.received(at, 1);
            prop_assert_eq!(received.len(), all, "at {}", at);
            for ((source, topic), texts_sent) in &sent {
                let name = format!("t{source}{topic}");
                let of_topic: Vec<Message> =
                    received.iter().filter(|message| message.topic == name).cloned().collect();
                prop_assert_eq!(&texts(&of_topic), texts_sent);
            }
        }
        let answers = |packet: &&Packet| matches!(packet, Packet::PubAck(_) | Packet::PubRec(_));
        let count: usize = (0..=HUB)
            .filter_map(|at| world.packets.get(&(at, 2)))
            .map(|packets| packets.iter().filter(answers).count())
            .sum();
        prop_assert_eq!(count, all);
    }
}
