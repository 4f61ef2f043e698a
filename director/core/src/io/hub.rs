//! A hub's session on sockets.

use super::batch::{Arrival, Batch, Outbox};
use super::command::{Collected, Command, Reply, Sending};
use super::inbox::{self, Inbox, Incoming};
use super::outside::{Endpoints, Readiness, StackFactory, Stacks};
use super::path::Paths;
use super::resolver::Announcement;
use super::sending::{Former, Sendings};
use super::waiting::{Gathering, Waiting};
use super::warning::Warnings;
use super::writer::Folder;
use super::{AT_ONCE, Clock, Error, family, outside_rate, socket};
use crate::carrier::To;
use crate::map::PerformanceMap;
use crate::rng::Seed;
use crate::session::{Config, Event, Explanation, Hub};
use crate::switch::MemberId;
use crate::{Instant, ModelId, Span};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep_until, timeout};

/// Minimum interval of path MTU queries to the system.
const LOOK_EVERY: Span = Span::from_s(1);

/// A session, from its hub. It ends when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Session {
    pub(super) commands: mpsc::UnboundedSender<Command>,
    /// Until the application takes it.
    inbox: Arc<Mutex<Option<Inbox>>>,
    /// Lasts as long as the session.
    pub(super) _announcement: Option<Arc<Announcement>>,
    /// Stored messages of former starts.
    pub(super) former: Arc<Mutex<Former>>,
}

impl Session {
    /// Starts a session at `local` with members at these addresses.
    pub(super) fn open(
        mut config: Config,
        map: Arc<PerformanceMap>,
        local: SocketAddr,
        members: &[SocketAddr],
        factories: &[Arc<dyn StackFactory>],
        warnings: Warnings,
        folder: Option<&Folder>,
    ) -> Result<Self, Error> {
        family::adapt(&mut config, local, members)?;
        let paths = Paths::new(local, members);
        if let Some(mtu) = paths.mtu() {
            config.assumed.mtu = config.assumed.mtu.min(mtu.into());
        }
        let ends = Endpoints {
            local: family::plain(local),
            hub: family::plain(local),
            members: members.iter().copied().map(family::plain).collect(),
            group: family::plain(config.group),
            rate_bit_s: outside_rate(&config),
            mtu: config.assumed.mtu as u16,
        };
        let (group, profile) = (config.group, config.properties.conn_capacity_profile);
        let mut hub = Hub::new(config, map, members.len(), &Seed::from_system()?)?;
        let numbers = members.iter().copied().zip(0..).collect();
        let addresses = (0..).zip(members.iter().copied()).collect();
        let (commands, receiver) = mpsc::unbounded_channel();
        let (incoming, inbox) = mpsc::channel(inbox::ROOM);
        if !factories.is_empty() {
            family::check_outside(local)?;
        }
        let stacks = Stacks::open(factories, &ends)?;
        let mut clock = Clock::start();
        let (sendings, former) = Sendings::open(folder, &mut hub, clock.now(), &commands)?;
        let driver = Driver {
            hub,
            socket: socket::driven(socket::unicast(local, profile)?)?,
            outbox: Outbox::default(),
            woken: Readiness::of(&stacks)?,
            stacks,
            group,
            addresses,
            numbers,
            clock,
            paths,
            look_at: Instant::START + LOOK_EVERY,
            waiting: Waiting::default(),
            gathering: Gathering::default(),
            commands: commands.downgrade(),
            incoming,
            warnings,
            sendings,
        };
        tokio::spawn(driver.run(receiver));
        let (inbox, former) = (Mutex::new(Some(Inbox(inbox))), Mutex::new(former));
        let (inbox, former) = (Arc::new(inbox), Arc::new(former));
        Ok(Self { commands, inbox, _announcement: None, former })
    }

    /// Waits until all members have joined; `false` on timeout.
    pub async fn ready(&self, patience: Duration) -> bool {
        let (reply, receiver) = oneshot::channel();
        let _ = self.commands.send(Command::Ready(reply));
        matches!(timeout(patience, receiver).await, Ok(Ok(())))
    }

    /// The messages that members send at any time; once, `None` after that. Until the application
    /// takes them, 1,024 messages wait; further ones are refused.
    pub fn inbox(&self) -> Option<Inbox> {
        self.inbox.lock().ok()?.take()
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

struct Driver {
    hub: Hub,
    socket: UdpSocket,
    outbox: Outbox,
    stacks: Stacks,
    woken: Readiness,
    group: SocketAddr,
    addresses: HashMap<MemberId, SocketAddr>,
    numbers: HashMap<SocketAddr, MemberId>,
    clock: Clock,
    paths: Paths,
    look_at: Instant,
    waiting: Waiting,
    gathering: Gathering,
    /// Does not keep the session alive.
    commands: mpsc::WeakUnboundedSender<Command>,
    incoming: mpsc::Sender<Incoming>,
    warnings: Warnings,
    sendings: Sendings,
}

impl Driver {
    async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        loop {
            let Some(wake) = self.turn().await else { return };
            tokio::select! {
                command = commands.recv() => {
                    let Some(command) = command else { return };
                    self.execute(command).await;
                    for _ in 1..AT_ONCE {
                        let Ok(command) = commands.try_recv() else { break };
                        self.execute(command).await;
                    }
                }
                // The next turn receives.
                _ = self.socket.readable() => {}
                () = self.woken.woken() => {
                    while let Some(frame) = self.stacks.receive() {
                        self.hub.receive(&frame, None, self.clock.now());
                    }
                }
                () = sleep_until(self.clock.until(wake)) => {}
            }
        }
    }

    fn receive(&mut self, Arrival { bytes, from, waited }: Arrival<'_>, now: Instant) {
        let member = self.numbers.get(&from).copied();
        self.hub.receive(bytes, member, self.clock.arrival(now - waited));
        for reply in self.hub.take_replies() {
            // As any other datagram, it may be lost.
            let _ = self.socket.try_send_to(&reply, from);
        }
        if self.hub.take_refused() {
            self.warnings.refused(from, member.is_some(), now);
        }
        if let Some(fresh) = self.hub.take_fresh()
            && member != Some(fresh)
        {
            self.move_to(fresh, from);
        }
    }

    /// A member has another address than before, for example behind a NAT that has forgotten the
    /// old one: something that it has not sent before, with its keys, came from there.
    fn move_to(&mut self, member: MemberId, to: SocketAddr) {
        if let Some(before) = self.addresses.insert(member, to) {
            self.numbers.remove(&before);
        }
        self.paths.set(member, to);
        // The address was another member's before.
        if let Some(other) = self.numbers.insert(to, member) {
            self.addresses.remove(&other);
        }
    }

    async fn execute(&mut self, command: Command) {
        let now = self.clock.now();
        match command {
            Command::Send(sending, reply) => self.send(sending, reply, now),
            Command::Store(message) => {
                self.look(now);
                self.sendings.begin(message, &mut self.hub, now).await;
            }
            Command::Reported(id) => self.sendings.writer.report(id),
            Command::Publish(topic, bytes, reply) => self.publish(&topic, &bytes, reply, now),
            Command::Explain(reply) => drop(reply.send(self.hub.explain())),
            Command::Ready(reply) => self.gathering.add(reply),
            Command::Use(model) => drop(self.hub.force(model, now)),
            Command::Revoke(member, reply) => {
                let _ = reply.send(self.hub.revoke(member, now));
            }
            Command::Admit(member, key, reply) => {
                let _ = reply.send(self.hub.admit(member, &key, now));
            }
            Command::Members(reply) => drop(reply.send(self.hub.present())),
            Command::Present(reply) => {
                let at = |member| (member, self.addresses.get(&member).copied());
                drop(reply.send(self.hub.present().into_iter().map(at).collect()));
            }
            Command::Accept(message) => self.hub.accept(message),
            Command::Answer(message, answer) => self.hub.answer(message, &answer),
            Command::Refuse(message) => self.hub.refuse(message),
        }
    }

    fn look(&mut self, now: Instant) {
        if now >= self.look_at {
            self.look_at = now + LOOK_EVERY;
            self.paths.look();
            self.hub.packets(self.paths.mtu(), now);
        }
    }

    fn publish(&mut self, topic: &str, bytes: &[u8], reply: Reply, now: Instant) {
        self.look(now);
        match self.hub.publish(topic, bytes, now) {
            Ok(Some(number)) => {
                self.waiting.add(number, Vec::new(), reply);
            }
            Ok(None) => drop(reply.send(Ok(Collected::default()))),
            Err(error) => drop(reply.send(Err(error))),
        }
    }

    fn send(&mut self, sending: Sending, reply: Reply, now: Instant) {
        self.look(now);
        let Sending { bytes, to, lifetime } = sending;
        let sent = match &to {
            Some(to) if lifetime.is_some() => self.hub.send_within(&bytes, to, lifetime, now),
            Some(to) => self.hub.send_to(&bytes, to, now),
            None => self.hub.send(&bytes, now),
        };
        match sent {
            Ok(number) => {
                self.waiting.add(number, to.unwrap_or_default(), reply);
            }
            Err(error) => drop(reply.send(Err(error))),
        }
    }

    /// Receives what has arrived, so that it does not ask for it.
    fn catch_up(&mut self) {
        for _ in 0..AT_ONCE {
            let Some(batch) = Batch::receive(&self.socket) else { return };
            let now = self.clock.read();
            batch.iter().for_each(|arrival| self.receive(arrival, now));
            if batch.is_last() {
                return;
            }
        }
    }

    /// Writes what has changed to the disk, now or later; `false` if there is no storage any more: then
    /// this end sends and reports nothing more, so that the next start has the same outcomes.
    async fn save(&mut self) -> bool {
        self.sendings.writer.save_in_time(&mut self.hub, self.clock.now()).await.is_ok()
    }

    /// Sends due datagrams and reports events; returns the time of the next turn, or `None` if there is
    /// no storage any more.
    async fn turn(&mut self) -> Option<Option<Instant>> {
        self.catch_up();
        if !self.save().await {
            return None;
        }
        let (mut wake, now) = (None, self.clock.now());
        for _ in 0..AT_ONCE {
            let (datagram, look) = self.hub.poll(now);
            wake = look;
            let Some((to, bytes)) = datagram else { break };
            let Some(bytes) = self.stacks.send(to, bytes) else { continue };
            let to = match to {
                To::Group => Some(self.group),
                To::Member(member) => self.addresses.get(&member).copied(),
                To::Hub => None,
            };
            if let Some(to) = to {
                self.outbox.push(to, bytes);
            }
        }
        self.outbox.flush(&self.socket).await;
        if !self.save().await {
            return None;
        }
        for event in self.hub.take_events() {
            self.handle_event(event);
        }
        for (id, outcomes) in self.hub.take_outcomes() {
            self.sendings.finish(id, outcomes);
        }
        if self.hub.is_ready() {
            self.gathering.finish();
        }
        Some(wake)
    }

    fn hand_over(&self, incoming: Incoming) {
        // One that does not fit is refused when it is dropped.
        drop(self.incoming.try_send(incoming));
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::Answer { message, member, bytes } => {
                self.waiting.answer(message, member, bytes);
            }
            Event::Acknowledged { message, member } => {
                self.waiting.answer(message, member, Vec::new());
            }
            Event::Over { message, lacking } => self.waiting.finish(message, lacking),
            Event::Message { from, bytes, answered } => {
                if let Some(commands) = self.commands.upgrade() {
                    self.hand_over(Incoming::new(from, bytes, answered, commands));
                }
            }
            Event::Published { from, topic, bytes } => {
                if let Some(commands) = self.commands.upgrade() {
                    self.hand_over(Incoming::new(from, bytes, false, commands).of_topic(topic));
                }
            }
            Event::Joined(_) | Event::Left(_) | Event::ModelChange { .. } => {}
        }
    }
}
