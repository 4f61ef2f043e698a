//! A hub and three devices without sockets: frames are lost, delivered twice, or delivered without a
//! confirmation.

use director_gateway::{
    Ack, Connect, Device, Effect, Ended, Hub, LIFETIME, Lane, Message, Options, Packet, Publish,
    Room, Side,
};
use std::collections::{BTreeMap, VecDeque};

/// The end of a gateway: a device, or the hub.
pub const HUB: usize = 3;

/// A frame or a timer that is on its way.
pub enum Pending {
    Frame { from: usize, lane: Lane, frame: Vec<u8>, members: Vec<u32> },
    Later { from: usize, lane: Lane },
}

pub struct World {
    pub hub: Hub,
    pub devices: Vec<Device>,
    pub pending: VecDeque<Pending>,
    /// Packets to each connection of each gateway.
    pub packets: BTreeMap<(usize, u64), Vec<Packet>>,
    pub closed: Vec<(usize, u64)>,
    loss: f64,
    state: u64,
}

pub fn world(loss: f64, state: u64) -> World {
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
    pub fn draw(&mut self) -> f64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.state >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn execute(&mut self, from: usize, effects: Vec<Effect>) {
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

    pub fn ended(&mut self, at: usize, lane: Lane, how: Ended) {
        let effects = match at {
            HUB => self.hub.ended(lane, how),
            device => self.devices[device].ended(lane, how),
        };
        self.execute(at, effects);
    }

    /// Lets all frames arrive, in any order.
    pub fn run(&mut self) {
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

    pub fn input(&mut self, at: usize, input: Input) {
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

    pub fn connect(&mut self, at: usize, connection: u64, connect: Connect) {
        self.input(at, Input::Connect(connection, connect));
    }

    pub fn send(&mut self, at: usize, connection: u64, packet: Packet) {
        self.input(at, Input::Packet(connection, packet));
    }

    pub fn publish(&mut self, at: usize, connection: u64, id: u16, message: Message) {
        let publish = Publish { id, message, ..Publish::default() };
        self.send(at, connection, Packet::Publish(publish));
    }

    pub fn subscribe(&mut self, at: usize, connection: u64, filter: &str, qos: u8) {
        let filters = vec![(filter.to_owned(), Options::of(qos))];
        self.send(at, connection, Packet::Subscribe { id: 1, filters });
    }

    /// Messages that a connection has received so far; acknowledges them.
    pub fn received(&mut self, at: usize, connection: u64) -> Vec<Message> {
        let mut messages = Vec::new();
        while let Some(packets) = self.packets.get_mut(&(at, connection)).map(std::mem::take) {
            if packets.is_empty() {
                break;
            }
            for packet in packets {
                match packet {
                    Packet::Publish(Publish { id, message, .. }) => {
                        match message.qos {
                            0 => {}
                            1 => self.send(at, connection, Packet::PubAck(Ack::new(id))),
                            _ => self.send(at, connection, Packet::PubRec(Ack::new(id))),
                        }
                        messages.push(message);
                    }
                    Packet::PubRel(ack) => self.send(at, connection, Packet::PubComp(ack)),
                    _ => {}
                }
            }
        }
        messages
    }

    /// Whether a session was present, and the code, of the answer to a CONNECT.
    pub fn answer(&self, at: usize, connection: u64) -> Option<(bool, u8)> {
        self.packets.get(&(at, connection))?.iter().find_map(|packet| match packet {
            Packet::ConnAck { present, code, .. } => Some((*present, *code)),
            _ => None,
        })
    }

    pub fn has(&self, at: usize, connection: u64, packet: &Packet) -> bool {
        self.packets.get(&(at, connection)).is_some_and(|all| all.contains(packet))
    }
}

pub enum Input {
    Connect(u64, Connect),
    Packet(u64, Packet),
    Close(u64),
}

pub fn client(name: &str) -> Connect {
    let client = name.to_owned();
    Connect { level: 4, client, clean: true, keep_alive: 60, ..Connect::default() }
}

pub fn message(topic: &str, text: &str, qos: u8) -> Message {
    let (topic, payload) = (topic.to_owned(), text.as_bytes().into());
    Message { topic, payload, qos, ..Message::default() }
}

pub fn texts(messages: &[Message]) -> Vec<String> {
    messages.iter().map(|own| String::from_utf8_lossy(&own.payload).into_owned()).collect()
}
