//! Captures frames as pcapng: one interface per link, seen from the node.

mod filter;
mod libpcap;
mod trim;
mod writer;

pub use filter::{Filter, FilterError};
pub use libpcap::LIBPCAP;

use crate::full_disk::FullDisk;
use engine::Place;
use link::{CsmaSpec, FrameNumbers, mac_frames};
use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption, InterfaceTsResolution,
};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use units::{Instant, Span};
use writer::{BEGINS, ENDS, Record, Stored, write, write_or_give_up};

/// Why a capture is incomplete.
#[derive(Debug, thiserror::Error)]
#[error("could not write the capture {path}: {why}")]
pub struct CaptureError {
    path: PathBuf,
    why: String,
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
    /// The channel of each segment whose frames are written as those of IEEE 802.15.4 that carry
    /// them, because it carries 6LoWPAN; `None`, or no entry: as Ethernet.
    pub lowpan: Vec<Option<CsmaSpec>>,
}

impl Selection {
    fn has(&self, place: Place) -> bool {
        let link = |links: &Vec<Vec<bool>>| {
            links.get(place.segment).and_then(|ends| ends.get(place.endpoint)).copied()
        };
        self.links.as_ref().is_none_or(|links| link(links).unwrap_or(false))
    }

    fn lowpan(&self, segment: usize) -> Option<&CsmaSpec> {
        self.lowpan.get(segment)?.as_ref()
    }
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

/// Length of the queue to the writer thread, in frames: 8 MB of the smallest relevant ones.
const QUEUE: usize = 65_536;
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
    /// Numbers of the next packet in 6LoWPAN. Each packet has others, also the same one at its
    /// sender and its receiver: a reader would take the fragments of both for one packet's.
    numbers: FrameNumbers,
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
                let written = writer.write_pcapng_block(describe(name, segment, &selection));
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
            None => {
                let mut stored = Stored::default();
                write(writer, &records, None, &mut stored).map(|()| stored)
            }
        };
        let work = move || work().map_err(|error| CaptureError { path, why: error.to_string() });
        let writer = thread.spawn(work).map_err(|error| failed(error.to_string()))?;
        let (sender, writer) = (Some(sender), Some(writer));
        Ok(Self {
            sender,
            writer,
            interfaces,
            selection,
            planned: Vec::new(),
            missed: 0,
            gaps: 0,
            numbers: FrameNumbers::default(),
        })
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
        let counted = frame.len() as u32;
        let Some(csma) = self.selection.lowpan(place.segment) else {
            return self.put_frame(interface, inbound, at, frame, counted);
        };
        let parts = mac_frames(frame, csma.compression(), csma.acknowledge, self.numbers);
        let parts = parts.unwrap_or_default();
        self.numbers.tag = self.numbers.tag.wrapping_add(1);
        self.numbers.sequence = self.numbers.sequence.wrapping_add(parts.len() as u8);
        for (number, part) in parts.iter().enumerate() {
            let counted = if number == 0 { counted } else { 0 };
            self.put_frame(interface, inbound, at, part, counted);
        }
    }

    /// Adds a frame that counts as `counted` bytes.
    fn put_frame(
        &mut self,
        interface: u32,
        inbound: bool,
        at: Instant,
        frame: &[u8],
        counted: u32,
    ) {
        let kept = frame.len().min(self.selection.snap.unwrap_or(usize::MAX));
        let (length, frame) = (frame.len() as u32, frame[..kept].to_vec());
        self.put(Record::Frame { interface, inbound, at, length, counted, frame });
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
        let Stored { bytes, given_up, .. } = match self.writer.take().map(JoinHandle::join) {
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

/// IEEE 802.15.4 with the frame check sequence (tcpdump.org's list of link types).
const IEEE802154: DataLink = DataLink::IEEE802_15_4;

/// The description block of one interface. A reader of 6LoWPAN needs the contexts, so it describes them.
fn describe<'a>(
    name: &'a str,
    segment: usize,
    selection: &Selection,
) -> InterfaceDescriptionBlock<'a> {
    let lowpan = selection.lowpan(segment);
    let contexts = lowpan.and_then(|csma| csma.contexts.as_ref()).filter(|all| !all.is_empty());
    let mut options = vec![
        InterfaceDescriptionOption::IfName(name.into()),
        InterfaceDescriptionOption::IfTsResol(InterfaceTsResolution::NANO),
    ];
    options.extend(
        contexts.map(|all| InterfaceDescriptionOption::IfDescription(all.description().into())),
    );
    InterfaceDescriptionBlock {
        linktype: lowpan.map_or(DataLink::ETHERNET, |_| IEEE802154),
        snaplen: selection.snap.unwrap_or(0) as u32,
        options,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::full_disk::Auxiliary;
    use pcap_file::pcapng::{Block, PcapNgReader};
    use std::sync::Mutex;
    use std::time::Duration;

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

    /// Without them, a reader would not know the prefixes of addresses.
    #[test]
    fn interfaces_of_6lowpan_name_their_contexts() {
        let lowpan = |contexts: &str| {
            let text = format!(r#"{{"carries": "lowpan", "contexts": {contexts}}}"#);
            Some(serde_json::from_str::<CsmaSpec>(&text).unwrap())
        };
        let lowpan = vec![lowpan(r#"["fd00::/64", "2001:db8::/32"]"#), lowpan("[]"), None];
        let selection = Selection { lowpan, ..Selection::default() };
        let described = |segment| {
            let mut options = describe("a:eth0", segment, &selection).options.into_iter();
            options.find_map(|option| match option {
                InterfaceDescriptionOption::IfDescription(text) => Some(text.into_owned()),
                _ => None,
            })
        };
        let contexts = "6LoWPAN contexts: fd00::/64, 2001:db8::/32".to_owned();
        assert_eq!([0, 1, 2].map(described), [Some(contexts), None, None]);
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
            ..Selection::default()
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

    /// A file on a disk that has this much room.
    struct Disk {
        file: File,
        room: usize,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.room);
            if taken == 0 && !bytes.is_empty() {
                return Err(io::Error::from_raw_os_error(journal::FULL[0]));
            }
            self.room -= taken;
            self.file.write(&bytes[..taken])
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Captures `FRAMES` frames to a disk of this room; returns the summary and the frames in the
    /// file, and whether the capture was given up.
    fn captured(path: &Path, room: usize) -> (Written, u64, bool) {
        let disk = Arc::<FullDisk>::default();
        let names = [vec!["a:eth0".to_owned()]];
        let file = BufWriter::with_capacity(300, Disk { file: File::create(path).unwrap(), room });
        let selection = Selection::default();
        let begun = Capture::with(file, path, &names, selection, Some(disk.clone()));
        let mut capture = begun.unwrap();
        capture.measuring(Instant::START);
        for frame in 0..FRAMES {
            let place = Place { segment: 0, endpoint: 0 };
            capture.frame(place, false, &[7; 60], Instant::from_ns(frame));
        }
        let written = capture.end().unwrap();
        let bytes = std::fs::read(path).unwrap();
        let mut frames = 0;
        if !bytes.is_empty() {
            let mut reader = PcapNgReader::new(&bytes[..]).unwrap();
            while let Some(block) = reader.next_block() {
                frames += u64::from(matches!(block.unwrap().0, Block::EnhancedPacket(_)));
            }
        }
        (written, frames, disk.is_given_up(Auxiliary::Capture))
    }

    const FRAMES: u64 = 12;

    #[test]
    fn each_frame_is_in_the_file_or_counted_wherever_the_disk_is_full() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.pcapng");
        let whole = captured(&path, usize::MAX);
        assert_eq!((whole.0.given_up, whole.1, whole.2), (0, FRAMES, false));
        let length = path.metadata().unwrap().len() as usize;
        // Each place of a block, and each of the last bytes.
        for room in (0..length).step_by(37).chain(length - 20..length) {
            let (written, frames, is_given_up) = captured(&path, room);
            assert_eq!((written.given_up + frames, written.missed), (FRAMES, 0), "room {room}");
            assert!(written.given_up > 0 && is_given_up, "room {room} of {length}");
        }
        assert!(!captured(&path, length).2, "the last byte fits");
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
