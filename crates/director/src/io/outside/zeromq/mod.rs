//! ZeroMQ: ROUTER and DEALER, PUB and SUB over TCP, PUB and SUB over PGM, each in the thread
//! that all of them have together.
//!
//! The hub listens, at three ports behind the session's: ROUTER, PUB, and SUB for what members
//! that are published to answer. Whom a frame is for, the name of a DEALER says, or the topic
//! before it: the address by which the hub knows a member.

mod socket;

use self::socket::{Socket, wrong};
use super::line::{self, Frame, Line};
use super::{Ends, Outside, Way};
use crate::carrier::{self, To};
use crate::io::Error;
use crate::model::ModelId;
use std::collections::VecDeque;
use std::net::SocketAddrV4;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

/// The topic of what is for all. Names of members begin otherwise.
const ALL: &[u8] = b"all";
/// Frames for whoever is not connected wait so long: it may be coming back.
const KEEP: Duration = Duration::from_secs(1);
/// How often it is tried, in ms, and how many wait at most.
const TRY_EVERY: i64 = 20;
const MOST_WAITING: usize = 1_024;
/// Frames of one socket in one turn.
const TURN: usize = 64;

/// ZeroMQ as a way for these of its models.
#[derive(Debug, Clone)]
pub struct Zeromq {
    models: Vec<ModelId>,
}

impl Zeromq {
    /// Those of `models` that it can carry: all but `mqtt` of those of other stacks. PGM needs
    /// a libzmq that has it, and at members the group that the hub says.
    pub fn new(models: &[ModelId]) -> Self {
        let own = |model: &ModelId| model.is_outside() && *model != ModelId::Mqtt;
        Self { models: models.iter().copied().filter(own).collect() }
    }
}

impl Way for Zeromq {
    fn models(&self) -> Vec<ModelId> {
        self.models.clone()
    }

    fn open(&self, ends: &Ends) -> Result<Box<dyn Outside>, Error> {
        let (ours, theirs) = line::pair().map_err(wrong("a line to ZeroMQ's thread"))?;
        let desk = Desk::open(&self.models, ends, theirs)?;
        let thread = std::thread::Builder::new().name("zeromq".to_owned());
        thread.spawn(move || desk.run()).map_err(wrong("a thread for ZeroMQ"))?;
        Ok(Box::new(Own(ours)))
    }
}

/// The end of the session's loop.
struct Own(Line);

impl Outside for Own {
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

/// What a member is called.
fn name(member: SocketAddrV4) -> Vec<u8> {
    // Neither another's beginning, nor with a zero in front, which ZeroMQ keeps for itself.
    [&b"m"[..], &member.ip().octets(), &member.port().to_be_bytes()].concat()
}

/// Opens a socket for a model.
type Opened = Result<Socket, Error>;

/// A port behind the session's.
fn behind(end: SocketAddrV4, by: u16) -> Result<String, Error> {
    let none = || wrong(format!("a port {by} behind that of {end}"))(socket::unusable());
    let port = end.port().checked_add(by).ok_or_else(none)?;
    Ok(format!("{}:{port}", end.ip()))
}

/// The thread's.
struct Desk {
    line: Line,
    /// What members are called, at the hub.
    names: Vec<Vec<u8>>,
    /// ROUTER or DEALER.
    direct: Option<Socket>,
    /// PUB at the hub, SUB at members; over TCP and over PGM.
    published: Option<Socket>,
    multicast: Option<Socket>,
    /// SUB at the hub, PUB at members.
    answers: Option<Socket>,
    /// For whoever is not connected, and since when.
    waiting: VecDeque<(Instant, Frame)>,
    /// Dropped after its sockets.
    _context: zmq::Context,
}

impl Desk {
    fn open(models: &[ModelId], ends: &Ends, line: Line) -> Result<Self, Error> {
        let context = zmq::Context::new();
        let has = |model| models.contains(&model);
        let (tcp, pgm) = (has(ModelId::TcpPublishSubscribe), has(ModelId::PgmPublishSubscribe));
        Ok(Self {
            line,
            names: ends.members.iter().map(|member| name(*member)).collect(),
            direct: has(ModelId::TcpRouterDealer).then(|| direct(&context, ends)).transpose()?,
            published: tcp.then(|| published(&context, ends)).transpose()?,
            multicast: pgm.then(|| multicast(&context, ends)).transpose()?,
            answers: (tcp || pgm).then(|| answers(&context, ends)).transpose()?,
            waiting: VecDeque::new(),
            _context: context,
        })
    }

    /// Until the session's loop is gone.
    fn run(mut self) {
        let line = self.line.as_fd().as_raw_fd();
        loop {
            for _ in 0..TURN {
                match self.line.receive() {
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
                    // Whatever else strangers send is of no session.
                    if carrier::model_of(&frame).is_some() {
                        self.line.send((To::Hub, frame));
                    }
                }
            }
            let mut items = vec![zmq::PollItem::from_fd(line, zmq::POLLIN)];
            items.extend(sockets.into_iter().flatten().filter_map(Socket::item));
            let timeout = if self.waiting.is_empty() { 1_000 } else { TRY_EVERY };
            if zmq::poll(&mut items, timeout).is_err() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    fn send(&mut self, frame: Frame) {
        if !self.goes(&frame) {
            if self.waiting.len() >= MOST_WAITING {
                self.waiting.pop_front();
            }
            self.waiting.push_back((Instant::now(), frame));
        }
    }

    fn try_again(&mut self) {
        for (since, frame) in std::mem::take(&mut self.waiting) {
            if since.elapsed() < KEEP && !self.goes(&frame) {
                self.waiting.push_back((since, frame));
            }
        }
    }

    /// Whether a frame has gone, or never can.
    fn goes(&self, (to, frame): &Frame) -> bool {
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

fn direct(context: &zmq::Context, ends: &Ends) -> Opened {
    let at = behind(ends.hub, 1)?;
    if ends.is_hub() {
        let mut router = Socket::new(context, zmq::ROUTER)?;
        // A frame for whoever is not connected is to come back, and whoever connects anew gets
        // its name back.
        router.set(zmq_sys::ZMQ_ROUTER_MANDATORY, 1)?;
        router.set(zmq_sys::ZMQ_ROUTER_HANDOVER, 1)?;
        return router.bind(&at);
    }
    let mut dealer = Socket::new(context, zmq::DEALER)?;
    dealer.name(&name(ends.local))?;
    dealer.connect(ends, &at)
}

fn published(context: &zmq::Context, ends: &Ends) -> Opened {
    let at = behind(ends.hub, 2)?;
    match ends.is_hub() {
        true => Socket::new(context, zmq::PUB)?.bind(&at),
        false => subscriber(context, ends)?.connect(ends, &at),
    }
}

fn multicast(context: &zmq::Context, ends: &Ends) -> Opened {
    let socket = match ends.is_hub() {
        true => Socket::new(context, zmq::PUB)?,
        false => subscriber(context, ends)?,
    };
    socket.multicast(ends, &behind(ends.group, 1)?)
}

fn answers(context: &zmq::Context, ends: &Ends) -> Opened {
    let at = behind(ends.hub, 3)?;
    if !ends.is_hub() {
        return Socket::new(context, zmq::PUB)?.connect(ends, &at);
    }
    let mut hears = Socket::new(context, zmq::SUB)?;
    hears.subscribe(b"")?;
    hears.bind(&at)
}

fn subscriber(context: &zmq::Context, ends: &Ends) -> Opened {
    let mut subscriber = Socket::new(context, zmq::SUB)?;
    subscriber.subscribe(ALL)?;
    subscriber.subscribe(&name(ends.local))?;
    Ok(subscriber)
}
