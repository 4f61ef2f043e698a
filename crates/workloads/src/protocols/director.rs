//! The director as an interaction model: a session with the source as hub.

use crate::address::number;
use crate::error::Error;
use crate::link::{SinkLink, SourceLink, Warning};
use crate::protocols::udp::receive;
use director::carrier::To;
use director::io::outside::{self, Endpoints, Mqtt, StackFactory, Stacks, Zeromq};
use director::io::socket;
use director::session::{Config, Event, Hub, Member, MemberEvent, Security};
use director::{CapacityProfile, Conditions, ModelId, Pattern, PerformanceMap, Seed};
use record::spec::{InteractionSpec, Role};
use record::{DirectorModel, InteractionPattern};
use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use units::{Instant, Span};

/// Session key of all programs of a run. It is not secret; sessions take the code path of secured ones.
const KEY: &[u8] = b"thingbed: a key of no secret";
/// Ethernet, IPv4 or IPv6, and UDP headers, in bytes.
const HEADER_BYTES: [usize; 2] = [42, 62];
/// Port of the MQTT broker.
const BROKER: u16 = 1_883;
/// Assumed round-trip time if the experiment gives none, in ns.
const ROUND_TRIP: Span = Span::from_ms(20);
/// Minimum time between two group joins, in ns.
const JOIN_EVERY: Span = Span::from_s(2);
/// Maximum number of datagrams per turn, so that other work gets its share.
const MAX_PER_TURN: usize = 64;

fn config(spec: &InteractionSpec) -> Result<Config, Error> {
    let mut config = Config::new(Pattern::PublishCollect, Security::Key(KEY.to_vec()));
    // Only an assumption to choose a model by; the payload itself is read elsewhere.
    let payload = std::fs::metadata(&spec.payload).map_or(1_000, |file| file.len());
    let configured = Conditions {
        loss: spec.assume_loss.unwrap_or(0.0),
        rtt: spec.assume_round_trip_ns.map_or(ROUND_TRIP, Span::from_ns),
        rate_bit_s: spec.multicast_rate_bit_s as f64,
        mtu: f64::from(spec.mtu),
        group: spec.peers.len() as f64,
        payload: payload as f64,
        messages_s: 1e9 / spec.every_ns.max(1) as f64,
        ..Conditions::default()
    };
    config.assumed = match spec.assume_nothing {
        true => Conditions { mtu: configured.mtu, ..Conditions::default() },
        false => configured,
    };
    // Each sink must answer each message; the run decides how long to wait for that.
    config.targets.delivery_ratio = Some(0.999);
    config.lifetime = spec.lifetime_ns.map(Span::from_ns);
    config.below = HEADER_BYTES[usize::from(spec.address.is_ipv6())];
    if let Some(group) = spec.group {
        config.group = (group, spec.port_down).into();
    }
    if let InteractionPattern::Director(Some(fixed)) = spec.down {
        config.models = vec![model_id(fixed)?];
    }
    config.outside = outside::models(&carriers(spec)?);
    Ok(config)
}

/// The seed of this program's start: not secret, so that runs in virtual time are reproducible.
fn seed(address: IpAddr) -> Seed {
    Seed::reproducible(clock::now_ns()).child(number(address))
}

/// The director's identifier of a model, which has the same name.
fn model_id(model: DirectorModel) -> Result<ModelId, Error> {
    let found = ModelId::ALL.into_iter().find(|id| id.name() == model.text());
    let missing = || Error::protocol(&format!("use {model}"), "the director has no such model");
    found.ok_or_else(missing)
}

/// Carriers of the other protocol stacks in the spec.
fn carriers(spec: &InteractionSpec) -> Result<Vec<Arc<dyn StackFactory>>, Error> {
    let mut carriers: Vec<Arc<dyn StackFactory>> = Vec::new();
    let outside = spec.outside.iter().copied().map(model_id).collect::<Result<Vec<_>, _>>()?;
    if outside.iter().any(|model| *model != ModelId::Mqtt) {
        carriers.push(Arc::new(Zeromq::new(&outside)));
    }
    if let Some(broker) = spec.broker.filter(|_| outside.contains(&ModelId::Mqtt)) {
        carriers.push(Arc::new(Mqtt::new(&broker.to_string(), BROKER)));
    }
    Ok(carriers)
}

/// Opens the other protocol stacks of this side; `group` is the session's multicast group.
fn stacks(spec: &InteractionSpec, group: SocketAddr) -> Result<Stacks, Error> {
    let carriers = carriers(spec)?;
    if carriers.is_empty() {
        return Ok(Stacks::default());
    }
    let at = |address| SocketAddr::new(address, spec.port_up);
    let peers: Vec<SocketAddr> = spec.peers.iter().map(|peer| at(peer.address)).collect();
    let local = at(spec.address);
    let (hub, members) = match spec.role {
        Role::Source => (local, peers),
        Role::Sink => (peers[0], Vec::new()),
    };
    let (rate_bit_s, mtu) = (spec.multicast_rate_bit_s as f64, spec.mtu);
    let ends = Endpoints { local, hub, members, group, rate_bit_s, mtu };
    Stacks::open(&carriers, &ends).map_err(|error| {
        Error::protocol("open the director's other protocol stacks", error.to_string())
    })
}

/// Descriptors to poll, those of other stacks last.
fn descriptors(own: &[&UdpSocket], stacks: &Stacks) -> Vec<RawFd> {
    let others = stacks.descriptors().map(|fd| fd.as_raw_fd());
    own.iter().map(|socket| socket.as_raw_fd()).chain(others).collect()
}

/// The socket of this side's address.
fn unicast(spec: &InteractionSpec) -> Result<UdpSocket, Error> {
    let own = (spec.address, spec.port_down).into();
    socket::unicast(own, CapacityProfile::Default).map_err(failed)
}

fn failed(error: director::io::Error) -> Error {
    Error::protocol("open a socket for the director", error)
}

/// The source's side.
pub struct DirectorSource {
    hub: Hub,
    socket: UdpSocket,
    stacks: Stacks,
    peers: Vec<SocketAddr>,
    member_by_address: HashMap<IpAddr, u32>,
    group: SocketAddr,
    /// Upcoming changes of the fan-out: message number, and number of sinks from there on.
    fan_out: VecDeque<(u64, u64)>,
    to: Vec<u32>,
    sent: u64,
    answers: VecDeque<(usize, Vec<u8>)>,
    buffer: Vec<u8>,
    warning: Warning,
}

impl DirectorSource {
    /// Starts a session with all sinks.
    pub fn new(spec: &InteractionSpec) -> Result<Self, Error> {
        let config = config(spec)?;
        let (group, stacks) = (config.group, stacks(spec, config.group)?);
        let (seed, map) = (seed(spec.address), PerformanceMap::shipped());
        let hub = Hub::new(config, map, spec.peers.len(), &seed)
            .map_err(|error| Error::protocol("start the director's session", error.to_string()))?;
        let peers = spec.peers.iter();
        Ok(Self {
            hub,
            socket: unicast(spec)?,
            stacks,
            peers: peers.clone().map(|peer| (peer.address, spec.port_down).into()).collect(),
            member_by_address: peers
                .zip(0..)
                .map(|(peer, number)| (peer.address, number))
                .collect(),
            group,
            fan_out: spec.fan_out.iter().copied().collect(),
            to: (0..spec.peers.len() as u32).collect(),
            sent: 0,
            answers: VecDeque::new(),
            buffer: vec![0; 1 << 16],
            warning: Warning::default(),
        })
    }

    fn receive_all(&mut self) -> Result<(), Error> {
        for _ in 0..MAX_PER_TURN {
            let Some((length, from)) = receive(&self.socket, &mut self.buffer)? else { break };
            let member = self.member_by_address.get(&from.ip()).copied();
            self.hub.receive(&self.buffer[..length], member, clock::now());
        }
        for _ in 0..MAX_PER_TURN {
            let Some(frame) = self.stacks.receive() else { break };
            // Frames of other stacks do not come from a member's address of the spec.
            self.hub.receive(&frame, None, clock::now());
        }
        for event in self.hub.take_events() {
            match event {
                Event::Answer { member, bytes, .. } => {
                    self.answers.push_back((member as usize, bytes));
                }
                Event::ModelChange { from, to, .. } => {
                    crate::log!("the director switches from {from} to {to}");
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl SourceLink for DirectorSource {
    fn descriptors(&self) -> Result<Vec<RawFd>, Error> {
        Ok(descriptors(&[&self.socket], &self.stacks))
    }

    fn hello(&mut self) -> Result<(), Error> {
        // The hub invites members itself.
        Ok(())
    }

    fn greeted(&self) -> bool {
        self.hub.is_ready()
    }

    fn send(&mut self, _: Option<usize>, message: &[u8]) -> Result<(), Error> {
        while let Some((_, to)) = self.fan_out.pop_front_if(|(from, _)| *from <= self.sent) {
            self.to = (0..to as u32).collect();
        }
        self.sent += 1;
        let sent = self.hub.send_to(message, &self.to, clock::now());
        sent.map(drop).map_err(|error| {
            Error::protocol("send a message through the director", error.to_string())
        })
    }

    fn receive(&mut self, message: &mut Vec<u8>) -> Result<Option<usize>, Error> {
        if self.answers.is_empty() {
            self.receive_all()?;
        }
        let Some((member, answer)) = self.answers.pop_front() else { return Ok(None) };
        *message = answer;
        Ok(Some(member))
    }

    fn pending(&mut self) -> Result<bool, Error> {
        Ok(!self.answers.is_empty())
    }

    fn turn(&mut self) -> Result<Option<Instant>, Error> {
        self.receive_all()?;
        for _ in 0..MAX_PER_TURN {
            let (datagram, wake) = self.hub.poll(clock::now());
            let Some((to, bytes)) = datagram else { return Ok(wake) };
            let Some(bytes) = self.stacks.send(to, bytes) else { continue };
            let to = match to {
                To::Group => self.group,
                To::Member(member) => self.peers[member as usize],
                To::Hub => continue,
            };
            if let Err(error) = self.socket.send_to(&bytes, to) {
                self.warning.once(|| format!("could not send a datagram to {to}: {error}"));
            }
        }
        Ok(Some(clock::now()))
    }
}

/// A sink's side.
pub struct DirectorSink {
    member: Member,
    socket: UdpSocket,
    group_socket: UdpSocket,
    stacks: Stacks,
    hub: SocketAddr,
    group: SocketAddr,
    own: IpAddr,
    join_at: Instant,
    joined: bool,
    messages: VecDeque<(u64, Vec<u8>)>,
    /// Messages delivered to the sink that it has not answered.
    unanswered: VecDeque<u64>,
    buffer: Vec<u8>,
    warning: Warning,
}

impl DirectorSink {
    /// Waits for the source's session.
    pub fn new(spec: &InteractionSpec) -> Result<Self, Error> {
        let config = config(spec)?;
        let group = config.group;
        let member = Member::new(&config.security, config.below, &seed(spec.address))
            .map_err(|error| Error::protocol("join the director's session", error.to_string()))?
            .with_outside(&config.outside);
        Ok(Self {
            member,
            socket: unicast(spec)?,
            group_socket: socket::group(group, spec.address).map_err(failed)?,
            stacks: stacks(spec, config.group)?,
            hub: (spec.peers[0].address, spec.port_down).into(),
            group,
            own: spec.address,
            join_at: Instant::START,
            joined: false,
            messages: VecDeque::new(),
            unanswered: VecDeque::new(),
            buffer: vec![0; 1 << 16],
            warning: Warning::default(),
        })
    }

    fn receive_all(&mut self) -> Result<(), Error> {
        for _ in 0..MAX_PER_TURN {
            // A datagram to this sink alone can ask for what came by multicast before.
            let group = receive(&self.group_socket, &mut self.buffer)?;
            let received = match group {
                Some(received) => Some(received),
                None => receive(&self.socket, &mut self.buffer)?,
            };
            let Some((length, from)) = received else { break };
            if from == self.hub {
                let datagram = &self.buffer[..length];
                self.member.receive(datagram, clock::now());
                if group.is_none() && self.member.misses_multicast(datagram) {
                    self.rejoin();
                }
            }
        }
        for _ in 0..MAX_PER_TURN {
            let Some(frame) = self.stacks.receive() else { break };
            self.member.receive(&frame, clock::now());
        }
        for event in self.member.take_events() {
            match event {
                MemberEvent::Joined { .. } => self.joined = true,
                MemberEvent::Message { number, bytes } => self.messages.push_back((number, bytes)),
                MemberEvent::Outcome { .. }
                | MemberEvent::Published { .. }
                | MemberEvent::Stored { .. } => {}
            }
        }
        Ok(())
    }
}

impl DirectorSink {
    /// Leaves and rejoins the group: a multicast router or switch may have missed the first
    /// report.
    fn rejoin(&mut self) {
        let now = clock::now();
        if now >= self.join_at {
            self.join_at = now + JOIN_EVERY;
            socket::join_again(&self.group_socket, self.group, self.own);
        }
    }
}

impl SinkLink for DirectorSink {
    fn descriptors(&self) -> Result<Vec<RawFd>, Error> {
        Ok(descriptors(&[&self.socket, &self.group_socket], &self.stacks))
    }

    fn greet(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn greeted(&self) -> bool {
        self.joined
    }

    fn receive(&mut self, message: &mut Vec<u8>) -> Result<bool, Error> {
        if self.messages.is_empty() {
            self.receive_all()?;
        }
        let Some((number, bytes)) = self.messages.pop_front() else { return Ok(false) };
        self.unanswered.push_back(number);
        *message = bytes;
        Ok(true)
    }

    fn reply(&mut self, message: &[u8]) -> Result<bool, Error> {
        if let Some(number) = self.unanswered.pop_front()
            && let Err(error) = self.member.answer(number, message.to_vec(), clock::now())
        {
            self.warning.once(|| format!("could not send an answer: {error}"));
        }
        Ok(true)
    }

    fn pending(&mut self) -> Result<bool, Error> {
        Ok(!self.messages.is_empty())
    }

    fn turn(&mut self) -> Result<Option<Instant>, Error> {
        self.receive_all()?;
        for _ in 0..MAX_PER_TURN {
            let (datagram, wake) = self.member.poll(clock::now());
            let Some(bytes) = datagram else { return Ok(wake) };
            let Some(bytes) = self.stacks.send(To::Hub, bytes) else { continue };
            if let Err(error) = self.socket.send_to(&bytes, self.hub) {
                self.warning.once(|| format!("could not send a datagram to the hub: {error}"));
            }
        }
        Ok(Some(clock::now()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_director_has_each_model_of_experiments_and_no_other() {
        let ids = DirectorModel::WORDS.iter().map(|(_, model)| model_id(*model).unwrap());
        let ids: Vec<ModelId> = ids.collect();
        assert!(ModelId::ALL.iter().all(|id| ids.contains(id)));
        for (id, (_, model)) in ids.iter().zip(DirectorModel::WORDS) {
            assert_eq!(id.is_outside(), DirectorModel::OUTSIDE.contains(model), "{model}");
        }
    }
}
