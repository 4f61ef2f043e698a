//! A bed that does not exist, on a clock that does not wait: programs behave as a test says.

use crate::bed::environment::{Environment, Frames, News};
use crate::bed::faults::Faults;
use crate::bed::jobs::{Files, Job, Role};
use crate::bed::nodes::Nodes;
use crate::error::Error;
use experiment::PlannedFaultKind;
use lab::{Event, Exit, OutOfMemory, Usage};
use record::control::{Command, Status};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use units::{Instant, Span};

pub(crate) const S: Span = Span::from_s(1);
/// Longest step of the clock, as of a real bed.
const TICK: Span = Span::from_ms(100);
/// Time from a signal to the end of a program.
const DYING: Span = Span::from_ms(1);

/// How a program behaves.
#[derive(Debug, Clone, Default)]
pub(crate) struct Behaviour {
    /// Time from its start until it reports that it is ready; never if `None`.
    pub ready: Option<Span>,
    /// Time from offset 0 until it reports that it is done; never if `None`.
    pub done: Option<Span>,
    /// Time from its start until it ends by itself, and its exit.
    pub ends: Option<(Span, Exit)>,
    /// Whether it ends neither after a stop message nor after SIGTERM.
    pub is_stubborn: bool,
    /// Time from its start until a look from outside finds it ready.
    pub found_ready: Span,
    /// A program whose end it waits for after a stop message, and the time from that to its end.
    pub waits_for: Option<(usize, Span)>,
}

/// What the controller did, in order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Deed {
    Started(usize),
    Begun,
    Sent(usize, Command),
    Signalled(usize, i32),
    SignalledAll(usize, i32),
    Released(usize),
    MeteringBegan,
    MeteringEnded,
}

/// What a control client asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Asked {
    Fault(PlannedFaultKind, usize),
    Destroy(usize),
}

#[derive(Debug, Default)]
pub(crate) struct FakeBed {
    pub now: Instant,
    /// Behaviour of each program; those added later behave as the last.
    pub behaviours: Vec<Behaviour>,
    /// Whether behaviours are those of nodes, not of programs.
    pub by_node: bool,
    /// What happened, with its time.
    pub deeds: Vec<(Instant, Deed)>,
    /// News that will come, with their times.
    pub coming: Vec<(Instant, News)>,
    pub frames: Frames,
    /// Set at this time.
    pub interrupts: Option<(Instant, Arc<AtomicBool>)>,
    /// The node of each started program.
    pub nodes: Vec<usize>,
    /// When each program started.
    pub started: Vec<Instant>,
    /// Programs that have ended.
    pub ended: Vec<usize>,
    /// Programs that are stopped by SIGSTOP.
    pub paused: Vec<usize>,
    /// Programs that receive SIGTERM when they continue.
    pub pending: Vec<usize>,
    /// The bed's own programs.
    pub own: Vec<Job>,
    /// Requests of control clients, with their times.
    pub asked: Vec<(Instant, Asked)>,
    /// Nodes in which the kernel killed a process for lack of memory.
    pub starved: Vec<usize>,
    /// Nodes that no program can start in.
    pub gone: Vec<usize>,
    /// Steps that fail.
    pub failing: Vec<Deed>,
    /// Nodes whose radios were switched off or on, in this order.
    pub power: Vec<(usize, bool)>,
    /// Whether the disk is full.
    pub is_full: bool,
    /// Programs that got a stop message and wait for the end of another.
    pub waiting: Vec<usize>,
}

/// A time on the bed's clock, which starts at 100 s.
pub(crate) fn second(s: u64) -> Instant {
    Instant::START + S * s
}

/// A program of this role on a node.
pub(crate) fn job(node: usize, role: Role) -> Job {
    let (name, dir) = (format!("n-{node}"), Path::new("/no/such/folder"));
    let (argv, files) = (vec!["program".to_owned()], Files::of(dir, &name, Some(0)));
    Job::of(node, &name, Some(0), role, argv, dir, files)
}

impl FakeBed {
    /// A bed for programs that behave like this, in their order.
    pub fn of(behaviours: Vec<Behaviour>) -> Self {
        Self { now: second(100), behaviours, ..Self::default() }
    }

    /// The deeds that a test is interested in, without their times.
    pub fn deeds(&self, which: impl Fn(&Deed) -> bool) -> Vec<Deed> {
        self.deeds.iter().map(|(_, deed)| deed.clone()).filter(|deed| which(deed)).collect()
    }

    /// Notes what the controller or a step of the measurement does now.
    pub fn did(&mut self, deed: Deed) {
        self.deeds.push((self.now, deed));
    }

    /// Like `did`, for a step that may fail.
    pub fn tries(&mut self, deed: Deed) -> Result<(), Error> {
        let fails = self.failing.contains(&deed);
        self.did(deed);
        match fails {
            true => Err(Error::io("do this step")(std::io::ErrorKind::Other.into())),
            false => Ok(()),
        }
    }

    fn behaviour(&self, id: usize) -> Behaviour {
        let place = if self.by_node { self.nodes.get(id).copied().unwrap_or(id) } else { id };
        self.behaviours.get(place).or(self.behaviours.last()).cloned().unwrap_or_default()
    }

    /// Something that happens at `at`.
    pub(crate) fn comes(&mut self, at: Instant, news: News) {
        self.coming.push((at, news));
    }

    /// Handles SIGCONT.
    fn continues(&mut self, id: usize) {
        self.paused.retain(|paused| *paused != id);
        if self.pending.contains(&id) {
            self.pending.retain(|pending| *pending != id);
            self.ends(id, DYING, Exit::Signal(libc::SIGTERM));
        }
    }

    fn ends(&mut self, id: usize, after: Span, exit: Exit) {
        // It ends only once.
        if self.ended.contains(&id) {
            return;
        }
        let ends = |news: &News| matches!(news, News::Event(Event::Ended { id: other, .. }) if *other == id as u64);
        self.coming.retain(|(_, news)| !ends(news));
        let ended = Event::Ended { id: id as u64, exit, usage: Usage::default() };
        self.comes(self.now + after, News::Event(ended));
    }
}

impl Nodes for FakeBed {
    fn set_power(&mut self, node: usize, is_on: bool) {
        self.power.push((node, is_on));
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn start(&mut self, id: usize, job: &Job) -> Result<(), Error> {
        self.tries(Deed::Started(id))?;
        if self.gone.contains(&job.node) {
            return Err(lab::Error::Gone { who: job.name.clone() }.into());
        }
        self.nodes.resize(self.nodes.len().max(id + 1), usize::MAX);
        self.started.resize(self.nodes.len(), Instant::from_ns(u64::MAX));
        (self.nodes[id], self.started[id]) = (job.node, self.now);
        let Behaviour { ready, ends, .. } = self.behaviour(id);
        if let (Some(after), true) = (ready, job.has_control()) {
            self.comes(self.now + after, News::Message { id, status: Status::Ready {} });
        }
        if let Some((after, exit)) = ends {
            self.ends(id, after, exit);
        }
        Ok(())
    }

    fn signal(&mut self, _: usize, id: usize, signal: i32) {
        self.did(Deed::Signalled(id, signal));
        // A program that has not started yet receives no signals.
        if self.nodes.get(id).is_none_or(|node| *node == usize::MAX) {
            return;
        }
        let is_fatal = signal == libc::SIGTERM && !self.behaviour(id).is_stubborn;
        if signal == libc::SIGCONT {
            self.continues(id);
        } else if is_fatal && self.paused.contains(&id) {
            self.pending.push(id);
        } else if is_fatal || signal == libc::SIGKILL {
            self.ends(id, DYING, Exit::Signal(signal));
        }
    }

    fn signal_all(&mut self, node: usize, signal: i32) {
        self.did(Deed::SignalledAll(node, signal));
        for id in (0..self.nodes.len()).filter(|id| self.nodes[*id] == node).collect::<Vec<_>>() {
            match signal {
                libc::SIGKILL => self.ends(id, DYING, Exit::Signal(signal)),
                libc::SIGSTOP => self.paused.push(id),
                libc::SIGCONT => self.continues(id),
                _ => {}
            }
        }
    }
}

impl Environment for FakeBed {
    fn own_jobs(&mut self) -> Vec<Job> {
        std::mem::take(&mut self.own)
    }

    fn begin(&mut self) -> Result<(), Error> {
        self.tries(Deed::Begun)
    }

    /// Moves the clock to the next news, or by one step.
    fn wait(&mut self) -> Vec<News> {
        self.coming.sort_by_key(|(at, _)| *at);
        let next = self.coming.first().map_or(Instant::NEVER, |(at, _)| *at);
        self.now = self.now.max(next.min(self.now + TICK));
        if let Some((at, flag)) = &self.interrupts {
            flag.store(self.now >= *at, Relaxed);
        }
        let due = self.coming.iter().take_while(|(at, _)| *at <= self.now).count();
        let due: Vec<News> = self.coming.drain(..due).map(|(_, news)| news).collect();
        for news in &due {
            match news {
                News::Event(Event::Ended { id, .. }) => self.ended.push(*id as usize),
                News::Event(Event::NodeGone { node }) => {
                    self.gone.push(*node);
                    let own = |id: &usize| self.nodes[*id] == *node;
                    self.ended.extend((0..self.nodes.len()).filter(own));
                    self.coming.retain(|(_, news)| match news {
                        News::Event(Event::Ended { id, .. }) => {
                            !self.ended.contains(&(*id as usize))
                        }
                        _ => true,
                    });
                }
                _ => {}
            }
        }
        for id in std::mem::take(&mut self.waiting) {
            match self.behaviour(id).waits_for {
                Some((other, after)) if self.ended.contains(&other) => {
                    self.ends(id, after, Exit::Status(0));
                }
                _ => self.waiting.push(id),
            }
        }
        due
    }

    /// As a real bed answers control clients.
    fn serve(&mut self, jobs: &mut Vec<Job>, faults: &mut Faults) {
        let (due, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.asked).into_iter().partition(|(at, _)| *at <= self.now);
        self.asked = later;
        for (_, asked) in due {
            match asked {
                // Refused, as by the inventory.
                Asked::Fault(_, node) if self.gone.contains(&node) => {}
                Asked::Fault(what, node) => {
                    faults.inject(what, node, &format!("n-{node}"), self, jobs).unwrap();
                }
                Asked::Destroy(node) => {
                    let own = jobs.iter_mut().filter(|job| job.node == node);
                    own.for_each(|job| job.asked_to_end = true);
                    self.gone.push(node);
                    faults.forget(node);
                    self.comes(self.now + DYING, News::Event(Event::NodeGone { node }));
                }
            }
        }
    }

    fn send(&mut self, id: usize, command: Command) {
        let Behaviour { done, is_stubborn, waits_for, .. } = self.behaviour(id);
        match (&command, done) {
            (Command::Start { at_ns }, Some(after)) => {
                self.comes(
                    Instant::from_ns(*at_ns) + after,
                    News::Message { id, status: Status::Done {} },
                );
            }
            (Command::Stop {}, _) if waits_for.is_some() => self.waiting.push(id),
            (Command::Stop {}, _) if !is_stubborn => self.ends(id, DYING, Exit::Status(0)),
            _ => {}
        }
        self.did(Deed::Sent(id, command));
    }

    fn is_ready(&self, job: &Job) -> bool {
        // The last program of a node is the one that runs.
        let id = self.nodes.iter().rposition(|node| *node == job.node);
        id.is_some_and(|id| self.now >= self.started[id] + self.behaviour(id).found_ready)
    }

    fn out_of_memory(&mut self, node: usize) -> Option<OutOfMemory> {
        let place = self.starved.iter().position(|starved| *starved == node)?;
        self.starved.swap_remove(place);
        Some(OutOfMemory { limit: Some(1 << 20) })
    }

    fn release(&mut self, node: usize, _: &[Job]) -> Result<(), Error> {
        self.tries(Deed::Released(node))
    }

    fn frames(&self) -> Frames {
        self.frames
    }

    fn is_disk_full(&self) -> bool {
        self.is_full
    }
}
