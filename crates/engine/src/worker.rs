//! Main loop of a thread of the engine: reads frames, forwards those due, and sleeps.

mod commands;

use crate::io::FrameIo;
use crate::observer::{Observer, Place};
use crate::outcome::Outcome;
use crate::priority::Governor;
use crate::remote::Commands;
use crate::segment::Segment;
use crate::shared_observer::SharedObserver;
use crate::spec::{Delivery, SegmentSpec};
use crate::stalls::StallDetector;
use link::{Instant, Interval, Totals};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// Signals to a worker, and its counters.
#[derive(Debug, Default)]
pub(crate) struct Control {
    pub begin: AtomicBool,
    pub end: AtomicBool,
    pub ended: AtomicBool,
    pub stop: AtomicBool,
    /// Frames that nodes have sent so far.
    pub frames: AtomicU64,
    /// Frames in flight.
    pub waiting: AtomicU64,
}

/// What a thread of the engine carries.
pub(crate) struct Worker<Io, O> {
    io: Io,
    /// All segments; those of other threads are empty, so that an index is the same everywhere.
    segments: Vec<Segment>,
    /// The latest time passed to each segment.
    clocks: Vec<Instant>,
    places: Vec<Place>,
    /// The port of each endpoint, by segment.
    ports: Vec<Vec<usize>>,
    observer: SharedObserver<O>,
    commands: Arc<Commands<O>>,
    watch: StallDetector,
    spin: Instant,
    /// Frames to send, each with its send time and whether the port accepted it; empty
    /// between calls.
    leaving: Vec<(Delivery, Instant, bool)>,
}

/// Maximum interval of counters and settings, in ns: a minute's outage is visible, and
/// 4,096 nodes for an hour take tens of megabytes.
const MAX_INTERVAL: Instant = 10_000_000_000;

type Measured = (Vec<Vec<[Totals; 2]>>, Vec<Vec<[Vec<Interval>; 2]>>);

/// Maximum frames read before due ones are checked again.
const BATCH: usize = 64;
/// The largest frame with its link header, VLAN tag and [`crate::SegmentSpec::prefix`].
const BUFFER_SIZE: usize = 65_536 + 18 + 10;
/// Maximum frames of one segment that are read, sent or counted in a row: each step keeps
/// its data in the CPU caches, and delays other frames by microseconds at most.
const MAX_ROW: usize = 16;
/// Maximum wait of a due frame for older frames that have arrived but are not yet read.
/// After that the due frame leaves, and the older ones count from then.
const MAX_REORDER_WAIT: Instant = 200_000;
/// The longest busy-wait before a due time: a generous bound for timer lateness.
const MAX_SPIN: Instant = 60_000;
/// The longest sleep without waking for arrivals; the kernel's ring holds them meanwhile.
const MAX_DOZE: Instant = 1_000_000;

impl<Io: FrameIo, O: Observer> Worker<Io, O> {
    /// A worker that busy-waits for `spin` ns (at most 60 us) before a frame is due.
    pub fn new(
        io: Io,
        segments: &[SegmentSpec],
        places: Vec<Place>,
        observer: SharedObserver<O>,
        commands: Arc<Commands<O>>,
        spin: Instant,
    ) -> Self {
        let segments: Vec<_> = segments.iter().map(Segment::new).collect();
        let mut ports: Vec<_> = segments.iter().map(|s| vec![0; s.endpoints()]).collect();
        for (port, place) in places.iter().enumerate() {
            // Places of other threads do not exist here.
            if let Some(slot) = ports[place.segment].get_mut(place.endpoint) {
                *slot = port;
            }
        }
        Self {
            clocks: vec![0; segments.len()],
            io,
            segments,
            places,
            ports,
            observer,
            commands,
            watch: StallDetector::default(),
            spin: spin.min(MAX_SPIN),
            leaving: Vec::with_capacity(MAX_ROW),
        }
    }

    /// Carries frames until `control` stops it.
    pub fn run(mut self, control: &Control) -> io::Result<Outcome<SharedObserver<O>>> {
        let mut now = clock::now_ns();
        let mut governor = Governor::raise(now);
        let mut buffer = vec![0; BUFFER_SIZE];
        let mut begun = false;
        let mut measured = None;
        let mut interval = 0;
        self.watch.on_wait(None, now);
        while !control.stop.load(Relaxed) {
            // Frames that arrived before now use the settings that applied until now.
            let (taken, reached) = self.take_in(&mut buffer, now);
            for segment in 0..self.segments.len() {
                self.deliver(segment, reached);
            }
            if !begun && control.begin.load(Relaxed) {
                begun = true;
                interval = now + MAX_INTERVAL;
                self.segments.iter_mut().for_each(|segment| segment.impair(now));
                self.observer.begin(now);
                self.watch.measure(true);
            }
            if measured.is_none() && control.end.load(Relaxed) {
                measured = Some(self.measured(now));
                self.observer.end(now);
                self.watch.measure(false);
                control.ended.store(true, Relaxed);
            }
            self.execute(now);
            if begun && measured.is_none() && now >= interval {
                self.segments.iter_mut().for_each(|segment| segment.end_interval(now));
                interval = now + MAX_INTERVAL;
            }
            control.frames.fetch_add(taken as u64, Relaxed);
            let waiting = self.segments.iter().map(Segment::waiting).sum::<usize>();
            control.waiting.store(waiting as u64, Relaxed);
            let until = self.segments.iter().filter_map(Segment::next).min();
            // Until then only frames in flight can become due, whatever has arrived since.
            let lookahead = self.segments.iter_mut().map(Segment::lookahead).min();
            let known_until = now + lookahead.unwrap_or(0).min(MAX_DOZE);
            now = clock::now_ns();
            self.watch.on_work(now);
            let due = until.is_some_and(|until| until <= now + self.spin);
            if taken >= BATCH || due {
                governor.waited(now, now);
                continue;
            }
            let dozes = until.is_some_and(|until| until <= known_until) && self.io.can_doze();
            let wake_at = until.map(|until| until - self.spin);
            match wake_at.filter(|_| dozes) {
                Some(wake_at) => self.io.doze(now, wake_at)?,
                None => self.io.wait(now, wake_at)?,
            }
            let from = std::mem::replace(&mut now, clock::now_ns());
            match dozes {
                true => self.watch.on_doze(until, now),
                false => self.watch.on_wait(until, now),
            }
            governor.waited(from, now);
        }
        let (totals, intervals) = measured.unwrap_or_else(|| self.measured(clock::now_ns()));
        let refused = self.segments.iter_mut().flat_map(Segment::refused).collect();
        let priority = governor.priority();
        let stalls = self.watch.stalls();
        Ok(Outcome { observer: self.observer, priority, totals, intervals, refused, stalls })
    }

    /// Counters so far, in total and by interval.
    fn measured(&mut self, now: Instant) -> Measured {
        self.segments.iter_mut().for_each(|segment| segment.end_interval(now));
        let totals = self.segments.iter().map(Segment::totals).collect();
        (totals, self.segments.iter_mut().map(Segment::intervals).collect())
    }

    /// Reads frames, oldest first, and forwards those due by then. Returns the number of
    /// frames, and the time up to which all arrivals have been read, if `now` is the
    /// present.
    fn take_in(&mut self, buffer: &mut [u8], now: Instant) -> (usize, Instant) {
        let (mut taken, mut last) = (0, now);
        // Segment of the frames in the current row, and their number.
        let (mut own, mut row) = (None, 0);
        while taken < BATCH {
            let Some(received) = self.io.receive(buffer) else {
                own.into_iter().for_each(|segment| self.deliver(segment, last));
                return (taken, now);
            };
            let place = self.places[received.port];
            if row >= MAX_ROW || own.is_some_and(|own| own != place.segment) {
                own.into_iter().for_each(|segment| self.deliver(segment, last));
                row = 0;
            }
            own = Some(place.segment);
            let at = match received.arrived {
                Some(arrived) => {
                    self.watch.on_frame(arrived);
                    arrived
                }
                None => clock::now_ns(),
            };
            last = self.clocks[place.segment].max(at);
            self.clocks[place.segment] = last;
            if last > at {
                self.watch.on_backlog(last - at);
            }
            let segment = &mut self.segments[place.segment];
            let frame = &buffer[..received.len];
            let bytes = frame.get(segment.prefix()..).unwrap_or_default();
            self.observer.with(|observer| observer.sent(place, bytes, at));
            segment.send(place.endpoint, frame, last);
            (taken, row) = (taken + 1, row + 1);
        }
        own.into_iter().for_each(|segment| self.deliver(segment, last));
        (taken, if last + MAX_REORDER_WAIT < now { now } else { last.min(now) })
    }

    /// Forwards what is due at `now` or at the segment's latest time.
    fn deliver(&mut self, segment: usize, now: Instant) {
        let now = self.clocks[segment].max(now);
        self.clocks[segment] = now;
        while self.send_some(segment, now) {}
        for decided in self.segments[segment].decided() {
            self.observer.with(|observer| observer.decided(segment, decided));
        }
        for drop in self.segments[segment].drops() {
            self.observer.with(|observer| observer.dropped(segment, drop, now));
        }
    }

    /// Sends and counts some of the due frames. Returns whether there were any.
    fn send_some(&mut self, segment: usize, now: Instant) -> bool {
        let own = &mut self.segments[segment];
        let due = std::iter::from_fn(|| own.due(now)).take(MAX_ROW);
        self.leaving.extend(due.map(|delivery| (delivery, now, false)));
        for (delivery, at, sent) in &mut self.leaving {
            let port = self.ports[segment][delivery.endpoint];
            *sent = self.io.send(port, &delivery.frame);
            *at = clock::now_ns();
            self.watch.on_work(*at);
        }
        let any = !self.leaving.is_empty();
        if any {
            self.observer.with(|observer| {
                for (delivery, at, sent) in self.leaving.drain(..) {
                    if sent {
                        let late = at.saturating_sub(delivery.intended);
                        own.delivered(delivery.endpoint, late);
                        observer.delivered(segment, &delivery, at);
                    } else {
                        observer.refused(Place { segment, endpoint: delivery.endpoint }, at);
                    }
                }
            });
        }
        any
    }
}
