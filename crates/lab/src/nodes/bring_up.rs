//! Bring-up of nodes: at the start of a lab, and later.

use super::{Lab, Member, make_groups, no_limits, processes, raise_files};
use crate::cgroup::{Groups, Limits, PROCESSES};
use crate::error::Error;
use crate::failure::Failure;
use crate::node::{Event, Namespace, Node};
use crate::wire::{FromForkServer, FromInit, ToForkServer, ToInit, pair, receive, send};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::MsgFlags;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::Sender;

impl Lab {
    /// Starts more members in a running lab, numbered after the existing ones; returns the same as
    /// [`Self::up`].
    ///
    /// # Errors
    /// The failed step; the lab is unchanged then.
    pub fn add(&mut self, members: &[Member]) -> Result<Vec<Vec<OwnedFd>>, Error> {
        let (before, next) = (self.nodes.len(), self.next);
        raise_files(before + members.len())?;
        let limits: Vec<_> = members.iter().map(|member| member.limits).collect();
        let limited = members.iter().find(|member| !member.limits.is_none());
        if let (Some(limited), None) = (limited, &self.groups) {
            let made = make_groups().map_err(|why| no_limits(&limited.spec.name, why))?;
            self.groups = Some(made);
        }
        let ends = self.settle(members, &limits, limited.is_some());
        if ends.is_err() {
            // An init whose socket is closed ends, but not at once.
            let (pids, numbers) = (self.pids().split_off(before), next..self.next);
            let _ = self.ask(&ToForkServer::Discard { pids, numbers }, &[]);
            self.nodes.truncate(before);
            self.next = next;
        }
        ends
    }

    /// Starts members and adds them to the lab.
    pub(super) fn settle(
        &mut self,
        members: &[Member],
        limits: &[Limits],
        must: bool,
    ) -> Result<Vec<Vec<OwnedFd>>, Error> {
        let before = self.nodes.len();
        // Taken out, because `spawn` borrows the lab.
        let mut groups = self.groups.take();
        if let Some((groups, _)) = &groups {
            // `thingbed doctor` says where this machine cannot limit them.
            let _ = groups.cap_all(self.fork_server.id(), processes(before + members.len()));
        }
        let spawned: Result<Vec<_>, Error> = members
            .iter()
            .zip(limits)
            .map(|(member, limits)| {
                self.spawn(member, limits, must, groups.as_mut().map(|(groups, _)| groups))
            })
            .collect();
        self.groups = groups;
        // All are cloned before the first answer is awaited, so that they set up at the same time.
        let sockets = spawned?;
        let mut ends = Vec::with_capacity(members.len());
        for (place, (socket, member)) in sockets.iter().zip(members).enumerate() {
            let name = member.spec.name.clone();
            let (mut attached, same_users) = await_up(socket, &name)?;
            if let Some(why) = same_users {
                self.same_users.get_or_insert_with(|| why.to_string());
            }
            // The descriptor after those of the interfaces.
            let host = attached.split_off(attached.len().min(member.spec.interfaces.len()));
            let host = host.into_iter().next().map(Arc::new);
            let pid = self.nodes[before + place].kind.pid();
            let kind = Namespace { name, pid, socket: socket.clone(), host };
            self.nodes[before + place].kind = Box::new(kind);
            ends.push(attached);
        }
        // A reader for these nodes, since the first reader polls a list that it does not change.
        let sender = self.sender.clone();
        let reader = std::thread::Builder::new().name("lab".into());
        let reader = reader.spawn(move || read(&sockets, before, &sender));
        self.readers.push(reader.map_err(Error::io("start the lab's thread"))?);
        Ok(ends)
    }

    /// Lets the fork server clone an init, and sends it the node's configuration; returns its
    /// socket.
    fn spawn(
        &mut self,
        member: &Member,
        limits: &Limits,
        must: bool,
        groups: Option<&mut Groups>,
    ) -> Result<Arc<OwnedFd>, Error> {
        let (ours, theirs) = pair().map_err(Error::io("create a node's socket"))?;
        let own_users = member.spec.setting.has_own_users();
        let request = ToForkServer::Spawn { slot: self.nodes.len() as u32, own_users };
        let pid = match self.ask(&request, &[theirs.as_raw_fd()])? {
            FromForkServer::Spawned(pid) => pid,
            _ => return Err(Error::Gone { who: "the fork server".to_owned() }),
        };
        let socket = Arc::new(ours);
        let name = member.spec.name.clone();
        let kind = Namespace { name: name.clone(), pid, socket: socket.clone(), host: None };
        self.nodes.push(Node::new(name, Box::new(kind)));
        // Before the init sets up the node: what it creates and starts is in the groups.
        if let Some(groups) = groups {
            self.enrol(groups, limits, must, member.spec.setting.root.is_some())?;
        }
        let (spec, first, link) = (member.spec.clone(), self.next, self.link);
        send(&socket, &ToInit::SetUp { spec: Box::new(spec), first, link }, &[])
            .map_err(Error::io("configure the init of a node"))?;
        self.next += member.spec.interfaces.len() as u32;
        Ok(socket)
    }

    /// Replaces the hosts file of all nodes.
    ///
    /// # Errors
    /// When the fork server is gone.
    pub fn set_hosts(&mut self, hosts: &str) -> Result<(), Error> {
        self.ask(&ToForkServer::Hosts { hosts: hosts.to_owned() }, &[])?;
        self.nodes.iter().filter(|node| !node.is_gone).for_each(|node| node.kind.set_hosts(hosts));
        Ok(())
    }

    /// Moves the newest node's init into groups that count, and applies its limits. Failure is an
    /// error only if some node `must` be limited.
    fn enrol(
        &mut self,
        groups: &mut Groups,
        limits: &Limits,
        must: bool,
        rooted: bool,
    ) -> Result<(), Error> {
        let Some(node) = self.nodes.last() else { return Ok(()) };
        let (name, pid) = (&node.name, node.kind.pid());
        if self.uncounted.is_none()
            && let Err(why) = groups.enrol(name, pid)
        {
            if must {
                return Err(no_limits(name, why));
            }
            self.uncounted = Some(why);
        }
        // A further group costs half a millisecond, so that nodes without a root share one.
        if limits.processes.is_none() && (rooted || !groups.is_per_controller()) {
            let _ = groups.cap(name, &[pid], PROCESSES);
        }
        if limits.is_none() {
            return Ok(());
        }
        groups.limit(name, &[pid], limits).map_err(|why| no_limits(name, why))?;
        if limits.reserved_cpus.is_some() {
            groups.outweigh();
        }
        node.limited.store(limits.cpus.is_some(), Relaxed);
        Ok(())
    }
}

/// The descriptors of a node that is up, and why it does not have its own users.
fn await_up(socket: &OwnedFd, node: &str) -> Result<(Vec<OwnedFd>, Option<Failure>), Error> {
    match receive(socket, MsgFlags::empty())
        .map_err(Error::io("receive from the init of a node"))?
    {
        Some((FromInit::Up { same_users }, taps)) => Ok((taps, same_users)),
        Some((FromInit::Failed(failure), _)) => Err(Error::Node { node: node.to_owned(), failure }),
        Some(_) | None => Err(Error::Gone { who: format!("the init of {node}") }),
    }
}

/// Reads messages of inits, of nodes from `first` on, until all of them are gone.
fn read(sockets: &[Arc<OwnedFd>], first: usize, events: &Sender<Event>) {
    let mut alive: Vec<usize> = (0..sockets.len()).collect();
    while !alive.is_empty() {
        let mut ready: Vec<_> = alive
            .iter()
            .map(|node| PollFd::new(sockets[*node].as_fd(), PollFlags::POLLIN))
            .collect();
        if poll(&mut ready, PollTimeout::NONE).is_err() {
            continue;
        }
        let spoken: Vec<bool> = ready.iter().map(|fd| fd.any().unwrap_or(true)).collect();
        let mut spoken = spoken.into_iter();
        alive.retain(|node| {
            if !spoken.next().unwrap_or(false) {
                return true;
            }
            let (event, alive) = match receive(&sockets[*node], MsgFlags::MSG_DONTWAIT) {
                Ok(Some((FromInit::Started { id }, _))) => (Some(Event::Started { id }), true),
                Ok(Some((FromInit::NotStarted { id, failure }, _))) => {
                    (Some(Event::NotStarted { id, failure }), true)
                }
                Ok(Some((FromInit::Ended { id, exit, usage }, _))) => {
                    (Some(Event::Ended { id, exit, usage }), true)
                }
                Ok(Some(_)) => (None, true),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => (None, true),
                Ok(None) | Err(_) => (Some(Event::NodeGone { node: first + *node }), false),
            };
            if let Some(event) = event {
                // No receiver is left while the lab is being removed.
                let _ = events.send(event);
            }
            alive
        });
    }
}
