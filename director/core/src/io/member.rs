//! A member on sockets.

mod address;
mod group;

use super::backlog::Backlog;
use super::batch::{Batch, Outbox};
use super::durable::DurableMessage;
use super::member_command::{Command, Outgoing, Reply};
use super::outside::{self, Endpoints, Readiness, StackFactory, Stacks};
use super::publisher::Publisher;
use super::request::{AnswerTo, Answering, Request};
use super::resolver::{Ends, Resolver};
use super::saver::Saver;
use super::silence::Silence;
use super::warning::Warnings;
use super::writer::Folder;
use super::{AT_ONCE, Clock, Error, family, socket};
use crate::Instant;
use crate::carrier::To;
use crate::rng::Seed;
use crate::session::{Config, Member, MemberEvent, SessionError};
use crate::uplink::MessageProperties;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::time::sleep_until;

/// A member that joins sessions of its hub. When this is dropped it sends nothing more, and the hub waits for it as
/// for one that is off: let it leave first ([`Publisher::leave`]).
#[derive(Debug)]
pub struct Listener {
    requests: mpsc::UnboundedReceiver<Request>,
    backlog: Backlog,
    publisher: Publisher,
    restored: Vec<DurableMessage>,
    damaged: Option<PathBuf>,
}

impl Listener {
    /// Listens at `local` for the hub at `hub`.
    pub(super) fn open(
        config: Config,
        ends: Ends,
        warnings: Warnings,
        factories: &[Arc<dyn StackFactory>],
        folder: Option<&Folder>,
    ) -> Result<Self, Error> {
        let Ends { local, hub, resolve } = ends;
        if hub.is_ipv6() != local.is_ipv6() {
            return Err(family::mixed(local, hub));
        }
        family::check_end("the hub", hub)?;
        if !factories.is_empty() {
            family::check_outside(local)?;
        }
        let ends = Endpoints {
            local: family::plain(local),
            hub: family::plain(hub),
            members: Vec::new(),
            group: family::plain(family::group(&config, local)),
            rate_bit_s: super::outside_rate(&config),
            mtu: config.assumed.mtu as u16,
        };
        let profile = config.properties.conn_capacity_profile;
        let mut clock = Clock::start();
        let member = Member::new(&config.security, config.below, &Seed::from_system()?)?;
        let member = member.with_outside(&outside::models(factories));
        let mut member = match config.keep_alive {
            Some(interval) => member.with_keep_alive(interval),
            None => member,
        };
        let (sender, requests) = mpsc::unbounded_channel();
        let stacks = Stacks::open(factories, &ends)?;
        let (commands, receiver) = mpsc::unbounded_channel();
        let mut saver = Saver::open(folder, clock.now())?;
        let (restored, outcomes) = saver.restore(&mut member, &commands);
        let damaged = saver.damaged.take();
        let backlog = Backlog::default();
        let driver = Driver {
            member,
            backlog: backlog.clone(),
            outcomes,
            saver,
            socket: socket::driven(socket::unicast(local, profile)?)?,
            outbox: Outbox::default(),
            woken: Readiness::of(&stacks)?,
            stacks,
            local,
            hub,
            resolver: Resolver::new(resolve),
            warnings,
            silence: Silence::default(),
            group: None,
            join_at: Instant::START,
            clock,
        };
        tokio::spawn(driver.run(sender, receiver));
        Ok(Self { requests, backlog, publisher: Publisher(commands), restored, damaged })
    }

    /// The messages of former starts, if there is a storage ([`Preconnection::storage`]): those that
    /// had no outcome are sent again, and the outcomes of others may not have reached the application.
    /// Once; empty after that.
    ///
    /// [`Preconnection::storage`]: super::Preconnection::storage
    pub fn restored(&mut self) -> Vec<DurableMessage> {
        std::mem::take(&mut self.restored)
    }

    /// A copy of the storage's log, if it was damaged: messages after the damage are lost, and the
    /// outcomes of those before are unknown.
    pub fn damaged_log(&self) -> Option<&Path> {
        self.damaged.as_deref()
    }

    /// Sends messages to the hub's application, at any time, as long as this listener exists.
    pub fn publisher(&self) -> Publisher {
        self.publisher.clone()
    }

    /// The next message; each is delivered once. `None` if the session has ended. If 16,384 messages or
    /// 16 MiB wait for this call, the member acknowledges no further ones.
    pub async fn next(&mut self) -> Option<Request> {
        let request = self.requests.recv().await?;
        self.backlog.take(request.message.len());
        Some(request.arrived())
    }
}

struct Driver {
    member: Member,
    backlog: Backlog,
    /// Who waits for the outcome of a message.
    outcomes: HashMap<u32, Reply>,
    saver: Saver,
    socket: UdpSocket,
    outbox: Outbox,
    stacks: Stacks,
    woken: Readiness,
    local: SocketAddr,
    hub: SocketAddr,
    resolver: Resolver,
    warnings: Warnings,
    silence: Silence,
    group: Option<(SocketAddr, UdpSocket)>,
    /// Earliest time of the next join.
    join_at: Instant,
    clock: Clock,
}

impl Driver {
    async fn run(
        mut self,
        sender: mpsc::UnboundedSender<Request>,
        mut commands: mpsc::UnboundedReceiver<Command>,
    ) {
        let (answers, mut answered) = mpsc::unbounded_channel();
        loop {
            if !self.save().await {
                return;
            }
            // Joins the group before it tells the hub that it is ready.
            if !self.deliver(&sender, &answers) {
                // Sends nothing more: it would acknowledge what the application has not received.
                return;
            }
            let wake = self.turn().await;
            if !self.save().await {
                return;
            }
            // `turn` can end messages too: their outcomes must not wait for the next event.
            if !self.deliver(&sender, &answers) {
                return;
            }
            self.seek();
            let group = self.group.as_ref().map(|(_, socket)| socket);
            tokio::select! {
                Some(command) = commands.recv() => self.execute(command).await,
                Some((to, answer)) = answered.recv() => {
                    self.answer(to, answer);
                    for _ in 1..AT_ONCE {
                        let Ok((to, answer)) = answered.try_recv() else { break };
                        self.answer(to, answer);
                    }
                }
                _ = self.socket.readable() => self.receive_all(),
                Some(hub) = self.resolver.resolved() => self.follow(hub),
                () = readable(group) => self.catch_up(),
                () = self.woken.woken() => {
                    while let Some(frame) = self.stacks.receive() {
                        self.member.receive(&frame, self.clock.now());
                    }
                }
                () = sender.closed() => return,
                () = sleep_until(self.clock.until(wake)) => {}
            }
        }
    }

    /// Hands over what has happened; `false` if the application has dropped its listener.
    fn deliver(
        &mut self,
        sender: &mpsc::UnboundedSender<Request>,
        answers: &mpsc::UnboundedSender<(AnswerTo, Option<Vec<u8>>)>,
    ) -> bool {
        let mut is_there = true;
        let backlog = self.backlog.clone();
        let mut hand_over = |message: Vec<u8>, topic, to: Option<AnswerTo>| {
            let answer = to.map(|to| Answering { to, answers: answers.clone() });
            backlog.add(message.len());
            is_there &= sender.send(Request { message, topic, answer }).is_ok();
        };
        for event in self.member.take_events() {
            match event {
                MemberEvent::Joined { group, .. } => self.hear(group),
                MemberEvent::Message { number, bytes } => {
                    hand_over(bytes, None, Some(AnswerTo::Message(number)));
                }
                MemberEvent::Stored { from, bytes } => {
                    hand_over(bytes, None, Some(AnswerTo::Stored(from, false)));
                }
                MemberEvent::Published { topic, bytes } => hand_over(bytes, Some(topic), None),
                MemberEvent::Outcome { number, outcome } => {
                    if let Some(reply) = self.outcomes.remove(&number) {
                        let is_told = reply.send(Ok(outcome)).is_ok();
                        self.saver.finish(number, is_told);
                    }
                }
            }
        }
        is_there
    }

    fn answer(&mut self, to: AnswerTo, answer: Option<Vec<u8>>) {
        match to {
            AnswerTo::Message(number) => {
                // An answer that no model can carry is lost; the hub sees its deadline pass.
                let answer = answer.unwrap_or_default();
                let _ = self.member.answer(number, answer, self.clock.now());
            }
            AnswerTo::Stored(from, _) => self.member.take(from, answer.as_deref()),
            AnswerTo::Nothing => {}
        }
    }

    /// Reads what the group's socket has received: a datagram to this member alone can ask for it,
    /// and two sockets keep no order.
    fn catch_up(&mut self) {
        self.member.hold(self.backlog.is_full());
        let Some((_, socket)) = &self.group else { return };
        for _ in 0..AT_ONCE {
            let Some(batch) = Batch::receive(socket) else { return };
            let now = self.clock.read();
            for arrival in batch.iter() {
                self.member.receive(arrival.bytes, self.clock.arrival(now - arrival.waited));
            }
            if batch.is_last() {
                return;
            }
        }
    }

    /// Reads what this member's socket has received.
    fn receive_all(&mut self) {
        for _ in 0..AT_ONCE {
            let Some(batch) = Batch::receive(&self.socket) else { return };
            self.catch_up();
            let now = self.clock.read();
            batch.iter().for_each(|arrival| self.receive(arrival, now));
            if batch.is_last() {
                return;
            }
        }
    }

    /// Sends to the hub; returns the number of the message.
    fn send(
        &mut self,
        what: &Outgoing,
        properties: MessageProperties,
        now: Instant,
    ) -> Result<u32, SessionError> {
        let member = &mut self.member;
        let sent = match what {
            Outgoing::Message(bytes) => member.publish(bytes, properties, now),
            Outgoing::Request(bytes) => member.request(bytes, properties, now),
            Outgoing::Publication { topic, bytes } => {
                return member.publish_to(topic, bytes, properties, now);
            }
            Outgoing::Subscribe(filter) => return member.subscribe(filter, now),
            Outgoing::Unsubscribe(filter) => return member.unsubscribe(filter, now),
        };
        sent.map_err(|error| SessionError::of_uplink(error, member.open_messages()))
    }

    /// Writes what has changed to the disk, now or later; `false` if there is no storage any more: then
    /// this end sends and reports nothing more, so that the next start has the same outcomes.
    async fn save(&mut self) -> bool {
        let Err(why) = self.saver.writer.save_in_time(&mut self.member, self.clock.now()).await
        else {
            return true;
        };
        for (_, reply) in self.outcomes.drain() {
            let _ = reply.send(Err(SessionError::Storage(why.clone())));
        }
        false
    }

    /// Sends to the hub; returns the number of the message, which is on the disk if it is to be
    /// stored.
    async fn begin(
        &mut self,
        what: &Outgoing,
        properties: MessageProperties,
        now: Instant,
    ) -> Result<u32, SessionError> {
        if properties.stored && !self.saver.writer.has_storage() {
            let why = "the member has no storage: set one before it listens";
            return Err(SessionError::Storage(why.to_owned()));
        }
        if !properties.stored {
            return self.send(what, properties, now);
        }
        // Earlier changes first: they must not be lost if this message has no room.
        self.saver.writer.save(&mut self.member, now).await.map_err(SessionError::Storage)?;
        let number = self.send(what, properties, now)?;
        let begun = self.saver.begin(&mut self.member, number, now).await;
        begun.map_err(SessionError::Storage)?;
        Ok(number)
    }

    async fn execute(&mut self, command: Command) {
        let now = self.clock.now();
        match command {
            Command::Send { what, properties, reply, on_disk } => {
                match self.begin(&what, properties, now).await {
                    Ok(number) => {
                        self.outcomes.insert(number, reply);
                        // Without a receiver, the outcome counts as had when it is sent.
                        if let Some(on_disk) = on_disk
                            && let Some(id) = self.saver.hand_over(number)
                        {
                            let _ = on_disk.send(id);
                        }
                    }
                    Err(error) => drop(reply.send(Err(error))),
                }
            }
            // It fails without another number only.
            Command::Leave => drop(self.member.leave(now)),
            Command::ComeBack => self.member.come_back(),
            Command::Told(id) => self.saver.writer.report(id),
        }
    }

    /// Sends due datagrams; returns the time of the next turn.
    async fn turn(&mut self) -> Option<Instant> {
        let (mut wake, now) = (None, self.clock.now());
        for _ in 0..AT_ONCE {
            let (datagram, look) = self.member.poll(now);
            wake = look;
            let Some(bytes) = datagram else { break };
            let Some(bytes) = self.stacks.send(To::Hub, bytes) else { continue };
            self.outbox.push(self.hub, bytes);
        }
        self.outbox.flush(&self.socket).await;
        wake
    }
}

/// Waits until the group's socket has received something; forever without a group.
async fn readable(group: Option<&UdpSocket>) {
    match group {
        Some(socket) => drop(socket.readable().await),
        None => std::future::pending().await,
    }
}
