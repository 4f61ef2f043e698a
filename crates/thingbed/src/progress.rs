//! Progress of a run, on a terminal or in a log.

use crate::{printable, remark};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use runner::{Phase, Progress, ProgressSink};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Interval between log lines of a long phase.
const PERIOD: Duration = Duration::from_secs(60);

/// Shows the progress of a run: a bar on a terminal, one line per phase in a log.
pub struct Screen {
    bar: Option<ProgressBar>,
    log_lines: bool,
    last: Option<(Phase, Instant)>,
    /// Time of the last message that virtual time is paused.
    paused_at: Option<Instant>,
    started: Instant,
    /// Estimated time until the sweep ends, including this run.
    left: Option<Duration>,
    /// Prefix of log lines when runs execute in parallel.
    prefix: String,
}

impl Screen {
    /// Creates the progress display of the run `title`; `left` is the estimated time until the last
    /// run of the sweep ends.
    pub fn new(title: &str, quiet: bool, left: Option<Duration>) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let bar = (!quiet && terminal).then(|| {
            let style = ProgressStyle::with_template("{spinner} {prefix}  {bar:24}  {msg}");
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(1).with_style(style).with_prefix(title.to_owned())
        });
        if !quiet && !terminal {
            let left = left.map_or(String::new(), |left| format!("  (about {} left)", clock(left)));
            remark(format_args!("{title}{left}"));
        }
        Self {
            bar,
            log_lines: !quiet && !terminal,
            last: None,
            paused_at: None,
            started: Instant::now(),
            left,
            prefix: String::new(),
        }
    }

    /// A display among those of parallel runs.
    pub fn among(bars: &MultiProgress, title: &str, quiet: bool, left: Option<Duration>) -> Self {
        let mut screen = Self::new(title, quiet, left);
        screen.bar = screen.bar.map(|bar| bars.add(bar));
        screen.prefix = format!("{title}:");
        screen
    }

    /// Switches from the bar to log lines, because others now use the terminal, too.
    pub fn use_log_lines(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
            self.log_lines = true;
        }
    }

    /// Ends the display with a final message.
    pub fn end(&mut self, message: &str) {
        let duration = clock(self.started.elapsed());
        if let Some(bar) = self.bar.take() {
            let title = bar.prefix();
            bar.finish_and_clear();
            // The bar is cleared first, so that only the last state stays on the terminal.
            remark(format_args!("{title}  {message}"));
        } else if self.log_lines {
            remark(format_args!("{}  {message} ({duration})", self.prefix));
        }
    }

    /// Shows that a guest starts, which takes seconds if there is no saved state of it.
    pub fn guest_starts(&self) {
        if let Some(bar) = &self.bar {
            bar.set_message("starting the guest (first start at this CPU speed: up to a minute)");
            bar.tick();
        }
    }

    /// Shows that virtual time is paused, since `time`, because `program` computes; and what to do if
    /// the user has stopped the run meanwhile.
    pub fn paused(&mut self, time: Duration, program: &str, is_stopped: bool) {
        let text = format!(
            "virtual time paused for {}: `{}` computes without waiting{}",
            clock(time),
            printable(program),
            if is_stopped { "; Ctrl-C again ends the run at once, without results" } else { "" }
        );
        if let Some(bar) = &self.bar {
            bar.set_message(text);
        } else if self.log_lines && self.paused_at.is_none_or(|at| at.elapsed() >= PERIOD) {
            remark(format_args!("{}  {text}", self.prefix));
            self.paused_at = Some(Instant::now());
        }
    }

    /// Calls `what`, which uses the terminal, with the progress bar hidden.
    pub fn suspend<T>(&self, what: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(what),
            None => what(),
        }
    }

    fn is_due(&self, phase: Phase) -> bool {
        self.last.is_none_or(|(last, at)| last != phase || at.elapsed() >= PERIOD)
    }
}

impl ProgressSink for Screen {
    fn progress(&mut self, progress: &Progress) {
        // Names in the text may come from a guest.
        let text = printable(&line(progress));
        let elapsed = self.started.elapsed();
        if let Some(bar) = &self.bar {
            let (done, all) = match progress.phase {
                Phase::Up | Phase::SetUp => (progress.ready.0 as u64, progress.ready.1 as u64),
                _ => (progress.replies, progress.expected),
            };
            bar.set_length(all.max(1));
            bar.set_position(done);
            let left =
                self.left.map(|left| format!(", about {} left", clock(left - elapsed.min(left))));
            bar.set_message(format!("{text}  [{}{}]", clock(elapsed), left.unwrap_or_default()));
            bar.tick();
        } else if self.log_lines && self.is_due(progress.phase) {
            remark(format_args!("{}  {text}  [{}]", self.prefix, clock(elapsed)));
            self.last = Some((progress.phase, Instant::now()));
        }
    }
}

/// Formats a time as minutes and seconds, or hours, minutes and seconds.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, minutes, seconds) => format!("{minutes}:{seconds:02}"),
        (hours, minutes, seconds) => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// What the run is waiting for, and until when at most.
fn line(progress: &Progress) -> String {
    let Progress { phase, ready, replies, expected, .. } = progress;
    let seconds = progress.elapsed.as_ms() / 1e3;
    let most = progress.most.map(|most| most.as_ms() / 1e3);
    let limit = |rest: &str| most.map_or(String::new(), |most| format!(", {most:.0} s {rest}"));
    let answers = match expected {
        0 => format!("{} frames", progress.frames),
        expected => format!("{replies} of {expected} answers"),
    };
    match phase {
        Phase::Up => "creating nodes and links".to_owned(),
        Phase::SetUp if progress.missing.is_empty() => "starting programs".to_owned(),
        Phase::SetUp => format!(
            "waiting for {} of {} programs to be ready: {}{}",
            ready.1 - ready.0.min(ready.1),
            ready.1,
            progress.missing,
            limit("until timeout")
        ),
        Phase::Load => {
            let all = most.map_or(String::new(), |most| format!(" of {:.0}", seconds + most));
            format!("running: {seconds:.0}{all} s, {answers}")
        }
        Phase::Drain if *expected == 0 => {
            format!("waiting for programs to end{}", limit("at most"))
        }
        Phase::Drain => format!(
            "waiting for {} of {expected} answers{}",
            expected - replies.min(expected),
            limit("at most")
        ),
        Phase::Stop => "stopping programs".to_owned(),
        Phase::Write => "writing results".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Span;

    fn progress(phase: Phase) -> Progress {
        Progress {
            phase,
            elapsed: "5 s".parse().unwrap_or_default(),
            most: None,
            ready: (31, 31),
            missing: String::new(),
            sent: 60,
            replies: 48,
            expected: 60,
            frames: 9,
        }
    }

    #[test]
    fn a_line_says_what_a_run_waits_for_and_how_long_at_most() {
        let most = Some(Span::from_ns(9_400_000_000));
        let drain = Progress { most, ..progress(Phase::Drain) };
        assert_eq!(line(&drain), "waiting for 12 of 60 answers, 9 s at most");
        let programs = Progress { expected: 0, ..drain };
        assert_eq!(line(&programs), "waiting for programs to end, 9 s at most");
        let load = Progress { most, ..progress(Phase::Load) };
        assert_eq!(line(&load), "running: 5 of 14 s, 48 of 60 answers");
        let missing = "consumer-3, consumer-4, ...".to_owned();
        let starting = Progress { most, missing, ready: (19, 31), ..progress(Phase::SetUp) };
        assert_eq!(
            line(&starting),
            "waiting for 12 of 31 programs to be ready: consumer-3, consumer-4, ..., 9 s until \
             timeout"
        );
    }

    #[test]
    fn times_are_in_minutes() {
        assert_eq!(clock(Duration::from_secs(65)), "1:05");
        assert_eq!(clock(Duration::from_secs(3_665)), "1:01:05");
    }
}
