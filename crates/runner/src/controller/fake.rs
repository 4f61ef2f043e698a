//! A bed that does not exist, on a clock that does not wait: programs behave as a test says.

use crate::bed::environment::{Environment, Frames, News};
use crate::bed::faults::Faults;
use crate::bed::jobs::{Files, Job, Role};
use crate::bed::nodes::Nodes;
use crate::error::Error;
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

#[derive(Debug, Default)]
pub(crate) struct FakeBed {
    pub now: Instant,
    /// Behaviour of each program; those added later behave as the last.
    pub behaviours: Vec<Behaviour>,
    /// What happened, with its time.
    pub deeds: Vec<(Instant, Deed)>,
    /// News that will come, with their times.
    pub coming: Vec<(Instant, News)>,
    pub frames: Frames,
    /// Set at this time.
    pub interrupts: Option<(Instant, Arc<AtomicBool>)>,
    /// The node of each started program.
    pub nodes: Vec<usize>,
    /// Nodes whose programs are stopped by SIGSTOP.
    pub paused: Vec<usize>,
    /// Programs that receive SIGTERM when they continue.
    pub pending: Vec<usize>,
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

    fn behaviour(&self, id: usize) -> Behaviour {
        self.behaviours.get(id).or(self.behaviours.last()).cloned().unwrap_or_default()
    }

    /// Something that happens at `at`.
    pub(crate) fn comes(&mut self, at: Instant, news: News) {
        self.coming.push((at, news));
    }

    fn ends(&mut self, id: usize, after: Span, exit: Exit) {
        // It ends only once.
        let ends = |news: &News| matches!(news, News::Event(Event::Ended { id: other, .. }) if *other == id as u64);
        self.coming.retain(|(_, news)| !ends(news));
        let ended = Event::Ended { id: id as u64, exit, usage: Usage::default() };
        self.comes(self.now + after, News::Event(ended));
    }
}

impl Nodes for FakeBed {
    fn now(&self) -> Instant {
        self.now
    }

    fn start(&mut self, id: usize, job: &Job) -> Result<(), Error> {
        self.did(Deed::Started(id));
        self.nodes.resize(self.nodes.len().max(id + 1), usize::MAX);
        self.nodes[id] = job.node;
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
        let is_fatal = signal == libc::SIGTERM && !self.behaviour(id).is_stubborn;
        if signal == libc::SIGCONT && self.pending.contains(&id) {
            self.ends(id, DYING, Exit::Signal(libc::SIGTERM));
        } else if is_fatal && self.paused.contains(&self.nodes[id]) {
            self.pending.push(id);
        } else if is_fatal || signal == libc::SIGKILL {
            self.ends(id, DYING, Exit::Signal(signal));
        }
    }

    fn signal_all(&mut self, node: usize, signal: i32) {
        self.did(Deed::SignalledAll(node, signal));
        self.paused.retain(|paused| *paused != node);
        if signal == libc::SIGSTOP {
            self.paused.push(node);
        }
        for id in 0..self.nodes.len() {
            if signal == libc::SIGKILL && self.nodes[id] == node {
                self.ends(id, DYING, Exit::Signal(signal));
            }
        }
    }
}

impl Environment for FakeBed {
    fn own_jobs(&mut self) -> Vec<Job> {
        Vec::new()
    }

    fn begin(&mut self) -> Result<(), Error> {
        self.did(Deed::Begun);
        Ok(())
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
        self.coming.drain(..due).map(|(_, news)| news).collect()
    }

    fn serve(&mut self, _: &mut Vec<Job>, _: &mut Faults) {}

    fn send(&mut self, id: usize, command: Command) {
        let Behaviour { done, is_stubborn, .. } = self.behaviour(id);
        match (&command, done) {
            (Command::Start { at_ns }, Some(after)) => {
                self.comes(
                    Instant::from_ns(*at_ns) + after,
                    News::Message { id, status: Status::Done {} },
                );
            }
            (Command::Stop {}, _) if !is_stubborn => self.ends(id, DYING, Exit::Status(0)),
            _ => {}
        }
        self.did(Deed::Sent(id, command));
    }

    fn is_ready(&self, _: &Job) -> bool {
        true
    }

    fn out_of_memory(&mut self, _: usize) -> Option<OutOfMemory> {
        None
    }

    fn release(&mut self, node: usize, _: &[Job]) -> Result<(), Error> {
        self.did(Deed::Released(node));
        Ok(())
    }

    fn frames(&self) -> Frames {
        self.frames
    }
}
