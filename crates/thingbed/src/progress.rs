//! Progress of a run, on a terminal or in a log.

use crate::remark;
use indicatif::{ProgressBar, ProgressStyle};
use runner::{Phase, Progress, Watch};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// A log hears of a long phase this often.
const PERIOD: Duration = Duration::from_secs(60);

/// Shows how far a run is: a bar on a terminal, a line a phase elsewhere.
pub struct Screen {
    bar: Option<ProgressBar>,
    plain: bool,
    last: Option<(Phase, Instant)>,
}

impl Screen {
    /// A screen for the run called `title`.
    pub fn new(title: &str, quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let bar = (!quiet && terminal).then(|| {
            let style = ProgressStyle::with_template("{spinner} {prefix}  {bar:24}  {msg}");
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(1).with_style(style).with_prefix(title.to_owned())
        });
        if !quiet && !terminal {
            remark(title);
        }
        Self { bar, plain: !quiet && !terminal, last: None }
    }

    /// Ends with a last word.
    pub fn end(&mut self, word: &str) {
        if let Some(bar) = self.bar.take() {
            let title = bar.prefix();
            bar.finish_and_clear();
            remark(format_args!("{title}  {word}"));
        } else if self.plain {
            remark(format_args!("  {word}"));
        }
    }
}

impl Screen {
    fn due(&self, phase: Phase) -> bool {
        self.last.is_none_or(|(last, said)| last != phase || said.elapsed() >= PERIOD)
    }
}

impl Watch for Screen {
    fn progress(&mut self, progress: &Progress) {
        let text = line(progress);
        if let Some(bar) = &self.bar {
            let (done, all) = match progress.phase {
                Phase::Up | Phase::SetUp => (progress.ready.0 as u64, progress.ready.1 as u64),
                _ => (progress.replies, progress.expected),
            };
            bar.set_length(all.max(1));
            bar.set_position(done);
            bar.set_message(text);
            bar.tick();
        } else if self.plain && self.due(progress.phase) {
            remark(format_args!("  {text}"));
            self.last = Some((progress.phase, Instant::now()));
        }
    }
}

fn line(progress: &Progress) -> String {
    let seconds = progress.elapsed.as_ms() / 1e3;
    let messages = match progress.expected {
        0 => format!("{} frames", progress.frames),
        expected => format!("{} of {expected} answers", progress.replies),
    };
    match progress.phase {
        Phase::Up => "nodes come up".to_owned(),
        Phase::SetUp => format!("{} of {} programs ready", progress.ready.0, progress.ready.1),
        Phase::Load => format!("{seconds:.0} s, {messages}"),
        Phase::Drain => format!("{seconds:.0} s, {messages}, waiting for the rest"),
        Phase::Stop => "programs end".to_owned(),
        Phase::Write => "results are written".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_is_going_on() {
        let progress = Progress {
            phase: Phase::Drain,
            elapsed: "95 s".parse().unwrap_or_default(),
            ready: (31, 31),
            sent: 60,
            replies: 48,
            expected: 60,
            frames: 9,
        };
        assert_eq!(line(&progress), "95 s, 48 of 60 answers, waiting for the rest");
    }
}
