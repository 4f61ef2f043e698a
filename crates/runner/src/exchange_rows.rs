//! Merges both sides' records of exchanges into rows.

use crate::bed::jobs::{Job, Role};
use crate::collect::{CollectError, events};
use crate::exchange::sections;
use experiment::{Exchange, Pair, Plan, Turn};
use measure::{Failed, Message, MessageTable, RowTable, SectionRow};
use record::event::{ExchangeEvent, FailureReason, Receipt, SectionEvent};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::Path;
use std::sync::Arc;
use units::Instant;

/// All frames that a driving node counted: node, bytes sent and received.
pub(crate) type Passed = (usize, u64, u64);

/// The tables that an exchange workload adds rows to.
#[derive(Debug)]
pub(crate) struct Tables<'a> {
    pub messages: &'a mut MessageTable,
    pub sections: &'a mut RowTable<SectionRow>,
    pub passed: &'a mut Vec<Passed>,
}

/// Adds a row for each scheduled exchange (and receiver) and one for each section, filled from both
/// sides' records. Records that a dead program did not write are missing.
pub(crate) fn collect(
    plan: &Plan,
    number: usize,
    exchange: &Exchange,
    jobs: &[Job],
    start: Instant,
    tables: Tables<'_>,
) -> Result<(), CollectError> {
    let of = |role: Role| {
        jobs.iter().filter(move |job| job.workload == Some(number) && job.role == role)
    };
    let since = |ns: u64| Instant::from_ns(ns).ns_from(start);
    let mut rows = Rows::planned(plan, number, exchange, tables.messages);
    // The order matters: a receipt without a number finds its exchange by the driver's times, and
    // sections take over a failure that only a receipt reports.
    for job in of(Role::Source) {
        let failed = CollectError::of(&job.name, &job.files.events);
        for line in events::<ExchangeEvent>(&job.name, &job.files.events)? {
            rows.driven(&line?, &since).map_err(&failed)?;
        }
    }
    for job in of(Role::Sink) {
        let failed = CollectError::of(&job.name, &job.files.events);
        for receipt in events::<Receipt>(&job.name, &job.files.events)? {
            let receipt = receipt?;
            let at = since(receipt.time_ns);
            rows.received(&job.name, &receipt, at).map_err(&failed)?;
        }
    }
    for job in of(Role::Source) {
        let path = sections(&job.files);
        add_sections(&rows, job, &path, &since, tables.sections, tables.passed)?;
    }
    Ok(())
}

/// Adds the rows of a driver's sections, and the frames that it counted.
fn add_sections(
    rows: &Rows<'_>,
    job: &Job,
    path: &Path,
    since: &dyn Fn(u64) -> i64,
    sections: &mut RowTable<SectionRow>,
    passed: &mut Vec<Passed>,
) -> Result<(), CollectError> {
    let failed = CollectError::of(&job.name, path);
    let node: Arc<str> = job.name.as_str().into();
    // The sections of an exchange follow each other.
    let mut last: Option<SectionRow> = None;
    for part in events::<SectionEvent>(&job.name, path)? {
        let part = part?;
        let Some(message) = part.message else {
            passed.push((job.node, part.out_bytes, part.in_bytes));
            continue;
        };
        let known = last.take().filter(|row| row.message == message);
        let known = match known {
            Some(row) => Some(row),
            None => rows.exchange(message, &node).map_err(&failed)?,
        };
        let Some(known) = known else { continue };
        let row = SectionRow {
            section: part.section,
            begin_ns: since(part.begin_ns),
            end_ns: since(part.end_ns),
            out_bytes: part.out_bytes,
            in_bytes: part.in_bytes,
            out_frames: part.out_frames,
            in_frames: part.in_frames,
            ..known
        };
        last = Some(row.clone());
        sections.push(row);
    }
    Ok(())
}

/// The rows of a workload, by exchange.
struct Rows<'a> {
    table: &'a mut MessageTable,
    /// The first row.
    begin: usize,
    exchange: &'a Exchange,
    name: Arc<str>,
    /// Rows per exchange: one for each receiver.
    each: usize,
    pairs: Vec<Pair<'a>>,
    /// Position of each driver's pair.
    drivers: HashMap<&'a str, u64>,
    /// Drivers' pairs and servers among them that refused payloads.
    refused: BTreeSet<(u64, usize)>,
    /// By pair: how many exchanges had begun at the last receipt without a number.
    begun: Vec<u64>,
}

impl<'a> Rows<'a> {
    /// Adds the scheduled rows, without results.
    fn planned(
        plan: &Plan,
        number: usize,
        exchange: &'a Exchange,
        table: &'a mut MessageTable,
    ) -> Self {
        let pairs = exchange.pairs();
        let each = pairs.iter().map(|pair| pair.servers.len()).max().unwrap_or(1).max(1);
        let drivers = (0..).zip(&pairs).map(|(place, pair)| (pair.driver, place)).collect();
        let name = Arc::from(exchange.name.as_str());
        let begin = table.len();
        let (refused, begun) = (BTreeSet::new(), vec![0; pairs.len()]);
        let mut rows = Self { table, begin, exchange, name, each, pairs, drivers, refused, begun };
        rows.plan(&exchange.order(plan.impairment_seed(), number));
        rows
    }

    /// Adds a row for each exchange and receiver; `order` has the exchanges' sizes.
    fn plan(&mut self, order: &[u32]) {
        let names: HashMap<&str, Arc<str>> = self
            .pairs
            .iter()
            .flat_map(|pair| pair.servers.iter().copied().chain([pair.driver]))
            .map(|name| (name, Arc::from(name)))
            .collect();
        let is_pull = self.exchange.protocol.is_pull();
        let none = Message { interaction: self.name.clone(), ..Message::default() };
        for (message, size) in (0..self.exchange.all_exchanges()).zip(order) {
            let Turn { pair, nth } = self.exchange.turn(message);
            let at = self.exchange.offset(pair as usize) + self.exchange.every * nth;
            let row = Message {
                message,
                bytes: self.exchange.sizes[*size as usize] as u32,
                intended_ns: at.as_ns() as i64,
                warmup: message >= self.exchange.exchanges(),
                ..none.clone()
            };
            let pair = self.pairs.get(pair as usize);
            for server in 0..self.each {
                let peer = pair.and_then(|pair| Some([pair.driver, pair.servers.get(server)?]));
                let Some([driver, peer]) = peer.map(|ends| ends.map(|name| names[name].clone()))
                else {
                    self.table.push(none.clone());
                    continue;
                };
                let (sender, peer) = if is_pull { (peer, driver) } else { (driver, peer) };
                self.table.push(Message { sender, peer, ..row.clone() });
            }
        }
    }

    /// The places of an exchange's rows in the table.
    fn of(&self, message: u64) -> std::ops::Range<usize> {
        // Numbers come from programs' files: one beyond the schedule selects no row.
        if message >= self.exchange.all_exchanges() {
            return 0..0;
        }
        let from = self.begin + message as usize * self.each;
        from..from + self.each
    }

    fn row(&self, place: usize) -> io::Result<Message> {
        Ok(self.table.get(place)?.unwrap_or_default())
    }

    /// What all sections of an exchange have in common; `None` if there is no such exchange.
    fn exchange(&self, message: u64, node: &Arc<str>) -> io::Result<Option<SectionRow>> {
        let mut known: Option<SectionRow> = None;
        for place in self.of(message) {
            let row = self.row(place)?;
            let known = known.get_or_insert_with(|| SectionRow {
                message,
                interaction: self.name.clone(),
                node: node.clone(),
                payload_bytes: row.bytes,
                failed: row.failed.is_some(),
                warmup: row.warmup,
                ..SectionRow::default()
            });
            known.answered |= row.reply_received_ns.is_some();
        }
        Ok(known)
    }

    fn driven(&mut self, line: &ExchangeEvent, since: &dyn Fn(u64) -> i64) -> io::Result<()> {
        for place in self.of(line.message) {
            self.table.update(place, |row| {
                row.intended_ns = since(line.intended_ns);
                row.held_ns = line.held_ns as i64;
                row.sent_ns = Some(since(line.begin_ns));
                row.received_ns = row.received_ns.or(line.received_ns.map(since));
                match line.failure {
                    None => row.reply_received_ns = Some(since(line.end_ns)),
                    Some(reason) => row.failed = Some(failed(reason, &line.detail)),
                }
            })?;
        }
        Ok(())
    }

    /// Records a received payload: the one with its number, or without a number the last that its
    /// driver had begun by then.
    fn received(&mut self, server: &str, receipt: &Receipt, at: i64) -> io::Result<()> {
        // The driver receives the payload then, and its own record has the time.
        if self.exchange.protocol.is_pull() {
            return Ok(());
        }
        if let Some(reason) = receipt.failure {
            return self.refuse(server, receipt, reason);
        }
        let message = match receipt.message {
            None => self.under_way(&receipt.peer, at)?,
            number => number,
        };
        for place in message.map_or(0..0, |message| self.of(message)) {
            let row = self.row(place)?;
            let is_own = *row.peer == *server && *row.sender == *receipt.peer;
            if is_own && u64::from(row.bytes) == receipt.bytes {
                return self.table.update(place, |row| match row.received_ns {
                    Some(_) => row.duplicates += 1,
                    None => row.received_ns = Some(at),
                });
            }
        }
        Ok(())
    }

    /// Records a refused payload: the exchange failed, whatever its sender reports.
    fn refuse(&mut self, server: &str, receipt: &Receipt, reason: FailureReason) -> io::Result<()> {
        let Some(pair) = self.drivers.get(receipt.peer.as_str()).copied() else { return Ok(()) };
        let mut servers = self.pairs[pair as usize].servers.iter();
        let Some(server) = servers.position(|name| *name == server) else { return Ok(()) };
        // A further refusal changes nothing: all that had not arrived has failed.
        if !self.refused.insert((pair, server)) {
            return Ok(());
        }
        for nth in 0.. {
            let Some(message) = self.exchange.number(Turn { pair, nth }) else { break };
            self.table.update(self.of(message).start + server, |row| {
                if row.received_ns.is_none() {
                    row.failed.get_or_insert_with(|| failed(reason, &receipt.detail));
                    row.reply_received_ns = None;
                }
            })?;
        }
        Ok(())
    }

    /// The last exchange that a driver had begun at a time. Its exchanges begin one after another.
    fn under_way(&mut self, driver: &str, at: i64) -> io::Result<Option<u64>> {
        let Some(pair) = self.drivers.get(driver).copied() else { return Ok(None) };
        let number = |nth: u64| self.exchange.number(Turn { pair, nth });
        // Receipts are in order of time, so that few looks at the rows find the next exchange.
        let last = self.begun[pair as usize];
        let is_later = last > 0 && self.has_begun(number(last - 1), at)?;
        let (mut begun, mut step) = (if is_later { last } else { 0 }, 1);
        while self.has_begun(number(begun + step - 1), at)? {
            begun += step;
            step *= 2;
        }
        while step > 1 {
            step /= 2;
            if self.has_begun(number(begun + step - 1), at)? {
                begun += step;
            }
        }
        self.begun[pair as usize] = begun;
        Ok(begun.checked_sub(1).and_then(number))
    }

    fn has_begun(&self, message: Option<u64>, at: i64) -> io::Result<bool> {
        let Some(message) = message else { return Ok(false) };
        Ok(self.row(self.of(message).start)?.sent_ns.is_some_and(|sent| sent <= at))
    }
}

fn failed(reason: FailureReason, detail: &str) -> Box<Failed> {
    Box::new(Failed { reason, detail: detail.to_owned() })
}

#[cfg(test)]
#[path = "exchange_rows_tests.rs"]
mod tests;
