//! The sections of an exchange, with their times and frames.
//!
//! The rule: a frame belongs to the section during which it passed the node's interface. Frames
//! between the last section and the next exchange (the last acknowledgements, frames in flight at
//! a failure) count for the last section, with no effect on its time. So each frame is counted
//! once, and the sections of all exchanges include all frames since the first exchange. A last
//! line without an exchange has the total of all frames at the interface since the start, related
//! to the workload or not, to compare with other counts.

use super::wire::{Count, FrameFilter, Wire};
use crate::error::Error;
use crate::events::EventsFile;
use record::event::SectionEvent;
use std::ops::Range;
use std::path::Path;
use units::Instant;

pub use record::event::Section;

/// A time, and the count at that time.
#[derive(Debug, Clone, Copy)]
pub struct Mark(Instant, Count);

/// Records sections and writes one line each, when the next exchange starts or at the end.
#[derive(Debug)]
pub struct Sections {
    wire: Wire,
    file: EventsFile<SectionEvent>,
    /// The current or last exchange; none before the first.
    exchange: Option<u64>,
    rows: Vec<SectionEvent>,
    open: Option<(Section, Instant)>,
    /// Count at the last boundary.
    counted: Count,
    /// The start time, and the total count then.
    since: (Instant, Count),
}

impl Sections {
    /// Counts frames at `interface`, and creates the file `path`.
    ///
    /// # Errors
    /// Cannot count frames, or cannot write the file.
    pub fn create(interface: &str, filter: FrameFilter, path: &Path) -> Result<Self, Error> {
        let file = EventsFile::create(path)?;
        Ok(Self {
            wire: Wire::on(interface, filter)?,
            file,
            exchange: None,
            rows: Vec::new(),
            open: None,
            counted: Count::default(),
            since: (clock::now(), Count::default()),
        })
    }

    /// A descriptor that is readable when a frame passes from now on.
    pub(crate) fn frames(&mut self) -> std::os::fd::RawFd {
        // Reads the frames that have passed already, so that only new ones wake the caller.
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
    pub fn finish(&mut self) -> Instant {
        self.leave();
        self.rows.last().map_or_else(clock::now, |row| Instant::from_ns(row.end_ns))
    }

    /// Starts counting.
    pub fn start(&mut self) {
        // Discard frames that arrived before.
        self.counted = self.wire.count();
        self.since = (clock::now(), self.wire.all());
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
        let total = event(Section::All, begin..clock::now(), self.wire.all() - before);
        self.file.push(&total)?;
        self.file.flush()
    }

    /// Writes the buffered sections; see [`EventsFile::save`].
    ///
    /// # Errors
    /// Cannot write the file.
    pub fn flush(&mut self) -> Result<(), Error> {
        let passed = self.pass();
        if let Some(last) = self.rows.last_mut() {
            add(last, passed);
        }
        let dropped = self.wire.dropped();
        if dropped > 0 {
            crate::log!("warning: the sections lack {dropped} frames");
        }
        // Before the first exchange, rows are of the setup.
        let Some(exchange) = self.exchange.filter(|_| !self.rows.is_empty()) else {
            return Ok(());
        };
        for row in self.rows.drain(..) {
            self.file.push(&SectionEvent { message: Some(exchange), ..row })?;
        }
        self.file.save()
    }

    /// A possible section boundary.
    pub fn mark(&mut self) -> Mark {
        Mark(clock::now(), self.wire.count())
    }

    /// Starts a section at a mark, with no boundary since.
    pub fn enter_from(&mut self, mark: Mark, section: Section) {
        let now = self.border_at(mark);
        self.open = Some((section, now));
    }

    /// A boundary now: frames so far belong to the section before it.
    fn border(&mut self) -> Instant {
        let mark = self.mark();
        self.border_at(mark)
    }

    fn border_at(&mut self, Mark(now, passed): Mark) -> Instant {
        let count = passed - self.counted;
        self.counted = passed;
        match self.open.take() {
            Some((section, begin)) => self.rows.push(event(section, begin..now, count)),
            None => {
                if let Some(last) = self.rows.last_mut() {
                    add(last, count);
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

/// The event of a section during `span`, without its exchange.
fn event(section: Section, span: Range<Instant>, count: Count) -> SectionEvent {
    let (begin_ns, end_ns) = (span.start.as_ns(), span.end.as_ns());
    let mut event = SectionEvent { section, begin_ns, end_ns, ..SectionEvent::default() };
    add(&mut event, count);
    event
}

/// Adds frames to a section.
fn add(event: &mut SectionEvent, count: Count) {
    event.out_bytes += count.out_bytes;
    event.in_bytes += count.in_bytes;
    event.out_frames += count.out_frames;
    event.in_frames += count.in_frames;
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
