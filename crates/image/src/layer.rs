//! Applies one layer: a tar stream whose entries go over the content of lower layers.

use crate::budget::Budget;
use crate::entry_error::EntryError;
use crate::error::Fault;
use crate::tree::{Metadata, Tree};
use flate2::bufread::MultiGzDecoder;
use input::HeaderLimit;
use std::ffi::OsStr;
use std::io::{self, BufRead, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use tar::{Entry, EntryType};

/// The prefix of a whiteout, which removes an entry, and the name of an opaque whiteout,
/// which removes all content of a folder (OCI image specification, "layer").
const WHITEOUT: &[u8] = b".wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";
/// Other names with this prefix are internal markers of tools; they are ignored.
const MARKER: &[u8] = b".wh..wh.";

/// The decompressed tar stream. `from` is plain, gzip or zstd.
pub(crate) fn decompress<'a>(mut from: impl BufRead + 'a) -> io::Result<Box<dyn Read + 'a>> {
    // By content: media types and names of layers differ between tools.
    let begin = from.fill_buf()?;
    if begin.starts_with(&[0x1f, 0x8b]) {
        // gzip streams may be concatenated, as in eStargz.
        return Ok(Box::new(MultiGzDecoder::new(from)));
    }
    if begin.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
        return Ok(Box::new(crate::zstd::Frames::new(from)));
    }
    Ok(Box::new(from))
}

/// Extracts all entries of the layer called `layer` into `tree`.
pub(crate) fn apply(
    from: &mut dyn Read,
    tree: &mut Tree,
    layer: &str,
    budget: &Budget,
) -> Result<(), Fault> {
    let limit = HeaderLimit::default();
    let mut archive = tar::Archive::new(limit.reader(from));
    let damaged = |count: u64, error: io::Error| {
        Fault::damaged(layer, format!("after {count} entries: {error}"))
    };
    let mut count = 0;
    let mut entries = archive.entries().map_err(|error| damaged(count, error))?;
    loop {
        limit.before_entry();
        let Some(entry) = entries.next() else { break };
        let mut entry = entry.map_err(|error| damaged(count, error))?;
        limit.within_entry();
        count += 1;
        budget.add_entry().map_err(|error| damaged(count, error))?;
        let name = entry.path_bytes().into_owned();
        let shown = String::from_utf8_lossy(&name).into_owned();
        match place(&mut entry, &name, tree, budget) {
            Ok(()) => {}
            Err(EntryError::Refused(why)) => {
                return Err(Fault::Refused { layer: layer.to_owned(), entry: shown, why });
            }
            Err(EntryError::Damaged(error)) => {
                return Err(Fault::damaged(layer, format!("entry {count} (`{shown}`): {error}")));
            }
            Err(EntryError::Disk(source)) => {
                return Err(Fault::Cache { action: format!("unpack `{shown}`"), source });
            }
        }
        // Content that entries of this kind do not have: it must not count among the next one's headers.
        io::copy(&mut entry, &mut io::sink()).map_err(|error| damaged(count, error))?;
    }
    limit.within_entry();
    tree.finish().map_err(Fault::cache("set the times of folders"))
}

fn place<R: Read>(
    entry: &mut Entry<'_, R>,
    name: &[u8],
    tree: &mut Tree,
    budget: &Budget,
) -> Result<(), EntryError> {
    let kind = entry.header().entry_type();
    // Comments of tools such as git.
    if matches!(kind, EntryType::XGlobalHeader) {
        return Ok(());
    }
    let path = within(name, "its name")?;
    let Some(file) = path.file_name().map(OsStrExt::as_bytes) else {
        // The root folder itself: its mode is kept as it is.
        return Ok(());
    };
    let folder = path.parent().unwrap_or(Path::new(""));
    if file == OPAQUE {
        return tree.clear(folder);
    }
    if file.starts_with(MARKER) {
        return Ok(());
    }
    if let Some(gone) = file.strip_prefix(WHITEOUT) {
        if matches!(gone, b"" | b"." | b"..") {
            return Err(EntryError::Refused("a whiteout without a name".to_owned()));
        }
        return tree.remove(&folder.join(text(gone)));
    }
    let link = entry.link_name_bytes().map(|link| link.into_owned());
    let link = || {
        let none = || EntryError::Refused("a link without a target".to_owned());
        link.clone().filter(|link| !link.is_empty() && !link.contains(&0)).ok_or_else(none)
    };
    let bad = |error| EntryError::Damaged(error);
    let header = entry.header();
    let metadata = Metadata {
        mode: header.mode().map_err(bad)? & 0o7777,
        // u32::MAX means "do not change" to chown(2).
        uid: header.uid().map_err(bad)?.min(u64::from(u32::MAX - 1)) as u32,
        gid: header.gid().map_err(bad)?.min(u64::from(u32::MAX - 1)) as u32,
        mtime: header.mtime().map_err(bad)?.min(i64::MAX as u64) as i64,
    };
    match kind {
        EntryType::Directory => tree.folder(&path, metadata),
        EntryType::Symlink => tree.symlink(&path, &text(&link()?), metadata),
        EntryType::Link => tree.hard_link(&path, &within(&link()?, "the target of the link")?),
        EntryType::Fifo => tree.fifo(&path, metadata),
        // Most root file systems have device nodes, `/dev/console` at least. They are left
        // out: they would give access to this machine's hardware, and each node has a
        // separate `/dev`.
        EntryType::Char | EntryType::Block => tree.skip(&path),
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
            let capability = capability(entry).map_err(EntryError::Damaged)?;
            tree.file(&path, metadata, &mut budget.of_file(entry), capability.as_deref())
        }
        _ => Err(EntryError::Refused("of a kind that images do not support".to_owned())),
    }
}

/// The file's capabilities (capabilities(7)), from the PAX headers.
fn capability<R: Read>(entry: &mut Entry<'_, R>) -> io::Result<Option<Vec<u8>>> {
    let Some(extensions) = entry.pax_extensions()? else { return Ok(None) };
    for extension in extensions {
        let extension = extension?;
        if extension.key_bytes() == b"SCHILY.xattr.security.capability" {
            return Ok(Some(extension.value_bytes().to_vec()));
        }
    }
    Ok(None)
}

fn text(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// `name` as a path relative to the root. `what` says what the name is, for messages.
fn within(name: &[u8], what: &str) -> Result<PathBuf, EntryError> {
    if name.first() == Some(&b'/') {
        return Err(EntryError::Refused(format!(
            "and {what} is absolute: it would leave the root"
        )));
    }
    let mut path = PathBuf::new();
    for part in name.split(|byte| *byte == b'/') {
        match part {
            b"" | b"." => {}
            b".." => {
                let why = format!("and {what} has `..` in it: it would leave the root");
                return Err(EntryError::Refused(why));
            }
            part if part.contains(&0) => {
                return Err(EntryError::Refused(format!("and {what} has a zero byte in it")));
            }
            part => path.push(text(part)),
        }
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_within() {
        assert_eq!(within(b"./etc//passwd", "").unwrap(), Path::new("etc/passwd"));
        assert_eq!(within(b"./", "").unwrap(), Path::new(""));
        for bad in [&b"/etc/passwd"[..], b"a/../../b", b"..", b"a\0b"] {
            assert!(matches!(within(bad, "its name"), Err(EntryError::Refused(_))), "{bad:?}");
        }
    }
}
