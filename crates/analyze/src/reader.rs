//! Reads packets from pcap and pcapng, one at a time.

use crate::error::Error;
use pcap_parser::traits::PcapNGPacketBlock;
use pcap_parser::{Block, OptionCode, PcapBlockOwned, PcapError, PcapNGOption, create_reader};
use std::io::{self, Read};

/// A captured packet.
pub(crate) struct Packet<'a> {
    /// The index of the capture point, in the order of the capture.
    pub point: usize,
    /// The time, in ns since 1970.
    pub at: u64,
    /// Length on the wire, in bytes; `data` may be shorter.
    pub length: u32,
    pub data: &'a [u8],
    pub direction: Direction,
}

/// The direction of a packet at its capture point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Unknown,
    In,
    Out,
}

/// Receives the capture points and packets.
pub(crate) trait Listener {
    /// A capture point, its description and its link type (tcpdump.org's list). Returns the point's
    /// index.
    fn point(&mut self, name: Option<&str>, description: Option<&str>, link: u16) -> usize;
    /// A packet.
    fn packet(&mut self, packet: Packet<'_>);
}

/// The initial buffer size for a block, in bytes; about a quarter of a second of reading.
const INITIAL_ROOM: usize = 1 << 20;
/// The maximum block size, in bytes: a packet has 64 KiB, and a list of names a few times
/// that.
const MAX_BLOCK: usize = 16 << 20;
/// The maximum number of capture points; a capture with more counts as damaged.
const MAX_POINTS: usize = 65_536;
/// A capture point while reading.
struct Point {
    number: usize,
    /// Time units per second.
    resolution: u64,
    /// Offset of timestamps, in s.
    offset: i64,
}

/// Reads all of `source`. Returns why reading ended early, if it did.
///
/// # Errors
/// When the source is not a capture, is empty, or cannot be read.
pub(crate) fn read(
    source: impl Read + Send,
    listener: &mut impl Listener,
) -> Result<Option<String>, Error> {
    let mut failure = None;
    let source = FillingReader { source, failure: &mut failure };
    let ended = read_all(source, listener);
    // An error before the first block means that nothing was read; later, what was read counts.
    match (failure, ended) {
        (Some(error), Err(_)) => Err(Error::Read(error)),
        (Some(error), Ok(_)) => Ok(Some(error.to_string())),
        (None, ended) => ended,
    }
}

fn read_all(
    source: impl Read + Send,
    listener: &mut impl Listener,
) -> Result<Option<String>, Error> {
    let mut reader = create_reader(INITIAL_ROOM, source).map_err(|error| match error {
        PcapError::Eof => Error::Empty,
        _ => Error::Unknown,
    })?;
    let mut points: Vec<Point> = Vec::new();
    let (mut room, mut all) = (INITIAL_ROOM, 0);
    loop {
        let consumed = match reader.next() {
            Ok((length, block)) => {
                if let Err(why) = take(block, &mut points, &mut all, listener) {
                    return Ok(Some(at(why, reader.consumed())));
                }
                length
            }
            Err(PcapError::Eof) => return Ok(None),
            Err(PcapError::Incomplete(_)) => {
                let before = reader.data().len();
                if reader.refill().is_err() {
                    return Ok(Some(at("the rest cannot be read", reader.consumed())));
                }
                if reader.data().len() == before && !reader.reader_exhausted() {
                    room *= 2;
                    if room > MAX_BLOCK || !reader.grow(room) {
                        return Ok(Some(at("a block is too long", reader.consumed())));
                    }
                }
                continue;
            }
            Err(PcapError::BufferTooSmall) => {
                room *= 2;
                if room > MAX_BLOCK || !reader.grow(room) {
                    return Ok(Some(at("a block is too long", reader.consumed())));
                }
                continue;
            }
            Err(PcapError::UnexpectedEof) => {
                return Ok(Some(at("the file ends in the middle of a block", reader.consumed())));
            }
            Err(_) => {
                return Ok(Some(at("it is damaged: no block can be read", reader.consumed())));
            }
        };
        reader.consume(consumed);
    }
}

fn at(why: &str, offset: usize) -> String {
    format!("{why}, at byte {offset}")
}

/// Handles one block. The error says why the rest cannot be read.
fn take(
    block: PcapBlockOwned<'_>,
    points: &mut Vec<Point>,
    all: &mut usize,
    listener: &mut impl Listener,
) -> Result<(), &'static str> {
    match block {
        PcapBlockOwned::LegacyHeader(header) => {
            let number = listener.point(None, None, link_type(header.network.0));
            let resolution =
                if header.is_nanosecond_precision() { 1_000_000_000 } else { 1_000_000 };
            points.push(Point { number, resolution, offset: 0 });
        }
        PcapBlockOwned::Legacy(packet) => {
            let Some(point) = points.first() else { return Err("it has no header") };
            let fraction = u64::from(packet.ts_usec) * (1_000_000_000 / point.resolution);
            let at = u64::from(packet.ts_sec) * 1_000_000_000 + fraction;
            // A damaged file may claim more bytes than its block has.
            let data = &packet.data[..packet.data.len().min(packet.caplen as usize)];
            // A packet was at least as long as what was captured of it.
            let length = packet.origlen.max(data.len() as u32);
            listener.packet(Packet {
                point: point.number,
                at,
                length,
                data,
                direction: Direction::Unknown,
            });
        }
        // Interfaces are numbered within their section.
        PcapBlockOwned::NG(Block::SectionHeader(_)) => points.clear(),
        PcapBlockOwned::NG(Block::InterfaceDescription(interface)) => {
            // Over all sections, or a file of many short sections would have no limit.
            *all += 1;
            if *all > MAX_POINTS {
                return Err("it names too many interfaces");
            }
            let name = interface.if_name().and_then(Result::ok);
            let description = interface.if_description().and_then(Result::ok);
            let number = listener.point(name, description, link_type(interface.linktype.0));
            // Never 0, which would divide by zero below.
            let resolution = interface.ts_resolution().unwrap_or(1_000_000).max(1);
            points.push(Point { number, resolution, offset: interface.ts_offset() });
        }
        PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
            let Some(point) = points.get(packet.if_id as usize) else {
                return Err("a packet belongs to an interface without a description");
            };
            let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
            let data = packet.packet_data();
            let direction =
                packet.options.iter().find_map(|option| direction(option, packet.big_endian()));
            listener.packet(Packet {
                point: point.number,
                at: point.ns(ticks),
                length: packet.orig_len().max(data.len() as u32),
                data,
                direction: direction.unwrap_or(Direction::Unknown),
            });
        }
        PcapBlockOwned::NG(Block::SimplePacket(packet)) => {
            let Some(point) = points.first() else {
                return Err("a packet belongs to an interface without a description");
            };
            let data = packet.packet_data();
            let length = packet.origlen.max(data.len() as u32);
            listener.packet(Packet {
                point: point.number,
                // A simple packet block has no time (pcapng, section 4.4).
                at: 0,
                length,
                data,
                direction: Direction::Unknown,
            });
        }
        // Statistics, names, secrets and vendor-specific blocks.
        PcapBlockOwned::NG(_) => {}
    }
    Ok(())
}

/// The link type without the upper bits of the field, in which pcap stores the length of a
/// frame check sequence. That counts as padding here (draft-ietf-opsawg-pcap, section 4).
fn link_type(field: i32) -> u16 {
    field as u16
}

/// The direction in a packet's flags (pcapng, section 4.3.1).
fn direction(option: &PcapNGOption<'_>, big_endian: bool) -> Option<Direction> {
    let bytes: [u8; 4] = option.value().get(..4)?.try_into().ok()?;
    if option.code != OptionCode(2) {
        return None;
    }
    let flags = if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) };
    match flags & 3 {
        1 => Some(Direction::In),
        2 => Some(Direction::Out),
        _ => None,
    }
}

impl Point {
    fn ns(&self, ticks: u64) -> u64 {
        let ns = match self.resolution {
            1_000_000_000 => ticks,
            1_000_000 => ticks.saturating_mul(1_000),
            other => (u128::from(ticks) * 1_000_000_000 / u128::from(other)) as u64,
        };
        ns.saturating_add_signed(self.offset.saturating_mul(1_000_000_000))
    }
}

/// A source that fills the whole buffer, as files do and pipes do not. It stores the error
/// that the parser would drop.
struct FillingReader<'a, R> {
    source: R,
    failure: &'a mut Option<io::Error>,
}

impl<R: Read> Read for FillingReader<'_, R> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < room.len() {
            match self.source.read(&mut room[filled..]) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    *self.failure = Some(error);
                    break;
                }
            }
        }
        Ok(filled)
    }
}
