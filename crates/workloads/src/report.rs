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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::tests::pair;
    use record::event::{MessageEvent, SinkEvent};
    use std::io::Read;

    fn at(ms: u64) -> Instant {
        Instant::START + Span::from_ms(ms)
    }

    /// Passes the lines that the control channel has.
    fn lines(near: &std::os::unix::net::UnixStream) -> Vec<String> {
        near.set_nonblocking(true).unwrap();
        let mut text = [0; 4_096];
        let length = (&*near).read(&mut text).unwrap_or(0);
        String::from_utf8_lossy(&text[..length]).lines().map(str::to_owned).collect()
    }

    #[test]
    fn readiness_is_reported_once_and_progress_once_a_second() {
        let (near, mut control) = pair();
        let mut reports = Reports::default();
        reports.ready(&mut control).unwrap();
        reports.ready(&mut control).unwrap();
        assert_eq!(lines(&near), ["{\"ready\":{}}"]);
        let mut progress = |sent, ms| reports.progress(&mut control, sent, 0, at(ms)).unwrap();
        assert_eq!(progress(0, 5_000), None, "nothing has changed");
        assert_eq!(progress(1, 5_000), None);
        assert_eq!(progress(2, 5_001), Some(at(6_000)), "too early");
        assert_eq!(progress(1, 5_999), None, "as reported");
        assert_eq!(progress(3, 6_000), None);
        let expected =
            [1, 3].map(|sent| format!("{{\"progress\":{{\"sent\":{sent},\"replies\":0}}}}"));
        assert_eq!(lines(&near), expected);
    }

    #[test]
    fn events_are_written_soon_but_not_shortly_before_a_message() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("e.csv");
        let (near, mut control) = pair();
        let mut events = MessageEvents::<SinkEvent>::create(&path).unwrap();
        let mut reports = Reports::default();
        let written = || std::fs::read_to_string(&path).unwrap().lines().count() - 1;
        let note = |events: &mut MessageEvents<'_, SinkEvent>, ms| {
            let event = MessageEvent { time_ns: at(ms).as_ns(), ..MessageEvent::default() };
            events.record(&event).unwrap();
        };
        let mut flush = |events: &mut _, due: Option<u64>, done, now| {
            reports.flush(&mut control, events, due.map(at), done, at(now)).unwrap()
        };
        assert_eq!(flush(&mut events, None, false, 0), None, "nothing to write");
        note(&mut events, 1_000);
        assert_eq!(flush(&mut events, None, false, 1_000), Some(at(1_200)));
        assert_eq!((flush(&mut events, None, false, 1_199), written()), (Some(at(1_200)), 0));
        // A message is due in 1 ms, and then in 3 ms.
        assert_eq!((flush(&mut events, Some(1_201), false, 1_200), written()), (None, 0));
        assert_eq!((flush(&mut events, Some(1_203), false, 1_200), written()), (None, 1));
        // With a message always close, after a second.
        note(&mut events, 2_000);
        assert_eq!((flush(&mut events, Some(3_000), false, 2_999), written()), (None, 1));
        assert_eq!((flush(&mut events, Some(3_001), false, 3_000), written()), (None, 2));
        // At once at the end, and only then it is reported.
        note(&mut events, 4_000);
        assert_eq!(lines(&near), Vec::<String>::new());
        assert_eq!((flush(&mut events, None, true, 4_000), written()), (None, 3));
        flush(&mut events, None, true, 4_001);
        flush(&mut events, None, false, 4_002);
        flush(&mut events, None, true, 4_003);
        assert_eq!(lines(&near), ["{\"done\":{}}"]);
    }
}
