//! ZeroMQ: ROUTER and DEALER, PUB and SUB over TCP, PUB and SUB over PGM, all in one thread.
//!
//! The hub listens at the three ports above the session's: ROUTER, PUB, and SUB for the answers of
//! subscribed members. Frames are addressed by the routing id of a DEALER or by the topic before
//! the frame: both contain the address by which the hub knows a member.

use super::channel::{self, Channel, Frame};
use super::{Endpoints, ExternalStack, StackFactory};
use crate::carrier::{self, To};
use crate::io::Error;
use crate::model::ModelId;
use stacks::zeromq::{self, Context, DONTWAIT, Limits, Multicast, POLLIN, PollItem, Socket};
use stacks::zeromq::{connect_to, context, listen_at};
use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
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
        let failed = |what: &str| {
            let what = what.to_owned();
            |source| Error::Socket { what, source }
        };
        let (ours, theirs) =
            channel::pair().map_err(failed("cannot open a channel to the ZeroMQ thread"))?;
        let worker = Worker::open(&self.models, ends, theirs)?;
        let thread = std::thread::Builder::new().name("zeromq".to_owned());
        thread.spawn(move || worker.run()).map_err(failed("cannot start the ZeroMQ thread"))?;
        Ok(Box::new(ours))
    }
}

/// Routing id and topic of a member.
fn name(member: SocketAddr) -> Vec<u8> {
    let address = match member.ip() {
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    // A session has addresses of one family, so no id is a prefix of another. None starts with a zero, which
    // ZeroMQ reserves.
    [&b"m"[..], &address, &member.port().to_be_bytes()].concat()
}

/// Limits of each socket: memory is bounded, and large messages of others are refused.
const LIMITS: Limits = Limits { queue: 4_096, linger_ms: 500, largest: Some(64 << 20) };

/// A socket opened for a model.
type Opened = Result<Socket, zeromq::Error>;

fn error(error: zeromq::Error) -> Error {
    let what = "ZeroMQ".to_owned();
    Error::Socket { what, source: io::Error::other(error) }
}

/// The address with a port `by` above the session's.
fn port_above(end: SocketAddr, by: u16) -> Result<SocketAddr, zeromq::Error> {
    let port = end.port().checked_add(by).ok_or_else(|| zeromq::Error::Address {
        operation: format!("use a port {by} above that of {end}"),
        source: io::ErrorKind::AddrNotAvailable.into(),
    })?;
    Ok(SocketAddr::new(end.ip(), port))
}

/// Whether the socket receives messages: publishers do not.
fn receives(socket: &Socket) -> bool {
    socket.raw().get_socket_type() != Ok(zeromq::PUB)
}

/// The last part of the next message; the parts before are addresses.
fn receive(socket: &Socket) -> Option<Vec<u8>> {
    socket.raw().recv_multipart(DONTWAIT).ok()?.pop()
}

/// Sends a message of these parts; `false` if no peer can take it now.
fn send(socket: &Socket, parts: &[&[u8]]) -> bool {
    socket.raw().send_multipart(parts.iter().copied(), DONTWAIT).is_ok()
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
    _context: Context,
}

impl Worker {
    fn open(models: &[ModelId], ends: &Endpoints, channel: Channel) -> Result<Self, Error> {
        Self::try_open(models, ends, channel).map_err(error)
    }

    fn try_open(
        models: &[ModelId],
        ends: &Endpoints,
        channel: Channel,
    ) -> Result<Self, zeromq::Error> {
        let context = context()?;
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
            let receiving = || sockets.into_iter().flatten().filter(|socket| receives(socket));
            for socket in receiving() {
                for _ in 0..TURN {
                    let Some(frame) = receive(socket) else { break };
                    // Ignore messages that do not belong to a session.
                    if carrier::model_of(&frame).is_some() {
                        self.channel.send((To::Hub, frame));
                    }
                }
            }
            let mut items = vec![PollItem::from_fd(channel, POLLIN)];
            items.extend(receiving().map(|socket| socket.raw().as_poll_item(POLLIN)));
            let timeout = if self.waiting.is_empty() { 1_000 } else { TRY_EVERY };
            if zeromq::poll(&mut items, timeout).is_err() {
                // An error that lasts must not keep a CPU busy.
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
            To::Hub => send(socket, &[frame]),
            // Router and dealer have no group: their transport sends to each member.
            To::Group => direct || send(socket, &[ALL, frame]),
            To::Member(member) => {
                let name = self.names.get(*member as usize);
                name.is_none_or(|name| send(socket, &[name, frame]))
            }
        }
    }
}

/// A socket of this kind, bound or connected to the hub's port `by` above the session's: the hub
/// binds.
fn attached(mut socket: Socket, ends: &Endpoints, by: u16) -> Opened {
    let at = port_above(ends.hub, by)?;
    match ends.is_hub() {
        true => socket.bind(&listen_at(at))?,
        false => socket.connect(&connect_to(ends.local.ip(), at))?,
    }
    Ok(socket)
}

fn direct(context: &Context, ends: &Endpoints) -> Opened {
    let kind = if ends.is_hub() { zeromq::ROUTER } else { zeromq::DEALER };
    let mut socket = Socket::new(context, kind, LIMITS)?;
    if ends.is_hub() {
        // Report frames for unconnected peers as errors, and let a reconnecting peer take over
        // its routing id.
        socket.set(zeromq::ROUTER_MANDATORY, 1, "set ZMQ_ROUTER_MANDATORY")?;
        socket.set(zeromq::ROUTER_HANDOVER, 1, "set ZMQ_ROUTER_HANDOVER")?;
    } else {
        socket.set_name(&name(ends.local))?;
    }
    attached(socket, ends, 1)
}

/// A publisher at the hub, a subscriber at members.
fn publisher(context: &Context, ends: &Endpoints) -> Opened {
    if ends.is_hub() {
        return Socket::new(context, zeromq::PUB, LIMITS);
    }
    let mut subscriber = Socket::new(context, zeromq::SUB, LIMITS)?;
    subscriber.subscribe(ALL)?;
    subscriber.subscribe(&name(ends.local))?;
    Ok(subscriber)
}

fn published(context: &Context, ends: &Endpoints) -> Opened {
    attached(publisher(context, ends)?, ends, 2)
}

fn multicast(context: &Context, ends: &Endpoints) -> Opened {
    let mut socket = publisher(context, ends)?;
    let group = Multicast {
        from: ends.local.ip(),
        group: port_above(ends.group, 1)?,
        rate_kbit_s: (ends.rate_bit_s / 1e3).max(1.0) as u64,
        mtu: ends.mtu,
    };
    group.connect(&mut socket)?;
    Ok(socket)
}

fn answers(context: &Context, ends: &Endpoints) -> Opened {
    let kind = if ends.is_hub() { zeromq::SUB } else { zeromq::PUB };
    let mut socket = Socket::new(context, kind, LIMITS)?;
    if ends.is_hub() {
        socket.subscribe(b"")?;
    }
    attached(socket, ends, 3)
}
