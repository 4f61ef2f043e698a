//! Commands from other threads to a running engine.

use crate::change::Change;
use crate::io::Waker;
use crate::observer::Place;
use crate::segment::Segment;
use crate::spec::Endpoint;
use crate::threads::Threads;
use link::{Direction, LinkState};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use units::Instant;

/// State of each link, by segment and endpoint: up, then down.
pub type LinkStates = Vec<Vec<[LinkState; 2]>>;

/// Called with the place of a new link, or with the error.
type OnAttached<O> = Box<dyn FnOnce(&mut O, io::Result<Place>) + Send>;

/// A port to add.
pub(crate) struct NewPort<O> {
    pub to: AttachTo,
    pub end: OwnedFd,
    pub on_attached: OnAttached<O>,
}

/// What a port is for.
pub(crate) enum AttachTo {
    /// A new link of this segment.
    Segment(usize, Box<Endpoint>),
    /// One VLAN of the trunk at this place.
    Trunk(Place, u16),
}

impl AttachTo {
    fn segment(&self) -> usize {
        match self {
            Self::Segment(segment, _) | Self::Trunk(Place { segment, .. }, _) => *segment,
        }
    }
}

pub(crate) enum Command<O> {
    Change(usize, Change),
    ReportStates(SyncSender<LinkStates>),
    Observer(Box<dyn FnOnce(&mut O) + Send>),
    Attach(Box<NewPort<O>>),
    Detach(Place, SyncSender<Vec<OwnedFd>>),
    /// Another thread has added a port at this place.
    Reserve(Place),
}

/// Queue of commands for a thread.
pub(crate) struct Commands<O> {
    commands: Mutex<Vec<Command<O>>>,
    any: AtomicBool,
}

impl<O> Default for Commands<O> {
    fn default() -> Self {
        Self { commands: Mutex::default(), any: AtomicBool::new(false) }
    }
}

impl<O> Commands<O> {
    /// Takes the queued commands; reads only a flag if there are none.
    pub fn take(&self) -> Vec<Command<O>> {
        if !self.any.swap(false, Relaxed) {
            return Vec::new();
        }
        std::mem::take(&mut self.commands.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// State of all links of `segments` at `now`.
pub(crate) fn states(segments: &[Segment], now: Instant) -> LinkStates {
    let ends = |segment: &Segment| {
        let ends = 0..segment.endpoints();
        let both = |end| [Direction::Up, Direction::Down].map(|way| segment.state(end, way, now));
        ends.map(both).collect()
    };
    segments.iter().map(ends).collect()
}

/// Changes a segment, if it exists.
pub(crate) fn change(segments: &mut [Segment], segment: usize, change: Change, now: Instant) {
    if let Some(segment) = segments.get_mut(segment) {
        segment.change(change, now);
    }
}

/// Where commands for a thread go.
struct Outlet<O> {
    commands: Arc<Commands<O>>,
    waker: Waker,
}

impl<O> Outlet<O> {
    fn send(&self, command: Command<O>) {
        self.commands.commands.lock().unwrap_or_else(PoisonError::into_inner).push(command);
        // After the command: a thread that sees the flag finds it.
        self.commands.any.store(true, Relaxed);
        self.waker.wake();
    }
}

/// A handle of a running engine, for other threads.
pub struct Remote<O>(Arc<Outlets<O>>);

struct Outlets<O> {
    threads: Threads,
    outlets: Vec<Outlet<O>>,
    /// Held while a port is added, so that all threads number the ports alike.
    attaching: Mutex<()>,
}

impl<O> Clone for Remote<O> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Maximum time for the engine to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

impl<O> Remote<O> {
    /// A handle of threads with these wakers.
    pub(crate) fn new(threads: Threads, wakers: impl Iterator<Item = Waker>) -> Self {
        let outlets = wakers.map(|waker| Outlet { commands: Arc::default(), waker }).collect();
        Self(Arc::new(Outlets { threads, outlets, attaching: Mutex::default() }))
    }

    /// The commands for a thread.
    pub(crate) fn commands(&self, thread: usize) -> Arc<Commands<O>> {
        self.0.outlets[thread].commands.clone()
    }

    /// Wakes all threads.
    pub(crate) fn wake(&self) {
        self.0.outlets.iter().for_each(|outlet| outlet.waker.wake());
    }

    /// Changes a segment as soon as the engine handles the command.
    pub fn change(&self, segment: usize, change: Change) {
        self.outlet(segment).send(Command::Change(segment, change));
    }

    /// Current state of all links; `None` if the engine does not answer within a second.
    pub fn states(&self) -> Option<LinkStates> {
        let ask = |outlet: &Outlet<O>| {
            let (to, from) = sync_channel(1);
            outlet.send(Command::ReportStates(to));
            from
        };
        let requests: Vec<_> = self.0.outlets.iter().map(ask).collect();
        let answers = requests.into_iter().map(|from| from.recv_timeout(ANSWER_TIMEOUT).ok());
        let mut answers = answers.collect::<Option<Vec<_>>>()?;
        let segments = 0..answers.first()?.len();
        let own = |segment| std::mem::take(&mut answers[self.0.threads.of(segment)][segment]);
        Some(segments.map(own).collect())
    }

    /// Calls a function with the observer, between two frames.
    pub fn with_observer(&self, what: impl FnOnce(&mut O) + Send + 'static) {
        self.0.outlets[0].send(Command::Observer(Box::new(what)));
    }

    /// Attaches a link to a segment, with `end`, the descriptor of its interface, for its
    /// frames. Returns its place. `on_attached` is called with the observer before the first
    /// frame.
    ///
    /// # Errors
    /// If the frame path rejects the port, the segment does not exist, or the engine does
    /// not answer within a second.
    pub fn attach(
        &self,
        segment: usize,
        link: Endpoint,
        end: OwnedFd,
        on_attached: impl FnOnce(&mut O, Place) + Send + 'static,
    ) -> io::Result<Place> {
        self.attach_to(AttachTo::Segment(segment, Box::new(link)), end, on_attached)
    }

    /// Attaches the interface of a node in one VLAN of its trunk, which is at `trunk`; `end` is the
    /// descriptor of the interface.
    ///
    /// # Errors
    /// If the frame path rejects the port, there is no such trunk, or the engine does not answer within a
    /// second.
    pub fn attach_vlan(&self, trunk: Place, vlan: u16, end: OwnedFd) -> io::Result<()> {
        self.attach_to(AttachTo::Trunk(trunk, vlan), end, |_, _| {}).map(drop)
    }

    fn attach_to(
        &self,
        to: AttachTo,
        end: OwnedFd,
        on_attached: impl FnOnce(&mut O, Place) + Send + 'static,
    ) -> io::Result<Place> {
        let segment = to.segment();
        let attaching = self.0.attaching.lock().unwrap_or_else(PoisonError::into_inner);
        let (answers, from) = sync_channel(1);
        let report = move |observer: &mut O, place: io::Result<Place>| {
            if let Ok(place) = &place {
                on_attached(observer, *place);
            }
            // The requester may no longer wait.
            let _ = answers.try_send(place);
        };
        let new_port = NewPort { to, end, on_attached: Box::new(report) };
        self.outlet(segment).send(Command::Attach(Box::new(new_port)));
        let answer = from.recv_timeout(ANSWER_TIMEOUT);
        let place = answer
            .unwrap_or_else(|_| Err(io::Error::other("the forwarding thread does not answer")))?;
        // Only then, and before the next port: a port has one number in all threads.
        let own = self.0.threads.of(segment);
        for (_, other) in self.0.outlets.iter().enumerate().filter(|(thread, _)| *thread != own) {
            other.send(Command::Reserve(place));
        }
        drop(attaching);
        Ok(place)
    }

    /// Detaches the link of a removed node: the link carries nothing more, and its
    /// descriptor is closed. The link's place stays reserved.
    pub fn detach(&self, place: Place) {
        let (to, from) = sync_channel(1);
        self.outlet(place.segment).send(Command::Detach(place, to));
        // Closing takes the kernel tens of milliseconds, so a separate thread does it.
        std::thread::spawn(move || drop(from.recv_timeout(ANSWER_TIMEOUT)));
    }

    fn outlet(&self, segment: usize) -> &Outlet<O> {
        &self.0.outlets[self.0.threads.of(segment)]
    }
}
