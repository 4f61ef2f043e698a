//! Checks what the experiment expects of programs' output and running time.

use crate::bed::Shortened;
use crate::bed::jobs::{Job, State};
use crate::program_output::any_line;
use experiment::{OutputCheck, Stream};
use record::spec::{CONSOLE_DONE, CONSOLE_PREFIX};
use std::fs::File;
use std::path::Path;
use units::{Bytes, Instant};

/// What programs did not do that they should have done; one text for each. `shortened` outputs lack
/// their middle.
pub(crate) fn failures(jobs: &[Job], end: Instant, shortened: &[Shortened]) -> Vec<String> {
    let mut failures = Vec::new();
    for (number, job) in jobs.iter().enumerate() {
        failures.extend(late(job, end));
        // A program that started again continued its output.
        let continues = |later: &Job| later.files.out == job.files.out;
        if !jobs[number + 1..].iter().any(continues) {
            failures
                .extend(job.check.output.iter().filter_map(|check| missing(job, check, shortened)));
            failures.extend(unfinished(job).filter(|_| job.has_steps));
        }
    }
    failures
}

/// A console whose steps were not all done.
fn unfinished(job: &Job) -> Option<String> {
    // The machine's emulator may print any bytes.
    let text = std::fs::read(&job.files.err).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let last = text.lines().rfind(|line| line.starts_with(CONSOLE_PREFIX))?;
    let left = last.strip_prefix(CONSOLE_PREFIX).filter(|_| last != CONSOLE_DONE)?;
    let name = job.files.out.file_name().map(Path::new).unwrap_or(&job.files.out).display();
    Some(format!(
        "the console of {} did not get through its steps: {left} until the end. What the machine \
         printed is in programs/{name}",
        job.name
    ))
}

/// A program that took too long. A fault that ended it may have cut it short.
fn late(job: &Job, end: Instant) -> Option<String> {
    let (limit, started) = (job.check.within?, job.started?);
    let took = job.ended.unwrap_or(end) - started;
    let state = match job.state {
        _ if took <= limit || job.asked_to_end => return None,
        State::Ended { .. } => format!("ran for {took}"),
        _ => format!("was still running after {took}"),
    };
    Some(format!("{} {state}; `within` allows {limit}", program(job)))
}

/// An output without the expected line. A program that failed is reported already.
fn missing(job: &Job, check: &OutputCheck, shortened: &[Shortened]) -> Option<String> {
    if job.has_failed() {
        return None;
    }
    let path = match check.from {
        Stream::Stdout => &job.files.out,
        Stream::Stderr => &job.files.err,
    };
    let name = path.file_name().map(Path::new).unwrap_or(path).display();
    match File::open(path).and_then(|file| any_line(file, check.rule.test())) {
        Ok(true) => None,
        Ok(false) => {
            let last = crate::bed::jobs::last_lines(path, 1);
            let last = match last.is_empty() {
                true => "it is empty".to_owned(),
                false => format!("its last line is `{last}`"),
            };
            let rest = match shortened.iter().find(|log| log.log == *path) {
                None => format!("All of it is in programs/{name}"),
                Some(log) => format!(
                    "But {} of it exceeded the limit and were dropped: let it print less, or raise \
                     `limits: {{output: ...}}` of the node",
                    Bytes::new(log.bytes)
                ),
            };
            Some(format!(
                "{} has {} in its {}, as `expect` demands: {last}. {rest}",
                program(job),
                check.rule,
                check.from,
            ))
        }
        Err(error) => Some(format!("{}: {}: {error}", program(job), path.display())),
    }
}

/// A program in texts.
fn program(job: &Job) -> String {
    format!("`{}` on {}", job.argv.join(" "), job.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bed::jobs::{Files, Role};
    use experiment::{OutputRule, ProgramCheck};
    use lab::{Exit, Usage};
    use units::Span;

    fn job(dir: &Path, out: &str, check: ProgramCheck) -> Job {
        let files = Files::of(dir, "a", Some(0));
        std::fs::write(&files.out, out).unwrap();
        let mut job = Job::of(0, "a", Some(0), Role::Command, vec!["p".into()], dir, files);
        let start = Instant::from_ns(1_000);
        (job.started, job.ended) = (Some(start), Some(start + Span::from_s(2)));
        job.state = State::Ended { exit: Exit::Status(0), usage: Usage::default(), starved: None };
        job.check = check;
        job
    }

    #[test]
    fn output_without_the_line_is_a_failure_with_its_last_line() {
        let dir = tempfile::tempdir().unwrap();
        let rule = OutputRule::Contains("5 received".to_owned());
        let output = vec![OutputCheck { from: Stream::Stdout, rule }];
        let check = ProgramCheck { output, ..ProgramCheck::default() };
        let good = job(dir.path(), "sent 5\n5 received\nbye\n", check.clone());
        assert_eq!(failures(&[good], Instant::START, &[]), [] as [String; 0]);
        let mut bad = job(dir.path(), "sent 5\n4 received\n\n", check);
        let found = failures(&[bad.clone()], Instant::START, &[]);
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("`p` on a has no line with `5 received`"), "{}", found[0]);
        assert!(found[0].contains("last line is `4 received`"), "{}", found[0]);
        let shortened = Shortened { log: bad.files.out.clone(), bytes: 4096 };
        let found = failures(&[bad.clone()], Instant::START, &[shortened]);
        assert!(found[0].contains("4 KiB of it exceeded the limit"), "{}", found[0]);
        bad.state = State::Ended { exit: Exit::Status(2), usage: Usage::default(), starved: None };
        assert!(failures(&[bad], Instant::START, &[]).is_empty(), "its status is reported already");
    }

    #[test]
    fn a_program_must_end_in_time() {
        let dir = tempfile::tempdir().unwrap();
        let check = |s| ProgramCheck { within: Some(Span::from_s(s)), ..ProgramCheck::default() };
        assert!(failures(&[job(dir.path(), "", check(2))], Instant::START, &[]).is_empty());
        let found = failures(&[job(dir.path(), "", check(1))], Instant::START, &[]);
        assert!(found[0].contains("ran for 2 s; `within` allows 1 s"), "{found:?}");
        let at = |s| Instant::START + Span::from_s(s);
        let mut running = job(dir.path(), "", check(3));
        (running.state, running.ended) = (State::Ready, None);
        assert!(failures(&[running.clone()], at(3), &[]).is_empty());
        assert_eq!(failures(&[running], at(5), &[]).len(), 1);
    }

    #[test]
    fn a_console_must_get_through_its_steps_whatever_else_is_printed() {
        let dir = tempfile::tempdir().unwrap();
        let mut console = job(dir.path(), "", ProgramCheck::default());
        console.has_steps = true;
        let cases: [(&[u8], Option<&str>); 5] = [
            (b"", None),
            (b"console: step 1 of 2: waits for `login:`\n", Some("step 1 of 2")),
            (b"console: step 1\nconsole: step 2\nqemu: \xff\xfe\n", Some("step 2")),
            (b"console: step 1\nconsole: all steps are done\n\xff", None),
            // A restarted machine begins again.
            (b"console: all steps are done\nconsole: step 1\n", Some("step 1")),
        ];
        for (text, left) in cases {
            std::fs::write(&console.files.err, text).unwrap();
            let found = failures(&[console.clone()], Instant::START, &[]);
            assert_eq!(found.len(), usize::from(left.is_some()), "{found:?}");
            assert!(left.is_none_or(|left| found[0].contains(left)), "{found:?}");
            console.has_steps = false;
            assert!(
                failures(&[console.clone()], Instant::START, &[]).is_empty(),
                "it has no steps"
            );
            console.has_steps = true;
        }
    }

    #[test]
    fn a_program_that_started_again_is_checked_once_for_its_output_and_each_time_for_its_time() {
        let dir = tempfile::tempdir().unwrap();
        let rule = OutputRule::Contains("never".to_owned());
        let output = vec![OutputCheck { from: Stream::Stdout, rule }];
        let check = ProgramCheck { output, within: Some(Span::from_s(1)), ..Default::default() };
        let first = job(dir.path(), "text\n", check);
        let second = Job { ended: Some(Instant::from_ns(1_000)), ..first.clone() };
        let found = failures(&[first.clone(), second.clone()], Instant::START, &[]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("ran for 2 s") && found[1].contains("no line with `never`"));
        // A fault may have cut it short, so its time is not judged.
        let stopped = Job { asked_to_end: true, ..first };
        assert_eq!(failures(&[stopped, second], Instant::START, &[]).len(), 1);
    }

    #[test]
    fn the_time_of_a_program_may_be_exactly_the_limit_and_one_that_never_started_has_none() {
        let dir = tempfile::tempdir().unwrap();
        let check = ProgramCheck { within: Some(Span::from_s(2)), ..Default::default() };
        let exact = job(dir.path(), "", check);
        assert!(failures(std::slice::from_ref(&exact), Instant::START, &[]).is_empty());
        let late = Job { ended: Some(Instant::from_ns(2_000_001_001)), ..exact.clone() };
        assert_eq!(failures(&[late], Instant::START, &[]).len(), 1);
        let unstarted = Job { started: None, ended: None, state: State::Starting, ..exact };
        assert!(failures(&[unstarted], Instant::NEVER, &[]).is_empty());
    }

    #[test]
    fn an_output_that_cannot_be_read_is_a_failure() {
        let dir = tempfile::tempdir().unwrap();
        let rule = OutputRule::Contains("text".to_owned());
        let output = vec![OutputCheck { from: Stream::Stderr, rule }];
        let check = ProgramCheck { output, ..Default::default() };
        let found = failures(&[job(dir.path(), "text\n", check)], Instant::START, &[]);
        assert!(found.len() == 1 && found[0].contains("a.0.err"), "{found:?}");
    }
}
