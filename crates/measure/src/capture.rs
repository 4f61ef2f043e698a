//! Captures frames as pcapng: one interface per link, seen from the node.

mod filter;
mod libpcap;
mod trim;

pub use filter::{Filter, FilterError};
pub use libpcap::LIBPCAP;

use crate::full_disk::{Auxiliary, FullDisk};
use engine::Place;
use pcap_file::DataLink;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption, InterfaceTsResolution,
};
use pcap_file::pcapng::blocks::opt_common::CommonOption;
use pcap_file::pcapng::{PcapNgWriteError, PcapNgWriter};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SyncSender, TryRecvError, TrySendError, sync_channel,
};
use std::thread::JoinHandle;
use std::time::Duration;
use units::{Instant, Span};

/// Why a capture is incomplete.
#[derive(Debug, thiserror::Error)]
#[error("could not write the capture {path}: {why}")]
pub struct CaptureError {
    path: PathBuf,
    why: String,
}

/// An entry of the writer's queue.
enum Record {
    Frame {
        interface: u32,
        inbound: bool,
        at: Instant,
        length: u32,
        frame: Vec<u8>,
    },
    /// A comment, and the time from which it applies.
    Event(Instant, String),
}

/// Selects what a capture keeps; by default everything.
#[derive(Debug, Default)]
pub struct Selection {
    /// The links, by segment and endpoint; `None` for all.
    pub links: Option<Vec<Vec<bool>>>,
    /// The frame filter.
    pub filter: Option<Filter>,
    /// Maximum number of bytes kept of each frame; `None` for all.
    pub snap: Option<usize>,
}

impl Selection {
    fn has(&self, place: Place) -> bool {
        let link = |links: &Vec<Vec<bool>>| {
            links.get(place.segment).and_then(|ends| ends.get(place.endpoint)).copied()
        };
        self.links.as_ref().is_none_or(|links| link(links).unwrap_or(false))
    }
}

/// Bytes of the frames written during the measurement, by interface: sent and received. Counts
/// whole frames, even if truncated in the file.
type Bytes = Vec<[u64; 2]>;

/// What the writer stored.
#[derive(Debug, Default)]
struct Stored {
    bytes: Bytes,
    /// Number of frames that it did not write, because the disk was full.
    given_up: u64,
}

/// Summary of a finished capture.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// Number of frames missing because the disk was too slow.
    pub missed: u64,
    /// Number of frames missing because the disk was full.
    pub given_up: u64,
    /// Bytes of the captured frames during the measurement, sent and received, by segment and
    /// endpoint; `None` for links that were not captured completely.
    pub bytes: Vec<Vec<Option<[u64; 2]>>>,
}

/// Comments at the begin and end of the measurement.
const BEGINS: &str = "measuring begins";
const ENDS: &str = "measuring ends";

/// Length of the queue to the writer thread, in frames: 8 MB of the smallest relevant ones.
const QUEUE: usize = 65_536;
/// Interval of flushes without frames.
const IDLE: Duration = Duration::from_secs(1);
/// Write buffer, in bytes.
const ROOM: usize = 64 * 1024;

/// A capture in progress. A separate thread writes it, so that the medium never waits for a disk.
#[derive(Debug)]
pub struct Capture {
    sender: Option<SyncSender<Record>>,
    writer: Option<JoinHandle<Result<Stored, CaptureError>>>,
    interfaces: Vec<Vec<u32>>,
    selection: Selection,
    /// Comments by their time since the begin of the measurement, in ns.
    planned: Vec<(Span, String)>,
    missed: u64,
    /// Number of missing frames that a comment already reports.
    gaps: u64,
}

impl Capture {
    /// Starts the capture file `path`. `names` has the name of each link by segment and endpoint,
    /// e.g. `utility:eth0`.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub fn begin(
        path: &Path,
        names: &[Vec<String>],
        selection: Selection,
        disk: Arc<FullDisk>,
    ) -> Result<Self, CaptureError> {
        let failed =
            |error: io::Error| CaptureError { path: path.to_owned(), why: error.to_string() };
        let file = File::create(path).map_err(failed)?;
        Self::with(BufWriter::with_capacity(ROOM, file), path, names, selection, Some(disk))
    }

    /// Starts a capture to `sink`, a file or a pipe to a live viewer. `label` names it in errors.
    /// Flushes when no frame follows. [`Self::is_over`] tells when the sink accepts no more data.
    ///
    /// # Errors
    /// When the names of the links cannot be written.
    pub fn to(
        sink: impl Write + Send + 'static,
        label: &Path,
        names: &[Vec<String>],
        selection: Selection,
    ) -> Result<Self, CaptureError> {
        Self::with(sink, label, names, selection, None)
    }

    fn with(
        sink: impl Write + Send + 'static,
        label: &Path,
        names: &[Vec<String>],
        selection: Selection,
        disk: Option<Arc<FullDisk>>,
    ) -> Result<Self, CaptureError> {
        let failed = |why: String| CaptureError { path: label.to_owned(), why };
        let mut writer = PcapNgWriter::new(sink).map_err(|error| failed(error.to_string()))?;
        let mut interfaces = Vec::new();
        let mut count = 0;
        for (segment, names) in names.iter().enumerate() {
            let mut numbers = Vec::new();
            for (endpoint, name) in names.iter().enumerate() {
                numbers.push(count);
                if !selection.has(Place { segment, endpoint }) {
                    continue;
                }
                let written = writer.write_pcapng_block(describe(name, selection.snap));
                written.map_err(|error| failed(error.to_string()))?;
                count += 1;
            }
            interfaces.push(numbers);
        }
        let (sender, records) = sync_channel(QUEUE);
        let (path, file) = (label.to_owned(), label.to_owned());
        let thread = std::thread::Builder::new().name("capture".into());
        let work = move || match disk {
            Some(disk) => write_or_give_up(writer, &records, &disk, &file),
            None => write(writer, &records, None),
        };
        let work = move || work().map_err(|error| CaptureError { path, why: error.to_string() });
        let writer = thread.spawn(work).map_err(|error| failed(error.to_string()))?;
        let (sender, writer) = (Some(sender), Some(writer));
        Ok(Self { sender, writer, interfaces, selection, planned: Vec::new(), missed: 0, gaps: 0 })
    }

    /// Adds a frame that the node at `place` sent (or received, if `inbound`), if it is selected.
    pub fn frame(&mut self, place: Place, inbound: bool, frame: &[u8], at: Instant) {
        if !self.selection.has(place)
            || self.selection.filter.as_ref().is_some_and(|f| !f.keeps(frame))
        {
            return;
        }
        let ends = self.interfaces.get(place.segment);
        // The selection does not cover links that were added later.
        let Some(interface) = ends.and_then(|ends| ends.get(place.endpoint)).copied() else {
            return;
        };
        let kept = frame.len().min(self.selection.snap.unwrap_or(usize::MAX));
        let (length, frame) = (frame.len() as u32, frame[..kept].to_vec());
        self.put(Record::Frame { interface, inbound, at, length, frame });
    }

    /// Writes `text` as a comment on the next frame.
    pub fn event(&mut self, text: impl Into<String>) {
        self.put(Record::Event(Instant::START, text.into()));
    }

    /// Writes `text` as a comment on the first frame from `at` on.
    pub fn event_at(&mut self, at: Instant, text: impl Into<String>) {
        self.put(Record::Event(at, text.into()));
    }

    /// Writes `text` as a comment on the first frame from `after` the begin of the
    /// measurement.
    pub fn plan(&mut self, after: Span, text: impl Into<String>) {
        self.planned.push((after, text.into()));
    }

    /// The measurement begins at `at`.
    pub(crate) fn measuring(&mut self, at: Instant) {
        self.event(BEGINS);
        for (after, text) in std::mem::take(&mut self.planned) {
            self.event_at(at + after, text);
        }
    }

    /// The measurement ends.
    pub(crate) fn measured(&mut self) {
        self.event(ENDS);
    }

    /// Whether nothing more is written: the reader has disconnected, or the disk is full.
    pub fn is_over(&self) -> bool {
        self.writer.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn put(&mut self, record: Record) {
        let Some(sender) = &self.sender else { return };
        if self.missed > self.gaps {
            let text = format!("{} frames before this one are missing", self.missed - self.gaps);
            if sender.try_send(Record::Event(Instant::START, text)).is_ok() {
                self.gaps = self.missed;
            }
        }
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = sender.try_send(record)
        {
            self.missed += 1;
        }
    }

    /// Writes queued frames and closes the file; returns its summary.
    ///
    /// # Errors
    /// When writing failed at any time.
    pub fn end(mut self) -> Result<Written, CaptureError> {
        drop(self.sender.take());
        let Stored { bytes, given_up } = match self.writer.take().map(JoinHandle::join) {
            Some(Ok(written)) => written?,
            _ => Stored::default(),
        };
        let whole = |segment, endpoint| {
            self.selection.filter.is_none() && self.selection.has(Place { segment, endpoint })
        };
        let links = self.interfaces.iter().enumerate().map(|(segment, numbers)| {
            let of = |(endpoint, number): (usize, &u32)| {
                let bytes = bytes.get(*number as usize).copied().unwrap_or_default();
                whole(segment, endpoint).then_some(bytes)
            };
            numbers.iter().enumerate().map(of).collect()
        });
        Ok(Written { missed: self.missed, given_up, bytes: links.collect() })
    }
}

/// Flags of a frame's direction (pcapng, section 4.3.1).
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// The description block of one interface.
fn describe(name: &str, snap: Option<usize>) -> InterfaceDescriptionBlock<'_> {
    InterfaceDescriptionBlock {
        linktype: DataLink::ETHERNET,
        snaplen: snap.unwrap_or(0) as u32,
        options: vec![
            InterfaceDescriptionOption::IfName(name.into()),
            InterfaceDescriptionOption::IfTsResol(InterfaceTsResolution::NANO),
        ],
    }
}

/// Writes a file until its disk is full; the file is readable up to there.
fn write_or_give_up(
    writer: PcapNgWriter<impl Write>,
    records: &Receiver<Record>,
    disk: &FullDisk,
    path: &Path,
) -> io::Result<Stored> {
    let mut stored = match write(writer, records, Some(disk)) {
        Err(error) if journal::is_full(&error) => {
            disk.give_up(Auxiliary::Capture);
            // A capture that cannot be cut is still readable up to its last block.
            let _ = trim::trim(path);
            Stored::default()
        }
        written => written?,
    };
    if disk.is_given_up(Auxiliary::Capture) {
        // Takes them until the end of the run: otherwise they would count as missed because of a
        // slow disk.
        let frames = records.iter().filter(|record| matches!(record, Record::Frame { .. }));
        stored.given_up += frames.count() as u64;
    }
    Ok(stored)
}

/// Writes records until there are no more, or until the capture is given up.
fn write(
    mut writer: PcapNgWriter<impl Write>,
    records: &Receiver<Record>,
    disk: Option<&FullDisk>,
) -> io::Result<Stored> {
    let is_over = || disk.is_some_and(|disk| disk.is_given_up(Auxiliary::Capture));
    let (mut written, mut measuring) = (Bytes::new(), false);
    // One offset for the whole file, so that differences between timestamps are exact.
    let epoch = Duration::from(clock::realtime_offset());
    // By time, latest first.
    let mut events: Vec<(Instant, String)> = Vec::new();
    while !is_over()
        && let Some(record) = next(&mut writer, records)?
    {
        match record {
            Record::Event(from, text) => {
                // Comments arrive in the order of frames, so they mark the frames of the
                // measurement exactly.
                measuring = (measuring || text == BEGINS) && text != ENDS;
                let place = events.partition_point(|(other, _)| *other > from);
                events.insert(place, (from, text));
            }
            Record::Frame { interface, inbound, at, length, frame } => {
                let flags = if inbound { INBOUND } else { OUTBOUND };
                let begun = events.partition_point(|(from, _)| *from > at);
                let comments = events.split_off(begun).into_iter().rev().map(|(_, text)| {
                    EnhancedPacketOption::Common(CommonOption::Comment(text.into()))
                });
                let block = EnhancedPacketBlock {
                    interface_id: interface,
                    timestamp: epoch + Duration::from(at.since_start()),
                    original_len: length,
                    options: std::iter::once(EnhancedPacketOption::Flags(flags))
                        .chain(comments)
                        .collect(),
                    data: frame.into(),
                };
                writer.write_pcapng_block(block).map_err(as_io)?;
                if measuring {
                    let place = interface as usize;
                    // Bytes on the wire, even if only the begin of the frame is kept.
                    written.resize(written.len().max(place + 1), [0; 2]);
                    written[place][usize::from(inbound)] += u64::from(length);
                }
            }
        }
    }
    writer.get_mut().flush()?;
    Ok(Stored { bytes: written, given_up: 0 })
}

fn as_io(error: PcapNgWriteError) -> io::Error {
    match error {
        PcapNgWriteError::Io(error) => error,
        other => io::Error::other(other.to_string()),
    }
}

/// The next record. Flushes before it waits for one, so that live viewers see all frames.
fn next(
    writer: &mut PcapNgWriter<impl Write>,
    records: &Receiver<Record>,
) -> io::Result<Option<Record>> {
    match records.try_recv() {
        Ok(record) => Ok(Some(record)),
        Err(TryRecvError::Disconnected) => Ok(None),
        Err(TryRecvError::Empty) => loop {
            writer.get_mut().flush()?;
            match records.recv_timeout(IDLE) {
                Ok(record) => return Ok(Some(record)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                // The sink may notice that its reader has disconnected.
                Err(RecvTimeoutError::Timeout) => {}
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcap_file::pcapng::{Block, PcapNgReader};
    use std::sync::Mutex;

    #[test]
    fn what_is_written_reads_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("capture.pcapng");
        let names = vec![vec!["a:eth0".to_owned(), "b:eth0".to_owned()]];
        let mut capture =
            Capture::begin(&path, &names, Selection::default(), Arc::default()).unwrap();
        let place = Place { segment: 0, endpoint: 1 };
        capture.frame(place, false, &[7; 90], Instant::from_ns(3));
        capture.measuring(Instant::from_ns(4));
        capture.frame(place, true, &[7; 60], Instant::from_ns(5));
        capture.measured();
        capture.frame(place, true, &[7; 70], Instant::from_ns(6));
        let bytes = vec![vec![Some([0, 0]), Some([0, 60])]];
        assert_eq!(capture.end().unwrap(), Written { missed: 0, given_up: 0, bytes });

        let mut reader = PcapNgReader::new(File::open(&path).unwrap()).unwrap();
        let mut names = Vec::new();
        let mut frames = Vec::new();
        while let Some(block) = reader.next_block() {
            match block.unwrap().0 {
                Block::InterfaceDescription(interface) => {
                    names.extend(interface.options.iter().filter_map(|option| match option {
                        InterfaceDescriptionOption::IfName(name) => Some(name.to_string()),
                        _ => None,
                    }))
                }
                Block::EnhancedPacket(packet) => {
                    frames.push((packet.interface_id, packet.data.len(), packet.options.len()));
                }
                _ => {}
            }
        }
        assert_eq!(names, ["a:eth0", "b:eth0"]);
        assert_eq!(frames, [(1, 90, 1), (1, 60, 2), (1, 70, 2)]);
    }

    /// A sink with readable content that can be closed.
    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<(Vec<u8>, bool)>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut held = self.0.lock().unwrap();
            if held.1 {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            held.0.extend(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn until(mut holds: impl FnMut() -> bool) {
        while !holds() {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn only_what_was_selected_and_live() {
        let sink = Shared::default();
        let names = vec![vec!["a:eth0".to_owned(), "b:eth0".to_owned()]];
        let selection = Selection {
            links: Some(vec![vec![false, true]]),
            filter: Some(Filter::compile("ether[0] = 7").unwrap()),
            snap: Some(20),
        };
        let label = Path::new("a pipe");
        let mut capture = Capture::to(sink.clone(), label, &names, selection).unwrap();
        capture.event_at(Instant::from_ns(6), "later");
        for (endpoint, byte, at) in [(0, 7, 4), (1, 9, 5), (1, 7, 5), (1, 7, 6)] {
            capture.frame(Place { segment: 0, endpoint }, false, &[byte; 60], Instant::from_ns(at));
        }
        // Frames arrive without closing the file.
        let frames = || {
            let bytes = sink.0.lock().unwrap().0.clone();
            let mut reader = PcapNgReader::new(&bytes[..]).unwrap();
            let mut found = Vec::new();
            while let Some(Ok((block, _))) = reader.next_block() {
                if let Block::EnhancedPacket(packet) = block {
                    let kept = (packet.interface_id, packet.data.len(), packet.original_len);
                    found.push((kept, packet.options.len()));
                }
            }
            found
        };
        until(|| frames().len() == 2);
        assert_eq!(frames(), [((0, 20, 60), 1), ((0, 20, 60), 2)]);
        assert!(!capture.is_over());
        sink.0.lock().unwrap().1 = true;
        capture.frame(Place { segment: 0, endpoint: 1 }, false, &[7; 60], Instant::from_ns(7));
        until(|| capture.is_over());
        assert!(capture.end().unwrap_err().to_string().contains("a pipe"));
    }

    #[test]
    fn one_who_looks_on_is_let_go_when_gone() {
        use crate::Accounting;
        use engine::Observer;
        let names = vec![vec!["a:eth0".to_owned()]];
        let mut accounting = Accounting::new(vec![vec![0]], Vec::new(), None);
        let sink = Shared::default();
        let begun = Capture::to(sink.clone(), Path::new("-"), &names, Selection::default());
        accounting.watch(begun.unwrap());
        let before = sink.0.lock().unwrap().0.len();
        let place = Place { segment: 0, endpoint: 0 };
        accounting.sent(place, &[7; 60], Instant::from_ns(1));
        until(|| sink.0.lock().unwrap().0.len() > before);
        sink.0.lock().unwrap().1 = true;
        // The accounting continues and drops captures that only it holds.
        until(|| {
            accounting.sent(place, &[7; 60], Instant::from_ns(2));
            Arc::strong_count(&sink.0) == 1
        });
        assert!(accounting.nodes()[0].all_tx[0] > 1);
    }

    #[test]
    fn a_full_disk_ends_the_capture_and_not_the_run() {
        let disk = Arc::<FullDisk>::default();
        let names = vec![vec!["a:eth0".to_owned()]];
        let begun =
            Capture::begin(Path::new("/dev/full"), &names, Selection::default(), disk.clone());
        let mut capture = begun.unwrap();
        let frame = |capture: &mut Capture| {
            capture.frame(Place { segment: 0, endpoint: 0 }, false, &[7; 60], Instant::from_ns(1));
        };
        frame(&mut capture);
        until(|| disk.is_given_up(Auxiliary::Capture));
        frame(&mut capture);
        frame(&mut capture);
        let written = capture.end().unwrap();
        assert!(written.given_up >= 2 && written.missed == 0, "{written:?}");
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error_with_its_name() {
        let error = Capture::begin(
            Path::new("/no/such/c.pcapng"),
            &[],
            Selection::default(),
            Arc::default(),
        )
        .unwrap_err();
        assert!(error.to_string().contains("/no/such/c.pcapng"));
    }
}
