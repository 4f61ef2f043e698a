//! A single-threaded async runtime for stacks that need one, inside the loops of an exchange: it
//! stops at the deadline and at a stop message.

use crate::error::Error;
use crate::exchange::failure::{Failure, Reason};
use crate::exchange::watch::Watch;
use std::future::{Future, poll_fn};
use std::os::fd::{AsRawFd, RawFd};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep_until;
use units::Instant;

/// The async runtime.
pub struct Reactor(Runtime);

/// A borrowed descriptor.
struct Borrowed(RawFd);

impl AsRawFd for Borrowed {
    fn as_raw_fd(&self) -> RawFd {
        self.0
    }
}

impl Reactor {
    /// # Errors
    /// No descriptors left.
    pub fn new() -> Result<Self, Error> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build();
        runtime.map(Self).map_err(Error::io("start the async runtime"))
    }

    /// The runtime, to spawn tasks or create objects in it.
    pub fn runtime(&self) -> &Runtime {
        &self.0
    }

    /// Runs `future` to completion or until `until`; none at `until`. Spawned tasks run as well.
    ///
    /// # Errors
    /// After a stop message.
    pub fn run<T>(
        &self,
        watch: &mut Watch<'_>,
        until: Option<Instant>,
        future: impl Future<Output = T>,
    ) -> Result<Option<T>, Failure> {
        let stopped = || Failure::of(Reason::Stopped, "the run was stopped");
        if watch.stopped() {
            return Err(stopped());
        }
        self.0.block_on(async {
            let control = Borrowed(watch.descriptor());
            // SAFETY: the descriptor belongs to the control channel, which stays open as long as
            // `watch`, so longer than this call.
            let control = unsafe { AsyncFd::register_with_interest(control, Interest::READABLE) };
            let control = control.map_err(|error| {
                Failure::io("listen to the control channel")(error.into_parts().1)
            })?;
            let mut future = pin!(future);
            let mut end = pin!(until.map(|until| sleep_until(std_time(until).into())));
            poll_fn(|context| {
                // First, so that a result at the deadline is no timeout.
                if let Poll::Ready(out) = future.as_mut().poll(context) {
                    return Poll::Ready(Ok(Some(out)));
                }
                // Until it is pending: only then does the runtime wake this task for the next
                // message.
                while let Poll::Ready(ready) = control.poll_read_ready(context) {
                    let Ok(mut ready) = ready else { return Poll::Ready(Err(stopped())) };
                    watch.read_control();
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

    /// Like `run`, for a fallible future; the deadline is a timeout.
    ///
    /// # Errors
    /// The future's error, a timeout at the deadline, or after a stop message.
    pub fn finish<T>(
        &self,
        watch: &mut Watch<'_>,
        deadline: Instant,
        future: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        self.run(watch, Some(deadline), future)?.unwrap_or_else(|| Err(Failure::timeout()))
    }
}

/// Converts a time of the run's clock, which is also that of `std::time::Instant`.
fn std_time(at: Instant) -> std::time::Instant {
    std::time::Instant::now() + Duration::from_nanos((at - clock::now()).as_ns())
}
