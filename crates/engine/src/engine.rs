//! The engine: threads that wait for frames and timers, and run the segments.

use crate::io::FrameIo;
use crate::observer::{Observer, Place};
use crate::outcome::Outcome;
use crate::remote::Remote;
use crate::shared_observer::SharedObserver;
use crate::spec::SegmentSpec;
use crate::threads::Threads;
use crate::worker::{Control, Worker};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use units::Span;

/// A running engine, in one or several separate threads.
pub struct Engine<O: Observer> {
    threads: Threads,
    running: Vec<Running<O>>,
    remote: Remote<O>,
}

/// One thread.
struct Running<O> {
    control: Arc<Control>,
    thread: JoinHandle<io::Result<Outcome<SharedObserver<O>>>>,
}

impl<O: Observer> Engine<O> {
    /// Starts forwarding frames between `places`, one per port, over `segments`, in one thread.
    ///
    /// # Errors
    /// If the thread does not start.
    pub fn start(
        io: impl FrameIo + 'static,
        segments: Vec<SegmentSpec>,
        places: Vec<Place>,
        observer: O,
    ) -> io::Result<Self> {
        let threads = Threads::balanced(&segments, 1);
        Self::start_threads(&threads, vec![io], segments, places, observer, Span::ZERO)
    }

    /// As [`Self::start`], with a thread for each of `ios`: one per thread of `threads`, with
    /// ports as in [`Threads::split`]. Each busy-waits for `spin` (at most 60 us) before a
    /// frame is due: frames leave more punctually, at the cost of one CPU each.
    ///
    /// # Errors
    /// If a thread does not start.
    pub fn start_threads(
        threads: &Threads,
        ios: Vec<impl FrameIo + 'static>,
        segments: Vec<SegmentSpec>,
        places: Vec<Place>,
        observer: O,
        spin: Span,
    ) -> io::Result<Self> {
        let observers = SharedObserver::split(observer, threads.count());
        let remote = Remote::new(threads.clone(), ios.iter().map(FrameIo::waker));
        let mut engine = Self { threads: threads.clone(), running: Vec::new(), remote };
        for (number, (io, observer)) in ios.into_iter().zip(observers).enumerate() {
            let control = Arc::new(Control::default());
            let (controlled, places) = (control.clone(), places.clone());
            let (commands, segments) =
                (engine.remote.commands(number), threads.own(number, &segments));
            let work = move || {
                Worker::new(io, &segments, places, observer, commands, spin).run(&controlled)
            };
            let name = if number == 0 { "medium".to_owned() } else { format!("medium-{number}") };
            let thread = std::thread::Builder::new().name(name).spawn(work)?;
            engine.running.push(Running { control, thread });
        }
        Ok(engine)
    }

    /// Enables impairments and starts the measurement, and returns when that is done: on a busy
    /// machine, a program started right after it would otherwise send its first frames before.
    pub fn begin(&self) {
        self.signal(|control| control.begin.store(true, Relaxed));
        self.wait_for(|control| &control.begun);
    }

    /// Ends the measurement and returns when that is done. The engine continues to forward
    /// frames.
    pub fn end(&self) {
        self.signal(|control| control.end.store(true, Relaxed));
        self.wait_for(|control| &control.ended);
    }

    /// Waits until all threads have set a signal, or one has failed.
    fn wait_for(&self, signal: impl Fn(&Control) -> &AtomicBool) {
        let is_set = |thread: &Running<O>| signal(&thread.control).load(Relaxed);
        while !self.running.iter().all(is_set) && !self.has_failed() {
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
    }

    /// A handle for other threads, to change links while the engine runs.
    pub fn remote(&self) -> Remote<O> {
        self.remote.clone()
    }

    /// Frames that nodes have sent so far.
    pub fn frames(&self) -> u64 {
        self.running.iter().map(|thread| thread.control.frames.load(Relaxed)).sum()
    }

    /// Frames in flight in the segments.
    pub fn waiting(&self) -> u64 {
        self.running.iter().map(|thread| thread.control.waiting.load(Relaxed)).sum()
    }

    /// Whether a thread has ended by itself, which only happens after an error.
    pub fn has_failed(&self) -> bool {
        self.running.is_empty() || self.running.iter().any(|thread| thread.thread.is_finished())
    }

    /// Stops the engine and returns its results. Frames in flight are lost.
    ///
    /// # Errors
    /// If waiting for frames failed while the engine ran.
    pub fn stop(mut self) -> io::Result<Outcome<O>> {
        let parts = self.halt().into_iter().collect::<io::Result<Vec<_>>>()?;
        let outcome = Outcome::join(parts, &self.threads);
        outcome.ok_or_else(|| io::Error::other("the engine is already stopped"))
    }

    fn signal(&self, set: impl Fn(&Control)) {
        self.running.iter().for_each(|thread| set(&thread.control));
        self.remote.wake();
    }

    /// Stops all threads; their results in order.
    fn halt(&mut self) -> Vec<io::Result<Outcome<SharedObserver<O>>>> {
        self.signal(|control| control.stop.store(true, Relaxed));
        let panicked = |_| Err(io::Error::other("a forwarding thread panicked"));
        let threads = std::mem::take(&mut self.running).into_iter();
        threads.map(|thread| thread.thread.join().unwrap_or_else(panicked)).collect()
    }
}

impl<O: Observer> Drop for Engine<O> {
    /// Also releases the nodes' interfaces after a failed run.
    fn drop(&mut self) {
        drop(self.halt());
    }
}

#[cfg(test)]
#[path = "engine_tests.rs"]
mod tests;
