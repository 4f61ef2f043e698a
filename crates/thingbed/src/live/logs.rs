//! `thingbed logs`: prints the output of nodes' programs.

use super::{Lab, find};
use crate::arguments::Logs;
use crate::{Status, printable, remark};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, IsTerminal, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Prints logs, and follows them if requested.
pub fn logs(arguments: &Logs) -> Result<Status, String> {
    let lab = find(&arguments.lab)?;
    let mut shown: HashMap<PathBuf, u64> = HashMap::new();
    let mut last = None;
    for path in files(&lab, &arguments.nodes)? {
        // The length now: a program that prints without pause would otherwise hold up the files
        // after it.
        let length = fs::metadata(&path).map_or(0, |file| file.len());
        let from = arguments.tail.map_or(0, |lines| tail(&path, lines).unwrap_or(0));
        shown.insert(path.clone(), from);
        show(&path, &mut shown, &mut last, Some(length));
    }
    // With `--follow` there may be output later.
    if shown.is_empty() && !arguments.follow {
        remark("the programs have not printed anything yet");
    }
    if !arguments.follow {
        return Ok(Status::Fine);
    }
    loop {
        std::thread::sleep(Duration::from_millis(200));
        // The lab has ended.
        let Ok(files) = files(&lab, &arguments.nodes) else { return Ok(Status::Fine) };
        for path in files {
            show(&path, &mut shown, &mut last, None);
        }
    }
}

/// The log files of nodes: `NODE.PROGRAM.out` and `.err`.
fn files(lab: &Lab, nodes: &[String]) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for node in lab.nodes(nodes)? {
        let entries = fs::read_dir(&node.logs).into_iter().flatten().flatten();
        let own = entries.map(|entry| entry.path()).filter(|path| {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            // The dot keeps `meter-1` apart from `meter-10`.
            let rest = name.strip_prefix(&node.name).is_some_and(|rest| rest.starts_with('.'));
            rest && (name.ends_with(".out") || name.ends_with(".err"))
        });
        let mut own: Vec<PathBuf> = own.collect();
        own.sort();
        files.extend(own);
    }
    Ok(files)
}

/// Prints the new content of a file, with a header if the last output was from another file.
fn show(
    path: &Path,
    shown: &mut HashMap<PathBuf, u64>,
    last: &mut Option<PathBuf>,
    until: Option<u64>,
) {
    let from = shown.entry(path.to_owned()).or_default();
    let Ok(file) = File::open(path) else { return };
    let end = until.unwrap_or_else(|| file.metadata().map_or(0, |meta| meta.len()));
    if end <= *from {
        return;
    }
    let mut out = std::io::stdout().lock();
    if last.as_deref() != Some(path) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let _ = writeln!(out, "==> {name} <==");
        *last = Some(path.to_owned());
    }
    let is_terminal = out.is_terminal();
    *from = print(&file, *from..end, &mut out, is_terminal).unwrap_or(end);
    let _ = out.flush();
}

/// Prints a part of a log, except its hole: the output of a running program beyond its quota. Returns
/// the end of the printed part.
fn print(
    file: &File,
    part: Range<u64>,
    out: &mut impl Write,
    is_terminal: bool,
) -> io::Result<u64> {
    let mut at = part.start;
    let mut buffer = vec![0; 1 << 16];
    while at < part.end {
        // Output beyond the quota is a hole in the file (decision 59), which reads as zeros.
        let data = data_from(file, at).unwrap_or(at).min(part.end);
        if data > at {
            writeln!(out, "\n[Thingbed dropped {} B of output here]", data - at)?;
            at = data;
            continue;
        }
        let most = buffer.len().min((part.end - at) as usize);
        let read = file.read_at(&mut buffer[..most], at)?;
        if read == 0 {
            return Ok(at);
        }
        // Programs could send escape sequences to the terminal; files and pipes get all bytes.
        match is_terminal {
            true => {
                out.write_all(printable(&String::from_utf8_lossy(&buffer[..read])).as_bytes())?
            }
            false => out.write_all(&buffer[..read])?,
        }
        at += read as u64;
    }
    Ok(at)
}

/// Start of the first data at or after an offset; `None` if the file system cannot tell.
fn data_from(file: &File, offset: u64) -> Option<u64> {
    // SAFETY: a plain system call on an open file, whose position is not used.
    let found = unsafe { libc::lseek(file.as_raw_fd(), offset as libc::off_t, libc::SEEK_DATA) };
    u64::try_from(found).ok()
}

/// Offset of the last `lines` lines of a file.
fn tail(path: &Path, lines: usize) -> std::io::Result<u64> {
    // 1 MiB: a log can have 64 MiB, and lines are counted in memory.
    const MAX_TAIL_BYTES: u64 = 1 << 20;
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let start = length.saturating_sub(MAX_TAIL_BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut end = Vec::new();
    // A program may write faster than this reads.
    file.take(length - start).read_to_end(&mut end)?;
    let body = end.strip_suffix(b"\n").unwrap_or(&end);
    let breaks = body.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    let at = match lines {
        0 => end.len(),
        n => breaks.map(|(at, _)| at + 1).nth(n - 1).unwrap_or(0),
    };
    Ok(start + at as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hole_is_not_printed() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(b"first\n", 0).unwrap();
        file.write_all_at(b"last\n", 1 << 30).unwrap();
        let (mut pipe, end) = (Vec::new(), (1 << 30) + 5);
        assert_eq!(print(&file, 0..end, &mut pipe, false).unwrap(), end);
        let text = String::from_utf8(pipe).unwrap();
        assert!(text.starts_with("first\n") && text.ends_with(" B of output here]\nlast\n"));
    }

    /// A file that grows faster than it is read has no end.
    #[test]
    fn the_tail_of_a_growing_file_ends() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        fs::write(&path, "line\n").unwrap();
        let stop = std::sync::atomic::AtomicBool::new(false);
        let stopped = || stop.load(std::sync::atomic::Ordering::Relaxed);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
                let lines = "line\n".repeat(1 << 14);
                while !stopped() && file.metadata().unwrap().len() < 1 << 28 {
                    file.write_all(lines.as_bytes()).unwrap();
                }
            });
            for _ in 0..20 {
                let start = tail(&path, 10).unwrap();
                assert!(start.is_multiple_of(5), "{start}");
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }

    #[test]
    fn terminals_get_no_escape_sequences_and_pipes_all_bytes() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(b"a\x1b[2Jb\xff\n", 0).unwrap();
        let printed = |is_terminal| {
            let mut out = Vec::new();
            print(&file, 0..8, &mut out, is_terminal).unwrap();
            out
        };
        assert_eq!(printed(false), b"a\x1b[2Jb\xff\n");
        assert_eq!(String::from_utf8(printed(true)).unwrap(), "a [2Jb\u{fffd}\n");
    }
}
