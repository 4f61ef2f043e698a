//! The list of a run's files, with which a reader notices what is missing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// Size and checksum of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Entry {
    /// Length in bytes.
    pub bytes: u64,
    /// CRC-32 (IEEE 802.3, as of zlib) of its bytes; `None` for auxiliary files, which may be
    /// large.
    #[serde(default)]
    pub crc32: Option<u32>,
}

/// The files of a run, by their path below its folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Contents(BTreeMap<String, Entry>);

/// How a file differs from the list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// It does not exist, or cannot be read.
    #[error("{name} is missing or unreadable: {why}")]
    Unreadable {
        /// Its path below the folder.
        name: String,
        /// The system's error.
        why: String,
    },
    /// It has another length.
    #[error("{name} has {found} B instead of {bytes} B")]
    Length {
        /// Its path below the folder.
        name: String,
        /// Its length in bytes.
        found: u64,
        /// Its length at the end of the run, in bytes.
        bytes: u64,
    },
    /// Its bytes are not those of the run.
    #[error("{name} has other bytes than at the end of the run")]
    Bytes {
        /// Its path below the folder.
        name: String,
    },
}

impl Contents {
    /// Adds a file with its checksum, and waits until it is on the disk.
    ///
    /// # Errors
    /// When it cannot be read or synced.
    pub fn add(&mut self, folder: &Path, name: &str) -> io::Result<()> {
        let path = folder.join(name);
        crate::sync(&path)?;
        let (bytes, crc32) = checksum(&path)?;
        self.0.insert(name.to_owned(), Entry { bytes, crc32: Some(crc32) });
        Ok(())
    }

    /// Adds an auxiliary file, without a checksum, and waits until it is on the disk. A reader may
    /// remove such a file, and a program may still add to it.
    ///
    /// # Errors
    /// When it cannot be read or synced.
    pub fn add_auxiliary(&mut self, folder: &Path, name: &str) -> io::Result<()> {
        let path = folder.join(name);
        crate::sync(&path)?;
        let bytes = fs::metadata(&path)?.len();
        self.0.insert(name.to_owned(), Entry { bytes, crc32: None });
        Ok(())
    }

    /// The files and their entries.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.0.iter().map(|(name, entry)| (name.as_str(), entry))
    }

    /// All files in `folder` that differ from the list.
    pub fn damage(&self, folder: &Path) -> Vec<Damage> {
        self.iter().filter_map(|(name, entry)| entry.damage(folder, name)).collect()
    }
}

impl Entry {
    /// How the file in `folder` differs from the entry.
    fn damage(&self, folder: &Path, name: &str) -> Option<Damage> {
        let path = folder.join(name);
        let own = || name.to_owned();
        let unreadable =
            |error: io::Error| Some(Damage::Unreadable { name: own(), why: error.to_string() });
        let found = match fs::metadata(&path) {
            Ok(file) => file.len(),
            // The user may delete a capture to save space.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.crc32.is_none() => {
                return None;
            }
            Err(error) => return unreadable(error),
        };
        let is_damaged = match self.crc32 {
            Some(_) => found != self.bytes,
            None => found < self.bytes,
        };
        if is_damaged {
            return Some(Damage::Length { name: own(), found, bytes: self.bytes });
        }
        let expected = self.crc32?;
        match checksum(&path) {
            Ok((_, actual)) if actual == expected => None,
            Ok(_) => Some(Damage::Bytes { name: own() }),
            Err(error) => unreadable(error),
        }
    }
}

/// Length and CRC-32 of a file, in constant memory.
fn checksum(path: &Path) -> io::Result<(u64, u32)> {
    let mut file = File::open(path)?;
    let mut hasher = crc32fast::Hasher::new();
    let mut buffer = vec![0; 1 << 16];
    let mut bytes = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((bytes, hasher.finalize())),
            read => {
                hasher.update(&buffer[..read]);
                bytes += read as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, Contents) {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("table"), "rows").unwrap();
        fs::write(dir.path().join("capture"), "frames").unwrap();
        let mut contents = Contents::default();
        contents.add(dir.path(), "table").unwrap();
        contents.add_auxiliary(dir.path(), "capture").unwrap();
        (dir, contents)
    }

    #[test]
    fn each_cut_and_each_other_byte_is_damage() {
        let (dir, contents) = folder();
        assert_eq!(contents.damage(dir.path()), []);
        for length in 0..4 {
            fs::write(dir.path().join("table"), &"rows"[..length]).unwrap();
            let found = length as u64;
            let damage = Damage::Length { name: "table".to_owned(), found, bytes: 4 };
            assert_eq!(contents.damage(dir.path()), [damage]);
        }
        fs::write(dir.path().join("table"), "r0ws").unwrap();
        assert_eq!(contents.damage(dir.path()), [Damage::Bytes { name: "table".to_owned() }]);
        fs::remove_file(dir.path().join("table")).unwrap();
        assert!(matches!(&contents.damage(dir.path())[..], [Damage::Unreadable { .. }]));
    }

    #[test]
    fn auxiliary_files_may_go_and_grow_but_not_be_cut() {
        let (dir, contents) = folder();
        let path = dir.path().join("capture");
        fs::write(&path, "frames and more").unwrap();
        assert_eq!(contents.damage(dir.path()), []);
        fs::write(&path, "frame").unwrap();
        assert_eq!(contents.damage(dir.path()).len(), 1);
        fs::remove_file(&path).unwrap();
        assert_eq!(contents.damage(dir.path()), []);
    }

    #[test]
    fn the_list_reads_back() {
        let (_dir, contents) = folder();
        let text = serde_json::to_string(&contents).unwrap();
        // Source of the checksum: Python's zlib.crc32(b"rows").
        assert_eq!(
            text,
            r#"{"capture":{"bytes":6,"crc32":null},"table":{"bytes":4,"crc32":176944289}}"#
        );
        assert_eq!(serde_json::from_str::<Contents>(&text).unwrap(), contents);
    }
}
