//! Main loop of a thread of the engine: reads frames, forwards those due, and sleeps.

mod commands;

use crate::io::FrameIo;
use crate::moderation::Moderation;
use crate::observer::{LinkInterval, Observer, Place};
use crate::outcome::Outcome;
use crate::priority::Governor;
use crate::remote::Commands;
use crate::segment::Segment;
use crate::shared_observer::SharedObserver;
use crate::spec::{Delivery, SegmentSpec};
use crate::stalls::StallDetector;
use crate::vlan_ports::VlanPorts;
use link::{Direction, Totals};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use units::{Instant, Span};

/// Signals to a worker, and its counters.
#[derive(Debug, Default)]
pub(crate) struct Control {
    pub begin: AtomicBool,
    pub begun: AtomicBool,
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
    /// Further ports of trunks.
    vlan_ports: VlanPorts,
    observer: SharedObserver<O>,
    commands: Arc<Commands<O>>,
    watch: StallDetector,
    spin: Span,
    /// Frames to send, each with its send time and whether the port accepted it; empty
    /// between calls.
    leaving: Vec<(Delivery, Instant, bool)>,
}

/// Circumstances of a sleep.
struct Sleep {
    from: Instant,
    /// When the next frame is due.
    until: Option<Instant>,
    /// No frame that arrives after `from` is due before this time.
    known_until: Instant,
    /// Time to ignore arrivals for, so that receivers run.
    pause: Span,
}

impl Sleep {
    /// The time until which arrivals may be ignored, if the next frame needs the engine at `wake_at`.
    fn doze_until(&self, wake_at: Option<Instant>) -> Option<Instant> {
        if self.until.is_some_and(|until| until <= self.known_until) {
            return wake_at;
        }
        let end = self.from + self.pause;
        (self.pause > Span::ZERO).then(|| wake_at.map_or(end, |wake_at| wake_at.min(end)))
    }
}

/// Maximum interval of counters and settings: a minute's outage is visible.
const MAX_INTERVAL: Span = Span::from_s(10);

/// Totals of each link, by segment and endpoint.
type Measured = Vec<Vec<[Totals; 2]>>;

/// Maximum frames read before due ones are checked again.
const BATCH: usize = 64;
/// The largest frame with its link header, VLAN tag and [`crate::SegmentSpec::prefix`].
const BUFFER_SIZE: usize = 65_536 + 18 + 10;
/// Maximum frames of one segment that are read, sent or counted in a row: each step keeps
/// its data in the CPU caches, and delays other frames by microseconds at most.
const MAX_ROW: usize = 16;
/// Maximum wait of a due frame for older frames that have arrived but are not yet read.
/// After that the due frame leaves, and the older ones count from then.
const MAX_REORDER_WAIT: Span = Span::from_us(200);
/// The longest busy-wait before a due time: a generous bound for timer lateness.
const MAX_SPIN: Span = Span::from_us(60);
/// The longest sleep without waking for arrivals; the kernel's ring holds them meanwhile.
const MAX_DOZE: Span = Span::from_ms(1);

impl<Io: FrameIo, O: Observer> Worker<Io, O> {
    /// A worker that busy-waits for `spin` (at most 60 us) before a frame is due.
    pub fn new(
        io: Io,
        segments: &[SegmentSpec],
        places: Vec<Place>,
        observer: SharedObserver<O>,
        commands: Arc<Commands<O>>,
        spin: Span,
    ) -> Self {
        let vlan_ports = VlanPorts::new(segments);
        let segments: Vec<_> = segments.iter().map(Segment::new).collect();
        let mut ports: Vec<_> = segments.iter().map(|s| vec![0; s.endpoints()]).collect();
        for (port, place) in places.iter().enumerate() {
            if vlan_ports.has(port) {
                continue;
            }
            // Places of other threads do not exist here.
            if let Some(slot) = ports[place.segment].get_mut(place.endpoint) {
                *slot = port;
            }
        }
        Self {
            clocks: vec![Instant::START; segments.len()],
            io,
            segments,
            places,
            ports,
            vlan_ports,
            observer,
            commands,
            watch: StallDetector::default(),
            spin: spin.min(MAX_SPIN),
            leaving: Vec::with_capacity(MAX_ROW),
        }
    }

    /// Carries frames until `control` stops it.
    pub fn run(mut self, control: &Control) -> io::Result<Outcome<SharedObserver<O>>> {
        let mut now = clock::now();
        let mut governor = Governor::raise(now);
        let mut moderation = Moderation::new(now);
        let mut buffer = vec![0; BUFFER_SIZE];
        let mut begun = false;
        let mut measured = None;
        let mut interval = Instant::START;
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
                control.begun.store(true, Relaxed);
            }
            if measured.is_none() && control.end.load(Relaxed) {
                measured = Some(self.measured(now));
                self.observer.end(now);
                self.watch.measure(false);
                control.ended.store(true, Relaxed);
            }
            self.execute(now);
            if begun && measured.is_none() && now >= interval {
                self.end_interval(now);
                interval = now + MAX_INTERVAL;
            }
            control.frames.fetch_add(taken as u64, Relaxed);
            let waiting = self.segments.iter().map(Segment::waiting).sum::<usize>();
            control.waiting.store(waiting as u64, Relaxed);
            // After commands and signals, which may add earlier events.
            let until = self.segments.iter().filter_map(Segment::next).min();
            // Until then only frames in flight can become due, whatever has arrived since.
            let lookahead = self.segments.iter_mut().map(Segment::lookahead).min();
            let known_until = now + lookahead.unwrap_or_default().min(MAX_DOZE);
            now = clock::now();
            self.watch.on_work(now);
            let pause = moderation.pause(taken, now);
            let due = until.is_some_and(|until| until <= now + self.spin);
            if taken >= BATCH || due {
                // A turn without a wait counts as well: a flooded thread must lower its priority,
                // too.
                governor.waited(now, now);
                continue;
            }
            let from = now;
            now = self.sleep(Sleep { from, until, known_until, pause })?;
            governor.waited(from, now);
        }
        let totals = measured.unwrap_or_else(|| self.measured(clock::now()));
        let overflows = self.segments.iter().map(Segment::overflows).collect();
        let refused = self.segments.iter_mut().flat_map(Segment::refused).collect();
        let priority = governor.priority();
        let stalls = self.watch.stalls();
        let observer = self.observer;
        Ok(Outcome { observer, priority, totals, overflows, refused, stalls })
    }

    /// Sleeps, and returns the time.
    fn sleep(&mut self, sleep: Sleep) -> io::Result<Instant> {
        let wake_at = sleep.until.map(|until| until - self.spin);
        let doze_until = sleep.doze_until(wake_at).filter(|_| self.io.can_doze());
        match doze_until {
            Some(wake_at) => self.io.doze(sleep.from, wake_at)?,
            None => self.io.wait(sleep.from, wake_at)?,
        }
        let now = clock::now();
        match doze_until {
            Some(_) => self.watch.on_doze(doze_until, now),
            None => self.watch.on_wait(sleep.until, now),
        }
        Ok(now)
    }

    /// Counters so far.
    fn measured(&mut self, now: Instant) -> Measured {
        self.end_interval(now);
        self.segments.iter().map(Segment::totals).collect()
    }

    /// Ends an interval of all links, and passes all that ended since the last call to the observer:
    /// kept here, they would grow with the duration of a run.
    fn end_interval(&mut self, now: Instant) {
        let mut ended = Vec::new();
        for (number, segment) in self.segments.iter_mut().enumerate() {
            segment.end_interval(now);
            for (endpoint, ways) in segment.intervals().into_iter().enumerate() {
                let place = Place { segment: number, endpoint };
                for (direction, intervals) in Direction::BOTH.into_iter().zip(ways) {
                    let row = |interval| LinkInterval { place, direction, interval };
                    ended.extend(intervals.into_iter().map(row));
                }
            }
        }
        if !ended.is_empty() {
            self.observer.with(|observer| observer.intervals(ended));
        }
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
                None => clock::now(),
            };
            last = self.clocks[place.segment].max(at);
            self.clocks[place.segment] = last;
            if last > at {
                self.watch.on_backlog(last - at);
            }
            let segment = &mut self.segments[place.segment];
            let (port, len, prefix) = (received.port, received.len, segment.prefix());
            let len = self.vlan_ports.add_tag(port, buffer, len, prefix);
            let frame = &buffer[..len];
            let bytes = frame.get(prefix..).unwrap_or_default();
            self.observer.with(|observer| observer.sent(place, bytes, at));
            segment.send(place.endpoint, frame, last);
            (taken, row) = (taken + 1, row + 1);
        }
        own.into_iter().for_each(|segment| self.deliver(segment, last));
        // Arrivals up to `last` are read. Older ones may follow, so frames due after `last` wait
        // for them, but not for long.
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
            let (endpoint, prefix) = (delivery.endpoint, delivery.prefix);
            let port = self.ports[segment][endpoint];
            let (port, frame) =
                self.vlan_ports.outward(segment, endpoint, port, &delivery.frame, prefix);
            *sent = self.io.send(port, frame);
            *at = clock::now();
            self.watch.on_work(*at);
        }
        let any = !self.leaving.is_empty();
        if any {
            self.observer.with(|observer| {
                for (delivery, at, sent) in self.leaving.drain(..) {
                    if sent {
                        let late = at - delivery.intended;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_ends_when_a_frame_is_due() {
        let dozes = |until: Option<u64>, known_until, pause| {
            let until = until.map(Instant::from_ns);
            let (from, known_until) = (Instant::from_ns(1_000), Instant::from_ns(known_until));
            let sleep = Sleep { from, until, known_until, pause: Span::from_ns(pause) };
            sleep.doze_until(until.map(|until| until - Span::from_ns(5))).map(Instant::as_ns)
        };
        assert_eq!((dozes(None, 1_000, 0), dozes(Some(1_500), 1_000, 0)), (None, None));
        assert_eq!(dozes(None, 1_000, 200), Some(1_200));
        assert_eq!(dozes(Some(1_150), 1_000, 200), Some(1_145));
        assert_eq!(dozes(Some(1_900), 1_000, 200), Some(1_200));
        // Nothing else can be due before.
        assert_eq!(
            (dozes(Some(1_900), 2_000, 200), dozes(Some(1_900), 2_000, 0)),
            (Some(1_895), Some(1_895))
        );
    }
}
