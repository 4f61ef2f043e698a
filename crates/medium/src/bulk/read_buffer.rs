//! Read buffer for frames, and the result of a read.

use super::segments::BufferPool;
use super::{Offload, Segments, VNET_HEADER, VnetHeader, finish_checksum};
use std::rc::Rc;

/// The largest frame with its link header and VLAN tag, and the TAP's virtio-net header.
const BUFFER_SIZE: usize = VNET_HEADER + 65_536 + 18;
/// A super-frame stays in its read buffer if that wastes at most this many bytes per
/// segment; otherwise it is copied.
const MAX_WASTE: usize = 40;

/// A reusable read buffer.
#[derive(Debug)]
pub struct ReadBuffer {
    room: Box<[u8]>,
    pool: Rc<BufferPool>,
}

/// A frame or super-frame read from behind a virtio-net header.
#[derive(Debug)]
pub enum ReadResult<'a> {
    /// An ordinary frame with its checksum completed.
    Frame(&'a [u8]),
    /// A super-frame.
    Segments(Segments),
    /// The header contradicts the data.
    Nonsense,
}

impl Default for ReadBuffer {
    fn default() -> Self {
        Self { room: room(), pool: Rc::default() }
    }
}

fn room() -> Box<[u8]> {
    vec![0; BUFFER_SIZE].into()
}

impl ReadBuffer {
    /// The buffer for the next frame.
    pub fn room(&mut self) -> &mut [u8] {
        &mut self.room
    }

    /// The frame in the first `len` bytes of the buffer.
    pub fn frame(&self, len: usize) -> &[u8] {
        &self.room[..len.min(BUFFER_SIZE)]
    }

    /// Parses the first `len` bytes of the buffer, which begin with a virtio-net header.
    pub fn behind_header(&mut self, len: usize) -> ReadResult<'_> {
        let len = len.min(BUFFER_SIZE);
        let Some((header, frame)) = VnetHeader::split(&self.room[..len]) else {
            return ReadResult::Nonsense;
        };
        if header.offload() == Offload::None {
            let frame = &mut self.room[VNET_HEADER..len];
            return match finish_checksum(&header, frame) {
                true => ReadResult::Frame(frame),
                false => ReadResult::Nonsense,
            };
        }
        let segments = frame.len() / usize::from(header.segment.max(1));
        if BUFFER_SIZE - len > MAX_WASTE * segments {
            return Segments::new(header, frame).map_or(ReadResult::Nonsense, ReadResult::Segments);
        }
        let next = self.pool.take().unwrap_or_else(room);
        let full = std::mem::replace(&mut self.room, next);
        match Segments::in_buffer(header, full, (VNET_HEADER, len), &self.pool) {
            Ok(segments) => ReadResult::Segments(segments),
            Err(full) => {
                self.room = full;
                ReadResult::Nonsense
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::split::tests::{SEGMENT, build};
    use super::*;

    fn read<'a>(intake: &'a mut ReadBuffer, header: VnetHeader, frame: &[u8]) -> ReadResult<'a> {
        let bytes = [&header.bytes()[..], frame].concat();
        intake.room()[..bytes.len()].copy_from_slice(&bytes);
        intake.behind_header(bytes.len())
    }

    #[test]
    fn full_rooms_are_kept_and_come_back() {
        let mut intake = ReadBuffer::default();
        let (header, frame) = build(false, 45 * SEGMENT);
        let first = intake.room().as_ptr();
        let ReadResult::Segments(held) = read(&mut intake, header, &frame) else {
            panic!("segments")
        };
        assert_eq!((held.count(), held.super_frame()), (45, &frame[..]));
        assert_eq!(held.super_frame().as_ptr(), first.wrapping_add(VNET_HEADER), "not copied");
        let last = held.each().last();
        drop(held);
        assert!(intake.pool.take().is_none(), "one of them is still in flight");
        drop(last);
        assert_eq!(intake.pool.take().map(|room| room.as_ptr()), Some(first));
    }

    #[test]
    fn small_super_frames_hold_no_more_than_their_bytes() {
        let mut intake = ReadBuffer::default();
        let (header, frame) = build(false, 2 * SEGMENT);
        let first = intake.room().as_ptr();
        let ReadResult::Segments(held) = read(&mut intake, header, &frame) else {
            panic!("segments")
        };
        assert_eq!(held.super_frame(), frame);
        assert_eq!(intake.room().as_ptr(), first);
    }

    #[test]
    fn a_plain_frame_gets_its_checksum() {
        let mut intake = ReadBuffer::default();
        let (header, frame) = build(false, 3 * SEGMENT);
        let all = Segments::new(header, &frame).unwrap();
        let one = all.each().nth(1).unwrap();
        let joined = one.joined();
        let (header, _) = VnetHeader::split(joined.before()).unwrap();
        let ReadResult::Frame(got) = read(&mut intake, header, &joined.frame()) else {
            panic!("one")
        };
        assert_eq!(got, one.first());
    }

    #[test]
    fn invalid_headers_are_detected() {
        let mut intake = ReadBuffer::default();
        let (header, frame) = build(false, 45 * SEGMENT);
        assert!(matches!(intake.behind_header(9), ReadResult::Nonsense));
        let bad = [
            VnetHeader { segment: 0, ..header },
            VnetHeader { segment: 1, ..header },
            VnetHeader { checksum_start: 10, ..header },
            VnetHeader { kind: 3, ..header },
            VnetHeader { kind: 0, checksum_start: u16::MAX, ..header },
        ];
        for header in bad {
            let came = read(&mut intake, header, &frame);
            let many = matches!(&came, ReadResult::Segments(s) if s.count() > 65_000);
            assert!(many || matches!(came, ReadResult::Nonsense), "{header:?} {came:?}");
        }
        assert_eq!(intake.room().len(), BUFFER_SIZE);
    }
}
