//! A file of records, each with checksums, which are synced before they count. One that has grown is
//! written anew and replaces the former one.

use director::io::FolderClock;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

/// A file of this length is written anew if less than half of it is still valid, in bytes.
const LARGE: u64 = 1 << 20;
/// Length of a record, the checksum of that, and the checksum of the record, in bytes.
const HEAD: usize = 12;
/// The same of records until 28 November 2026, which had no checksum of the length: one that was damaged
/// looked like the end of a record that was written in part.
const OLD_HEAD: usize = 8;
/// Bit of the length in a head with three parts.
const NEW: u32 = 1 << 31;

/// A file of records in a folder, which one gateway has at a time.
#[derive(Debug)]
pub struct Records {
    folder: PathBuf,
    /// Name of the file without its extension.
    name: &'static str,
    file: File,
    /// Length of the file, and how much of it was written when it was made anew, in bytes.
    length: u64,
    compacted: u64,
    /// Whether a part of a record may follow.
    is_torn: bool,
    /// A copy of the file, if it was damaged at the start.
    damaged: Option<PathBuf>,
    /// The time of records.
    pub clock: FolderClock,
}

impl Records {
    /// Opens NAME.log in a folder, which is made if it does not exist. `read` gets each record and the time
    /// now, and returns whether it is valid.
    ///
    /// # Errors
    /// If the folder cannot be read, or another gateway has it. A full disk is no error.
    pub fn open(
        folder: &Path,
        name: &'static str,
        mut read: impl FnMut(&[u8], u64) -> bool,
    ) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let path = folder.join(format!("{name}.log"));
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        lock(&file)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let clock = FolderClock::open(folder);
        let now_s = clock.now_ms() / 1_000;
        let (length, is_damaged) = read_all(&bytes, |record| read(record, now_s));
        let damaged = is_damaged.then(|| copy_of(folder, name, &bytes)).flatten();
        // What follows was not synced when the gateway or its machine stopped: it never counted.
        file.set_len(length as u64)?;
        let (folder, length) = (folder.to_owned(), length as u64);
        Ok(Self { folder, name, file, length, compacted: 0, is_torn: false, damaged, clock })
    }

    /// A copy of the file, if a record of it was damaged: that one and all after it are lost.
    pub fn damaged(&self) -> Option<&Path> {
        self.damaged.as_deref()
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes and syncs records.
    ///
    /// # Errors
    /// If the disk is full or fails: then the file ends before them, and the next call can succeed.
    pub fn append<'a>(&mut self, records: impl Iterator<Item = Vec<u8>> + 'a) -> io::Result<()> {
        let bytes: Vec<u8> = records.flat_map(|record| framed(&record)).collect();
        self.cut()?;
        if let Err(error) = self.file.write_all(&bytes).and_then(|()| self.file.sync_data()) {
            self.is_torn = true;
            // Before the next record at the latest.
            let _ = self.cut();
            return Err(error);
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Removes the part of a record at the end: all that follows it would be lost.
    fn cut(&mut self) -> io::Result<()> {
        if self.is_torn {
            self.file.set_len(self.length)?;
            self.is_torn = false;
        }
        Ok(())
    }

    /// Whether most of the file may be void.
    pub fn is_large(&self) -> bool {
        self.length > LARGE.max(2 * self.compacted)
    }

    /// Writes the file anew with these records only.
    ///
    /// # Errors
    /// If the disk is full or fails: the former file stays.
    pub fn replace<'a>(&mut self, records: impl Iterator<Item = Vec<u8>> + 'a) -> io::Result<()> {
        let path = self.folder.join(format!("{}.next", self.name));
        let to = self.folder.join(format!("{}.log", self.name));
        let (next, length) = match renamed(&path, &to, records) {
            Ok(renamed) => renamed,
            Err(error) => {
                // It must not take the room that the next record needs.
                let _ = std::fs::remove_file(&path);
                // Each attempt writes all records: the next one when the file is twice as long.
                self.compacted = self.length;
                return Err(error);
            }
        };
        // From here on the former file has no name, so that a record in it would be lost.
        (self.file, self.length, self.compacted) = (next, length, length);
        self.is_torn = false;
        File::open(&self.folder)?.sync_all()
    }
}

/// Writes records to a file and renames it over another one; returns it with its length.
fn renamed<'a>(
    path: &Path,
    to: &Path,
    records: impl Iterator<Item = Vec<u8>> + 'a,
) -> io::Result<(File, u64)> {
    // Appends: after a failed write, the next record goes to the end that is left.
    let mut next = OpenOptions::new().append(true).create(true).open(path)?;
    next.set_len(0)?;
    let mut length = 0;
    for record in records {
        let bytes = framed(&record);
        next.write_all(&bytes)?;
        length += bytes.len() as u64;
    }
    next.sync_all()?;
    // Before it has the name, so that no other gateway can take it in between.
    lock(&next)?;
    std::fs::rename(path, to)?;
    Ok((next, length))
}

/// Copies a damaged file; `None` if that fails: the rest of it cannot be read in any case.
fn copy_of(folder: &Path, name: &str, bytes: &[u8]) -> Option<PathBuf> {
    let copy = folder.join(format!("{name}.damaged"));
    let written = std::fs::write(&copy, bytes);
    if written.is_err() {
        // On a full disk it must not take the room that the next record needs.
        let _ = std::fs::remove_file(&copy);
    }
    written.ok().map(|()| copy)
}

fn lock(file: &File) -> io::Result<()> {
    file.try_lock()
        .map_err(|_| io::Error::other("another gateway uses it: stop it, or use another folder"))
}

/// What a user can do about a folder that cannot be used; empty if the error says it, or it is not known.
pub fn fix(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::AlreadyExists => {
            ": use a folder that exists or that can be created"
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            ": use a folder that this user may write to"
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
            ": free space there, then start the gateway again"
        }
        _ => "",
    }
}

/// A record with its head.
fn framed(record: &[u8]) -> Vec<u8> {
    // A batch is far below 2 GiB: the memory for all that is stored is.
    let length = (record.len() as u32 | NEW).to_be_bytes();
    let checks = [crc32fast::hash(&length), crc32fast::hash(record)].map(u32::to_be_bytes);
    [&length[..], &checks[0], &checks[1], record].concat()
}

/// What follows in a file.
enum Next<'a> {
    /// A record, and its length with the head.
    Record(&'a [u8], usize),
    /// Nothing, or the begin of a record that was not written to its end.
    End,
    /// A record that is not valid.
    Damaged,
}

/// Reads one record; `is_new` if one with a checksum of its length precedes.
fn next(bytes: &[u8], is_new: bool) -> Next<'_> {
    // A file system may have made the file longer, but not written its end.
    if bytes.iter().all(|byte| *byte == 0) {
        return Next::End;
    }
    let Some((first, rest)) = bytes.split_first_chunk::<4>() else { return Next::End };
    let first_number = u32::from_be_bytes(*first);
    let (length, checksum, body, head) = if !is_new && first_number & NEW == 0 {
        let Some((checksum, body)) = rest.split_first_chunk::<4>() else { return Next::End };
        (first_number, checksum, body, OLD_HEAD)
    } else {
        let Some((check, rest)) = rest.split_first_chunk::<4>() else { return Next::End };
        // A record that was not written to its end begins as it should.
        if *check != crc32fast::hash(first).to_be_bytes() {
            return Next::Damaged;
        }
        let Some((checksum, body)) = rest.split_first_chunk::<4>() else { return Next::End };
        (first_number & !NEW, checksum, body, HEAD)
    };
    let Some(record) = body.get(..length as usize) else { return Next::End };
    match crc32fast::hash(record).to_be_bytes() == *checksum {
        true => Next::Record(record, head + record.len()),
        false => Next::Damaged,
    }
}

/// Reads the records of a file; returns the length of its valid part in bytes, and whether a record that
/// is not valid follows.
fn read_all(bytes: &[u8], mut read: impl FnMut(&[u8]) -> bool) -> (usize, bool) {
    let (mut at, mut is_new) = (0, false);
    loop {
        match next(&bytes[at..], is_new) {
            Next::Record(record, length) if read(record) => {
                is_new |= length == HEAD + record.len();
                at += length;
            }
            Next::End => return (at, false),
            Next::Record(..) | Next::Damaged => return (at, true),
        }
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A folder that does not exist yet, and is removed at the end.
    pub struct Folder(pub PathBuf);

    impl Folder {
        /// One with this name.
        pub fn new(name: &str) -> Self {
            let name = format!("gateway-{name}-{}", std::process::id());
            let folder = Self(std::env::temp_dir().join(name));
            let _ = std::fs::remove_dir_all(&folder.0);
            folder
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn open(folder: &Folder) -> (Records, Vec<Vec<u8>>) {
        let mut all = Vec::new();
        let read = |record: &[u8], _| {
            all.push(record.to_vec());
            true
        };
        let records = Records::open(&folder.0, "a", read).unwrap();
        (records, all)
    }

    fn one(text: &[u8]) -> impl Iterator<Item = Vec<u8>> {
        std::iter::once(text.to_vec())
    }

    fn old(record: &[u8]) -> Vec<u8> {
        let length = (record.len() as u32).to_be_bytes();
        [&length[..], &crc32fast::hash(record).to_be_bytes(), record].concat()
    }

    #[test]
    fn a_file_of_an_earlier_version_is_read_and_goes_on() {
        let folder = Folder::new("records-old");
        std::fs::create_dir_all(&folder.0).unwrap();
        std::fs::write(folder.0.join("a.log"), [old(b"one"), old(b"two")].concat()).unwrap();
        let (mut records, all) = open(&folder);
        assert_eq!(all, [b"one", b"two"]);
        records.append(one(b"three")).unwrap();
        drop(records);
        let (mut records, all) = open(&folder);
        assert_eq!((all.len(), records.damaged()), (3, None));
        records.replace(all.into_iter()).unwrap();
        drop(records);
        assert_eq!(open(&folder).1.len(), 3);
    }

    /// What failed before: a damaged length made all that followed look like a record that was not written
    /// to its end, and nothing said that it was lost.
    #[test]
    fn a_damaged_length_is_no_end_of_the_file() {
        let parts = [framed(b"one"), framed(b"two"), framed(b"three")];
        for bit in 0..32 {
            let mut bytes = parts.concat();
            bytes[parts[0].len() + bit / 8] ^= 1 << (bit % 8);
            assert_eq!(read_all(&bytes, |_| true), (parts[0].len(), true), "{bit}");
        }
        // A part of a record, and one that was never written, are the end.
        for cut in parts[0].len()..parts[0].len() + parts[1].len() {
            let bytes = &parts.concat()[..cut];
            assert_eq!(read_all(bytes, |_| true), (parts[0].len(), false), "{cut}");
        }
        let zeros = [&parts[0][..], &[0; 4_000]].concat();
        assert_eq!(read_all(&zeros, |_| true), (parts[0].len(), false));
    }

    /// What failed before: the gateway ended, and a record that was written in part was the end of the log.
    #[test]
    fn a_record_that_was_written_in_part_hides_no_later_one() {
        let folder = Folder::new("records-torn");
        let (mut records, _) = open(&folder);
        records.append(one(b"one")).unwrap();
        // Neither writing nor cutting works.
        let broken = File::open(folder.0.join("a.log")).unwrap();
        let file = std::mem::replace(&mut records.file, broken);
        (&file).write_all(&framed(b"two")[..14]).unwrap();
        records.append(one(b"two")).unwrap_err();
        records.file = file;
        records.append(one(b"three")).unwrap();
        drop(records);
        assert_eq!(open(&folder).1, [&b"one"[..], b"three"]);
    }

    proptest! {
        /// Wherever a file ends or is damaged, the records before are read, and nothing else.
        #[test]
        fn a_damaged_end_is_dropped(at: prop::sample::Index, bit in 0..8, cut: bool, old_ones: bool) {
            let frame = if old_ones { old } else { framed };
            let parts = [&b"one"[..], b"two", b"three"].map(frame);
            let mut bytes = parts.concat();
            let at = at.index(bytes.len());
            if cut {
                bytes.truncate(at);
            } else {
                bytes[at] ^= 1_u8 << bit;
            }
            let whole = parts.iter().scan(0, |end, part| {
                *end += part.len();
                Some(*end)
            });
            let whole = whole.filter(|end| *end <= at).count();
            let mut count = 0;
            let (length, is_damaged) = read_all(&bytes, |_| {
                count += 1;
                true
            });
            prop_assert_eq!((count, length), (whole, parts[..whole].concat().len()));
            prop_assert!(!(cut && is_damaged));
            // The first record alone has no neighbour that tells which version it has.
            prop_assert!(cut || old_ones || at < 4 || is_damaged);
        }
        #[test]
        fn any_bytes_are_read_up_to_the_first_damage(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let (length, _) = read_all(&bytes, |_| true);
            prop_assert!(length <= bytes.len());
        }
    }
}
