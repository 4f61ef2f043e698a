//! Output files of each side: exchanges of the driver, received payloads of the server.

use super::failure::Failure;
use super::protocol::Outcome;
use crate::clock::Nanos;
use crate::error::Error;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A completed exchange.
#[derive(Debug, Clone, Copy)]
pub struct Completed {
    /// Exchange number.
    pub number: u64,
    /// Payload size in bytes.
    pub size: usize,
    /// Intended start time, at the earliest after the previous exchange.
    pub intended: Nanos,
    /// Delay of the intended start against the schedule.
    pub delay: Nanos,
    /// Actual start and end time.
    pub begin: Nanos,
    pub end: Nanos,
}

/// A CSV file, written line by line without buffering.
#[derive(Debug)]
struct Lines {
    path: PathBuf,
    file: File,
}

impl Lines {
    fn create(path: &Path, head: &str) -> Result<Self, Error> {
        let failed = |source| Error::Events { path: path.into(), source };
        let mut file = File::create(path).map_err(failed)?;
        file.write_all(head.as_bytes()).map_err(failed)?;
        Ok(Self { path: path.into(), file })
    }

    fn write(&mut self, line: &str) -> Result<(), Error> {
        let failed = |source| Error::Events { path: self.path.clone(), source };
        self.file.write_all(line.as_bytes()).map_err(failed)
    }
}

/// The driver's file of exchanges.
#[derive(Debug)]
pub struct Exchanges(Lines);

impl Exchanges {
    /// # Errors
    /// Cannot write the file.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let head = "message,bytes,intended_ns,held_ns,begin_ns,end_ns,received_ns,failure,detail\n";
        Lines::create(path, head).map(Self)
    }

    /// # Errors
    /// Cannot write the file.
    pub fn note(
        &mut self,
        completed: &Completed,
        outcome: &Result<Outcome, Failure>,
    ) -> Result<(), Error> {
        let Completed { number, size, intended, delay, begin, end } = completed;
        let received = outcome.as_ref().ok().and_then(|outcome| outcome.received);
        let received = received.map_or(String::new(), |at| at.to_string());
        let (failure, detail) = match outcome {
            Ok(_) => ("", String::new()),
            Err(failure) => (failure.reason.word(), quoted(&failure.detail)),
        };
        self.0.write(&format!(
            "{number},{size},{intended},{delay},{begin},{end},{received},{failure},{detail}\n"
        ))
    }
}

/// The server's file of received payloads.
#[derive(Debug)]
pub struct Receipts(Lines);

impl Receipts {
    /// # Errors
    /// Cannot write the file.
    pub fn create(path: &Path) -> Result<Self, Error> {
        Lines::create(path, "peer,message,bytes,time_ns,failure,detail\n").map(Self)
    }

    /// Records a complete payload of `size` bytes from `peer`, an address or a node, with its
    /// number, if it has one.
    ///
    /// # Errors
    /// Cannot write the file.
    pub fn note(
        &mut self,
        peer: &str,
        number: Option<u64>,
        size: usize,
        at: Nanos,
    ) -> Result<(), Error> {
        let number = number.map_or(String::new(), |number| number.to_string());
        self.0.write(&format!("{peer},{number},{size},{at},,\n"))
    }

    /// Records why no payload can arrive from `peer` from now on.
    ///
    /// # Errors
    /// Cannot write the file.
    pub fn refuse(&mut self, peer: &str, why: &Failure, at: Nanos) -> Result<(), Error> {
        let (word, detail) = (why.reason.word(), quoted(&why.detail));
        self.0.write(&format!("{peer},,0,{at},{word},{detail}\n"))
    }
}

/// Quotes a field with arbitrary content as in RFC 4180, on one line.
fn quoted(text: &str) -> String {
    let line: String =
        text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(400).collect();
    format!("\"{}\"", line.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::failure::Reason;

    #[test]
    fn writes_what_went_well_and_what_failed() {
        let path = std::env::temp_dir().join(format!("exchanges-{}.csv", std::process::id()));
        let mut exchanges = Exchanges::create(&path).unwrap();
        let completed = Completed { number: 3, size: 100, intended: 5, delay: 1, begin: 6, end: 9 };
        exchanges.note(&completed, &Ok(Outcome { received: Some(8) })).unwrap();
        let failure = Failure::of(Reason::Status, "4.04, \"not\nfound\"");
        exchanges.note(&completed, &Err(failure)).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let mut lines = text.lines().skip(1);
        assert_eq!(lines.next(), Some("3,100,5,1,6,9,8,,"));
        assert_eq!(lines.next(), Some("3,100,5,1,6,9,,status,\"4.04, \"\"not found\"\"\""));
    }
}
