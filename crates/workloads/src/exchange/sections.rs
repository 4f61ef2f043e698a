//! The sections of an exchange, with their times and frames.
//!
//! The rule: a frame belongs to the section during which it passed the node's interface. Frames
//! between the last section and the next exchange (the last acknowledgements, frames in flight at
//! a failure) count for the last section, with no effect on its time. So each frame is counted
//! once, and the sections of all exchanges include all frames since the first exchange. A last
//! line without an exchange has the total of all frames at the interface since the start, related
//! to the workload or not, to compare with other counts.

use super::wire::{Count, FrameFilter, Wire};
use crate::clock::{Nanos, monotonic_now};
use crate::error::Error;
use std::fmt;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A section of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    /// Transport connect: TCP or QUIC handshake, including DTLS or TLS.
    TransportConnect,
    /// Application protocol connect: MQTT CONNECT, OPC UA channel and session.
    ProtocolConnect,
    /// Payload transfer, until the driver knows it is complete.
    Payload,
    /// Transfer of one block, from 1.
    Block(u32),
    /// Application protocol close.
    ProtocolClose,
    /// Transport close.
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

/// A time, and the count at that time.
#[derive(Debug, Clone, Copy)]
pub struct Mark(Nanos, Count);

/// A completed section.
#[derive(Debug, Clone, Copy)]
struct Row {
    section: Section,
    begin: Nanos,
    end: Nanos,
    count: Count,
}

/// Records sections and writes one line each, when the next exchange starts or at the end.
#[derive(Debug)]
pub struct Sections {
    wire: Wire,
    path: PathBuf,
    file: File,
    /// The current or last exchange; none before the first.
    exchange: Option<u64>,
    rows: Vec<Row>,
    open: Option<(Section, Nanos)>,
    /// Count at the last boundary.
    counted: Count,
    /// The start time, and the total count then.
    since: (Nanos, Count),
}

impl Sections {
    /// Counts frames at `interface`, and creates the file `path`.
    ///
    /// # Errors
    /// Cannot count frames, or cannot write the file.
    pub fn create(interface: &str, filter: FrameFilter, path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Events { path: path.into(), source };
        let mut file = File::create(path).map_err(failed)?;
        let head = "message,section,begin_ns,end_ns,out_bytes,in_bytes,out_frames,in_frames\n";
        file.write_all(head.as_bytes()).map_err(failed)?;
        Ok(Self {
            wire: Wire::on(interface, filter)?,
            path: path.into(),
            file,
            exchange: None,
            rows: Vec::new(),
            open: None,
            counted: Count::default(),
            since: (monotonic_now(), Count::default()),
        })
    }

    /// A descriptor that is readable when a frame passes from now on.
    pub(crate) fn frames(&mut self) -> std::os::fd::RawFd {
        self.wire.count();
        self.wire.descriptor()
    }

    /// Starts an exchange. Frames since the previous one count for that.
    ///
    /// # Errors
    /// Cannot write the file.
    pub fn begin(&mut self, exchange: u64) -> Result<(), Error> {
        self.flush()?;
        self.exchange = Some(exchange);
        Ok(())
    }

    /// Starts a section, and ends the previous one, if any.
    pub fn enter(&mut self, section: Section) {
        let now = self.border();
        self.open = Some((section, now));
    }

    /// Ends the current section.
    pub fn leave(&mut self) {
        self.border();
    }

    /// Ends the exchange, and returns when its last section ended.
    pub fn finish(&mut self) -> Nanos {
        self.leave();
        self.rows.last().map_or_else(monotonic_now, |row| row.end)
    }

    /// Starts counting.
    pub fn start(&mut self) {
        // Discard frames that arrived before.
        self.counted = self.wire.count();
        self.since = (monotonic_now(), self.wire.all());
    }

    /// Discards the sections of the setup, which is not an exchange.
    pub fn forget(&mut self) {
        self.leave();
        self.rows.clear();
        self.counted = self.wire.count();
    }

    /// Writes the buffered sections and the total.
    ///
    /// # Errors
    /// Cannot write the file.
    pub fn end(&mut self) -> Result<(), Error> {
        self.flush()?;
        let (begin, before) = self.since;
        let Count { out_bytes, in_bytes, out_frames, in_frames } = self.wire.all() - before;
        let end = monotonic_now();
        let line = format!(",all,{begin},{end},{out_bytes},{in_bytes},{out_frames},{in_frames}\n");
        let written = self.file.write_all(line.as_bytes());
        written.map_err(|source| Error::Events { path: self.path.clone(), source })
    }

    /// Writes the buffered sections.
    ///
    /// # Errors
    /// Cannot write the file.
    pub fn flush(&mut self) -> Result<(), Error> {
        let passed = self.pass();
        if let Some(last) = self.rows.last_mut() {
            last.count += passed;
        }
        let dropped = self.wire.dropped();
        if dropped > 0 {
            eprintln!("thingbed-workload: warning: the sections lack {dropped} frames");
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

    /// A possible section boundary.
    pub fn mark(&mut self) -> Mark {
        Mark(monotonic_now(), self.wire.count())
    }

    /// Starts a section at a mark, with no boundary since.
    pub fn enter_from(&mut self, mark: Mark, section: Section) {
        let now = self.border_at(mark);
        self.open = Some((section, now));
    }

    /// A boundary now: frames so far belong to the section before it.
    fn border(&mut self) -> Nanos {
        let mark = self.mark();
        self.border_at(mark)
    }

    fn border_at(&mut self, Mark(now, passed): Mark) -> Nanos {
        let count = passed - self.counted;
        self.counted = passed;
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

    /// Frames since the last boundary.
    fn pass(&mut self) -> Count {
        let now = self.wire.count();
        let passed = now - self.counted;
        self.counted = now;
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
        let filter = FrameFilter { hosts: vec![[127, 0, 0, 1].into()], port };
        let mut sections = Sections::create("lo", filter, &path).unwrap();
        let send = |bytes: usize| {
            let from = UdpSocket::bind("127.0.0.1:0").unwrap();
            from.send_to(&vec![0; bytes], to.local_addr().unwrap()).unwrap();
            to.recv(&mut [0; 2000]).unwrap();
        };
        send(1000);
        sections.start();
        sections.enter(Section::TransportConnect);
        send(50);
        sections.forget();
        sections.begin(4).unwrap();
        sections.enter(Section::TransportConnect);
        send(100);
        sections.enter(Section::Block(1));
        send(200);
        sections.finish();
        send(300);
        sections.begin(5).unwrap();
        sections.end().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let rows: Vec<Vec<&str>> =
            text.lines().skip(1).map(|line| line.split(',').collect()).collect();
        assert_eq!(rows.len(), 3, "{text}");
        assert_eq!((rows[0][0], rows[0][1], rows[1][1]), ("4", "transport_connect", "payload_1"));
        // The end of each section is the start of the next.
        assert_eq!(rows[0][3], rows[1][2]);
        let bytes = |row: usize| rows[row][4].parse::<u64>().unwrap();
        assert_eq!((bytes(0), bytes(1)), (142, 242 + 342), "{text}");
        // Other traffic may use the loopback interface at the same time.
        assert_eq!(rows[2][1], "all");
        assert!(bytes(2) >= 92 + 142 + 242 + 342, "{text}");
    }
}
