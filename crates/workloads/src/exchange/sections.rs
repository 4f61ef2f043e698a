//! The sections of an exchange: their times and their frames.
//!
//! The rule: a frame belongs to the section during which it passed the node's
//! interface. What passes after the last section and before the next exchange
//! begins (the last acknowledgements, what was under way when it failed) is counted
//! to the last section, and takes no time. So each frame is counted once, and the
//! sections of all exchanges hold all that passed since the first began. A last line
//! without an exchange holds what passed the interface in all, whoever's it was, since
//! the start: to be held against what others have counted.

use super::wire::{Count, Ours, Wire};
use crate::clock::{Nanos, monotonic_now};
use crate::error::Error;
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A part of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// The transport's connection is made: TCP, QUIC; DTLS and TLS with it.
    TransportConnect,
    /// The protocol's own: MQTT's CONNECT, OPC UA's channel and session.
    ProtocolConnect,
    /// The payload goes, until the driver knows that it has gone.
    Payload,
    /// One block of it, from 1.
    Block(u32),
    /// The protocol says goodbye.
    ProtocolClose,
    /// The transport's connection is closed.
    TransportClose,
}

impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TransportConnect => f.write_str("transport_connect"),
            Self::ProtocolConnect => f.write_str("protocol_connect"),
            Self::Payload => f.write_str("payload"),
            Self::Block(number) => write!(f, "payload_{number}"),
            Self::ProtocolClose => f.write_str("protocol_close"),
            Self::TransportClose => f.write_str("transport_close"),
        }
    }
}

/// A moment, and what had passed by then.
#[derive(Debug, Clone, Copy)]
pub struct Mark(Nanos, Count);

/// A section that is over.
#[derive(Debug, Clone, Copy)]
struct Row {
    section: Section,
    begin: Nanos,
    end: Nanos,
    count: Count,
}

/// Takes exchanges apart and writes their sections down: a line each, when the next
/// exchange begins or all is over.
#[derive(Debug)]
pub struct Sections {
    wire: Wire,
    path: PathBuf,
    file: File,
    /// The exchange under way or just over; none before the first.
    exchange: Option<u64>,
    rows: Vec<Row>,
    open: Option<(Section, Nanos)>,
    /// What had passed at the last border.
    seen: Count,
    /// The start, and what had passed by then, whoever's it was.
    since: (Nanos, Count),
}

impl Sections {
    /// Counts at `interface`, and writes to a new file at `path`.
    ///
    /// # Errors
    /// When frames cannot be counted or the file cannot be written.
    pub fn create(interface: &str, ours: Ours, path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Events { path: path.into(), source };
        let mut file = File::create(path).map_err(failed)?;
        let head = "message,section,begin_ns,end_ns,out_bytes,in_bytes,out_frames,in_frames\n";
        file.write_all(head.as_bytes()).map_err(failed)?;
        Ok(Self {
            wire: Wire::on(interface, ours)?,
            path: path.into(),
            file,
            exchange: None,
            rows: Vec::new(),
            open: None,
            seen: Count::default(),
            since: (monotonic_now(), Count::default()),
        })
    }

    /// What is readable when a frame passes from now on.
    pub(super) fn frames(&mut self) -> std::os::fd::RawFd {
        self.wire.count();
        self.wire.descriptor()
    }

    /// An exchange begins: what has passed since the one before counts to that.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn begin(&mut self, exchange: u64) -> Result<(), Error> {
        self.flush()?;
        self.exchange = Some(exchange);
        Ok(())
    }

    /// Begins a section, and ends the one before where there is one.
    pub fn enter(&mut self, section: Section) {
        let now = self.border();
        self.open = Some((section, now));
    }

    /// Ends the section that is under way.
    pub fn leave(&mut self) {
        self.border();
    }

    /// Ends the exchange, and says when its last section ended.
    pub fn finish(&mut self) -> Nanos {
        self.leave();
        self.rows.last().map_or_else(monotonic_now, |row| row.end)
    }

    /// What passes is counted from now on.
    pub fn start(&mut self) {
        // What has come and was not looked at yet is from before.
        self.seen = self.wire.count();
        self.since = (monotonic_now(), self.wire.all());
    }

    /// Drops what was entered in setting up, which is no exchange.
    pub fn forget(&mut self) {
        self.leave();
        self.rows.clear();
        self.seen = self.wire.count();
    }

    /// Writes down what is known, and what has passed in all; the end.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn end(&mut self) -> Result<(), Error> {
        self.flush()?;
        let (begin, before) = self.since;
        let Count { out_bytes, in_bytes, out_frames, in_frames } = self.wire.all() - before;
        let end = monotonic_now();
        let line = format!(",all,{begin},{end},{out_bytes},{in_bytes},{out_frames},{in_frames}\n");
        let written = self.file.write_all(line.as_bytes());
        written.map_err(|source| Error::Events { path: self.path.clone(), source })
    }

    /// Writes down what is known.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn flush(&mut self) -> Result<(), Error> {
        let passed = self.pass();
        if let Some(last) = self.rows.last_mut() {
            last.count += passed;
        }
        let missed = self.wire.missed();
        if missed > 0 {
            eprintln!("thingbed-workload: {missed} frames are missing in the sections");
        }
        let Some(exchange) = self.exchange.filter(|_| !self.rows.is_empty()) else {
            return Ok(());
        };
        let mut lines = Vec::new();
        for Row { section, begin, end, count } in self.rows.drain(..) {
            let Count { out_bytes, in_bytes, out_frames, in_frames } = count;
            // Writing into a Vec cannot fail.
            let _ = writeln!(
                lines,
                "{exchange},{section},{begin},{end},{out_bytes},{in_bytes},{out_frames},{in_frames}"
            );
        }
        let written = self.file.write_all(&lines);
        written.map_err(|source| Error::Events { path: self.path.clone(), source })
    }

    /// A border that may turn out to have been one.
    pub fn mark(&mut self) -> Mark {
        Mark(monotonic_now(), self.wire.count())
    }

    /// Begins a section at a mark, after which there was no border.
    pub fn enter_from(&mut self, mark: Mark, section: Section) {
        let now = self.border_at(mark);
        self.open = Some((section, now));
    }

    /// A border, now: what has passed belongs to the section before it.
    fn border(&mut self) -> Nanos {
        let mark = self.mark();
        self.border_at(mark)
    }

    fn border_at(&mut self, Mark(now, passed): Mark) -> Nanos {
        let count = passed - self.seen;
        self.seen = passed;
        match self.open.take() {
            Some((section, begin)) => self.rows.push(Row { section, begin, end: now, count }),
            None => {
                if let Some(last) = self.rows.last_mut() {
                    last.count += count;
                }
            }
        }
        now
    }

    /// What has passed since the last border.
    fn pass(&mut self) -> Count {
        let now = self.wire.count();
        let passed = now - self.seen;
        self.seen = now;
        passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn each_frame_is_counted_once_and_late_ones_to_the_last_section() {
        let path = std::env::temp_dir().join(format!("sections-{}.csv", std::process::id()));
        let to = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = to.local_addr().unwrap().port();
        let ours = Ours { hosts: vec![[127, 0, 0, 1].into()], port };
        let mut sections = Sections::create("lo", ours, &path).unwrap();
        let say = |bytes: usize| {
            let from = UdpSocket::bind("127.0.0.1:0").unwrap();
            from.send_to(&vec![0; bytes], to.local_addr().unwrap()).unwrap();
            to.recv(&mut [0; 2000]).unwrap();
        };
        say(1000);
        sections.start();
        sections.enter(Section::TransportConnect);
        say(50);
        sections.forget();
        sections.begin(4).unwrap();
        sections.enter(Section::TransportConnect);
        say(100);
        sections.enter(Section::Block(1));
        say(200);
        sections.finish();
        say(300);
        sections.begin(5).unwrap();
        sections.end().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let rows: Vec<Vec<&str>> =
            text.lines().skip(1).map(|line| line.split(',').collect()).collect();
        assert_eq!(rows.len(), 3, "{text}");
        assert_eq!((rows[0][0], rows[0][1], rows[1][1]), ("4", "transport_connect", "payload_1"));
        // The end of one is the beginning of the next.
        assert_eq!(rows[0][3], rows[1][2]);
        let bytes = |row: usize| rows[row][4].parse::<u64>().unwrap();
        assert_eq!((bytes(0), bytes(1)), (142, 242 + 342), "{text}");
        // Others may use the loopback meanwhile.
        assert_eq!(rows[2][1], "all");
        assert!(bytes(2) >= 92 + 142 + 242 + 342, "{text}");
    }
}
