//! The steps of a console: what to wait for, and what to enter then.

use record::spec::{CONSOLE_DONE, CONSOLE_PREFIX, ConsoleStep};
use units::{Instant, Span};

/// Most output that is kept to look for a text in, in bytes.
const KEPT: usize = 1 << 16;
/// What the key sends; terminals of programs translate it.
const ENTER: u8 = b'\r';

/// The steps of a console, and how far they are.
#[derive(Debug)]
pub(super) struct Script {
    steps: Vec<ConsoleStep>,
    /// Steps that are done.
    done: usize,
    /// What the machine printed after the text of the last step.
    seen: Vec<u8>,
    /// End of the pause of the current step, whose text has come.
    until: Option<Instant>,
    /// When the keys of the last step are pressed again.
    again: Option<Instant>,
}

impl Script {
    pub fn new(steps: Vec<ConsoleStep>) -> Self {
        Self { steps, done: 0, seen: Vec::new(), until: None, again: None }
    }

    /// Takes what the machine printed until `now`; returns what to enter, and whether a step is done.
    pub fn take(&mut self, printed: &[u8], now: Instant) -> (Vec<u8>, bool) {
        self.seen.extend_from_slice(printed);
        let (mut entered, before) = (Vec::new(), self.done);
        while let Some(step) = self.steps.get(self.done) {
            if self.until.is_none()
                && let Some(text) = &step.wait
            {
                let Some(end) = find(&self.seen, text.as_bytes()) else { break };
                self.seen.drain(..end);
            }
            self.again = None;
            let until = self.until.unwrap_or(now + Span::from_ns(step.pause_ns));
            if now < until {
                self.until = Some(until);
                break;
            }
            self.until = None;
            entered.extend(step.keys.iter().flat_map(|keys| keys.bytes()));
            if let Some(line) = &step.send {
                entered.extend(line.bytes().chain([ENTER]));
            }
            self.again = (step.every_ns > 0).then(|| now + Span::from_ns(step.every_ns));
            self.done += 1;
        }
        entered.extend(self.press_again(now));
        let old = match self.steps.get(self.done) {
            Some(_) => self.seen.len().saturating_sub(KEPT),
            // No step is left to look for a text.
            None => self.seen.len(),
        };
        self.seen.drain(..old);
        (entered, self.done > before)
    }

    /// The keys of the last step if they are due again: the text of the next one has not come.
    fn press_again(&mut self, now: Instant) -> Vec<u8> {
        let Some(step) = self.again.filter(|due| now >= *due).and(self.done.checked_sub(1)) else {
            return Vec::new();
        };
        let step = &self.steps[step];
        self.again = Some(now + Span::from_ns(step.every_ns));
        step.keys.clone().unwrap_or_default().into_bytes()
    }

    /// How long to wait until the pause of the current step ends or keys are due again; `None` if
    /// neither is the case.
    pub fn pause(&self, now: Instant) -> Option<Span> {
        self.until.or(self.again).map(|until| until - now)
    }

    /// A line about the step that is next.
    pub fn state(&self) -> String {
        let (number, all) = (self.done + 1, self.steps.len());
        match self.steps.get(self.done) {
            None => CONSOLE_DONE.to_owned(),
            Some(ConsoleStep { wait: Some(text), .. }) => {
                format!("{CONSOLE_PREFIX}step {number} of {all} waits for {text:?}")
            }
            Some(_) => format!("{CONSOLE_PREFIX}step {number} of {all}"),
        }
    }
}

/// End of the first `text` in `seen`.
fn find(seen: &[u8], text: &[u8]) -> Option<usize> {
    if text.is_empty() {
        return Some(0);
    }
    seen.windows(text.len()).position(|part| part == text).map(|start| start + text.len())
}

/// Removes the carriage returns of each line's end, so that a log has plain lines. There are two if
/// the terminal adds one to the machine's.
#[derive(Debug, Default)]
pub(super) struct PlainLines {
    /// Number of carriage returns at the end of what was printed.
    held: usize,
}

impl PlainLines {
    pub fn take(&mut self, printed: &[u8]) -> Vec<u8> {
        let mut plain = Vec::with_capacity(printed.len() + 1);
        for byte in printed {
            if *byte == b'\r' {
                self.held += 1;
                continue;
            }
            let held = std::mem::take(&mut self.held);
            if *byte != b'\n' {
                plain.extend(std::iter::repeat_n(b'\r', held));
            }
            plain.push(*byte);
        }
        plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_ns(7);

    fn step(wait: Option<&str>, send: Option<&str>, keys: Option<&str>) -> ConsoleStep {
        let [wait, send, keys] = [wait, send, keys].map(|text| text.map(str::to_owned));
        ConsoleStep { wait, send, keys, ..ConsoleStep::default() }
    }

    #[test]
    fn each_step_waits_for_its_text_after_that_of_the_step_before() {
        let steps = vec![
            step(Some("autoboot"), None, Some("\x02")),
            step(Some("=> "), Some("ping 10.0.0.1"), None),
            step(Some("=> "), None, None),
        ];
        let mut script = Script::new(steps);
        assert_eq!(script.take(b"=> Hit any key to stop auto", NOW), (vec![], false));
        assert_eq!(script.state(), "console: step 1 of 3 waits for \"autoboot\"");
        assert_eq!(script.take(b"boot: 2", NOW), (vec![2], true));
        assert_eq!(script.take(b"\r\n=> ", NOW), (b"ping 10.0.0.1\r".to_vec(), true));
        assert_eq!(script.take(b"alive\r\n=", NOW), (vec![], false));
        assert_eq!(script.take(b"> ", NOW), (vec![], true));
        assert_eq!(script.state(), CONSOLE_DONE);
    }

    #[test]
    fn a_pause_begins_when_the_text_has_come() {
        let second = Span::from_ms(1_000);
        let wait = ConsoleStep { pause_ns: second.as_ns(), ..step(Some("=> "), Some("a"), None) };
        let mut script = Script::new(vec![wait, step(None, Some("b"), None)]);
        assert_eq!((script.take(b"boots", NOW), script.pause(NOW)), ((vec![], false), None));
        let later = NOW + second;
        assert_eq!(
            (script.take(b"=> ", later), script.pause(later)),
            ((vec![], false), Some(second))
        );
        assert_eq!(script.take(b"=> more", later + Span::from_ms(999)), (vec![], false));
        assert_eq!(script.take(b"", later + second), (b"a\rb\r".to_vec(), true));
        assert_eq!((script.pause(later), script.state()), (None, CONSOLE_DONE.to_owned()));
    }

    /// A boot loader that does not take keys yet when it prints which.
    #[test]
    fn keys_are_pressed_until_the_next_text_comes() {
        let every = Span::from_ms(200);
        let stop =
            ConsoleStep { every_ns: every.as_ns(), ..step(Some("autoboot"), None, Some("\x02")) };
        let mut script = Script::new(vec![stop, step(Some("=> "), Some("boot"), None)]);
        assert_eq!(script.take(b"to stop autoboot", NOW), (vec![2], true));
        assert_eq!(script.pause(NOW), Some(every));
        assert_eq!(script.take(b": 3", NOW + Span::from_ms(199)), (vec![], false));
        assert_eq!(script.take(b"", NOW + every), (vec![2], false));
        let later = NOW + every + every + every;
        assert_eq!(script.take(b"\r=", later), (vec![2], false));
        assert_eq!(script.take(b"> ", later + every), (b"boot\r".to_vec(), true));
        assert_eq!(script.pause(later + every), None);
    }

    #[test]
    fn steps_without_a_text_are_done_at_once_and_together() {
        let mut script =
            Script::new(vec![step(None, Some("a"), None), step(None, Some("b"), None)]);
        assert_eq!(script.take(b"", NOW), (b"a\rb\r".to_vec(), true));
        assert_eq!(script.take(b"anything", NOW), (vec![], false));
    }

    #[test]
    fn a_machine_that_prints_without_end_takes_no_memory() {
        let mut script = Script::new(vec![step(Some("never"), None, None)]);
        for _ in 0..40 {
            script.take(&[b'x'; 1 << 16], NOW);
            assert!(script.seen.len() <= KEPT);
        }
        let mut idle = Script::new(vec![]);
        idle.take(&[b'x'; 1 << 16], NOW);
        assert!(idle.seen.is_empty());
    }

    #[test]
    fn logs_have_plain_lines() {
        let mut lines = PlainLines::default();
        let parts: [&[u8]; 4] = [b"a\r", b"\nb\rc", b"\r\r", b"\n\r"];
        let plain: Vec<u8> = parts.into_iter().flat_map(|part| lines.take(part)).collect();
        assert_eq!(plain, b"a\nb\rc\n");
    }
    use proptest::prelude::*;

    proptest! {
        /// However the output of the machine arrives in pieces, the same is entered.
        #[test]
        fn pieces_of_output_make_no_difference(
            waits in prop::collection::vec(prop::option::of("[ab]{1,3}"), 1..6),
            printed in "[abc]{0,40}",
            piece in 1..7_usize,
        ) {
            let steps = |waits: &[Option<String>]| {
                let of = |(n, wait): (usize, &Option<String>)| {
                    step(wait.as_deref(), Some(&n.to_string()), None)
                };
                Script::new(waits.iter().enumerate().map(of).collect())
            };
            let (mut whole, mut pieces) = (steps(&waits), steps(&waits));
            let (entered, _) = whole.take(printed.as_bytes(), NOW);
            let mut found = pieces.take(b"", NOW).0;
            for piece in printed.as_bytes().chunks(piece) {
                found.extend(pieces.take(piece, NOW).0);
            }
            prop_assert_eq!(found, entered.clone());
            prop_assert_eq!(whole.state(), pieces.state());
            // The texts are found one after the other, each after the one before.
            let (mut rest, mut done) = (printed.as_str(), 0);
            for wait in &waits {
                let Some(at) = rest.find(wait.as_deref().unwrap_or_default()) else { break };
                if let Some(wait) = wait {
                    rest = &rest[at + wait.len()..];
                }
                done += 1;
            }
            prop_assert_eq!(entered.iter().filter(|byte| **byte == ENTER).count(), done);
        }

        #[test]
        fn plain_lines_lose_only_carriage_returns_at_line_ends(
            printed in "[a\r\n]{0,30}",
            piece in 1..5_usize,
        ) {
            let mut lines = PlainLines::default();
            let plain: Vec<u8> =
                printed.as_bytes().chunks(piece).flat_map(|piece| lines.take(piece)).collect();
            let mut expected = printed.clone();
            while expected.contains("\r\n") {
                expected = expected.replace("\r\n", "\n");
            }
            prop_assert_eq!(String::from_utf8(plain).unwrap(), expected.trim_end_matches('\r'));
        }
    }
}
