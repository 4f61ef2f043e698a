//! The capsule's file format: a gzipped tar archive, readable with standard tools.

use crate::manifest::{BLOBS, EXPECTED, HOME, digest};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use input::HeaderLimit;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Component, Path};
use tar::{Archive, EntryType, HeaderMode};

/// Size limit of an unpacked capsule, in bytes.
const MOST_BYTES: u64 = 32 << 30;

/// Archives the content of `folder`, sorted by name.
pub(crate) fn pack(folder: &Path, out: impl Write) -> io::Result<()> {
    let mut archive = tar::Builder::new(GzEncoder::new(out, Compression::fast()));
    archive.mode(HeaderMode::Deterministic);
    let mut todo = vec![folder.to_owned()];
    while let Some(path) = todo.pop() {
        if path.is_dir() {
            let mut entries: Vec<_> = fs::read_dir(&path)?.flatten().map(|e| e.path()).collect();
            entries.sort();
            // The last one is taken first, so this gives the order of names.
            entries.reverse();
            todo.extend(entries);
        } else {
            let name = path.strip_prefix(folder).map_err(io::Error::other)?;
            archive.append_path_with_name(&path, name)?;
        }
    }
    archive.into_inner()?.finish()?.flush()
}

/// Unpacks a capsule into `folder`. Accepts only files in the folders of a capsule.
pub(crate) fn unpack(file: File, folder: &Path) -> Result<(), String> {
    let damaged = |error: io::Error| {
        format!("{error}\n  it is not a capsule of `thingbed pack`, or the copy is incomplete")
    };
    let written = |error: io::Error| match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => format!(
            "could not unpack it: {error}\n  free space in {}, or set TMPDIR to a folder with more space",
            std::env::temp_dir().display()
        ),
        _ => format!("could not unpack it: {error}"),
    };
    // This also limits the archive's metadata in sum.
    let bytes = GzDecoder::new(file).take(MOST_BYTES);
    let limit = HeaderLimit::default();
    let mut archive = Archive::new(limit.reader(bytes));
    let mut left = MOST_BYTES;
    let mut entries = archive.entries().map_err(damaged)?;
    loop {
        limit.before_entry();
        let Some(entry) = entries.next() else { break };
        let mut entry = entry.map_err(damaged)?;
        limit.within_entry();
        let name = entry.path().map_err(damaged)?.into_owned();
        let parts: Vec<_> = name.components().collect();
        let harmless = parts.iter().all(|part| matches!(part, Component::Normal(_)));
        // No links and devices: nothing that is unpacked can lead out of the folder.
        if !harmless || entry.header().entry_type() != EntryType::Regular {
            return Err(format!(
                "it has the entry `{}`, which is not part of a capsule",
                name.display()
            ));
        }
        left = left
            .checked_sub(entry.size())
            .ok_or_else(|| format!("it unpacks to more than {} GiB", MOST_BYTES >> 30))?;
        let known = [HOME, BLOBS, EXPECTED].iter().any(|known| name.starts_with(known));
        if parts.len() > 1 && !known {
            io::copy(&mut entry, &mut io::sink()).map_err(damaged)?;
            continue;
        }
        let to = folder.join(&name);
        to.parent().map_or(Ok(()), fs::create_dir_all).map_err(written)?;
        let mut out = File::create(&to).map_err(written)?;
        io::copy(&mut entry, &mut out).map_err(|error| match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => written(error),
            _ => damaged(error),
        })?;
        if name.starts_with(BLOBS) {
            // The name is the digest, by which images refer to the file.
            let sum = File::open(&to).and_then(digest).map_err(|error| error.to_string())?;
            if name.file_name().is_none_or(|name| name != sum.as_str()) {
                return Err(format!("{} is damaged: its SHA-256 is {sum}", name.display()));
            }
        }
    }
    limit.within_entry();
    // Read to the end of the file, so that gzip's checksum is compared.
    let mut rest = archive.into_inner().take(1 << 20);
    io::copy(&mut rest, &mut io::sink()).map(drop).map_err(damaged)
}

#[cfg(test)]
#[path = "archive_tests.rs"]
mod tests;
