//! Limits the headers of entries in archives.

use std::cell::Cell;
use std::io::{self, Read, Seek, SeekFrom};

/// Maximum size of all headers of one entry of a tar archive, in bytes. Names have at most 4,096 bytes, and extended
/// attributes 64 KiB each (limits.h of Linux).
pub const MAX_HEADERS: u64 = 1 << 20;

/// A limit for the headers of an archive's entries (PAX records, GNU long names): readers of tar archives
/// read them into memory, whatever size they name.
///
/// Call [`Self::before_entry`] before the next entry is read, and [`Self::within_entry`] after it. The rest of the
/// entry before must have been read (or be skipped by seeking): it would count, too.
#[derive(Debug, Default)]
pub struct HeaderLimit {
    /// Bytes that may be read; `None` within an entry.
    left: Cell<Option<u64>>,
}

impl HeaderLimit {
    /// Limits what is read from now on.
    pub fn before_entry(&self) {
        self.left.set(Some(MAX_HEADERS));
    }

    /// Lifts the limit.
    pub fn within_entry(&self) {
        self.left.set(None);
    }

    /// A reader of the archive that keeps to the limit.
    pub fn reader<R>(&self, from: R) -> Limited<'_, R> {
        Limited { from, limit: self }
    }
}

/// A reader that fails where headers are longer than the limit.
#[derive(Debug)]
pub struct Limited<'a, R> {
    from: R,
    limit: &'a HeaderLimit,
}

impl<R: Read> Read for Limited<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(left) = self.limit.left.get() else { return self.from.read(buffer) };
        if left == 0 {
            let text = format!(
                "the headers of an entry (PAX records or a GNU long name) are over {} MiB",
                MAX_HEADERS >> 20
            );
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let end = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = self.from.read(&mut buffer[..end])?;
        self.limit.left.set(Some(left.saturating_sub(read as u64)));
        Ok(read)
    }
}

impl<R: Seek> Seek for Limited<'_, R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.from.seek(to)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(from: &mut impl Read, bytes: u64) -> io::Result<u64> {
        io::copy(&mut from.take(bytes), &mut io::sink())
    }

    #[test]
    fn only_headers_are_limited_and_each_entry_anew() {
        let limit = HeaderLimit::default();
        let mut from = limit.reader(io::repeat(0));
        for _ in 0..2 {
            limit.before_entry();
            assert_eq!(read(&mut from, MAX_HEADERS).unwrap(), MAX_HEADERS);
            limit.within_entry();
            assert_eq!(read(&mut from, 2 * MAX_HEADERS).unwrap(), 2 * MAX_HEADERS);
        }
        limit.before_entry();
        let error = read(&mut from, u64::MAX).unwrap_err();
        assert!(error.to_string().contains("over 1 MiB"), "{error}");
    }
}
