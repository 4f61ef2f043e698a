//! Reports of a program to its parent process: ready, progress, done; and when to write its events.

use crate::control::Control;
use crate::error::Error;
use crate::events::MessageEvents;
use record::control::Status;
use serde::Serialize;
use units::{Instant, Span};

/// Minimum interval of progress reports.
const PROGRESS: Span = Span::from_s(1);
/// Maximum time records are buffered.
const FLUSH_AFTER: Span = Span::from_ms(200);
/// The same while the next message is always close.
const FLUSH_BUSY_AFTER: Span = Span::from_s(1);
/// Records are not written within this time before a message: a slow disk would delay it.
const QUIET_BEFORE_SEND: Span = Span::from_ms(2);

/// What a program has reported.
#[derive(Debug, Default)]
pub struct Reports {
    ready: bool,
    done: bool,
    counts: (u64, u64),
    progress_at: Instant,
}

impl Reports {
    /// Reports once that the program is ready.
    pub fn ready(&mut self, control: &mut Control) -> Result<(), Error> {
        match std::mem::replace(&mut self.ready, true) {
            true => Ok(()),
            false => control.send_status(&Status::Ready {}),
        }
    }

    /// Whether it has reported that it is ready.
    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// Reports the numbers of messages sent and answered if they have changed, at most once a
    /// second. Returns when to call it next, if they have changed and it was too early.
    pub fn progress(
        &mut self,
        control: &mut Control,
        sent: u64,
        replies: u64,
        now: Instant,
    ) -> Result<Option<Instant>, Error> {
        if (sent, replies) == self.counts {
            return Ok(None);
        }
        if now < self.progress_at {
            return Ok(Some(self.progress_at));
        }
        control.send_status(&Status::Progress { sent, replies })?;
        (self.counts, self.progress_at) = ((sent, replies), now + PROGRESS);
        Ok(None)
    }

    /// Writes the events, not shortly before the next message at `due`, and reports once that the
    /// program is `done`. Returns when to call it next.
    pub fn flush<E: Serialize + Default>(
        &mut self,
        control: &mut Control,
        events: &mut MessageEvents<'_, E>,
        due: Option<Instant>,
        done: bool,
        now: Instant,
    ) -> Result<Option<Instant>, Error> {
        // The left side first: `done` may be false again later, and is reported only once.
        let finished = done && !std::mem::replace(&mut self.done, done);
        let mut wake = None;
        if let Some(oldest) = events.oldest() {
            let calm = due.is_none_or(|due| due > now + QUIET_BEFORE_SEND);
            let late = now >= oldest + if calm { FLUSH_AFTER } else { FLUSH_BUSY_AFTER };
            if finished || late {
                events.save()?;
            } else if now < oldest + FLUSH_AFTER {
                wake = Some(oldest + FLUSH_AFTER);
            }
        }
        if finished {
            control.send_status(&Status::Done {})?;
        }
        Ok(wake)
    }
}
