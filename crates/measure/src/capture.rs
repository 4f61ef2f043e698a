//! Frames on file, as pcapng: one interface a link, seen from the node.

use medium::{Instant, Place};
use pcap_file::DataLink;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption, InterfaceTsResolution,
};
use pcap_file::pcapng::blocks::opt_common::CommonOption;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Why a capture is not whole.
#[derive(Debug, thiserror::Error)]
#[error("could not write the capture {path}: {why}")]
pub struct CaptureError {
    path: PathBuf,
    why: String,
}

/// What waits to be written.
enum Record {
    Frame { interface: u32, inbound: bool, at: Instant, frame: Vec<u8> },
    Event(String),
}

/// Frames that may wait for the disk: 8 MB of the smallest interesting ones.
const QUEUE: usize = 65_536;

/// A capture that is being written, by a thread of its own so that the medium
/// never waits for a disk.
#[derive(Debug)]
pub struct Capture {
    sender: Option<SyncSender<Record>>,
    writer: Option<JoinHandle<Result<(), CaptureError>>>,
    interfaces: Vec<Vec<u32>>,
    missed: u64,
}

impl Capture {
    /// Begins the capture `path` of links with these names, by segment and
    /// endpoint, e.g. `utility:eth0`.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn begin(path: &Path, names: &[Vec<String>]) -> Result<Self, CaptureError> {
        let failed = |why: String| CaptureError { path: path.to_owned(), why };
        let file = File::create(path).map_err(|error| failed(error.to_string()))?;
        let mut writer =
            PcapNgWriter::new(BufWriter::new(file)).map_err(|error| failed(error.to_string()))?;
        let mut interfaces = Vec::new();
        let mut count = 0..;
        for segment in names {
            for name in segment {
                let description = InterfaceDescriptionBlock {
                    linktype: DataLink::ETHERNET,
                    snaplen: 0,
                    options: vec![
                        InterfaceDescriptionOption::IfName(name.into()),
                        InterfaceDescriptionOption::IfTsResol(InterfaceTsResolution::NANO),
                    ],
                };
                let written = writer.write_pcapng_block(description);
                written.map_err(|error| failed(error.to_string()))?;
            }
            interfaces.push(count.by_ref().take(segment.len()).collect());
        }
        let (sender, records) = sync_channel(QUEUE);
        let path = path.to_owned();
        let thread = std::thread::Builder::new().name("capture".into());
        let work = move || write(writer, &records).map_err(|why| CaptureError { path, why });
        let writer = thread.spawn(work).map_err(|error| failed(error.to_string()))?;
        Ok(Self { sender: Some(sender), writer: Some(writer), interfaces, missed: 0 })
    }

    /// Adds a frame that the node at `place` sent, or received if `inbound`.
    pub(crate) fn frame(&mut self, place: Place, inbound: bool, frame: &[u8], at: Instant) {
        let interface = self.interfaces[place.segment][place.endpoint];
        self.put(Record::Frame { interface, inbound, at, frame: frame.to_vec() });
    }

    /// Writes `text` as a comment on the next frame.
    pub fn event(&mut self, text: impl Into<String>) {
        self.put(Record::Event(text.into()));
    }

    fn put(&mut self, record: Record) {
        let Some(sender) = &self.sender else { return };
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = sender.try_send(record)
        {
            self.missed += 1;
        }
    }

    /// Writes what waits and closes the file; how many frames it lacks because
    /// the disk was too slow.
    ///
    /// # Errors
    /// When writing failed at any time.
    pub fn end(mut self) -> Result<u64, CaptureError> {
        drop(self.sender.take());
        match self.writer.take().map(JoinHandle::join) {
            Some(Ok(written)) => written.map(|()| self.missed),
            _ => Ok(self.missed),
        }
    }
}

/// The flags of a frame's direction (pcapng, section 4.3.1).
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

fn write(
    mut writer: PcapNgWriter<BufWriter<File>>,
    records: &Receiver<Record>,
) -> Result<(), String> {
    let epoch = wall_minus_monotonic();
    let mut events = Vec::new();
    for record in records {
        match record {
            Record::Event(text) => events.push(text),
            Record::Frame { interface, inbound, at, frame } => {
                let flags = if inbound { INBOUND } else { OUTBOUND };
                let comments = events.drain(..).map(|text: String| {
                    EnhancedPacketOption::Common(CommonOption::Comment(text.into()))
                });
                let block = EnhancedPacketBlock {
                    interface_id: interface,
                    timestamp: epoch + Duration::from_nanos(at),
                    original_len: frame.len() as u32,
                    options: std::iter::once(EnhancedPacketOption::Flags(flags))
                        .chain(comments)
                        .collect(),
                    data: frame.into(),
                };
                writer.write_pcapng_block(block).map_err(|error| error.to_string())?;
            }
        }
    }
    writer.get_mut().flush().map_err(|error| error.to_string())
}

/// What the wall clock showed when the monotonic one was at 0; one value for
/// the whole file, so that spans in it are exact.
fn wall_minus_monotonic() -> Duration {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    wall.saturating_sub(Duration::from_nanos(medium::monotonic_now()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcap_file::pcapng::{Block, PcapNgReader};

    #[test]
    fn what_is_written_reads_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("capture.pcapng");
        let names = vec![vec!["a:eth0".to_owned(), "b:eth0".to_owned()]];
        let mut capture = Capture::begin(&path, &names).unwrap();
        capture.event("measuring begins");
        capture.frame(Place { segment: 0, endpoint: 1 }, true, &[7; 60], 5);
        assert_eq!(capture.end().unwrap(), 0);

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
        assert_eq!(frames, [(1, 60, 2)]);
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error_with_its_name() {
        let error = Capture::begin(Path::new("/no/such/c.pcapng"), &[]).unwrap_err();
        assert!(error.to_string().contains("/no/such/c.pcapng"));
    }
}
