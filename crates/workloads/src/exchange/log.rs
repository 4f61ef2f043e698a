//! Output files of each side: exchanges of the driver, received payloads of the server.

use super::failure::Failure;
use super::outcome::Outcome;
use crate::error::Error;
use crate::events::EventsFile;
use crate::log::one_line;
use record::event::{ExchangeEvent, Receipt};
use std::path::Path;
use units::Instant;

/// Longest detail of a failure, in characters.
const LONGEST_DETAIL: usize = 400;

/// The event of an exchange with this outcome, still without its times.
pub fn ended(outcome: &Result<Outcome, Failure>) -> ExchangeEvent {
    let blank = ExchangeEvent::default();
    match outcome {
        Ok(Outcome { received }) => {
            ExchangeEvent { received_ns: received.map(Instant::as_ns), ..blank }
        }
        Err(Failure { reason, detail }) => ExchangeEvent {
            failure: Some(*reason),
            detail: one_line(detail, LONGEST_DETAIL),
            ..blank
        },
    }
}

/// The server's file of received payloads, written line by line.
#[derive(Debug)]
pub struct Receipts(EventsFile<Receipt>);

impl Receipts {
    /// # Errors
    /// Cannot write the file.
    pub fn create(path: &Path) -> Result<Self, Error> {
        EventsFile::create(path).map(Self)
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
        at: Instant,
    ) -> Result<(), Error> {
        self.write(&Receipt {
            peer: peer.to_owned(),
            message: number,
            bytes: size as u64,
            time_ns: at.as_ns(),
            ..Receipt::default()
        })
    }

    /// Records why no payload can arrive from `peer` from now on.
    ///
    /// # Errors
    /// Cannot write the file.
    pub fn refuse(&mut self, peer: &str, why: &Failure, at: Instant) -> Result<(), Error> {
        self.write(&Receipt {
            peer: peer.to_owned(),
            time_ns: at.as_ns(),
            failure: Some(why.reason),
            detail: one_line(&why.detail, LONGEST_DETAIL),
            ..Receipt::default()
        })
    }

    fn write(&mut self, receipt: &Receipt) -> Result<(), Error> {
        self.0.push(receipt)?;
        self.0.save()
    }

    /// Writes what a full disk has not taken; see [`EventsFile::flush`].
    ///
    /// # Errors
    /// Cannot write the file.
    pub fn end(&mut self) -> Result<(), Error> {
        self.0.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::failure::Reason;

    #[test]
    fn an_outcome_has_a_receipt_or_a_failure() {
        let well = ended(&Ok(Outcome { received: Some(Instant::from_ns(8)) }));
        assert_eq!((well.received_ns, well.failure), (Some(8), None));
        let failed = ended(&Err(Failure::of(Reason::Status, "4.04, \"not\nfound\"")));
        assert_eq!((failed.received_ns, failed.failure), (None, Some(Reason::Status)));
        assert_eq!(failed.detail, "4.04, \"not found\"");
        let long = ended(&Err(Failure::of(Reason::Other, "x".repeat(1_000))));
        assert_eq!(long.detail.len(), LONGEST_DETAIL);
    }

    #[test]
    fn receipts_are_in_the_file_at_once() {
        let path = std::env::temp_dir().join(format!("receipts-{}.csv", std::process::id()));
        let mut receipts = Receipts::create(&path).unwrap();
        receipts.note("10.0.0.1", Some(3), 100, Instant::from_ns(7)).unwrap();
        receipts
            .refuse("meter-1", &Failure::of(Reason::Rejected, "no"), Instant::from_ns(9))
            .unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert_eq!(lines, ["10.0.0.1,3,100,7,,", "meter-1,,0,9,rejected,no"]);
    }
}
