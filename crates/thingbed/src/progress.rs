//! Progress of a run, on a terminal or in a log.

use crate::{printable, remark};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use runner::{Phase, Progress, Watch};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// A log gets a line of a long phase this often.
const PERIOD: Duration = Duration::from_secs(60);

/// Shows how far a run is: a bar on a terminal, a line per phase in a log.
pub struct Screen {
    bar: Option<ProgressBar>,
    plain: bool,
    last: Option<(Phase, Instant)>,
    /// When it was last said that a run stands still.
    stuck: Option<Instant>,
    began: Instant,
    /// How long the rest of the sweep takes, this run included.
    left: Option<Duration>,
    /// What lines of a log begin with when runs go on side by side.
    prefix: String,
}

impl Screen {
    /// A screen for the run called `title`; `left` is an estimate of the time until the last
    /// run of the sweep has ended.
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
            plain: !quiet && !terminal,
            last: None,
            stuck: None,
            began: Instant::now(),
            left,
            prefix: String::new(),
        }
    }

    /// The same beside the screens of other runs.
    pub fn among(bars: &MultiProgress, title: &str, quiet: bool, left: Option<Duration>) -> Self {
        let mut screen = Self::new(title, quiet, left);
        screen.bar = screen.bar.map(|bar| bars.add(bar));
        screen.prefix = format!("{title}:");
        screen
    }

    /// Goes on as lines of a log: from here on the terminal is somebody else's, too.
    pub fn become_log(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
            self.plain = true;
        }
    }

    /// Ends with a last word.
    pub fn end(&mut self, word: &str) {
        let took = clock(self.began.elapsed());
        if let Some(bar) = self.bar.take() {
            let title = bar.prefix();
            bar.finish_and_clear();
            remark(format_args!("{title}  {word}"));
        } else if self.plain {
            remark(format_args!("{}  {word} ({took})", self.prefix));
        }
    }

    /// Says that a guest starts, which takes seconds where there is no state of it yet.
    pub fn guest_starts(&self) {
        if let Some(bar) = &self.bar {
            bar.set_message("starting the guest (the first time at this speed: up to a minute)");
            bar.tick();
        }
    }

    /// Says that a run in virtual time has stood still for `time`, while `program` runs.
    pub fn stuck(&mut self, time: Duration, program: &str) {
        let text = format!(
            "the clock has stood still for {}: `{}` computes",
            clock(time),
            printable(program)
        );
        if let Some(bar) = &self.bar {
            bar.set_message(text);
        } else if self.plain && self.stuck.is_none_or(|at| at.elapsed() >= PERIOD) {
            remark(format_args!("{}  {text}", self.prefix));
            self.stuck = Some(Instant::now());
        }
    }

    /// Does something else at the terminal, whose progress bar goes away for that time.
    pub fn aside<T>(&self, what: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(what),
            None => what(),
        }
    }

    fn is_due(&self, phase: Phase) -> bool {
        self.last.is_none_or(|(last, at)| last != phase || at.elapsed() >= PERIOD)
    }
}

impl Watch for Screen {
    fn progress(&mut self, progress: &Progress) {
        // Names in it may come from a guest.
        let text = printable(&line(progress));
        let elapsed = self.began.elapsed();
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
        } else if self.plain && self.is_due(progress.phase) {
            remark(format_args!("{}  {text}  [{}]", self.prefix, clock(elapsed)));
            self.last = Some((progress.phase, Instant::now()));
        }
    }
}

/// Minutes and seconds.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, minutes, seconds) => format!("{minutes}:{seconds:02}"),
        (hours, minutes, seconds) => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

/// What the run waits for, and how long it does so at most.
fn line(progress: &Progress) -> String {
    let Progress { phase, ready, replies, expected, .. } = progress;
    let seconds = progress.elapsed.as_ms() / 1e3;
    let most = progress.most.map(|most| most.as_ms() / 1e3);
    let until = |rest: &str| most.map_or(String::new(), |most| format!(", {most:.0} s {rest}"));
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
            until("until it gives up")
        ),
        Phase::Load => {
            let all = most.map_or(String::new(), |most| format!(" of {:.0}", seconds + most));
            format!("running: {seconds:.0}{all} s, {answers}")
        }
        Phase::Drain if *expected == 0 => {
            format!("waiting for programs to end{}", until("at most"))
        }
        Phase::Drain => format!(
            "waiting for {} of {expected} answers{}",
            expected - replies.min(expected),
            until("at most")
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
            "waiting for 12 of 31 programs to be ready: consumer-3, consumer-4, ..., 9 s until it \
             gives up"
        );
    }

    #[test]
    fn times_are_in_minutes() {
        assert_eq!(clock(Duration::from_secs(65)), "1:05");
        assert_eq!(clock(Duration::from_secs(3_665)), "1:01:05");
    }
}
