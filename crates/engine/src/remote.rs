//! Commands from other threads to a running engine.

use crate::{Change, Endpoint, Place, Segment, Waker};
use link::{Direction, Instant, LinkState};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// State of each link, by segment and endpoint: up, then down.
pub type LinkStates = Vec<Vec<[LinkState; 2]>>;

/// Called with the place of a new link, or with the error.
type OnAttached<O> = Box<dyn FnOnce(&mut O, io::Result<Place>) + Send>;

/// A link to add.
pub(crate) struct NewPort<O> {
    pub segment: usize,
    pub link: Endpoint,
    pub end: OwnedFd,
    pub on_attached: OnAttached<O>,
}

pub(crate) enum Command<O> {
    Change(usize, Change),
    ReportStates(SyncSender<LinkStates>),
    Observer(Box<dyn FnOnce(&mut O) + Send>),
    Attach(Box<NewPort<O>>),
    Detach(Place, SyncSender<Option<OwnedFd>>),
}

/// Queue of commands for the engine.
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

/// A handle of a running engine, for other threads.
pub struct Remote<O> {
    pub(crate) commands: Arc<Commands<O>>,
    pub(crate) waker: Waker,
}

impl<O> Clone for Remote<O> {
    fn clone(&self) -> Self {
        Self { commands: self.commands.clone(), waker: self.waker.clone() }
    }
}

/// Maximum time for the engine to answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

impl<O> Remote<O> {
    /// Changes a segment as soon as the engine handles the command.
    pub fn change(&self, segment: usize, change: Change) {
        self.send(Command::Change(segment, change));
    }

    /// Current state of all links; `None` if the engine does not answer within a second.
    pub fn states(&self) -> Option<LinkStates> {
        let (to, from) = sync_channel(1);
        self.send(Command::ReportStates(to));
        from.recv_timeout(ANSWER_TIMEOUT).ok()
    }

    /// Calls a function with the observer, between two frames.
    pub fn with_observer(&self, what: impl FnOnce(&mut O) + Send + 'static) {
        self.send(Command::Observer(Box::new(what)));
    }

    /// Attaches a link to a segment, with `end`, the descriptor of its interface, for its frames. Returns its place. `on_attached` is
    /// called with the observer before the first frame.
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
        let (to, from) = sync_channel(1);
        let report = move |observer: &mut O, place: io::Result<Place>| {
            if let Ok(place) = &place {
                on_attached(observer, *place);
            }
            // The requester may no longer wait.
            let _ = to.try_send(place);
        };
        let new_port = NewPort { segment, link, end, on_attached: Box::new(report) };
        self.send(Command::Attach(Box::new(new_port)));
        let answer = from.recv_timeout(ANSWER_TIMEOUT);
        answer.unwrap_or_else(|_| Err(io::Error::other("the forwarding thread does not answer")))
    }

    /// Detaches the link of a removed node: the link carries nothing more, and its
    /// descriptor is closed. The link's place stays reserved.
    pub fn detach(&self, place: Place) {
        let (to, from) = sync_channel(1);
        self.send(Command::Detach(place, to));
        // Closing takes the kernel tens of milliseconds, so a separate thread does it.
        std::thread::spawn(move || drop(from.recv_timeout(ANSWER_TIMEOUT)));
    }

    fn send(&self, command: Command<O>) {
        self.commands.commands.lock().unwrap_or_else(PoisonError::into_inner).push(command);
        self.commands.any.store(true, Relaxed);
        self.waker.wake();
    }
}
