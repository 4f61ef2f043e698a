//! The engine: waits for frames and timers, and runs the segments.

mod work;

use self::work::{MAX_SPIN, Work};
use crate::io::{FrameIo, Waker};
use crate::observer::{Observer, Place};
use crate::priority::Priority;
use crate::remote::{Commands, Remote};
use crate::stalls::Stalls;
use crate::{Segment, SegmentSpec};
use link::{Instant, Interval, Totals};
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

/// A running engine, in a separate thread.
pub struct Engine<O> {
    control: Arc<Control>,
    commands: Arc<Commands<O>>,
    waker: Waker,
    /// `None` after a stop.
    thread: Option<JoinHandle<io::Result<Outcome<O>>>>,
}

/// Results of an engine.
pub struct Outcome<O> {
    /// The observer, with everything it recorded.
    pub observer: O,
    /// Scheduling of the thread.
    pub priority: Priority,
    /// Counters of each link during the measurement, by segment and endpoint: up, then
    /// down.
    pub totals: Vec<Vec<[Totals; 2]>>,
    /// The same per interval, with the settings in each.
    pub intervals: Vec<Vec<[Vec<Interval>; 2]>>,
    /// Why changes failed.
    pub refused: Vec<String>,
    /// Stalls of the thread during the measurement.
    pub stalls: Stalls,
}

impl<O: Observer> Engine<O> {
    /// Starts forwarding frames between `places`, one per port, over `segments`.
    ///
    /// # Errors
    /// If the thread does not start.
    pub fn start(
        io: impl FrameIo + 'static,
        waker: Waker,
        segments: Vec<SegmentSpec>,
        places: Vec<Place>,
        observer: O,
    ) -> io::Result<Self> {
        Self::start_spinning(io, waker, segments, places, observer, 0)
    }

    /// As [`Self::start`], but busy-waits for `spin_ns` (at most 60 us) before a frame is
    /// due: frames leave more punctually, at the cost of one CPU.
    ///
    /// # Errors
    /// If the thread does not start.
    pub fn start_spinning(
        io: impl FrameIo + 'static,
        waker: Waker,
        segments: Vec<SegmentSpec>,
        places: Vec<Place>,
        observer: O,
        spin_ns: Instant,
    ) -> io::Result<Self> {
        let control = Arc::new(Control::default());
        let commands = Arc::new(Commands::default());
        let shared = (control.clone(), commands.clone());
        let work = move || {
            let segments = segments.iter().map(Segment::new).collect();
            Work::new(io, segments, places, observer, shared, spin_ns.min(MAX_SPIN)).run()
        };
        let thread = std::thread::Builder::new().name("medium".into()).spawn(work)?;
        Ok(Self { control, commands, waker, thread: Some(thread) })
    }

    /// Enables impairments and starts the measurement.
    pub fn begin(&self) {
        self.control.begin.store(true, Relaxed);
        self.waker.wake();
    }

    /// Ends the measurement and returns when that is done. The engine continues to forward
    /// frames.
    pub fn end(&self) {
        self.control.end.store(true, Relaxed);
        self.waker.wake();
        while !self.control.ended.load(Relaxed) && !self.has_failed() {
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
    }

    /// A handle for other threads, to change links while the engine runs.
    pub fn remote(&self) -> Remote<O> {
        Remote { commands: self.commands.clone(), waker: self.waker.clone() }
    }

    /// Frames that nodes have sent so far.
    pub fn frames(&self) -> u64 {
        self.control.frames.load(Relaxed)
    }

    /// Frames in flight in the medium.
    pub fn waiting(&self) -> u64 {
        self.control.waiting.load(Relaxed)
    }

    /// Whether the engine has ended by itself, which only happens after an error.
    pub fn has_failed(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stops the engine and returns its results. Frames in flight are lost.
    ///
    /// # Errors
    /// If waiting for frames failed while the engine ran.
    pub fn stop(mut self) -> io::Result<Outcome<O>> {
        self.halt().unwrap_or_else(|| Err(io::Error::other("the medium is already stopped")))
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
    /// Also releases the nodes' interfaces after a failed run.
    fn drop(&mut self) {
        drop(self.halt());
    }
}

/// Current CLOCK_MONOTONIC time in nanoseconds, the clock of all nodes.
pub fn monotonic_now() -> Instant {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec that lives over the call; this clock exists everywhere.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
