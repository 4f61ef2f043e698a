//! The engine: waits for frames and times, and lets the segments decide.

mod wishes;

use crate::io::{FrameIo, Waker};
use crate::observer::{Observer, Place};
use crate::priority::{Governor, Priority};
use crate::remote::{Remote, Wishes};
use crate::stalls::{Stalls, Watch};
use crate::{Came, Frame, Instant, Intake, Interval, Segment, SegmentSpec, Totals};
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

struct Work<Io, O> {
    io: Io,
    segments: Vec<Segment>,
    /// The latest time that each segment was told.
    clocks: Vec<Instant>,
    places: Vec<Place>,
    /// The port of each endpoint, by segment.
    ports: Vec<Vec<usize>>,
    observer: O,
    control: Arc<Control>,
    wishes: Arc<Wishes<O>>,
    watch: Watch,
    spin: Instant,
}

/// What is asked and got is written down at least this often, ns: a minute's
/// outage shows, and 4,096 nodes for an hour are held in tens of megabytes.
const INTERVAL: Instant = 10_000_000_000;

type Measured = (Vec<Vec<[Totals; 2]>>, Vec<Vec<[Vec<Interval>; 2]>>);

/// Frames taken in before due ones are looked after again; segments of super-frames
/// count as frames.
const BATCH: usize = 64;
/// How long a frame that is due may wait for older ones that have come and are
/// still to be taken in. Later, it goes, and their time is reckoned from then.
const PATIENCE: Instant = 200_000;
/// The longest spin before a due time: a timer's lateness, generously.
const SPIN: Instant = 60_000;

impl<Io: FrameIo, O: Observer> Work<Io, O> {
    fn new(
        io: Io,
        segments: Vec<Segment>,
        places: Vec<Place>,
        observer: O,
        (control, wishes): (Arc<Control>, Arc<Wishes<O>>),
        spin: Instant,
    ) -> Self {
        let mut ports: Vec<_> = segments.iter().map(|s| vec![0; s.endpoints()]).collect();
        for (port, place) in places.iter().enumerate() {
            ports[place.segment][place.endpoint] = port;
        }
        let clocks = vec![0; segments.len()];
        let watch = Watch::default();
        Self { io, segments, clocks, places, ports, observer, control, wishes, watch, spin }
    }

    fn run(mut self) -> io::Result<Outcome<O>> {
        let mut now = monotonic_now();
        let mut governor = Governor::raise(now);
        let mut intake = Intake::default();
        let mut begun = false;
        let mut measured = None;
        let mut interval = 0;
        self.watch.waited(None, now);
        while !self.control.stop.load(Relaxed) {
            if !begun && self.control.begin.load(Relaxed) {
                begun = true;
                interval = now + INTERVAL;
                self.segments.iter_mut().for_each(|segment| segment.impair(now));
                self.observer.begin(now);
                self.watch.measure(true);
            }
            if measured.is_none() && self.control.end.load(Relaxed) {
                measured = Some(self.measured(now));
                self.observer.end(now);
                self.watch.measure(false);
                self.control.ended.store(true, Relaxed);
            }
            self.fulfil(now);
            if begun && measured.is_none() && now >= interval {
                self.segments.iter_mut().for_each(|segment| segment.end_interval(now));
                interval = now + INTERVAL;
            }
            let (taken, reached) = self.take_in(&mut intake, now);
            for segment in 0..self.segments.len() {
                self.deliver(segment, reached);
            }
            self.control.frames.fetch_add(taken as u64, Relaxed);
            let waiting = self.segments.iter().map(Segment::waiting).sum::<usize>();
            self.control.waiting.store(waiting as u64, Relaxed);
            let until = self.segments.iter().filter_map(Segment::next).min();
            now = monotonic_now();
            self.watch.worked(now);
            let due = until.is_some_and(|until| until <= now + self.spin);
            if taken >= BATCH || due {
                governor.waited(now, now);
                continue;
            }
            self.io.wait(now, until.map(|until| until - self.spin))?;
            let from = std::mem::replace(&mut now, monotonic_now());
            self.watch.waited(until, now);
            governor.waited(from, now);
        }
        let (totals, intervals) = measured.unwrap_or_else(|| self.measured(monotonic_now()));
        let refused = self.segments.iter_mut().flat_map(Segment::refused).collect();
        let priority = governor.priority();
        let stalls = self.watch.stalls();
        Ok(Outcome { observer: self.observer, priority, totals, intervals, refused, stalls })
    }

    /// What was done so far, whole and by intervals.
    fn measured(&mut self, now: Instant) -> Measured {
        self.segments.iter_mut().for_each(|segment| segment.end_interval(now));
        let totals = self.segments.iter().map(Segment::totals).collect();
        (totals, self.segments.iter_mut().map(Segment::intervals).collect())
    }

    /// Takes frames in, older ones first, and passes on those that are due by
    /// then. How many, and up to when all that came has been taken in, if `now`
    /// is the present.
    fn take_in(&mut self, intake: &mut Intake, now: Instant) -> (usize, Instant) {
        let mut taken = 0;
        let mut last = now;
        while taken < BATCH {
            let Some(received) = self.io.receive(intake.room()) else { return (taken, now) };
            let place = self.places[received.port];
            let at = match received.arrived {
                Some(arrived) => {
                    self.watch.took(arrived);
                    arrived
                }
                None => monotonic_now(),
            };
            last = self.clocks[place.segment].max(at);
            if last > at {
                self.watch.behind(last - at);
            }
            let came = match received.has_header {
                true => intake.behind_header(received.len),
                false => Came::Frame(intake.frame(received.len)),
            };
            taken += self.take(place, came, at, last);
            self.deliver(place.segment, last);
        }
        (taken, if last + PATIENCE < now { now } else { last.min(now) })
    }

    /// Gives to its segment what came at `at`, which counts as `now` there. How many
    /// frames it was.
    fn take(&mut self, place: Place, came: Came<'_>, at: Instant, now: Instant) -> usize {
        let segment = &mut self.segments[place.segment];
        match came {
            Came::Frame(frame) => {
                self.observer.sent(place, frame, at);
                segment.send(place.endpoint, frame, now);
                1
            }
            Came::Segments(segments) => {
                let count = segments.count();
                self.observer.sent_segments(place, &segments, at);
                segment.send_segments(place.endpoint, segments, now);
                count
            }
            Came::Nonsense => {
                segment.reject(place.endpoint, now);
                1
            }
        }
    }

    /// Passes on what is due at `now`, or was due when time was last told.
    fn deliver(&mut self, segment: usize, now: Instant) {
        let now = self.clocks[segment].max(now);
        self.clocks[segment] = now;
        while let Some(delivery) = self.segments[segment].due(now) {
            let port = self.ports[segment][delivery.endpoint];
            let sent = match &delivery.frame {
                Frame::Whole(frame) => self.io.send(port, frame),
                Frame::Segments(segments) => self.io.send_segments(port, segments),
            };
            let frames = delivery.frame.count();
            let at = monotonic_now();
            self.watch.worked(at);
            if sent {
                let late = at.saturating_sub(delivery.intended);
                self.segments[segment].delivered(delivery.endpoint, frames, late);
                self.observer.delivered(segment, &delivery, at);
            } else {
                let to = Place { segment, endpoint: delivery.endpoint };
                (0..frames).for_each(|_| self.observer.refused(to, at));
            }
        }
        for decided in self.segments[segment].decided() {
            self.observer.decided(segment, decided);
        }
        for drop in self.segments[segment].drops() {
            self.observer.dropped(segment, drop, now);
        }
    }
}
