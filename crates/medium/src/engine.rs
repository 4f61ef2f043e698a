//! The engine: waits for frames and times, and lets the segments decide.

mod work;

use self::work::{SPIN, Work};
use crate::io::{FrameIo, Waker};
use crate::observer::{Observer, Place};
use crate::priority::Priority;
use crate::remote::{Remote, Wishes};
use crate::stalls::Stalls;
use crate::{Instant, Interval, Segment, SegmentSpec, Totals};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;

#[derive(Debug, Default)]
struct Control {
    begin: AtomicBool,
    end: AtomicBool,
    ended: AtomicBool,
    stop: AtomicBool,
    frames: AtomicU64,
    waiting: AtomicU64,
}

/// An engine at work on a thread of its own.
pub struct Engine<O> {
    control: Arc<Control>,
    wishes: Arc<Wishes<O>>,
    waker: Waker,
    /// Nothing once it has been stopped.
    thread: Option<JoinHandle<io::Result<Outcome<O>>>>,
}

/// What an engine leaves behind.
pub struct Outcome<O> {
    /// The observer, with all it has seen.
    pub observer: O,
    /// How the thread was scheduled.
    pub priority: Priority,
    /// What each link did while it was measured, by segment and endpoint: up,
    /// then down.
    pub totals: Vec<Vec<[Totals; 2]>>,
    /// The same by intervals, with what was asked in each.
    pub intervals: Vec<Vec<[Vec<Interval>; 2]>>,
    /// Why changes could not be made.
    pub refused: Vec<String>,
    /// When the machine did not let the thread run, while it was measured.
    pub stalls: Stalls,
}

impl<O: Observer> Engine<O> {
    /// Starts carrying frames between `places`, a port each, over `segments`.
    ///
    /// # Errors
    /// When the thread cannot be made.
    pub fn start(
        io: impl FrameIo + 'static,
        waker: Waker,
        segments: Vec<SegmentSpec>,
        places: Vec<Place>,
        observer: O,
    ) -> io::Result<Self> {
        Self::start_spinning(io, waker, segments, places, observer, 0)
    }

    /// The same, but stays awake for `spin_ns` (60 us at most) before a frame is
    /// due: it then leaves sharper in time and costs a processor more.
    ///
    /// # Errors
    /// When the thread cannot be made.
    pub fn start_spinning(
        io: impl FrameIo + 'static,
        waker: Waker,
        segments: Vec<SegmentSpec>,
        places: Vec<Place>,
        observer: O,
        spin_ns: Instant,
    ) -> io::Result<Self> {
        let control = Arc::new(Control::default());
        let wishes = Arc::new(Wishes::default());
        let shared = (control.clone(), wishes.clone());
        let work = move || {
            let segments = segments.iter().map(Segment::new).collect();
            Work::new(io, segments, places, observer, shared, spin_ns.min(SPIN)).run()
        };
        let thread = std::thread::Builder::new().name("medium".into()).spawn(work)?;
        Ok(Self { control, wishes, waker, thread: Some(thread) })
    }

    /// Switches impairments on and begins to measure.
    pub fn begin(&self) {
        self.control.begin.store(true, Relaxed);
        self.waker.wake();
    }

    /// Ends measuring; frames are carried on. Comes back when it is done.
    pub fn end(&self) {
        self.control.end.store(true, Relaxed);
        self.waker.wake();
        while !self.control.ended.load(Relaxed) && !self.has_failed() {
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
    }

    /// A hold on it for other threads, to change links while it runs.
    pub fn remote(&self) -> Remote<O> {
        Remote { wishes: self.wishes.clone(), waker: self.waker.clone() }
    }

    /// Frames that nodes have sent so far.
    pub fn frames(&self) -> u64 {
        self.control.frames.load(Relaxed)
    }

    /// Frames that are under way in the medium now.
    pub fn waiting(&self) -> u64 {
        self.control.waiting.load(Relaxed)
    }

    /// Whether the engine has ended by itself, which only an error makes it do.
    pub fn has_failed(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stops, and gives what was seen. Frames still under way are lost.
    ///
    /// # Errors
    /// When waiting for frames failed while the engine ran.
    pub fn stop(mut self) -> io::Result<Outcome<O>> {
        self.halt().unwrap_or_else(|| Err(io::Error::other("the medium had been stopped before")))
    }
}

impl<O> Engine<O> {
    fn halt(&mut self) -> Option<io::Result<Outcome<O>>> {
        self.control.stop.store(true, Relaxed);
        self.waker.wake();
        let panicked = |_| Err(io::Error::other("the medium's thread panicked"));
        self.thread.take().map(|thread| thread.join().unwrap_or_else(panicked))
    }
}

impl<O> std::ops::Drop for Engine<O> {
    /// A run that failed lets go of the nodes' interfaces, too.
    fn drop(&mut self) {
        drop(self.halt());
    }
}

/// A moment of CLOCK_MONOTONIC in nanoseconds, the clock of all nodes.
pub fn monotonic_now() -> Instant {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec that lives over the call; this clock exists everywhere.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
