//! Lines about connections that end because of what their clients have sent.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Minimum time between two lines about an address.
const EVERY: Duration = Duration::from_secs(60);
/// Maximum number of addresses with a line in that time.
const MOST: usize = 16;
/// Maximum length of a client's name in a line, in characters.
const LONGEST_NAME: usize = 64;

/// Refused connections of all clients.
#[derive(Debug, Clone, Default)]
pub struct Refusals(Arc<Mutex<Lines>>);

/// The last line of an address, and the number of connections since.
#[derive(Debug)]
struct Last {
    at: Instant,
    more: u64,
}

#[derive(Debug, Default)]
struct Lines {
    last: BTreeMap<IpAddr, Last>,
    /// Connections from addresses beyond `MOST`, and when they had a line.
    others: u64,
    others_at: Option<Instant>,
    ready: Vec<String>,
}

impl Refusals {
    /// The connection of this address ends; `client` is its name if it is known.
    pub fn record(&self, from: SocketAddr, client: Option<&str>, why: &str) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.record(from, client, why, Instant::now());
    }

    /// The lines to write now.
    pub fn report(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).report(Instant::now())
    }
}

impl Lines {
    fn record(&mut self, from: SocketAddr, client: Option<&str>, why: &str, now: Instant) {
        if let Some(last) = self.last.get_mut(&from.ip()) {
            last.more += 1;
            return;
        }
        if self.last.len() >= MOST {
            self.others += 1;
            return;
        }
        self.last.insert(from.ip(), Last { at: now, more: 0 });
        let name: String = client.unwrap_or_default().chars().take(LONGEST_NAME).collect();
        let who = match name.is_empty() {
            true => format!("a client at {from}"),
            false => format!("client {name} at {from}"),
        };
        self.ready.push(format!("{who} was disconnected: {why}"));
    }

    fn report(&mut self, now: Instant) -> Vec<String> {
        let mut lines = std::mem::take(&mut self.ready);
        self.last.retain(|ip, last| {
            let is_recent = now < last.at + EVERY;
            if !is_recent && last.more > 0 {
                lines.push(format!(
                    "{} further connections from {ip} ended within a minute because of what the clients sent",
                    last.more
                ));
            }
            is_recent
        });
        if self.others > 0 && self.others_at.is_none_or(|at| now >= at + EVERY) {
            self.others_at = Some(now);
            lines.push(format!(
                "{} connections from further addresses ended because of what the clients sent",
                std::mem::take(&mut self.others)
            ));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_a_line_a_minute_and_the_others_are_counted() {
        let (mut lines, start) = (Lines::default(), Instant::now());
        let at = |second| start + Duration::from_secs(second);
        let from = |of: u8| SocketAddr::from(([10, 0, 0, of], 7));
        lines.record(from(1), Some("meter"), "it speaks TLS", at(0));
        lines.record(from(1), None, "it speaks TLS", at(1));
        let expected = "client meter at 10.0.0.1:7 was disconnected: it speaks TLS";
        assert_eq!(lines.report(at(1)), [expected]);
        assert_eq!(lines.report(at(59)), Vec::<String>::new());
        let report = lines.report(at(60));
        assert!(report.len() == 1 && report[0].starts_with("1 further connections"), "{report:?}");
        (0..20).for_each(|of| lines.record(from(of), None, "x", at(61)));
        let report = lines.report(at(61));
        assert_eq!(report.len(), MOST + 1);
        assert!(report[MOST].starts_with("4 connections from further addresses"), "{report:?}");
        assert_eq!(lines.report(at(121)), Vec::<String>::new());
        lines.record(from(1), Some(&"x".repeat(60_000)), "y", at(121));
        assert!(lines.report(at(121))[0].len() < 200);
    }
}
