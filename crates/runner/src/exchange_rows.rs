//! Merges both sides' records of exchanges into rows.

use crate::bed::jobs::{Job, Role};
use crate::collect::{CollectError, events};
use crate::exchange::sections;
use experiment::{Exchange, Plan};
use measure::{Failed, Message, SectionRow};
use record::event::{ExchangeEvent, FailureReason, Receipt, SectionEvent};
use std::collections::HashMap;
use std::sync::Arc;
use units::Instant;

/// All frames that a driving node counted: node, bytes sent and received.
pub(crate) type Passed = (usize, u64, u64);

/// The results of an exchange workload.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub messages: Vec<Message>,
    pub sections: Vec<SectionRow>,
    pub passed: Vec<Passed>,
}

/// A row for each scheduled exchange (and receiver) and one for each section, filled from both
/// sides' records. Records that a dead program did not write are missing.
pub(crate) fn collect(
    plan: &Plan,
    number: usize,
    exchange: &Exchange,
    jobs: &[Job],
    start: Instant,
) -> Result<Collected, CollectError> {
    let of = |role: Role| {
        jobs.iter().filter(move |job| job.workload == Some(number) && job.role == role)
    };
    let since = |ns: u64| Instant::from_ns(ns).ns_from(start);
    let name: Arc<str> = exchange.name.as_str().into();
    let mut table = Table::planned(plan, number, exchange, &name);
    let mut found = Collected::default();
    // The order matters: a receipt without a number finds its exchange by the driver's times, and
    // sections take over a failure that only a receipt reports.
    for job in of(Role::Source) {
        for line in events::<ExchangeEvent>(&job.name, &job.files.events)? {
            table.driven(&line?, &since);
        }
    }
    for job in of(Role::Sink) {
        for receipt in events::<Receipt>(&job.name, &job.files.events)? {
            let receipt = receipt?;
            table.received(&job.name, &receipt, since(receipt.time_ns));
        }
    }
    for job in of(Role::Source) {
        for part in events::<SectionEvent>(&job.name, &sections(&job.files))? {
            let part = part?;
            let Some(message) = part.message else {
                found.passed.push((job.node, part.out_bytes, part.in_bytes));
                continue;
            };
            let Some(row) = table.first(message) else { continue };
            found.sections.push(SectionRow {
                message,
                interaction: name.clone(),
                node: job.name.as_str().into(),
                section: part.section,
                payload_bytes: row.bytes,
                begin_ns: since(part.begin_ns),
                end_ns: since(part.end_ns),
                out_bytes: part.out_bytes,
                in_bytes: part.in_bytes,
                out_frames: part.out_frames,
                in_frames: part.in_frames,
                failed: row.failed.is_some(),
            });
        }
    }
    found.messages = table.rows;
    Ok(found)
}

/// The rows of a workload, with an index by exchange.
struct Table {
    rows: Vec<Message>,
    /// Rows per exchange: one for each receiver.
    each: usize,
    /// Exchanges by driver, in the order of their times.
    driven: HashMap<String, Vec<u64>>,
    is_pull: bool,
}

impl Table {
    /// The scheduled rows, without results.
    fn planned(plan: &Plan, number: usize, exchange: &Exchange, name: &Arc<str>) -> Self {
        let pairs = exchange.pairs();
        let is_pull = exchange.protocol.is_pull();
        let each = pairs.iter().map(|pair| pair.servers.len()).max().unwrap_or(1).max(1);
        let blank = Message { interaction: name.clone(), ..Message::default() };
        let mut rows = vec![blank; exchange.all_exchanges() as usize * each];
        let mut driven = HashMap::new();
        for (place, own) in exchange.schedule(plan.impairment_seed(), number).iter().enumerate() {
            let pair = &pairs[place];
            let driver: Arc<str> = pair.driver.into();
            driven.insert(pair.driver.to_owned(), own.iter().map(|(n, _)| *n).collect());
            for (k, (message, size)) in own.iter().enumerate() {
                let at = exchange.offset(place) + exchange.every * k as u64;
                for (server, peer) in pair.servers.iter().enumerate() {
                    let row = &mut rows[*message as usize * each + server];
                    let (from, to) = match is_pull {
                        true => (Arc::from(*peer), driver.clone()),
                        false => (driver.clone(), Arc::from(*peer)),
                    };
                    (row.message, row.sender, row.peer) = (*message, from, to);
                    (row.bytes, row.intended_ns) = (*size as u32, at.as_ns() as i64);
                    row.warmup = *message >= exchange.exchanges();
                }
            }
        }
        Self { rows, each, driven, is_pull }
    }

    fn of(&mut self, message: u64) -> &mut [Message] {
        // Numbers come from programs' files: one beyond the schedule selects no row.
        let from = (message as usize).saturating_mul(self.each).min(self.rows.len());
        let to = (from + self.each).min(self.rows.len());
        &mut self.rows[from..to]
    }

    fn first(&mut self, message: u64) -> Option<&Message> {
        self.of(message).first()
    }

    fn driven(&mut self, line: &ExchangeEvent, since: &dyn Fn(u64) -> i64) {
        for row in self.of(line.message) {
            row.intended_ns = since(line.intended_ns);
            row.held_ns = line.held_ns as i64;
            row.sent_ns = Some(since(line.begin_ns));
            row.received_ns = row.received_ns.or(line.received_ns.map(since));
            match line.failure {
                None => row.reply_received_ns = Some(since(line.end_ns)),
                Some(reason) => row.failed = Some(failed(reason, &line.detail)),
            }
        }
    }

    /// Records a received payload: the one with its number, or without a number the last that its
    /// driver had begun by then.
    fn received(&mut self, server: &str, receipt: &Receipt, at: i64) {
        // The driver receives the payload then, and its own record has the time.
        if self.is_pull {
            return;
        }
        if let Some(reason) = receipt.failure {
            self.refused(server, receipt, reason);
            return;
        }
        let message = receipt.message.or_else(|| self.under_way(&receipt.peer, at));
        let Some(message) = message else { return };
        let mut rows = self.of(message).iter_mut();
        let fits = |row: &&mut Message| {
            *row.peer == *server
                && *row.sender == *receipt.peer
                && u64::from(row.bytes) == receipt.bytes
        };
        if let Some(row) = rows.find(fits) {
            match row.received_ns {
                Some(_) => row.duplicates += 1,
                None => row.received_ns = Some(at),
            }
        }
    }

    /// Records a refused payload: the exchange failed, whatever its sender reports.
    fn refused(&mut self, server: &str, receipt: &Receipt, reason: FailureReason) {
        let own = |row: &&mut Message| *row.peer == *server && *row.sender == *receipt.peer;
        for row in self.rows.iter_mut().filter(own).filter(|row| row.received_ns.is_none()) {
            row.failed.get_or_insert_with(|| failed(reason, &receipt.detail));
            row.reply_received_ns = None;
        }
    }

    fn under_way(&self, driver: &str, at: i64) -> Option<u64> {
        let own = self.driven.get(driver)?;
        let begun = |message: &u64| {
            let row = self.rows.get(*message as usize * self.each);
            row.and_then(|row| row.sent_ns).is_some_and(|sent| sent <= at)
        };
        own.iter().rev().find(|message| begun(message)).copied()
    }
}

fn failed(reason: FailureReason, detail: &str) -> Box<Failed> {
    Box::new(Failed { reason, detail: detail.to_owned() })
}

#[cfg(test)]
#[path = "exchange_rows_tests.rs"]
mod tests;
