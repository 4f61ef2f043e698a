//! Limits of unpacking: a small archive can contain terabytes.

use crate::error::Fault;
use std::cell::Cell;
use std::io::{self, Read};

/// Default maximum size of an unpacked image: the largest in common use have a few GB.
const MAX_BYTES: u64 = 10 << 30;
/// Below this size, an image may be compressed as well as it can.
const FREE_BYTES: u64 = 256 << 20;
/// Maximum unpacked size by packed size, of images above [`FREE_BYTES`] without `root_limit`.
/// Programs and texts reach 10; gzip at most 1,032, with zeros.
const MAX_RATIO: u64 = 100;
/// Unpacked size per entry at which the number of entries is limited: the block that a file takes.
const ENTRY_BYTES: u64 = 4096;

/// Counts what an image unpacks to, and stops beyond a limit.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Maximum size in bytes.
    limit: u64,
    /// Whether the user named the limit; then there is no limit by packed size.
    is_own: bool,
    /// Size of the layers read so far, in bytes.
    packed: Cell<u64>,
    /// Bytes of files so far, and of the layers' archives.
    files: Cell<u64>,
    archives: Cell<u64>,
    entries: Cell<u64>,
    exceeded: Cell<Option<Exceeded>>,
}

#[derive(Debug, Clone, Copy)]
enum Exceeded {
    Size,
    Ratio,
    Entries,
}

impl Budget {
    /// A budget with this maximum size, or the default.
    pub fn new(limit: Option<u64>) -> Self {
        Self {
            limit: limit.unwrap_or(MAX_BYTES),
            is_own: limit.is_some(),
            packed: Cell::new(0),
            files: Cell::new(0),
            archives: Cell::new(0),
            entries: Cell::new(0),
            exceeded: Cell::new(None),
        }
    }

    /// Counts a layer of this packed size.
    pub fn add_layer(&self, packed: u64) {
        self.packed.set(self.packed.get().saturating_add(packed));
    }

    /// Counts an entry.
    ///
    /// # Errors
    /// If there are too many.
    pub fn add_entry(&self) -> io::Result<()> {
        self.entries.set(self.entries.get() + 1);
        // Empty files take no bytes, but an inode and a block of a folder.
        match self.entries.get() > (self.limit / ENTRY_BYTES).max(1) {
            true => Err(self.stop(Exceeded::Entries)),
            false => Ok(()),
        }
    }

    /// A reader of an unpacked layer's archive.
    pub fn of_archive<R: Read>(&self, from: R) -> Counted<'_, R> {
        Counted { from, budget: self, count: &self.archives }
    }

    /// A reader of a file's content, which may be longer than the archive: sparse files.
    pub fn of_file<R: Read>(&self, from: R) -> Counted<'_, R> {
        Counted { from, budget: self, count: &self.files }
    }

    /// The cause, if a limit was exceeded.
    pub fn fault(&self) -> Option<Fault> {
        let (limit, packed) = (size(self.limit), self.packed.get());
        let what = match self.exceeded.get()? {
            Exceeded::Size => format!("unpacks to more than {limit}"),
            Exceeded::Ratio => format!(
                "unpacks to more than {} from {packed} B, over {MAX_RATIO} times as much",
                size(FREE_BYTES)
            ),
            Exceeded::Entries => {
                format!("has more than {} entries", (self.limit / ENTRY_BYTES).max(1))
            }
        };
        Some(Fault::TooLarge { what })
    }

    fn count(&self, count: &Cell<u64>, bytes: u64) -> io::Result<()> {
        let sum = count.get().saturating_add(bytes);
        count.set(sum);
        if sum > self.limit {
            return Err(self.stop(Exceeded::Size));
        }
        let ratio = self.packed.get().saturating_mul(MAX_RATIO);
        // The ratio counts only above a size that does no harm.
        match !self.is_own && sum > FREE_BYTES && sum > ratio {
            true => Err(self.stop(Exceeded::Ratio)),
            false => Ok(()),
        }
    }

    fn stop(&self, exceeded: Exceeded) -> io::Error {
        self.exceeded.set(Some(exceeded));
        io::Error::other("it exceeds a limit of unpacking")
    }
}

/// A reader that counts what it reads.
pub(crate) struct Counted<'b, R> {
    from: R,
    budget: &'b Budget,
    count: &'b Cell<u64>,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        self.budget.count(self.count, read as u64)?;
        Ok(read)
    }
}

/// A size as text.
fn size(bytes: u64) -> String {
    match bytes {
        whole if whole.is_multiple_of(1 << 30) => format!("{} GiB", whole >> 30),
        whole if whole.is_multiple_of(1 << 20) => format!("{} MiB", whole >> 20),
        bytes => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(budget: &Budget, bytes: u64) -> Option<String> {
        let _ = io::copy(&mut budget.of_file(io::repeat(0).take(bytes)), &mut io::sink());
        budget.fault().map(|fault| fault.to_string().lines().next().unwrap_or_default().to_owned())
    }

    #[test]
    fn a_size_above_the_limit_is_refused() {
        let budget = Budget::new(Some(1 << 20));
        assert_eq!(read(&budget, 1 << 20), None);
        assert_eq!(read(&budget, 1).as_deref(), Some("unpacks to more than 1 MiB"));
    }

    /// What failed before: an archive of 1.8 MB unpacked to 400 MB.
    #[test]
    fn much_from_little_is_refused_unless_the_user_allows_it() {
        let bytes = (256 << 20) + 1;
        let budget = Budget::new(None);
        budget.add_layer(1_800_000);
        assert!(read(&budget, bytes).unwrap().contains("over 100 times as much"));
        let usual = Budget::new(None);
        usual.add_layer(20 << 20);
        assert_eq!(read(&usual, bytes), None);
        let allowed = Budget::new(Some(1 << 30));
        allowed.add_layer(1_800_000);
        assert_eq!(read(&allowed, bytes), None);
    }

    #[test]
    fn entries_are_limited() {
        let budget = Budget::new(Some(8192));
        assert!(budget.add_entry().is_ok() && budget.add_entry().is_ok());
        assert!(budget.add_entry().is_err());
        assert!(budget.fault().unwrap().to_string().starts_with("has more than 2 entries"));
    }
}
