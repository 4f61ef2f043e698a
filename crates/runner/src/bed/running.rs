//! A bed as the environment of running programs.

use super::Bed;
use super::control::ControlConnection;
use super::environment::{Environment, Frames, News};
use super::faults::Faults;
use super::jobs::{Job, Role};
use super::live::{Awaited, Effect, Pending, Reply, Request, publish_names};
use super::log::Log;
use super::nodes::Nodes;
use super::output::QUOTA;
use super::ready::is_ready;
use crate::error::Error;
use crate::full_disk::has_no_space;
use engine::{Change, Place};
use experiment::PlannedFaultKind as Kind;
use lab::{Event, OutOfMemory, Program};
use measure::Auxiliary;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use record::control::Command;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;
use units::{Bytes, Instant};

/// Polling interval for state without a file descriptor.
const TICK_MS: u16 = 100;
/// The same while a client waits for a program to end or to start.
const AWAITED_TICK_MS: u16 = 10;
/// Delay between the first message of a program and the poll of all programs. A poll takes about 1
/// µs per program, so messages that arrive together are read together: polling then takes only a
/// few per cent of a CPU.
const TOGETHER: Duration = Duration::from_micros(50);

impl Nodes for Bed<'_> {
    fn now(&self) -> Instant {
        clock::now()
    }

    fn start(&mut self, id: usize, job: &Job) -> Result<(), Error> {
        let program = Program {
            argv: job.argv.clone(),
            env: job.env.clone(),
            cwd: job.cwd.display().to_string(),
            stdout: self.log(&job.files.out, job)?,
            stderr: self.log(&job.files.err, job)?,
            control: self.connect(id, job)?,
        };
        Ok(self.lab.nodes()[job.node].kind.run(id as u64, program)?)
    }

    fn signal(&mut self, node: usize, id: usize, signal: i32) {
        self.lab.nodes()[node].kind.signal(id as u64, signal);
    }

    fn signal_all(&mut self, node: usize, signal: i32) {
        self.lab.nodes()[node].kind.signal_all(signal);
    }

    fn set_power(&mut self, node: usize, is_on: bool) {
        // A request holds the inventory, which knows the node's links.
        self.power.push((node, is_on));
    }
}

impl Environment for Bed<'_> {
    fn own_jobs(&mut self) -> Vec<Job> {
        std::mem::take(&mut self.design.jobs)
    }

    fn begin(&mut self) -> Result<(), Error> {
        self.impairments.begin(&self.lab)?;
        // What clients of DHCP have lost and asked for again is no fault of the run.
        self.dropped_before = self.all_socket_drops();
        self.engine.begin();
        self.begun = Some(clock::now());
        Ok(())
    }

    fn wait(&mut self) -> Vec<News> {
        self.apply_power();
        let mut news = Vec::new();
        for id in self.speaking() {
            self.read_messages(id, &mut news);
        }
        while let Ok(event) = self.lab.events().try_recv() {
            match event {
                // Messages that it sent before it ended may still be unread.
                Event::Ended { id, .. } => self.read_messages(id as usize, &mut news),
                Event::NodeGone { node } => self.lab.nodes_mut()[node].is_gone = true,
                _ => {}
            }
            news.push(News::Event(event));
        }
        news
    }

    fn serve(&mut self, jobs: &mut Vec<Job>, faults: &mut Faults) {
        while let Some(Pending { request, answer, .. }) =
            self.control.as_ref().and_then(|(_, requests)| requests.next())
        {
            let is_clone = matches!(request, Request::Clone { .. });
            let fault = match &request {
                Request::InjectFault { what, nodes } => Some((*what, nodes.clone())),
                _ => None,
            };
            // Before the fault, which changes which programs run.
            let effect = fault.and_then(|(what, which)| {
                let nodes = self.inventory.lock().find(&which).ok()?;
                Some((Effect::of(what, nodes, jobs, clock::now()), which))
            });
            let reply = self.answer(request, jobs, faults);
            let awaited = match (&reply, effect) {
                (Reply::Nodes(_), Some((effect, which))) => Some((effect, Err(which))),
                (Reply::Nodes(clones), None) if is_clone => {
                    let all = self.inventory.lock().plan.nodes.len();
                    let new = all.saturating_sub(clones.len())..all;
                    let effect = Effect::of(Kind::Start, new, jobs, clock::now());
                    Some((effect, Ok(reply.clone())))
                }
                _ => None,
            };
            match awaited {
                Some((effect, reply)) => self.awaited.push(Awaited { effect, reply, answer }),
                // The client may have disconnected.
                None => drop(answer.send(reply)),
            }
        }
        self.answer_awaited(jobs, faults);
    }

    fn send(&mut self, id: usize, command: Command) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.send(command);
        }
    }

    fn is_ready(&self, job: &Job) -> bool {
        let pid = self.lab.nodes()[job.node].kind.pid();
        job.ready.as_ref().is_none_or(|when| is_ready(when, pid, &job.files))
    }

    fn out_of_memory(&mut self, node: usize) -> Option<OutOfMemory> {
        self.lab.out_of_memory(node)
    }

    fn release(&mut self, node: usize, jobs: &[Job]) -> Result<(), Error> {
        let shared = self.inventory.clone();
        let mut inventory = shared.lock();
        self.remove_links(&mut inventory, node);
        Ok(publish_names(&inventory.plan, &mut self.lab, jobs)?)
    }

    fn frames(&self) -> Frames {
        Frames {
            sent: self.engine.frames(),
            in_flight: self.engine.waiting(),
            have_failed: self.engine.has_failed(),
        }
    }

    fn is_disk_full(&self) -> bool {
        let disk = self.full_disk();
        disk.is_some_and(|disk| disk.is_given_up(Auxiliary::Output)) || has_no_space(&self.folder)
    }
}

impl Bed<'_> {
    /// Switches the radios of nodes as `set_power` has said.
    pub(in crate::bed) fn apply_power(&mut self) {
        for (node, is_on) in std::mem::take(&mut self.power) {
            let places = self.inventory.lock().places(node);
            for Place { segment, endpoint } in places {
                self.engine.remote().change(segment, Change::Power { endpoint, is_on });
            }
        }
    }

    /// Creates a log, whose size is limited from then on.
    fn log(&self, path: &Path, job: &Job) -> Result<OwnedFd, Error> {
        let log = Log::open(path, job.role).map_err(Error::write(path))?;
        let quota = job.output_limit.map_or(QUOTA, Bytes::get);
        self.outputs.watch(path, log.watched, quota);
        Ok(log.program.into())
    }

    /// The program's end of a control connection, if it gets one. A program with one is ours, so it
    /// sees the host's files wherever it runs; a DHCP client does not use it.
    fn connect(&mut self, id: usize, job: &Job) -> Result<Option<OwnedFd>, Error> {
        if job.role != Role::Client && !job.has_control() {
            return Ok(None);
        }
        let (ours, theirs) = ControlConnection::begin().map_err(Error::io("create a socket"))?;
        if job.has_control() {
            self.connections.insert(id, ours);
        }
        Ok(Some(theirs))
    }

    /// Waits until a program sends something, a control client has a request, or a short time has
    /// passed; returns the programs that have sent something.
    fn speaking(&self) -> Vec<usize> {
        let open = self.connections.iter().filter(|(_, connection)| connection.is_open());
        let (ids, mut fds): (Vec<_>, Vec<_>) = open
            .map(|(id, connection)| (*id, PollFd::new(connection.as_fd(), PollFlags::POLLIN)))
            .unzip();
        let clients = self.control.as_ref().map(|(_, requests)| requests.as_fd());
        fds.extend(clients.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        // An interrupted wait counts as a finished one.
        let tick = if self.awaited.is_empty() { TICK_MS } else { AWAITED_TICK_MS };
        let _ = poll(&mut fds, PollTimeout::from(tick));
        std::thread::sleep(TOGETHER * ids.len() as u32);
        // Again, for those that have become readable during the pause.
        let _ = poll(&mut fds, PollTimeout::ZERO);
        let speaks = |fd: &PollFd<'_>| fd.revents().is_none_or(|events| !events.is_empty());
        ids.into_iter().zip(&fds).filter(|(_, fd)| speaks(fd)).map(|(id, _)| id).collect()
    }

    /// Answers the requests whose effects have happened, or will not.
    fn answer_awaited(&mut self, jobs: &mut Vec<Job>, faults: &mut Faults) {
        for Awaited { effect, reply, answer } in std::mem::take(&mut self.awaited) {
            let outcome = effect.outcome(jobs, |node| faults.restarts(node), clock::now());
            let reply = match (outcome, reply) {
                (None, reply) => {
                    self.awaited.push(Awaited { effect, reply, answer });
                    continue;
                }
                (Some(Err(why)), _) => Reply::Refused(why),
                (Some(Ok(())), Ok(reply)) => reply,
                (Some(Ok(())), Err(nodes)) => self.answer(Request::Nodes { nodes }, jobs, faults),
            };
            // The client may have disconnected.
            let _ = answer.send(reply);
        }
    }

    fn read_messages(&mut self, id: usize, news: &mut Vec<News>) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        news.extend(connection.receive().into_iter().map(|status| News::Message { id, status }));
    }
}
