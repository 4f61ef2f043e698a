//! Snapshots of booted guests of QEMU: kernel up, modules loaded, init running. A boot takes
//! seconds, at `--cpu 8` half a minute, nearly all of it the kernel's calibration of a timer in a
//! busy loop. So each guest starts from a snapshot, made once for each kernel, CPU and memory
//! size. The cache's key is the digest of all inputs of the boot.
//!
//! The snapshot is taken at one fixed instruction, at which the guest's init pauses the machine
//! (by the `pvpanic` device). Nothing in the guest is random yet: its memory is always identical.

use crate::files::Entry;
use crate::kernel_process::prepare;
use crate::monitor::{Monitor, STATE};
use crate::{Error, Image, initramfs, qemu};
use nix::fcntl::{Flock, FlockArg};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// The format version of snapshots; change it with each change in how they are made.
const FORM: &str = "1";
/// Maximum number of snapshots in the cache; the least recently used ones are removed.
const KEPT: usize = 6;
/// The extension of an incomplete copy in the cache.
const UNFINISHED: &str = "unfinished";
/// A copy takes seconds: an incomplete copy of this age is left over from a killed tool.
const UNFINISHED_FOR: Duration = Duration::from_secs(3600);

/// Opens the snapshot for the guest of `image`. Takes it from `cache`; else boots a guest in
/// `scratch` and copies its snapshot to `cache`, or leaves it in `scratch` if `cache` is not
/// writable.
pub(crate) fn state(
    image: &Image,
    shape: qemu::Shape,
    cache: &Path,
    scratch: &Path,
) -> Result<File, Error> {
    let name = key(image, shape).map_err(Error::io("read the guest's boot files"))?;
    let path = cache.join(format!("{name}.state"));
    let usable = fs::create_dir_all(cache).is_ok();
    // Other processes that need the same snapshot wait for this lock.
    let lock = File::create(cache.join(format!("{name}.lock")));
    let _lock = lock.and_then(|file| {
        Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| errno.into())
    });
    // Under the lock: another process may have made it meanwhile.
    if let Ok(found) = File::open(&path) {
        // The time of use, by which `forget_old` chooses.
        let _ = found.set_modified(SystemTime::now());
        return Ok(found);
    }
    make(image, shape, scratch)?;
    let made = scratch.join(STATE);
    let copied = usable && copy(&made, &cache.join(format!("{name}.{UNFINISHED}")), &path).is_ok();
    if copied {
        let _ = fs::remove_file(&made);
        forget_old(cache);
        return File::open(&path).map_err(Error::io("open the snapshot"));
    }
    File::open(&made).map_err(Error::io("open the snapshot"))
}

/// Removes all snapshots in `cache`; returns their number.
pub fn remove_states(cache: &Path) -> usize {
    for path in with_ending(cache, UNFINISHED) {
        let _ = fs::remove_file(path);
    }
    let all = with_ending(cache, STATE);
    all.iter().filter(|path| fs::remove_file(path).is_ok()).count()
}

/// The files in `cache` with this extension, the most recently used first.
fn with_ending(cache: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(cache).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut all: Vec<_> = entries
        .filter(|path| path.extension().is_some_and(|found| found == ending))
        .filter_map(|path| Some((fs::metadata(&path).ok()?.modified().ok()?, path)))
        .collect();
    all.sort();
    all.into_iter().rev().map(|(_, path)| path).collect()
}

/// Removes the least recently used snapshots, and incomplete copies of killed tools.
fn forget_old(cache: &Path) {
    for path in with_ending(cache, STATE).iter().skip(KEPT) {
        let _ = fs::remove_file(path);
        let _ = fs::remove_file(path.with_extension("lock"));
    }
    for path in with_ending(cache, UNFINISHED) {
        let age = fs::metadata(&path).and_then(|found| found.modified()).map(|at| at.elapsed());
        if age.is_ok_and(|age| age.is_ok_and(|age| age > UNFINISHED_FOR)) {
            let _ = fs::remove_file(&path);
        }
    }
}

/// Copies a file to `unfinished` and renames it to `to`, so that `to` is always complete.
fn copy(from: &Path, unfinished: &Path, to: &Path) -> io::Result<()> {
    let copied = fs::copy(from, unfinished).and_then(|_| fs::rename(unfinished, to));
    if copied.is_err() {
        let _ = fs::remove_file(unfinished);
    }
    copied
}

/// The cache key: a digest of all inputs of a snapshot.
fn key(image: &Image, shape: qemu::Shape) -> io::Result<String> {
    let mut sum = Sha256::new();
    let mut say = |text: &str| {
        // The length first, so that two texts cannot be read as two others.
        sum.update((text.len() as u64).to_le_bytes());
        sum.update(text);
    };
    // An emulator reads only snapshots that it wrote itself.
    let emulator = qemu::program().ok_or(io::ErrorKind::NotFound)?;
    say(&stamp(&fs::canonicalize(emulator)?)?);
    say(FORM);
    say(&qemu::arguments(shape).join(" "));
    say(&qemu::line(shape));
    say(&digest(&image.kernel)?);
    for (path, entry) in &image.boot {
        say(&path.display().to_string());
        match entry {
            Entry::Copy(from, mode) => say(&format!("{mode} {}", digest(from)?)),
            other => say(&serde_json::to_string(other)?),
        }
    }
    Ok(hexadecimal(sum))
}

/// An identifier of a version of a system file: path, size and modification time.
fn stamp(path: &Path) -> io::Result<String> {
    let found = fs::metadata(path)?;
    Ok(format!("{} {} {}.{}", path.display(), found.len(), found.mtime(), found.mtime_nsec()))
}

/// SHA-256 of a file, cached for each version of the file.
fn digest(path: &Path) -> io::Result<String> {
    static KNOWN: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());
    let stamp = stamp(path)?;
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(sum) = known().get(&stamp) {
        return Ok(sum.clone());
    }
    let (mut sum, mut file, mut buffer) = (Sha256::new(), File::open(path)?, vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            length => sum.update(&buffer[..length]),
        }
    }
    let sum = hexadecimal(sum);
    known().insert(stamp, sum.clone());
    Ok(sum)
}

fn hexadecimal(sum: Sha256) -> String {
    sum.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Boots the guest of `image` until its init pauses it, and writes its snapshot to `scratch`.
fn make(image: &Image, shape: qemu::Shape, scratch: &Path) -> Result<(), Error> {
    File::create(scratch.join(qemu::FILES))
        .and_then(|file| initramfs::write(&image.boot, BufWriter::new(file)))
        .map_err(Error::io("pack the guest's boot files"))?;
    qemu::share(scratch, shape)?;
    let console = File::create(scratch.join("console"));
    let console = console.map_err(Error::io("create the file of the guest's console"))?;
    let mut command: Command = qemu::base(image, shape, scratch)?;
    command.args(["-icount", &qemu::icount(shape)]);
    command.current_dir(scratch).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(console);
    prepare(&mut command);
    let mut child = command.spawn().map_err(Error::io("start QEMU"))?;
    let asked = Monitor::of(&mut child).and_then(|mut monitor| monitor.save());
    // Killed and not resumed: the guest has no further use.
    let _ = child.kill();
    let _ = child.wait();
    // Not needed after the snapshot.
    let _ = fs::remove_file(scratch.join(qemu::FILES));
    asked.map_err(|error| Error::Died {
        how: format!("during boot: {error}"),
        words: crate::console::last_words(&scratch.join("console")),
    })?;
    begin_at_zero(&scratch.join(STATE), shape.shift()).map_err(Error::io("read the snapshot"))
}

/// Sets the instruction count in a snapshot to 0 without changing its clock. Record and replay
/// store the first step from 0 in an `int` (replay-internal.c of QEMU 7.2 to 10.0), so a guest
/// that took 2^31 instructions to boot would end there. The clock is `bias` (ns) plus the count
/// times 2^shift ns.
fn begin_at_zero(path: &Path, shift: u32) -> io::Result<()> {
    /// A subsection: its type, the length of its name, its name, its version.
    const MARK: &[u8] = b"\x05\x0ctimer/icount\0\0\0\x01";
    /// Maximum size in bytes of the devices' state, which comes after the memory.
    const TAIL_BYTES: u64 = 16 << 20;
    let mut file = OpenOptions::new().read(true).write(true).open(path)?;
    let from = file.metadata()?.len().saturating_sub(TAIL_BYTES);
    file.seek(SeekFrom::Start(from))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    let lacking =
        || io::Error::other("it has no instruction count; is this another version of QEMU?");
    let at = tail.windows(MARK.len()).rposition(|bytes| bytes == MARK).ok_or_else(lacking)?;
    let at = at + MARK.len();
    let number = |at: usize| {
        let bytes = tail.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
        bytes.map(i64::from_be_bytes).ok_or_else(lacking)
    };
    let (bias, count) = (number(at)?, number(at + 8)?);
    let bias = count.checked_shl(shift).and_then(|ns| bias.checked_add(ns)).ok_or_else(lacking)?;
    file.seek(SeekFrom::Start(from + at as u64))?;
    file.write_all(&bias.to_be_bytes())?;
    file.write_all(&0_i64.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_states_clock_goes_on_when_its_count_begins_at_zero() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        let with = |bias: i64, count: i64| {
            let mut bytes = b"memory\x05\x0ctimer/icount\0\0\0\x01".to_vec();
            bytes.extend(bias.to_be_bytes().into_iter().chain(count.to_be_bytes()));
            [bytes, b"devices".to_vec()].concat()
        };
        fs::write(&path, with(5, 3_000_000_000)).unwrap();
        begin_at_zero(&path, 1).unwrap();
        assert_eq!(fs::read(&path).unwrap(), with(6_000_000_005, 0));
        fs::write(&path, "memory").unwrap();
        assert!(begin_at_zero(&path, 0).is_err());
        fs::write(&path, &with(0, 0)[..30]).unwrap();
        assert!(begin_at_zero(&path, 0).is_err());
    }

    #[test]
    fn the_states_that_were_used_last_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..KEPT + 2 {
            let path = dir.path().join(format!("{n}.state"));
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(1000 + n as u64);
            File::create(path).unwrap().set_modified(at).unwrap();
        }
        fs::write(dir.path().join("0.lock"), "").unwrap();
        let [left, growing] =
            ["a", "b"].map(|name| dir.path().join(name).with_extension(UNFINISHED));
        File::create(&left).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        fs::write(&growing, "").unwrap();
        forget_old(dir.path());
        assert!(!left.exists() && growing.exists());
        let has = |n: usize| dir.path().join(format!("{n}.state")).exists();
        assert!(!has(0) && !has(1) && (2..KEPT + 2).all(has));
        assert!(!dir.path().join("0.lock").exists());
        assert_eq!(remove_states(dir.path()), KEPT);
        assert!(!growing.exists());
    }

    #[test]
    fn a_copy_that_fails_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let [from, unfinished, to] = ["from", "unfinished", "to"].map(|name| dir.path().join(name));
        assert!(copy(&from, &unfinished, &to).is_err());
        fs::write(&from, "state").unwrap();
        fs::create_dir_all(to.join("in the way")).unwrap();
        assert!(copy(&from, &unfinished, &to).is_err());
        assert!(!unfinished.exists());
        fs::remove_dir_all(&to).unwrap();
        copy(&from, &unfinished, &to).unwrap();
        assert_eq!(fs::read(&to).unwrap(), b"state");
    }
}
