//! `thingbed logs`: prints the output of nodes' programs.

use super::{Lab, find};
use crate::arguments::Logs;
use crate::{Status, remark};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Prints logs, and follows them if requested.
pub fn logs(arguments: &Logs) -> Result<Status, String> {
    let lab = find(&arguments.lab)?;
    let mut shown: HashMap<PathBuf, u64> = HashMap::new();
    let mut last = None;
    for path in files(&lab, &arguments.nodes)? {
        let length = fs::metadata(&path).map_or(0, |file| file.len());
        let from = arguments.tail.map_or(0, |lines| tail(&path, lines).unwrap_or(0));
        shown.insert(path.clone(), from);
        show(&path, &mut shown, &mut last, Some(length));
    }
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
    let Ok(mut file) = File::open(path) else { return };
    let end = until.unwrap_or_else(|| file.metadata().map_or(0, |meta| meta.len()));
    if end <= *from || file.seek(SeekFrom::Start(*from)).is_err() {
        return;
    }
    let mut out = std::io::stdout().lock();
    if last.as_deref() != Some(path) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let _ = writeln!(out, "==> {name} <==");
        *last = Some(path.to_owned());
    }
    let copied = std::io::copy(&mut file.take(end - *from), &mut out).unwrap_or(0);
    let _ = out.flush();
    *from += copied;
}

/// Offset of the last `lines` lines of a file.
fn tail(path: &Path, lines: usize) -> std::io::Result<u64> {
    const MAX_TAIL_BYTES: u64 = 1 << 20;
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let start = length.saturating_sub(MAX_TAIL_BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut end = Vec::new();
    file.read_to_end(&mut end)?;
    let body = end.strip_suffix(b"\n").unwrap_or(&end);
    let breaks = body.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    let at = match lines {
        0 => end.len(),
        n => breaks.map(|(at, _)| at + 1).nth(n - 1).unwrap_or(0),
    };
    Ok(start + at as u64)
}
