//! Events files: what a program saw, as CSV lines of one type, or the results of a load or device as
//! JSON. The runner turns them into the tables of the run folder and removes them. Events of the run itself are the lines of `events.jsonl`.

mod collected;
mod exchange;
mod lines;
mod load;
mod message;
mod probe;
mod run;
mod tally;

pub use crate::pace::{Loop, Pace};
pub use collected::{Collected, CollectorSource};
pub use exchange::{ExchangeEvent, FailureReason, Receipt, Section, SectionEvent};
pub use lines::lines;
pub use load::{
    Checked, DeviceResults, LoadResults, SenderResults, SeriesResults, Served, ServedResource,
};
pub use message::{ALL_PEERS, ClientEvent, MessageEvent, SinkEvent, SourceEvent};
pub use probe::{PROBE_TIMEOUT_NS, Probed};
pub use run::{RunEvent, RunEventKind};
pub use tally::{Tally, add_events};

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Write};
use std::marker::PhantomData;

/// Bytes that a writer buffers at most between two flushes.
const BUFFER: usize = 256 * 1024;

/// Writes events of one type as lines below a head with the names of their fields.
#[derive(Debug)]
pub struct Writer<T, W: Write> {
    csv: csv::Writer<W>,
    event: PhantomData<fn(&T)>,
}

impl<T: Serialize + Default, W: Write> Writer<T, W> {
    /// Writes the head.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(&head::<T>()?)?;
        Ok(Self::resume(out))
    }

    /// Continues below lines that are written already.
    pub fn resume(out: W) -> Self {
        let mut builder = csv::WriterBuilder::new();
        // The head is already there.
        builder.has_headers(false).buffer_capacity(BUFFER);
        Self { csv: builder.from_writer(out), event: PhantomData }
    }

    /// Buffers a line until the next flush, or writes all lines if the buffer is full.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn push(&mut self, event: &T) -> io::Result<()> {
        self.csv.serialize(event).map_err(io::Error::from)
    }

    /// Writes all buffered lines with one call.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.csv.flush()
    }
}

/// The head of a file of events: the names of their fields.
fn head<T: Serialize + Default>() -> io::Result<Vec<u8>> {
    let mut csv = csv::Writer::from_writer(Vec::new());
    // The writer only knows the names of fields when it has written an event.
    csv.serialize(T::default())?;
    let mut text = csv.into_inner().map_err(csv::IntoInnerError::into_error)?;
    text.truncate(text.iter().position(|byte| *byte == b'\n').map_or(0, |end| end + 1));
    Ok(text)
}

/// The events of a file. The last line is missing if it is truncated because its program was killed.
///
/// # Errors
/// The line that is no such event, and why.
pub fn read<T: DeserializeOwned>(text: &[u8]) -> Result<Vec<T>, String> {
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let mut reader = csv::Reader::from_reader(&text[..whole]);
    reader.deserialize().map(|line| line.map_err(|error| error.to_string())).collect()
}

/// For tests: the text of a file with these events.
#[cfg(test)]
fn written<T: Serialize + Default>(events: &[T]) -> String {
    let mut text = Vec::new();
    let mut writer = Writer::new(&mut text).unwrap();
    events.iter().for_each(|event| writer.push(event).unwrap());
    writer.flush().unwrap();
    drop(writer);
    String::from_utf8(text).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_events_has_a_head() {
        assert_eq!(written::<Probed>(&[]), "core,mode,intended_ns,sent_ns,answered_ns\n");
        assert_eq!(read::<Probed>(written::<Probed>(&[]).as_bytes()).unwrap(), []);
        assert_eq!(read::<Probed>(b"").unwrap(), []);
    }

    #[test]
    fn a_truncated_line_is_no_event_and_a_wrong_one_is_named() {
        let one = Probed { core: 1, ..Probed::default() };
        let text = written(&[one, one]);
        let cut = &text.as_bytes()[..text.len() - 1];
        assert_eq!(read::<Probed>(cut).unwrap(), [one]);
        let error = read::<Probed>(text.replace("sleep,", "dance,").as_bytes()).unwrap_err();
        assert!(error.contains("line: 2") && error.contains("dance"), "{error}");
    }
}
