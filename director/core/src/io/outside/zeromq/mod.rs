//! ZeroMQ: ROUTER and DEALER, PUB and SUB over TCP, PUB and SUB over PGM, all in one thread.
//!
//! The hub listens at the three ports above the session's: ROUTER, PUB, and SUB for the answers of
//! subscribed members. Frames are addressed by the routing id of a DEALER or by the topic before
//! the frame: both contain the address by which the hub knows a member.

mod socket;

use self::socket::{Socket, socket_error};
use super::channel::{self, Channel, Frame};
use super::{Endpoints, ExternalStack, StackFactory};
use crate::carrier::{self, To};
use crate::io::Error;
use crate::model::ModelId;
use std::collections::VecDeque;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

/// Topic for all members. Topics of single members start with another letter.
const ALL: &[u8] = b"all";
/// Time that frames for an unconnected peer are kept: it may reconnect.
const KEEP: Duration = Duration::from_secs(1);
/// Retry interval in ms, and maximum number of such frames.
const TRY_EVERY: i64 = 20;
const MAX_WAITING: usize = 1_024;
/// Maximum frames per socket and turn.
const TURN: usize = 64;

/// ZeroMQ, as a stack for some of its models.
#[derive(Debug, Clone)]
pub struct Zeromq {
    models: Vec<ModelId>,
}

impl Zeromq {
    /// Carries those of `models` that use ZeroMQ. PGM needs a libzmq with PGM support, and
    /// members must be configured with the hub's multicast group.
    pub fn new(models: &[ModelId]) -> Self {
        let own = |model: &ModelId| model.is_outside() && *model != ModelId::Mqtt;
        Self { models: models.iter().copied().filter(own).collect() }
    }
}

impl StackFactory for Zeromq {
    fn models(&self) -> Vec<ModelId> {
        self.models.clone()
    }

    fn open(&self, ends: &Endpoints) -> Result<Box<dyn ExternalStack>, Error> {
        let (ours, theirs) =
            channel::pair().map_err(socket_error("cannot open a channel to the ZeroMQ thread"))?;
        let worker = Worker::open(&self.models, ends, theirs)?;
        let thread = std::thread::Builder::new().name("zeromq".to_owned());
        thread
            .spawn(move || worker.run())
            .map_err(socket_error("cannot start the ZeroMQ thread"))?;
        Ok(Box::new(Handle(ours)))
    }
}

/// The session's end.
struct Handle(Channel);

impl ExternalStack for Handle {
    fn send(&mut self, to: To, frame: Vec<u8>) {
        self.0.send((to, frame));
    }

    fn receive(&mut self) -> Option<Vec<u8>> {
        self.0.receive().ok().flatten().map(|(_, frame)| frame)
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Routing id and topic of a member.
fn name(member: SocketAddrV4) -> Vec<u8> {
    // No id is a prefix of another, or starts with a zero, which ZeroMQ reserves.
    [&b"m"[..], &member.ip().octets(), &member.port().to_be_bytes()].concat()
}

/// A socket opened for a model.
type Opened = Result<Socket, Error>;

/// The address with a port `by` above the session's.
fn port_above(end: SocketAddrV4, by: u16) -> Result<String, Error> {
    let none = || socket_error(format!("no port {by} above that of {end}"))(socket::unusable());
    let port = end.port().checked_add(by).ok_or_else(none)?;
    Ok(format!("{}:{port}", end.ip()))
}

/// State of the ZeroMQ thread.
struct Worker {
    channel: Channel,
    /// Names of the members, at the hub.
    names: Vec<Vec<u8>>,
    /// ROUTER or DEALER.
    direct: Option<Socket>,
    /// PUB at the hub, SUB at members: over TCP and over PGM.
    published: Option<Socket>,
    multicast: Option<Socket>,
    /// SUB at the hub, PUB at members.
    answers: Option<Socket>,
    /// Frames for unconnected peers, with their queueing time.
    waiting: VecDeque<(Instant, Frame)>,
    /// Dropped after its sockets.
    _context: zmq::Context,
}

impl Worker {
    fn open(models: &[ModelId], ends: &Endpoints, channel: Channel) -> Result<Self, Error> {
        let context = zmq::Context::new();
        let has = |model| models.contains(&model);
        let (tcp, pgm) = (has(ModelId::TcpPublishSubscribe), has(ModelId::PgmPublishSubscribe));
        Ok(Self {
            channel,
            names: ends.members.iter().map(|member| name(*member)).collect(),
            direct: has(ModelId::TcpRouterDealer).then(|| direct(&context, ends)).transpose()?,
            published: tcp.then(|| published(&context, ends)).transpose()?,
            multicast: pgm.then(|| multicast(&context, ends)).transpose()?,
            answers: (tcp || pgm).then(|| answers(&context, ends)).transpose()?,
            waiting: VecDeque::new(),
            _context: context,
        })
    }

    /// Runs until the session's end is gone.
    fn run(mut self) {
        let channel = self.channel.as_fd().as_raw_fd();
        loop {
            for _ in 0..TURN {
                match self.channel.receive() {
                    Ok(Some(frame)) => self.send(frame),
                    Ok(None) => break,
                    Err(_) => return,
                }
            }
            self.try_again();
            let sockets = [&self.direct, &self.published, &self.multicast, &self.answers];
            for socket in sockets.into_iter().flatten() {
                for _ in 0..TURN {
                    let Some(frame) = socket.receive() else { break };
                    // Ignore messages that do not belong to a session.
                    if carrier::model_of(&frame).is_some() {
                        self.channel.send((To::Hub, frame));
                    }
                }
            }
            let mut items = vec![zmq::PollItem::from_fd(channel, zmq::POLLIN)];
            items.extend(sockets.into_iter().flatten().filter_map(Socket::item));
            let timeout = if self.waiting.is_empty() { 1_000 } else { TRY_EVERY };
            if zmq::poll(&mut items, timeout).is_err() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    fn send(&mut self, frame: Frame) {
        if !self.try_send(&frame) {
            if self.waiting.len() >= MAX_WAITING {
                self.waiting.pop_front();
            }
            self.waiting.push_back((Instant::now(), frame));
        }
    }

    fn try_again(&mut self) {
        for (since, frame) in std::mem::take(&mut self.waiting) {
            if since.elapsed() < KEEP && !self.try_send(&frame) {
                self.waiting.push_back((since, frame));
            }
        }
    }

    /// Sends a frame; `false` if it has to be retried.
    fn try_send(&self, (to, frame): &Frame) -> bool {
        let model = carrier::model_of(frame);
        let direct = model == Some(ModelId::TcpRouterDealer);
        let socket = match (to, model) {
            (To::Hub, _) if !direct => &self.answers,
            (_, Some(ModelId::TcpPublishSubscribe)) => &self.published,
            (_, Some(ModelId::PgmPublishSubscribe)) => &self.multicast,
            _ => &self.direct,
        };
        let Some(socket) = socket else { return true };
        match to {
            To::Hub => socket.send(&[frame]),
            To::Group => direct || socket.send(&[ALL, frame]),
            To::Member(member) => {
                let name = self.names.get(*member as usize);
                name.is_none_or(|name| socket.send(&[name, frame]))
            }
        }
    }
}

fn direct(context: &zmq::Context, ends: &Endpoints) -> Opened {
    let at = port_above(ends.hub, 1)?;
    if ends.is_hub() {
        let mut router = Socket::new(context, zmq::ROUTER)?;
        // Report frames for unconnected peers as errors, and let a reconnecting peer take over
        // its routing id.
        router.set(zmq_sys::ZMQ_ROUTER_MANDATORY, 1)?;
        router.set(zmq_sys::ZMQ_ROUTER_HANDOVER, 1)?;
        return router.bind(&at);
    }
    let mut dealer = Socket::new(context, zmq::DEALER)?;
    dealer.name(&name(ends.local))?;
    dealer.connect(ends, &at)
}

fn published(context: &zmq::Context, ends: &Endpoints) -> Opened {
    let at = port_above(ends.hub, 2)?;
    match ends.is_hub() {
        true => Socket::new(context, zmq::PUB)?.bind(&at),
        false => subscriber(context, ends)?.connect(ends, &at),
    }
}

fn multicast(context: &zmq::Context, ends: &Endpoints) -> Opened {
    let socket = match ends.is_hub() {
        true => Socket::new(context, zmq::PUB)?,
        false => subscriber(context, ends)?,
    };
    socket.multicast(ends, &port_above(ends.group, 1)?)
}

fn answers(context: &zmq::Context, ends: &Endpoints) -> Opened {
    let at = port_above(ends.hub, 3)?;
    if !ends.is_hub() {
        return Socket::new(context, zmq::PUB)?.connect(ends, &at);
    }
    let mut subscriber = Socket::new(context, zmq::SUB)?;
    subscriber.subscribe(b"")?;
    subscriber.bind(&at)
}

fn subscriber(context: &zmq::Context, ends: &Endpoints) -> Opened {
    let mut subscriber = Socket::new(context, zmq::SUB)?;
    subscriber.subscribe(ALL)?;
    subscriber.subscribe(&name(ends.local))?;
    Ok(subscriber)
}
