//! Known exceptions to limits, with their present numbers.

use std::collections::BTreeMap;
use std::fmt;

/// Limits that have exceptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A file of more than 400 lines before its tests.
    FileLines,
    /// A function of more than 80 lines.
    FunctionLines,
    /// A function with tuples as parameters: name them, or make them a type.
    TupleParameters,
    /// Files of a crate that refer to each other in a circle.
    FilesInCircles,
    /// A test that runs again until it passes.
    Retries,
}

impl Kind {
    const ALL: [Self; 5] = [
        Self::FileLines,
        Self::FunctionLines,
        Self::TupleParameters,
        Self::FilesInCircles,
        Self::Retries,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::FileLines => "file-lines",
            Self::FunctionLines => "function-lines",
            Self::TupleParameters => "tuple-parameters",
            Self::FilesInCircles => "files-in-circles",
            Self::Retries => "retries",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Something that exceeds a limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Which limit.
    pub kind: Kind,
    /// The file, and the function.
    pub place: String,
    /// Its number.
    pub number: usize,
    /// What helps to fix it, if anything.
    pub note: String,
}

impl Finding {
    /// A finding at `place`.
    pub fn new(kind: Kind, place: &str, number: usize) -> Self {
        Self { kind, place: place.to_owned(), number, note: String::new() }
    }

    /// The finding with a note.
    pub fn with_note(self, note: &str) -> Self {
        Self { note: note.to_owned(), ..self }
    }
}

type Places = BTreeMap<(Kind, String), usize>;

/// The exceptions of the tree.
#[derive(Debug)]
pub struct Exceptions(Places);

impl Exceptions {
    /// Reads lines of kind, number and place.
    ///
    /// # Errors
    /// If a line is none.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let parse = |line: &str| {
            // The place is all the rest: a file, and a function after a space.
            let mut words = line.splitn(3, ' ');
            let kind = Kind::ALL.into_iter().find(|kind| words.clone().next() == Some(kind.name()));
            let number = words.nth(1).and_then(|word| word.parse().ok());
            match (kind, number, words.next()) {
                (Some(kind), Some(number), Some(place)) => Ok(((kind, place.to_owned()), number)),
                _ => Err(format!("xtask/exceptions.txt: not an exception: {line}")),
            }
        };
        lines.map(parse).collect::<Result<_, _>>().map(Self)
    }

    /// Findings above their exception, and exceptions above their finding.
    pub fn problems(&self, findings: &[Finding]) -> Vec<String> {
        let found = total(findings);
        let above = found.iter().filter_map(|(key, number)| {
            let allowed = self.0.get(key).copied().unwrap_or(0);
            let (kind, place) = key;
            let notes =
                findings.iter().filter(|found| (found.kind, &found.place) == (*kind, place));
            let note: String = notes.map(|found| found.note.as_str()).collect();
            let line = format!("{place}: {kind} is {number}, allowed: {allowed} {note}");
            (*number > allowed).then(|| line.trim_end().to_owned())
        });
        let below = self.0.iter().filter_map(|(key, allowed)| {
            let number = found.get(key).copied().unwrap_or(0);
            let (kind, place) = key;
            (number < *allowed).then(|| {
                format!(
                    "{place}: {kind} is {number} now: cargo xtask tidy --write lowers {allowed}"
                )
            })
        });
        above.chain(below).collect()
    }

    /// The exceptions with numbers no larger than the findings; none is added.
    pub fn lowered(&self, findings: &[Finding]) -> Self {
        let found = total(findings);
        let lowered = self.0.iter().filter_map(|(key, allowed)| {
            let number = found.get(key).copied().unwrap_or(0).min(*allowed);
            (number > 0).then(|| (key.clone(), number))
        });
        Self(lowered.collect())
    }
}

impl fmt::Display for Exceptions {
    /// The lines that [`Exceptions::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "# Exceptions to the limits of `cargo xtask tidy`: limit, number, place. Numbers only shrink."
        )?;
        self.0.iter().try_for_each(|((kind, place), number)| writeln!(f, "{kind} {number} {place}"))
    }
}

/// Functions of one name in one file count together.
fn total(findings: &[Finding]) -> Places {
    let mut all = Places::new();
    for finding in findings {
        let number = all.entry((finding.kind, finding.place.clone())).or_default();
        *number = match finding.kind {
            // Tuples add up; for other kinds, the largest number is the one to reduce.
            Kind::TupleParameters => *number + finding.number,
            _ => finding.number.max(*number),
        };
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_may_only_shrink() {
        let text = "# why\nfile-lines 450 a.rs\ntuple-parameters 2 b.rs f\n";
        let exceptions = Exceptions::parse(text).unwrap();
        let file = |lines| Finding::new(Kind::FileLines, "a.rs", lines);
        let tuples = || Finding::new(Kind::TupleParameters, "b.rs f", 1);
        assert!(exceptions.problems(&[file(450), tuples(), tuples()]).is_empty());
        let problems = exceptions.problems(&[file(451), tuples()]);
        assert_eq!(problems.len(), 2, "{problems:?}");
        let lowered = exceptions.lowered(&[file(420), tuples()]).to_string();
        assert!(lowered.ends_with("file-lines 420 a.rs\ntuple-parameters 1 b.rs f\n"), "{lowered}");
        assert!(Exceptions::parse("lines 7").is_err());
    }

    /// What failed before: `tidy --write` wrote the file and reported no finding above it.
    #[test]
    fn findings_above_their_exceptions_stay_problems_after_lowering() {
        let exceptions = Exceptions::parse("file-lines 450 a.rs\nfile-lines 500 b.rs\n").unwrap();
        let file = |place, lines| Finding::new(Kind::FileLines, place, lines);
        let findings = [file("a.rs", 460), file("b.rs", 480), file("new.rs", 401)];
        let lowered = exceptions.lowered(&findings);
        assert_eq!(
            lowered.problems(&findings),
            ["a.rs: file-lines is 460, allowed: 450", "new.rs: file-lines is 401, allowed: 0"]
        );
        let again = Exceptions::parse(&lowered.to_string()).unwrap();
        assert_eq!(again.problems(&findings).len(), 2);
    }
}
