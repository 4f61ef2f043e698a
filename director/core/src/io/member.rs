//! A member on sockets.

use super::outside::{self, Endpoints, Readiness, StackFactory, Stacks};
use super::{AT_ONCE, Clock, Error, LONGEST, random, socket};
use crate::Nanos;
use crate::carrier::To;
use crate::session::{Config, Member, MemberEvent, SessionError};
use crate::switch::MessageId;
use std::net::{SocketAddr, SocketAddrV4};
use std::sync::Arc;
use tokio::net::UdpSocket;
use tokio::sync::mpsc;
use tokio::time::sleep_until;

/// A received message, which can be answered.
#[derive(Debug)]
pub struct Request {
    /// The message.
    pub message: Vec<u8>,
    number: MessageId,
    answers: mpsc::UnboundedSender<(MessageId, Vec<u8>)>,
}

impl Request {
    /// Answers the message.
    pub fn reply(self, answer: &[u8]) {
        let _ = self.answers.send((self.number, answer.to_vec()));
    }
}

/// A member that joins sessions of its hub. It leaves when this is dropped.
#[derive(Debug)]
pub struct Listener {
    requests: mpsc::UnboundedReceiver<Request>,
}

impl Listener {
    /// Listens at `local` for the hub at `hub`.
    pub(super) fn open(
        config: Config,
        local: SocketAddrV4,
        hub: SocketAddrV4,
        factories: &[Arc<dyn StackFactory>],
    ) -> Result<Self, Error> {
        let ends = Endpoints {
            local,
            hub,
            members: Vec::new(),
            group: config.group,
            rate_bit_s: config.assumed.rate_bit_s,
            mtu: config.assumed.mtu as u16,
        };
        let member = Member::new(config.security, config.below, random()?);
        let member = member.map_err(SessionError::from)?.with_outside(&outside::models(factories));
        let (sender, requests) = mpsc::unbounded_channel();
        let stacks = Stacks::open(factories, &ends)?;
        let driver = Driver {
            member,
            socket: socket::unicast(local)?,
            woken: Readiness::of(&stacks)?,
            stacks,
            local,
            hub: SocketAddr::V4(hub),
            group: None,
            join_at: 0,
            clock: Clock::start(),
        };
        tokio::spawn(driver.run(sender));
        Ok(Self { requests })
    }

    /// The next message; each is delivered once. `None` if the session has ended.
    pub async fn next(&mut self) -> Option<Request> {
        self.requests.recv().await
    }
}

/// Minimum interval of multicast joins, in ns.
const JOIN_EVERY: Nanos = 2_000_000_000;

struct Driver {
    member: Member,
    socket: UdpSocket,
    stacks: Stacks,
    woken: Readiness,
    local: SocketAddrV4,
    hub: SocketAddr,
    group: Option<(SocketAddrV4, UdpSocket)>,
    /// Earliest time of the next join.
    join_at: Nanos,
    clock: Clock,
}

impl Driver {
    async fn run(mut self, sender: mpsc::UnboundedSender<Request>) {
        let (answers, mut answered) = mpsc::unbounded_channel();
        let mut buffer = vec![0; LONGEST];
        let mut from_group = vec![0; LONGEST];
        loop {
            let wake = self.turn().await;
            for event in self.member.take_events() {
                match event {
                    MemberEvent::Joined { group, .. } => self.hear(group),
                    MemberEvent::Message { number, bytes } => {
                        let answers = answers.clone();
                        let request = Request { message: bytes, number, answers };
                        if sender.send(request).is_err() {
                            return;
                        }
                    }
                }
            }
            let group = self.group.as_ref().map(|(_, socket)| socket);
            tokio::select! {
                Some((number, answer)) = answered.recv() => {
                    // An answer that no model can carry is lost; the hub sees its deadline pass.
                    let _ = self.member.answer(number, &answer, self.clock.now());
                }
                received = self.socket.recv_from(&mut buffer) => {
                    if let Ok((length, from)) = received && from == self.hub {
                        let datagram = &buffer[..length];
                        self.member.receive(datagram, self.clock.now());
                        if self.member.misses_multicast(datagram) {
                            self.join_again();
                        }
                    }
                }
                length = hear(group, &mut from_group) => {
                    self.member.receive(&from_group[..length], self.clock.now());
                }
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

    /// Joins the group again: multicast routers or switches may have missed the first join.
    fn join_again(&mut self) {
        let now = self.clock.now();
        if now >= self.join_at
            && let Some((group, own)) = &self.group
        {
            self.join_at = now + JOIN_EVERY;
            let (group, interface) = (*group.ip(), *self.local.ip());
            let _ = own.leave_multicast_v4(group, interface);
            let _ = own.join_multicast_v4(group, interface);
        }
    }

    /// Joins a group, unless joined. If that fails, multicast models fail, and the hub detects
    /// it.
    fn hear(&mut self, group: SocketAddrV4) {
        if self.group.as_ref().is_none_or(|(known, _)| *known != group) {
            self.group = socket::group(group, *self.local.ip()).ok().map(|own| (group, own));
        }
    }

    /// Sends due datagrams; returns the time of the next turn.
    async fn turn(&mut self) -> Option<Nanos> {
        let mut wake = None;
        for _ in 0..AT_ONCE {
            let (datagram, look) = self.member.poll(self.clock.now());
            wake = look;
            let Some(bytes) = datagram else { break };
            let Some(bytes) = self.stacks.send(To::Hub, bytes) else { continue };
            let _ = self.socket.send_to(&bytes, self.hub).await;
        }
        wake
    }
}

/// Receives from the group and returns the length; pending forever without a group.
async fn hear(group: Option<&UdpSocket>, buffer: &mut [u8]) -> usize {
    let Some(socket) = group else { return std::future::pending().await };
    loop {
        if let Ok((length, _)) = socket.recv_from(buffer).await {
            return length;
        }
    }
}
