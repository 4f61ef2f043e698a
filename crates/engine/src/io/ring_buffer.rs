//! Reads a BPF ring buffer in place.
//!
//! The kernel maps a page with the reader's position, a page with the writers' position,
//! and the data twice in a row, so that every record is contiguous.

use super::bpf::{Mapping, page_size};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

// Flags in the length of a record: BPF_RINGBUF_BUSY_BIT and BPF_RINGBUF_DISCARD_BIT of
// include/uapi/linux/bpf.h. The kernel clears the first when the record is complete.
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
/// Checks of a record that is still being written before giving up for now: about 20 us,
/// while writing a record takes a tenth of a microsecond.
const MAX_CHECKS: u32 = 1_000;
/// The reader reports its position to the kernel after this fraction of the ring: each
/// report costs the writers a cache line.
const REPORT_FRACTION: u64 = 64;

/// The reader of the ring.
#[derive(Debug)]
pub(super) struct RingBuffer {
    reader: Mapping,
    rest: Mapping,
    page: usize,
    size: u64,
    /// Read position.
    position: u64,
    /// Position last reported to the kernel.
    reported: u64,
}

impl RingBuffer {
    /// Maps the ring of `size` bytes.
    pub fn new(ring: BorrowedFd<'_>, size: u32) -> io::Result<Self> {
        let page = page_size();
        Ok(Self {
            reader: Mapping::new(ring, 0, page, true)?,
            rest: Mapping::new(ring, page, page + 2 * size as usize, false)?,
            page,
            size: u64::from(size),
            position: 0,
            reported: 0,
        })
    }

    fn reported_position(&self) -> &AtomicU64 {
        // SAFETY: the page begins with this word, aligned, for as long as it is mapped.
        unsafe { &*self.reader.at(0).cast::<AtomicU64>() }
    }

    fn written(&self) -> &AtomicU64 {
        // SAFETY: as above; the kernel writes it atomically.
        unsafe { &*self.rest.at(0).cast::<AtomicU64>() }
    }

    /// Whether the ring has no record, complete or in progress. Check this after `sleeping`
    /// is set.
    pub fn is_drained(&self) -> bool {
        self.written().load(Ordering::SeqCst) == self.position
    }

    /// Whether the next record is complete.
    pub fn is_ready(&self) -> bool {
        if self.written().load(Ordering::Acquire) == self.position {
            return false;
        }
        self.header().load(Ordering::Acquire) & BUSY == 0
    }

    /// Length and state of the next record, if anything has been written.
    fn header(&self) -> &AtomicU32 {
        let start = self.page + (self.position % self.size) as usize;
        // SAFETY: each record begins with its length in an aligned word, which the
        // kernel writes atomically.
        unsafe { &*self.rest.at(start).cast::<AtomicU32>() }
    }

    /// Position and bytes of the next record, if it is complete; empty for a discarded
    /// record. The bytes stay valid until the end of the record is released.
    ///
    /// A record that would end after what is written cannot be one: the rest of what is written is
    /// then one empty record, because nothing says where the next one begins.
    pub fn next(&mut self) -> Option<(u64, &[u8])> {
        let written = self.written().load(Ordering::Acquire);
        if written == self.position {
            return None;
        }
        let mut len = self.header().load(Ordering::Acquire);
        let mut checks = 0;
        while len & BUSY != 0 {
            checks += 1;
            if checks == MAX_CHECKS {
                return None;
            }
            std::hint::spin_loop();
            len = self.header().load(Ordering::Acquire);
        }
        let bytes = (len & !(BUSY | DISCARDED)) as usize;
        let record = self.position;
        let end = record + (bytes as u64 + 8).next_multiple_of(8);
        if end > written || end - record > self.size {
            self.position = written;
            return Some((record, &[]));
        }
        self.position = end;
        Some((record, if len & DISCARDED == 0 { self.at(record, bytes) } else { &[] }))
    }

    /// The first `bytes` of the record at `position`, which [`Self::next`] has returned and
    /// which is not yet released; empty if no record has that many.
    pub fn at(&self, position: u64, bytes: usize) -> &[u8] {
        let start = self.page + (position % self.size) as usize + 8;
        // SAFETY: a record is contiguous in the doubled mapping, and the
        // kernel does not write to it before its end has been released, which
        // takes this borrow's end.
        unsafe { self.rest.slice(start, bytes) }.unwrap_or_default()
    }

    /// Read position.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Releases memory up to `position` to the writers, in batches.
    pub fn release(&mut self, position: u64) {
        if position - self.reported >= self.size / REPORT_FRACTION {
            self.report(position);
        }
    }

    /// Releases memory up to `position` to the writers at once.
    pub fn report(&mut self, position: u64) {
        if position != self.reported {
            self.reported = position;
            self.reported_position().store(position, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::{AsFd, FromRawFd, OwnedFd};

    const SIZE: u32 = 4096;

    /// A ring as the kernel maps it, of a file: the reader's page, the writers' page with the
    /// position `written`, and twice the data, which begins with `data`.
    fn ring(written: u64, data: &[u8]) -> RingBuffer {
        // SAFETY: a plain system call; the descriptor is owned at once.
        let file = unsafe { OwnedFd::from_raw_fd(libc::memfd_create(c"ring".as_ptr(), 0)) };
        let page = page_size();
        let mut bytes = vec![0; 2 * page + 2 * SIZE as usize];
        bytes[page..page + 8].copy_from_slice(&written.to_ne_bytes());
        bytes[2 * page..2 * page + data.len()].copy_from_slice(data);
        std::fs::File::from(file.try_clone().unwrap()).write_all(&bytes).unwrap();
        RingBuffer::new(file.as_fd(), SIZE).unwrap()
    }

    /// Records with these lengths, as their headers have them.
    fn records(lengths: &[u32]) -> Vec<u8> {
        let record = |&len: &u32| {
            let mut bytes = len.to_ne_bytes().to_vec();
            bytes.resize((8 + (len & 0xff) as usize).next_multiple_of(8), 0xaa);
            bytes
        };
        lengths.iter().flat_map(record).collect()
    }

    #[test]
    fn records_are_read_one_after_the_other() {
        let mut ring = ring(48, &records(&[5, 8 | DISCARDED, 3]));
        assert_eq!(ring.next(), Some((0, &[0xaa; 5][..])));
        assert_eq!(ring.next(), Some((16, &[][..])));
        assert_eq!(ring.next(), Some((32, &[0xaa; 3][..])));
        assert_eq!(ring.next(), None);
        assert!(ring.is_drained());
    }

    #[test]
    fn a_length_beyond_what_is_written_is_not_believed() {
        for len in [33, SIZE, 2 * SIZE, DISCARDED - 1] {
            let mut ring = ring(32, &records(&[8, len]));
            assert_eq!(ring.next(), Some((0, &[0xaa; 8][..])));
            assert_eq!(ring.next(), Some((16, &[][..])), "{len}");
            assert_eq!(ring.next(), None);
            assert!(ring.is_drained());
        }
        let ring = ring(32, &records(&[8]));
        assert!(ring.at(0, 2 * SIZE as usize).is_empty());
    }
}
