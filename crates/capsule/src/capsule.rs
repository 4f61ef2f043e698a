//! A capsule, unpacked.

use crate::archive;
use crate::manifest::{BLOBS, EXPECTED, HOME, Manifest, digest};
use experiment::Cell;
use guest::{Entry, Image};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use tempfile::TempDir;

/// The ending of a capsule's name.
pub const ENDING: &str = "capsule";

/// Size limit of one guest's files, in bytes.
const MOST_FILES_BYTES: u64 = 16 << 30;

/// An unpacked capsule. Drop removes its folder.
#[derive(Debug)]
pub struct Capsule {
    /// The capsule file.
    pub path: PathBuf,
    folder: TempDir,
    /// What it contains.
    pub manifest: Manifest,
}

/// Whether `path` names a capsule, by its extension.
pub fn is_capsule(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == ENDING)
}

impl Capsule {
    /// Creates an empty capsule for the file `path`, unpacked in a folder next to it.
    ///
    /// # Errors
    /// When the folder cannot be created.
    pub fn new(path: &Path, manifest: Manifest) -> io::Result<Self> {
        let parent = match path.parent() {
            Some(parent) if parent != Path::new("") => parent,
            _ => Path::new("."),
        };
        let folder = tempfile::Builder::new().prefix(".thingbed-capsule-").tempdir_in(parent)?;
        for name in [HOME, BLOBS, EXPECTED] {
            fs::create_dir(folder.path().join(name))?;
        }
        Ok(Self { path: path.to_owned(), folder, manifest })
    }

    /// Unpacks the file at `path`.
    ///
    /// # Errors
    /// A message that says what is wrong with the capsule.
    pub fn open(path: &Path) -> Result<Self, String> {
        Self::open_in(path, &std::env::temp_dir())
    }

    /// Unpacks the file at `path` into a new folder in `parent`.
    ///
    /// # Errors
    /// A message that says what is wrong with the capsule.
    pub fn open_in(path: &Path, parent: &Path) -> Result<Self, String> {
        let failed = |why: String| format!("could not read the capsule {}: {why}", path.display());
        let file = input::open(path, input::ANY_SIZE).map_err(|error| failed(error.to_string()))?;
        let place = parent.join("any");
        let mut capsule =
            Self::new(&place, Manifest::default()).map_err(|error| failed(error.to_string()))?;
        capsule.path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        archive::unpack(file, capsule.folder.path()).map_err(failed)?;
        capsule.manifest = Manifest::read(capsule.folder.path()).map_err(failed)?;
        capsule.check_sizes().map_err(failed)?;
        capsule.restore_home().map_err(|error| failed(error.to_string()))?;
        Ok(capsule)
    }

    /// Checks that each guest's files fit into memory: one file may have many names.
    fn check_sizes(&self) -> Result<(), String> {
        let blobs = self.folder.path().join(BLOBS);
        for run in &self.manifest.runs {
            let mut sum = 0_u64;
            for entry in run.image.entries() {
                sum = sum.saturating_add(match entry {
                    Entry::Copy(from, _) => {
                        fs::metadata(blobs.join(from)).map_or(0, |found| found.len())
                    }
                    Entry::Text(bytes, _) => bytes.len() as u64,
                    Entry::Folder | Entry::Link(_) => 0,
                });
            }
            if sum > MOST_FILES_BYTES {
                return Err(format!(
                    "the files of a guest take {} GiB, more than {}",
                    sum >> 30,
                    MOST_FILES_BYTES >> 30
                ));
            }
        }
        Ok(())
    }

    /// The experiment file.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join(HOME).join(&self.manifest.file)
    }

    /// The folder with the experiment file.
    pub fn home(&self) -> Option<PathBuf> {
        fs::canonicalize(self.folder.path().join(HOME)).ok()
    }

    /// The image of a run, with the paths of files on this host.
    pub fn image(&self, cell: &Cell, repeat: u32) -> Option<Image> {
        let found = self.number(cell, repeat)?;
        let mut image = self.manifest.runs[found].image.clone();
        for source in image.sources() {
            *source = self.folder.path().join(BLOBS).join(&*source);
        }
        Some(image)
    }

    fn number(&self, cell: &Cell, repeat: u32) -> Option<usize> {
        self.manifest.runs.iter().position(|run| run.cell == *cell && run.repeat == repeat)
    }

    /// Whether the capsule has a run of `cell` (without its CPU) among `repeats`.
    pub fn has(&self, cell: &Cell, repeats: &Range<u32>) -> bool {
        let runs = self.manifest.runs.iter().filter(|run| repeats.contains(&run.repeat));
        runs.map(|run| run.cell.without_cpu()).any(|own| own == *cell)
    }

    /// Adds a file of the host to the capsule; returns its name there.
    ///
    /// # Errors
    /// When the file cannot be read or copied.
    pub fn take(&self, from: &Path) -> io::Result<PathBuf> {
        let name = digest(input::open(from, input::ANY_SIZE)?)?;
        let to = self.folder.path().join(BLOBS).join(&name);
        // Runs share most of their files.
        if !to.exists() {
            fs::copy(from, &to)?;
        }
        Ok(PathBuf::from(name))
    }

    /// Records the results of a run: digests of its files, which are at `paths` in `folder`, and the
    /// figures.
    ///
    /// # Errors
    /// When a file cannot be read or copied.
    pub fn expect(
        &mut self,
        number: usize,
        folder: &Path,
        paths: impl IntoIterator<Item = PathBuf>,
    ) -> io::Result<()> {
        let own = self.folder.path().join(EXPECTED).join(number.to_string());
        fs::create_dir_all(&own)?;
        for path in paths {
            let from = folder.join(&path);
            // Figures are kept as a whole, to name the first that differs; of tables the digest is
            // enough.
            if path.extension().is_some_and(|ending| ending == "json")
                && path.components().count() == 1
            {
                fs::copy(&from, own.join(&path))?;
            }
            let sum = digest(File::open(&from)?)?;
            self.manifest.runs[number].expected.insert(path, sum);
        }
        Ok(())
    }

    /// The recorded figures file of a run.
    pub fn figures(&self, number: usize, name: &Path) -> Option<Value> {
        let path = self.folder.path().join(EXPECTED).join(number.to_string()).join(name);
        serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
    }

    /// Writes the capsule file.
    ///
    /// # Errors
    /// When the file cannot be written; an existing one stays then.
    pub fn write(&self) -> io::Result<()> {
        self.manifest.write(self.folder.path())?;
        let parent = self.path.parent().filter(|parent| *parent != Path::new(""));
        // Written under another name, so that a capsule is complete when it has its name.
        let mut out = tempfile::NamedTempFile::new_in(parent.unwrap_or(Path::new(".")))?;
        archive::pack(self.folder.path(), &mut out)?;
        out.flush()?;
        out.as_file().sync_all()?;
        out.persist(&self.path).map_err(|error| error.error)?;
        // Temporary files are for their user only; a capsule is made to be passed on.
        fs::set_permissions(&self.path, fs::Permissions::from_mode(0o644))
    }

    /// Copies the files that the experiment file names into the folder of the experiment file:
    /// the host parses it, too, and refuses it without them.
    ///
    /// # Errors
    /// When a file cannot be linked or copied.
    pub fn restore_home(&self) -> io::Result<()> {
        let home = self.folder.path().join(HOME);
        for run in &self.manifest.runs {
            for (path, entry) in &run.image.files {
                let Ok(inside) = path.strip_prefix(&self.manifest.home) else { continue };
                if !inside.components().all(|part| matches!(part, Component::Normal(_))) {
                    continue;
                }
                let to = home.join(inside);
                match entry {
                    Entry::Folder => fs::create_dir_all(&to)?,
                    Entry::Copy(from, _) if !to.exists() => {
                        to.parent().map_or(Ok(()), fs::create_dir_all)?;
                        let blob = self.folder.path().join(BLOBS).join(from);
                        // A link costs no space; file systems without links get a copy.
                        fs::hard_link(&blob, &to).or_else(|_| fs::copy(&blob, &to).map(drop))?;
                    }
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "capsule_tests.rs"]
mod tests;
