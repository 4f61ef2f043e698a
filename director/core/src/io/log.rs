//! A log of records on a disk, each with a checksum, which is synced before it counts. It is
//! written anew when most of it is void.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// Length of a record, checksum of that, and checksum of the record, in bytes.
const HEAD: usize = 12;
/// The same of earlier records, which have no checksum of the length: a damaged one looked like the end of
/// a record that was written in part.
const OLD_HEAD: usize = 8;
/// Bit of the length in a head with three parts.
const NEW: u32 = 1 << 31;
/// A log below this length is not written anew, in bytes.
const LARGE: u64 = 1 << 20;

/// A log in a folder, which one program has at a time.
#[derive(Debug)]
pub(super) struct Log {
    folder: PathBuf,
    name: &'static str,
    file: File,
    /// Length of the log, and how much of it was written when it was made anew, in bytes.
    length: u64,
    compacted: u64,
    /// How much of it is certainly on the disk, in bytes.
    synced: u64,
    /// Whether a part of a record may follow.
    is_torn: bool,
}

/// What was read from a log.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Contents {
    /// The records.
    pub records: Vec<Vec<u8>>,
    /// A copy of the log, if records after these are damaged. A record that was not written to its
    /// end does not count: its program was stopped before it could know that it was there.
    pub damaged: Option<PathBuf>,
}

impl Log {
    /// Opens the log of this name in a folder, which is made if it does not exist.
    ///
    /// # Errors
    /// What failed, with the path: also if another program has the log, or it is longer than
    /// `longest` bytes.
    pub fn open(folder: &Path, name: &'static str, longest: u64) -> io::Result<(Self, Contents)> {
        let path = folder.join(name);
        let at = |error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {error}{}", path.display(), fix(&error)))
        };
        std::fs::create_dir_all(folder).map_err(at)?;
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create(true).open(&path).map_err(at)?;
        lock(&file).map_err(at)?;
        let length = file.metadata().map_err(at)?.len();
        if length > longest {
            let why = format!(
                "the log has {length} bytes, more than a limit of {longest}: remove the file, or raise the limit"
            );
            return Err(at(io::Error::other(why)));
        }
        let mut bytes = Vec::new();
        (&file).take(longest).read_to_end(&mut bytes).map_err(at)?;
        let Valid { records, length, is_damaged } = read(&bytes);
        let damaged = match is_damaged {
            true => Some(set_aside(folder, name, &bytes).map_err(at)?),
            false => None,
        };
        let is_torn = length < bytes.len();
        let length = length as u64;
        let (folder, compacted, synced) = (folder.to_owned(), 0, length);
        let mut log = Self { folder, name, file, length, compacted, synced, is_torn };
        log.cut().map_err(at)?;
        Ok((log, Contents { records, damaged }))
    }

    /// Appends records; they are on the disk when it returns.
    ///
    /// # Errors
    /// If the disk is full or fails: then the log ends before them, and the next call can succeed.
    pub fn append(&mut self, records: &[Vec<u8>]) -> io::Result<()> {
        let bytes: Vec<u8> = records.iter().flat_map(|record| framed(record)).collect();
        self.write(&bytes)?;
        if let Err(error) = self.file.sync_data() {
            // The system may have dropped all that it had not written, notes as well: a hole would end
            // the log.
            self.length = self.synced;
            self.is_torn = true;
            let _ = self.cut();
            return Err(error);
        }
        self.synced = self.length;
        Ok(())
    }

    /// Writes bytes after the last record.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.cut()?;
        if let Err(error) = self.file.write_all(bytes) {
            self.is_torn = true;
            // Before the next record at the latest.
            let _ = self.cut();
            return Err(error);
        }
        self.length += bytes.len() as u64;
        Ok(())
    }

    /// Removes the part of a record at the end: it must not precede another one.
    fn cut(&mut self) -> io::Result<()> {
        if self.is_torn {
            self.file.set_len(self.length)?;
            self.is_torn = false;
        }
        Ok(())
    }

    /// Appends a record that may be lost with the machine's power.
    ///
    /// # Errors
    /// As [`append`](Self::append).
    pub fn note(&mut self, record: &[u8]) -> io::Result<()> {
        self.write(&framed(record))
    }

    /// Whether most of the log may be void.
    pub fn is_large(&self) -> bool {
        self.length > LARGE.max(2 * self.compacted)
    }

    /// Writes the log anew with these records only.
    ///
    /// # Errors
    /// If the disk is full or fails: the former log stays.
    pub fn compact(&mut self, records: &[Vec<u8>]) -> io::Result<()> {
        let path = self.folder.join(format!("{}.next", self.name));
        let bytes: Vec<u8> = records.iter().flat_map(|record| framed(record)).collect();
        let next = match renamed(&path, &self.folder.join(self.name), &bytes) {
            Ok(next) => next,
            Err(error) => {
                // It must not take the room that the next record needs.
                let _ = std::fs::remove_file(&path);
                // Not again at the next record, but when the log is twice as long.
                self.compacted = self.length;
                return Err(error);
            }
        };
        // From here on the former log has no name, so that a record in it would be lost.
        (self.file, self.length) = (next, bytes.len() as u64);
        (self.compacted, self.synced, self.is_torn) = (self.length, self.length, false);
        File::open(&self.folder)?.sync_all()
    }
}

/// Writes a file and renames it over another one.
fn renamed(path: &Path, to: &Path, bytes: &[u8]) -> io::Result<File> {
    // Appends: after a failed write, the next record goes to the end that is left.
    let mut next = OpenOptions::new().append(true).create(true).open(path)?;
    next.set_len(0)?;
    next.write_all(bytes)?;
    next.sync_all()?;
    // Before it has the name, so that no other program can take it in between.
    lock(&next)?;
    std::fs::rename(path, to)?;
    Ok(next)
}

/// What a user can do about a log that cannot be opened or written; empty if that is not known.
pub(super) fn fix(error: &io::Error) -> &'static str {
    use io::ErrorKind::{
        AlreadyExists, FileTooLarge, NotADirectory, NotFound, PermissionDenied, QuotaExceeded,
        ReadOnlyFilesystem, StorageFull,
    };
    match error.kind() {
        AlreadyExists | NotADirectory | NotFound => ": use a folder that exists or can be made",
        PermissionDenied | ReadOnlyFilesystem => ": use a folder that this program may write to",
        StorageFull | QuotaExceeded | FileTooLarge => ": free space there, then try again",
        _ => "",
    }
}

fn lock(file: &File) -> io::Result<()> {
    file.try_lock()
        .map_err(|_| io::Error::other("another program uses it: end it, or use another folder"))
}

/// Copies a log with damaged records to the first free name.
fn set_aside(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    let free = |n: &u32| !folder.join(format!("{name}.damaged-{n}")).exists();
    let Some(n) = (1..100).find(free) else {
        return Err(io::Error::other("99 damaged logs are there: look at them, and remove them"));
    };
    let path = folder.join(format!("{name}.damaged-{n}"));
    std::fs::write(&path, bytes)?;
    Ok(path)
}

/// The first bytes of the SHA-256, which the library has for its keys: another kind of checksum would
/// be another dependency.
pub(super) fn checksum(record: &[u8]) -> [u8; 4] {
    let digest = ring::digest::digest(&ring::digest::SHA256, record);
    digest.as_ref().first_chunk().copied().unwrap_or_default()
}

/// The bytes of a record: its head, and its content.
fn framed(record: &[u8]) -> Vec<u8> {
    // The limit of a log is far below 2 GiB.
    let length = (record.len() as u32 | NEW).to_be_bytes();
    [&length[..], &checksum(&length), &checksum(record), record].concat()
}

struct Valid {
    records: Vec<Vec<u8>>,
    length: usize,
    is_damaged: bool,
}

/// What follows in a log.
enum Next<'a> {
    /// A record, and the length of its head.
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
    let number = u32::from_be_bytes(*first);
    let is_new = is_new || number & NEW != 0;
    let rest = match is_new {
        false => rest,
        true => match rest.split_first_chunk::<4>() {
            None => return Next::End,
            // A record that was not written to its end begins as it should.
            Some((check, _)) if *check != checksum(first) => return Next::Damaged,
            Some((_, rest)) => rest,
        },
    };
    let Some((written, rest)) = rest.split_first_chunk::<4>() else { return Next::End };
    let Some(record) = rest.get(..(number & !NEW) as usize) else { return Next::End };
    match checksum(record) == *written {
        true => Next::Record(record, if is_new { HEAD } else { OLD_HEAD }),
        false => Next::Damaged,
    }
}

/// The records of a log, up to the first that is not valid.
fn read(bytes: &[u8]) -> Valid {
    let (mut records, mut at, mut is_new) = (Vec::new(), 0, false);
    loop {
        match next(&bytes[at..], is_new) {
            Next::Record(record, head) => {
                is_new = head == HEAD;
                at += head + record.len();
                records.push(record.to_vec());
            }
            Next::End => return Valid { records, length: at, is_damaged: false },
            Next::Damaged => return Valid { records, length: at, is_damaged: true },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("director-log-{name}-{}", std::process::id());
            Self(std::env::temp_dir().join(name))
        }

        fn open(&self) -> io::Result<(Log, Contents)> {
            Log::open(&self.0, "out.log", 4 << 20)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn records_are_there_again_and_one_program_has_the_log() {
        let folder = Folder::new("again");
        let (mut log, contents) = folder.open().unwrap();
        assert_eq!(contents, Contents::default());
        log.append(&[b"one".to_vec(), Vec::new()]).unwrap();
        log.note(b"two").unwrap();
        let error = folder.open().unwrap_err().to_string();
        assert!(error.contains("out.log: another program uses it"), "{error}");
        log.compact(&[b"two".to_vec()]).unwrap();
        log.append(&[b"three".to_vec()]).unwrap();
        drop(log);
        let (_log, contents) = folder.open().unwrap();
        assert_eq!(contents.records, [b"two".to_vec(), b"three".to_vec()]);
    }

    #[test]
    fn a_damaged_log_is_set_aside_and_one_that_is_too_long_is_an_error() {
        let folder = Folder::new("damaged");
        let (mut log, _) = folder.open().unwrap();
        log.append(&[b"one".to_vec(), b"two".to_vec(), b"three".to_vec()]).unwrap();
        drop(log);
        let path = folder.0.join("out.log");
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[HEAD + 3 + HEAD] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        let (mut log, contents) = folder.open().unwrap();
        assert_eq!(contents.records, [b"one".to_vec()]);
        assert_eq!(std::fs::read(contents.damaged.unwrap()).unwrap(), bytes);
        log.append(&[b"four".to_vec()]).unwrap();
        drop(log);
        assert_eq!(folder.open().unwrap().1.records, [b"one".to_vec(), b"four".to_vec()]);
        let error = Log::open(&folder.0, "out.log", 10).unwrap_err().to_string();
        assert!(error.contains("remove the file, or raise the limit"), "{error}");
    }

    /// What failed before: after a compaction the next record went to where the failed one had ended, so
    /// that a hole preceded it and the log was damaged; if it could not be cut, it preceded the next one.
    #[test]
    fn a_record_that_was_written_in_part_damages_no_other() {
        let folder = Folder::new("torn");
        let (mut log, _) = folder.open().unwrap();
        log.compact(&[b"one".to_vec()]).unwrap();
        log.file.write_all(&framed(b"never counted")[..10]).unwrap();
        log.is_torn = true;
        log.append(&[b"two".to_vec()]).unwrap();
        // Neither writing nor cutting works.
        let broken = File::open(folder.0.join("out.log")).unwrap();
        let file = std::mem::replace(&mut log.file, broken);
        (&file).write_all(&framed(b"a part")[..12]).unwrap();
        log.append(&[b"three".to_vec()]).unwrap_err();
        log.note(b"three").unwrap_err();
        log.file = file;
        log.append(&[b"four".to_vec()]).unwrap();
        drop(log);
        let (_log, contents) = folder.open().unwrap();
        let records = [b"one".to_vec(), b"two".to_vec(), b"four".to_vec()];
        assert_eq!(contents, Contents { records: records.to_vec(), damaged: None });
    }

    /// What failed before: what was written of the new log took the room that the next record needed.
    #[test]
    fn a_failed_compaction_leaves_the_former_log_and_no_file() {
        let folder = Folder::new("compaction");
        let (mut log, _) = folder.open().unwrap();
        log.append(&[b"one".to_vec()]).unwrap();
        let next = folder.0.join("out.log.next");
        std::os::unix::fs::symlink("/dev/full", &next).unwrap();
        log.compact(&[b"two".to_vec()]).unwrap_err();
        assert!(next.symlink_metadata().is_err());
        log.append(&[b"three".to_vec()]).unwrap();
        drop(log);
        assert_eq!(folder.open().unwrap().1.records, [b"one".to_vec(), b"three".to_vec()]);
    }

    /// What failed before: a damaged length made all that followed look like a record that was not written
    /// to its end, so that messages were lost without a word, and their numbers used again.
    #[test]
    fn a_damaged_length_is_no_end_of_the_log() {
        let parts = [framed(b"one"), framed(b"two"), framed(b"three")];
        for bit in 0..32 {
            let mut bytes = parts.concat();
            bytes[parts[0].len() + bit / 8] ^= 1 << (bit % 8);
            let valid = read(&bytes);
            assert_eq!((valid.length, valid.is_damaged), (parts[0].len(), true), "{bit}");
        }
        for cut in parts[0].len()..parts[0].len() + parts[1].len() {
            let valid = read(&parts.concat()[..cut]);
            assert_eq!((valid.length, valid.is_damaged), (parts[0].len(), false), "{cut}");
        }
        let zeros = read(&[&parts[0][..], &[0; 4_000]].concat());
        assert_eq!((zeros.length, zeros.is_damaged), (parts[0].len(), false));
    }

    #[test]
    fn a_log_of_an_earlier_version_is_read_and_goes_on() {
        let old = |record: &[u8]| {
            let length = (record.len() as u32).to_be_bytes();
            [&length[..], &checksum(record), record].concat()
        };
        let folder = Folder::new("earlier");
        std::fs::create_dir_all(&folder.0).unwrap();
        std::fs::write(folder.0.join("out.log"), [old(b"one"), old(b"two")].concat()).unwrap();
        let (mut log, contents) = folder.open().unwrap();
        assert_eq!(contents.records, [b"one", b"two"]);
        log.append(&[b"three".to_vec()]).unwrap();
        drop(log);
        let (_log, contents) = folder.open().unwrap();
        assert_eq!((contents.records.len(), contents.damaged), (3, None));
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_up_to_the_first_damage(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let valid = read(&bytes);
            prop_assert!(valid.length <= bytes.len());
        }
    }
}
