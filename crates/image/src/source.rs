//! Access to an image's files by name, in a folder or in a tar file that is read in place.

use crate::error::Fault;
use input::HeaderLimit;
use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Take};
use std::path::{Component, Path, PathBuf};

/// The largest manifest or configuration that is read, in bytes.
const MAX_TEXT: u64 = 16 << 20;
/// The maximum number of entries of an archive; no real image has more.
// Bounds the memory for the index of a hostile archive.
const MAX_ENTRIES: usize = 100_000;
/// The maximum length of a name in an archive, in bytes: PATH_MAX of Linux.
const MAX_NAME: usize = 4_096;

/// Where the files are.
#[derive(Debug)]
pub(crate) enum Source {
    Folder(PathBuf),
    Tar { path: PathBuf, locations: HashMap<String, Location> },
}

/// The location of a file in a tar file.
#[derive(Debug, Clone)]
pub(crate) enum Location {
    Bytes {
        start: u64,
        len: u64,
    },
    /// `docker save` writes a layer that two images share once, and links to it.
    Link(String),
}

impl Source {
    pub fn open(path: &Path) -> Result<Self, Fault> {
        if path.is_dir() {
            return Ok(Self::Folder(path.to_owned()));
        }
        let mut file = input::open(path, input::ANY_SIZE).map_err(Fault::Unreadable)?;
        let mut magic = [0; 4];
        let _ = file.read_exact(&mut magic);
        // Entries of a compressed archive cannot be found without reading all of it (decision 15).
        if magic[..2] == [0x1f, 0x8b] || magic == [0x28, 0xb5, 0x2f, 0xfd] {
            return Err(Fault::NoImage(
                "the archive itself is compressed: decompress it (gunzip, unzstd); only its \
                 layers may be compressed",
            ));
        }
        file.seek(SeekFrom::Start(0)).map_err(Fault::Unreadable)?;
        let locations = index(file)?;
        Ok(Self::Tar { path: path.to_owned(), locations })
    }

    pub fn has(&self, name: &str) -> bool {
        match self {
            Self::Folder(dir) => plain(name).is_some_and(|name| dir.join(name).is_file()),
            Self::Tar { locations, .. } => locations.contains_key(name),
        }
    }

    /// Opens the file called `name` at its beginning. None when it does not exist.
    pub fn file(&self, name: &str) -> std::io::Result<Option<Take<File>>> {
        match self {
            Self::Folder(dir) => {
                let Some(name) = plain(name) else { return Ok(None) };
                // A folder may have a pipe of this name, at which a plain open would wait.
                match input::open(&dir.join(name), input::ANY_SIZE) {
                    Ok(file) => Ok(Some(file.take(u64::MAX))),
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
                    Err(error) => Err(error),
                }
            }
            Self::Tar { path, locations } => {
                let mut name = name.to_owned();
                // A link may lead to another link. The limit ends loops of links.
                for _ in 0..8 {
                    match locations.get(&name) {
                        None => return Ok(None),
                        Some(Location::Link(to)) => name = to.clone(),
                        Some(Location::Bytes { start, len }) => {
                            let mut file = input::open(path, input::ANY_SIZE)?;
                            file.seek(SeekFrom::Start(*start))?;
                            return Ok(Some(file.take(*len)));
                        }
                    }
                }
                Ok(None)
            }
        }
    }

    /// The content of a small file.
    ///
    /// # Errors
    /// When it is missing, damaged or larger than [`MAX_TEXT`].
    pub fn text(&self, name: &str) -> Result<Vec<u8>, Fault> {
        let file = self.file(name).map_err(|error| Fault::damaged(name, error))?;
        let file = file.ok_or_else(|| Fault::damaged(name, "it is missing from the archive"))?;
        let mut text = Vec::new();
        let mut file = file.take(MAX_TEXT + 1);
        file.read_to_end(&mut text).map_err(|error| Fault::damaged(name, error))?;
        if text.len() as u64 > MAX_TEXT {
            return Err(Fault::damaged(name, "it is over 16 MiB"));
        }
        Ok(text)
    }
}

/// The name as a path, if it stays within its folder.
fn plain(name: &str) -> Option<&Path> {
    let path = Path::new(name);
    path.components().all(|part| matches!(part, Component::Normal(_))).then_some(path)
}

/// The location of each file in a tar file. Contents are skipped, not read.
fn index(file: File) -> Result<HashMap<String, Location>, Fault> {
    let length = file.metadata().map_err(Fault::Unreadable)?.len();
    let mut locations = HashMap::new();
    let limit = HeaderLimit::default();
    let mut archive = tar::Archive::new(limit.reader(file));
    let damaged = |locations: &HashMap<_, _>, why: String| match locations.len() {
        0 => Fault::NoImage("it is not a tar file, or it is damaged at the start"),
        count => Fault::damaged(format!("the archive, after {count} entries,"), why),
    };
    let entries = archive.entries_with_seek();
    let mut entries = entries.map_err(|error| damaged(&locations, error.to_string()))?;
    loop {
        limit.before_entry();
        let Some(entry) = entries.next() else { break };
        let entry = entry.map_err(|error| damaged(&locations, error.to_string()))?;
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        // Some tools write `./` before each name.
        let name = name.trim_start_matches("./").to_owned();
        if name.len() > MAX_NAME {
            let why =
                format!("an entry's name has {} bytes, and at most {MAX_NAME} can be", name.len());
            return Err(damaged(&locations, why));
        }
        let kind = entry.header().entry_type();
        let (start, len) = (entry.raw_file_position(), entry.size());
        // Checked now, since the content is skipped: a truncated archive would be noticed only in
        // the middle of unpacking.
        if start.saturating_add(len) > length {
            let why = format!(
                "`{name}` should end at byte {}, and the file ends at {length}",
                start.saturating_add(len)
            );
            return Err(damaged(&locations, why));
        }
        if locations.len() >= MAX_ENTRIES {
            return Err(damaged(&locations, "more entries than an image has".to_owned()));
        }
        let place = match entry.link_name_bytes() {
            Some(to) if to.len() <= MAX_NAME && (kind.is_symlink() || kind.is_hard_link()) => {
                Location::Link(link_target(&name, &String::from_utf8_lossy(&to), kind.is_symlink()))
            }
            _ if kind.is_file() => Location::Bytes { start, len },
            _ => continue,
        };
        locations.insert(name, place);
    }
    if locations.is_empty() {
        return Err(Fault::NoImage("the archive is empty"));
    }
    Ok(locations)
}

/// The name that a link of `name` to `to` leads to. A symbolic link is relative to its
/// folder.
fn link_target(name: &str, to: &str, symbolic: bool) -> String {
    let mut parts: Vec<&str> = match name.rsplit_once('/') {
        Some((folder, _)) if symbolic => folder.split('/').collect(),
        _ => Vec::new(),
    };
    for part in to.split('/') {
        match part {
            "" | "." => {}
            // Above the top there is nothing: names are keys of the index and no paths.
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_names() {
        assert_eq!(link_target("a/layer.tar", "../b/layer.tar", true), "b/layer.tar");
        assert_eq!(link_target("a/layer.tar", "b/layer.tar", false), "b/layer.tar");
        assert_eq!(link_target("layer.tar", "../../etc/passwd", true), "etc/passwd");
    }

    #[test]
    fn a_name_in_a_folder_does_not_leave_it() {
        assert!(plain("blobs/sha256/00").is_some());
        assert!(plain("../secret").is_none());
        assert!(plain("/etc/passwd").is_none());
    }
}
