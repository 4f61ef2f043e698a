//! A hub's session on sockets.

use super::outside::{Endpoints, Readiness, StackFactory, Stacks};
use super::path::Paths;
use super::{AT_ONCE, Clock, Error, LONGEST, random, session_number, socket};
use crate::carrier::To;
use crate::map::PerformanceMap;
use crate::session::{Config, Event, Explanation, Hub, SessionError};
use crate::switch::{MemberId, MessageId};
use crate::{ModelId, Nanos};
use std::collections::{BTreeMap, HashMap};
use std::net::{SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep_until, timeout};

/// Minimum interval of path MTU queries to the system, in ns.
const LOOK_EVERY: Nanos = 1_000_000_000;

/// Responses to a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Collected {
    /// The answers; empty ones if members only acknowledge.
    pub answers: BTreeMap<MemberId, Vec<u8>>,
    /// Members that have not answered by the deadline.
    pub lacking: Vec<MemberId>,
}

enum Command {
    Send(Vec<u8>, Option<Vec<MemberId>>, oneshot::Sender<Result<Collected, SessionError>>),
    Explain(oneshot::Sender<Explanation>),
    Ready(oneshot::Sender<()>),
    Use(ModelId),
}

/// A session, from its hub. It ends when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Session {
    commands: mpsc::UnboundedSender<Command>,
}

impl Session {
    /// Starts a session at `local` with members at these addresses.
    pub(super) fn open(
        mut config: Config,
        map: Arc<PerformanceMap>,
        local: SocketAddrV4,
        members: &[SocketAddrV4],
        factories: &[Arc<dyn StackFactory>],
    ) -> Result<Self, Error> {
        let paths = Paths::new(local, members);
        if let Some(mtu) = paths.mtu() {
            config.assumed.mtu = config.assumed.mtu.min(mtu.into());
        }
        let ends = Endpoints {
            local,
            hub: local,
            members: members.to_vec(),
            group: config.group,
            rate_bit_s: config.assumed.rate_bit_s,
            mtu: config.assumed.mtu as u16,
        };
        let group = SocketAddr::V4(config.group);
        let hub = Hub::new(config, map, members.len(), session_number(), random()?)?;
        let addresses: Vec<SocketAddr> = members.iter().copied().map(SocketAddr::V4).collect();
        let numbers = addresses.iter().copied().zip(0..).collect();
        let (commands, receiver) = mpsc::unbounded_channel();
        let stacks = Stacks::open(factories, &ends)?;
        let driver = Driver {
            hub,
            socket: socket::unicast(local)?,
            woken: Readiness::of(&stacks)?,
            stacks,
            group,
            addresses,
            numbers,
            clock: Clock::start(),
            paths,
            look_at: LOOK_EVERY,
            waiting: HashMap::new(),
            ready: Vec::new(),
        };
        tokio::spawn(driver.run(receiver));
        Ok(Self { commands })
    }

    /// Waits until all members have joined; `false` on timeout.
    pub async fn ready(&self, patience: Duration) -> bool {
        let (reply, receiver) = oneshot::channel();
        let _ = self.commands.send(Command::Ready(reply));
        matches!(timeout(patience, receiver).await, Ok(Ok(())))
    }

    /// Sends a message to all members and waits for their answers or acknowledgements, until all
    /// have responded or the deadline has passed.
    ///
    /// # Errors
    /// [`SessionError`] if no model can carry the message, or the session is over.
    pub async fn collect(&self, message: &[u8]) -> Result<Collected, SessionError> {
        self.send(message, None).await
    }

    /// Sends a message to one member and waits for its answer; `None` if there is none by the
    /// deadline.
    ///
    /// # Errors
    /// [`SessionError`] if no model can carry the message, or the session is over.
    pub async fn request(
        &self,
        member: MemberId,
        message: &[u8],
    ) -> Result<Option<Vec<u8>>, SessionError> {
        let collected = self.send(message, Some(vec![member])).await?;
        Ok(collected.answers.into_values().next())
    }

    async fn send(
        &self,
        message: &[u8],
        to: Option<Vec<MemberId>>,
    ) -> Result<Collected, SessionError> {
        let (reply, receiver) = oneshot::channel();
        let command = Command::Send(message.to_vec(), to, reply);
        self.commands.send(command).map_err(|_| SessionError::Over)?;
        receiver.await.map_err(|_| SessionError::Over)?
    }

    /// Explains which model the session uses and why; `None` if the session is over.
    pub async fn explain(&self) -> Option<Explanation> {
        let (reply, receiver) = oneshot::channel();
        self.commands.send(Command::Explain(reply)).ok()?;
        receiver.await.ok()
    }

    /// Changes to a model regardless of the map.
    pub fn use_model(&self, model: ModelId) {
        let _ = self.commands.send(Command::Use(model));
    }
}

/// A message with a waiting sender.
struct Waiting {
    collected: Collected,
    reply: oneshot::Sender<Result<Collected, SessionError>>,
}

struct Driver {
    hub: Hub,
    socket: UdpSocket,
    stacks: Stacks,
    woken: Readiness,
    group: SocketAddr,
    addresses: Vec<SocketAddr>,
    numbers: HashMap<SocketAddr, MemberId>,
    clock: Clock,
    paths: Paths,
    look_at: Nanos,
    waiting: HashMap<MessageId, Waiting>,
    ready: Vec<oneshot::Sender<()>>,
}

impl Driver {
    async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        let mut buffer = vec![0; LONGEST];
        loop {
            let wake = self.turn().await;
            tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => self.execute(command),
                    None => return,
                },
                received = self.socket.recv_from(&mut buffer) => {
                    if let Ok((length, from)) = received {
                        self.receive(&buffer[..length], from);
                    }
                    // Receive the other queued datagrams.
                    for _ in 1..AT_ONCE {
                        let Ok((length, from)) = self.socket.try_recv_from(&mut buffer) else { break };
                        self.receive(&buffer[..length], from);
                    }
                }
                () = self.woken.woken() => {
                    while let Some(frame) = self.stacks.receive() {
                        self.hub.receive(&frame, None, self.clock.now());
                    }
                }
                () = sleep_until(self.clock.until(wake)) => {}
            }
        }
    }

    fn receive(&mut self, datagram: &[u8], from: SocketAddr) {
        let member = self.numbers.get(&from).copied();
        self.hub.receive(datagram, member, self.clock.now());
    }

    fn execute(&mut self, command: Command) {
        let now = self.clock.now();
        match command {
            Command::Send(bytes, to, reply) => {
                if now >= self.look_at {
                    self.look_at = now + LOOK_EVERY;
                    self.paths.look();
                    self.hub.packets(self.paths.mtu(), now);
                }
                let sent = match to {
                    Some(to) => self.hub.send_to(&bytes, &to, now),
                    None => self.hub.send(&bytes, now),
                };
                match sent {
                    Ok(number) => {
                        let waiting = Waiting { collected: Collected::default(), reply };
                        self.waiting.insert(number, waiting);
                    }
                    Err(error) => drop(reply.send(Err(error))),
                }
            }
            Command::Explain(reply) => drop(reply.send(self.hub.explain())),
            Command::Ready(reply) => self.ready.push(reply),
            Command::Use(model) => drop(self.hub.force(model, now)),
        }
    }

    /// Sends due datagrams and reports events; returns the time of the next turn.
    async fn turn(&mut self) -> Option<Nanos> {
        let mut wake = None;
        for _ in 0..AT_ONCE {
            let (datagram, look) = self.hub.poll(self.clock.now());
            wake = look;
            let Some((to, bytes)) = datagram else { break };
            let Some(bytes) = self.stacks.send(to, bytes) else { continue };
            let to = match to {
                To::Group => Some(self.group),
                To::Member(member) => self.addresses.get(member as usize).copied(),
                To::Hub => None,
            };
            if let Some(to) = to {
                // A failed send counts as a loss on the path.
                let _ = self.socket.send_to(&bytes, to).await;
            }
        }
        for event in self.hub.take_events() {
            self.handle_event(event);
        }
        if self.hub.is_ready() {
            for reply in self.ready.drain(..) {
                let _ = reply.send(());
            }
        }
        wake
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::Answer { message, member, bytes } => {
                if let Some(waiting) = self.waiting.get_mut(&message) {
                    waiting.collected.answers.insert(member, bytes);
                }
            }
            Event::Acknowledged { message, member } => {
                if let Some(waiting) = self.waiting.get_mut(&message) {
                    waiting.collected.answers.insert(member, Vec::new());
                }
            }
            Event::Over { message, lacking } => {
                if let Some(mut waiting) = self.waiting.remove(&message) {
                    waiting.collected.lacking = lacking;
                    let _ = waiting.reply.send(Ok(waiting.collected));
                }
            }
            Event::Joined(_) | Event::ModelChange { .. } => {}
        }
    }
}
