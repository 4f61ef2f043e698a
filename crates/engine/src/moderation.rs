//! Fewer wake-ups of the engine while frames are many and all CPUs are busy, so that receivers get
//! CPU time before their sockets are full (interrupt moderation of network cards).

use std::fs::File;
use std::os::unix::fs::FileExt;
use units::{Instant, Span};

/// Interval between two decisions.
const WINDOW: Span = Span::from_ms(250);
/// Frames per second from which wake-ups cost receivers more time than frames do (decision 76).
const MANY: u64 = 25_000;
/// Idle time of all CPUs in percent, below which they count as busy.
const BUSY: u64 = 10;
/// Minimum interval between wake-ups by arrivals. A default socket buffer holds the frames of over
/// ten such intervals at 100,000 per second.
const PAUSE: Span = Span::from_us(200);

/// Idle time of all CPUs together, and when it was read.
#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Instant,
    idle: Span,
}

/// Decides how long the engine ignores arrivals after it has read all of them.
#[derive(Debug)]
pub(crate) struct Moderation {
    /// `/proc/uptime`; without it, the engine never pauses.
    uptime: Option<File>,
    cpus: u64,
    /// Start of the window, and frames since then.
    since: Instant,
    frames: u64,
    /// At the start of the window, if frames were many in the one before.
    sample: Option<Sample>,
    pauses: bool,
}

impl Moderation {
    /// Starts without pauses.
    pub fn new(now: Instant) -> Self {
        // SAFETY: a plain call.
        let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) };
        Self {
            uptime: File::open("/proc/uptime").ok(),
            cpus: u64::try_from(cpus).unwrap_or(1).max(1),
            since: now,
            frames: 0,
            sample: None,
            pauses: false,
        }
    }

    /// Call this after each reading of frames, with their number. Returns the time to ignore
    /// arrivals for; zero: none.
    pub fn pause(&mut self, taken: usize, now: Instant) -> Span {
        self.frames += taken as u64;
        let window = now - self.since;
        if window >= WINDOW {
            // The file costs microseconds, so it is not read at low rates.
            let many = is_many(self.frames, window);
            let idle = if many { self.uptime.as_ref().and_then(idle) } else { None };
            self.decide(idle.map(|idle| Sample { at: now, idle }));
            (self.since, self.frames) = (now, 0);
        }
        if self.pauses && taken > 0 { PAUSE } else { Span::ZERO }
    }

    /// Decides for the next window; `None`: frames are few.
    fn decide(&mut self, sample: Option<Sample>) {
        let before = std::mem::replace(&mut self.sample, sample);
        self.pauses = before.zip(sample).is_some_and(|(before, now)| {
            (now.idle - before.idle) * 100 < (now.at - before.at) * (BUSY * self.cpus)
        });
    }
}

fn is_many(frames: u64, window: Span) -> bool {
    u128::from(frames) * 1_000_000_000 >= u128::from(MANY) * u128::from(window.as_ns())
}

/// Idle time of all CPUs together: the second number of `/proc/uptime`, in steps of 10 ms
/// (proc_uptime(5)).
fn idle(uptime: &File) -> Option<Span> {
    let mut text = [0; 64];
    let len = uptime.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(&text[..len]).ok()?;
    let seconds: f64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(Span::from_ns((seconds * 1e9) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_ns(0) + Span::from_ms(ms)
    }

    /// Two CPUs.
    fn moderation() -> Moderation {
        Moderation { uptime: None, cpus: 2, ..Moderation::new(at(0)) }
    }

    fn sample(ms: u64, idle_ms: u64) -> Option<Sample> {
        Some(Sample { at: at(ms), idle: Span::from_ms(idle_ms) })
    }

    #[test]
    fn pauses_while_frames_are_many_and_no_cpu_is_idle() {
        let mut own = moderation();
        own.decide(sample(250, 7_000));
        assert!(!own.pauses, "nothing to compare with");
        own.decide(sample(500, 7_040));
        assert!(own.pauses, "40 ms of 500 ms are idle");
        assert_eq!((own.pause(3, at(249)), own.pause(0, at(249))), (PAUSE, Span::ZERO));
        // An idle CPU: receivers have time.
        own.decide(sample(750, 7_100));
        assert!(!own.pauses);
        own.decide(sample(1_000, 7_100));
        assert!(own.pauses);
        // Few frames.
        own.decide(None);
        assert!(!own.pauses);
        own.decide(sample(2_000, 7_100));
        assert!(!own.pauses);
    }

    #[test]
    fn few_frames_never_pause() {
        assert!(is_many(6_250, WINDOW) && !is_many(6_249, WINDOW));
        let mut own = Moderation::new(at(0));
        for ms in 0..2_000 {
            assert_eq!(own.pause(1, at(ms)), Span::ZERO);
        }
        assert!(own.sample.is_none());
    }

    #[test]
    fn the_kernel_reports_idle_time() {
        let uptime = File::open("/proc/uptime").unwrap();
        let first = idle(&uptime).unwrap();
        // The file can be read again.
        assert!(first > Span::ZERO && idle(&uptime).unwrap() >= first);
    }
}
