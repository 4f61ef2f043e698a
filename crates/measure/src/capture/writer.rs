//! The thread that writes a capture.

use super::trim::trim;
use crate::full_disk::{Auxiliary, FullDisk};
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::opt_common::CommonOption;
use pcap_file::pcapng::{PcapNgWriteError, PcapNgWriter};
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;
use units::Instant;

/// An entry of the writer's queue.
pub(super) enum Record {
    Frame {
        interface: u32,
        inbound: bool,
        at: Instant,
        length: u32,
        /// Bytes of the node's interface that it counts as; of fragments, the first has all.
        counted: u32,
        frame: Vec<u8>,
    },
    /// A comment, and the time from which it applies.
    Event(Instant, String),
}

/// Comments at the begin and end of the measurement.
pub(super) const BEGINS: &str = "measuring begins";
pub(super) const ENDS: &str = "measuring ends";

/// Bytes of the frames written during the measurement, by interface: sent and received. Counts
/// whole frames, even if truncated in the file.
pub(super) type Bytes = Vec<[u64; 2]>;

/// What the writer stored.
#[derive(Debug, Default)]
pub(super) struct Stored {
    pub(super) bytes: Bytes,
    /// Number of frames that it took from the queue.
    taken: u64,
    /// Number of frames that are not in the file, because the disk was full.
    pub(super) given_up: u64,
}

/// Interval of flushes without frames.
const IDLE: Duration = Duration::from_secs(1);
/// Flags of a frame's direction (pcapng, section 4.3.1).
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// Writes a file until its disk is full; the file is readable up to there.
pub(super) fn write_or_give_up(
    writer: PcapNgWriter<impl Write>,
    records: &Receiver<Record>,
    disk: &FullDisk,
    path: &Path,
) -> io::Result<Stored> {
    let mut stored = Stored::default();
    match write(writer, records, Some(disk), &mut stored) {
        Err(error) if journal::is_full(&error) => {
            disk.give_up(Auxiliary::Capture);
            // Frames that were still buffered are missing too, and may be all that are: those of
            // the file count. A capture that cannot be cut is still readable up to its last block.
            let kept = trim(path).unwrap_or(0);
            let given_up = stored.taken.saturating_sub(kept);
            stored = Stored { given_up, ..Stored::default() };
        }
        written => written?,
    }
    if disk.is_given_up(Auxiliary::Capture) {
        // Takes them until the end of the run: otherwise they would count as missed because of a
        // slow disk.
        let frames = records.iter().filter(|record| matches!(record, Record::Frame { .. }));
        stored.given_up += frames.count() as u64;
    }
    Ok(stored)
}

/// Writes records until there are no more, or until the capture is given up.
pub(super) fn write(
    mut writer: PcapNgWriter<impl Write>,
    records: &Receiver<Record>,
    disk: Option<&FullDisk>,
    stored: &mut Stored,
) -> io::Result<()> {
    let is_over = || disk.is_some_and(|disk| disk.is_given_up(Auxiliary::Capture));
    let mut measuring = false;
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
            Record::Frame { interface, inbound, at, length, counted, frame } => {
                stored.taken += 1;
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
                    let bytes = &mut stored.bytes;
                    bytes.resize(bytes.len().max(place + 1), [0; 2]);
                    bytes[place][usize::from(inbound)] += u64::from(counted);
                }
            }
        }
    }
    writer.get_mut().flush()
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
