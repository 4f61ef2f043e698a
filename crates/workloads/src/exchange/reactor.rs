//! A runtime of one thread for stacks that want one, within the loops of an exchange:
//! it ends at the deadline and at the word to stop.

use super::failure::{Failure, Reason};
use super::watch::Watch;
use crate::clock::{Nanos, monotonic_now};
use crate::error::Error;
use std::future::{Future, poll_fn};
use std::os::fd::{AsRawFd, RawFd};
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep_until;

/// The runtime.
pub struct Reactor(Runtime);

/// A descriptor that somebody else owns.
struct Borrowed(RawFd);

impl AsRawFd for Borrowed {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

impl Reactor {
    /// # Errors
    /// When the kernel has no descriptors for it.
    pub fn new() -> Result<Self, Error> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build();
        runtime.map(Self).map_err(Error::io("start a loop for sockets"))
    }

    /// For what is to be made, or to go on, within the runtime.
    pub fn runtime(&self) -> &Runtime {
        &self.0
    }

    /// Has `future` go on until it is done, or until `until`: then there is nothing.
    /// What was spawned goes on meanwhile, too.
    ///
    /// # Errors
    /// When the word to stop comes or has come.
    pub fn run<T>(
        &self,
        watch: &mut Watch<'_>,
        until: Option<Nanos>,
        future: impl Future<Output = T>,
    ) -> Result<Option<T>, Failure> {
        let stopped = || Failure::of(Reason::Stopped, "the run was ended");
        if watch.stopped() {
            return Err(stopped());
        }
        self.0.block_on(async {
            let control = Borrowed(watch.descriptor());
            // SAFETY: the descriptor is the control channel's, which stays open for as
            // long as the watch, and so longer than this call.
            let control = unsafe { AsyncFd::register_with_interest(control, Interest::READABLE) };
            let control = control.map_err(|error| {
                Failure::io("listen to the control channel")(error.into_parts().1)
            })?;
            let mut future = pin!(future);
            let mut end = pin!(until.map(|until| sleep_until(instant(until).into())));
            poll_fn(|context| {
                if let Poll::Ready(out) = future.as_mut().poll(context) {
                    return Poll::Ready(Ok(Some(out)));
                }
                while let Poll::Ready(ready) = control.poll_read_ready(context) {
                    let Ok(mut ready) = ready else { return Poll::Ready(Err(stopped())) };
                    watch.hear();
                    ready.clear_ready();
                    if watch.stopped() {
                        return Poll::Ready(Err(stopped()));
                    }
                }
                match end.as_mut().as_pin_mut().map(|end| end.poll(context)) {
                    Some(Poll::Ready(())) => Poll::Ready(Ok(None)),
                    _ => Poll::Pending,
                }
            })
            .await
        })
    }

    /// The same, of something that may fail: at the deadline it has.
    ///
    /// # Errors
    /// Its own, a timeout at the deadline, and when told to stop.
    pub fn finish<T>(
        &self,
        watch: &mut Watch<'_>,
        deadline: Nanos,
        future: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        self.run(watch, Some(deadline), future)?.unwrap_or_else(|| Err(Failure::timeout()))
    }
}

/// The moment of the run's clock, which is this one's, too.
fn instant(at: Nanos) -> Instant {
    Instant::now() + Duration::from_nanos(at.saturating_sub(monotonic_now()))
}
