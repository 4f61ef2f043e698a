//! The capsule's manifest: its file `capsule.json`.

use experiment::{Cell, Cpu};
use guest::{Entry, Image};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

/// The folder for the files of the experiment, at the paths that the experiment file names.
pub const HOME: &str = "home";
/// The folder for the files of the guests, named by digest.
pub(crate) const BLOBS: &str = "blobs";
/// The folder for the expected figures of runs, by number.
pub(crate) const EXPECTED: &str = "expected";

/// The file's name.
const NAME: &str = "capsule.json";
/// The format version of capsules that this program writes and reads.
pub const FORMAT: u32 = 1;
/// Size limit of the manifest in bytes.
const MOST_TEXT_BYTES: u64 = 256 << 20;
/// Limit of a guest's memory in bytes; Thingbed creates no larger guests.
const MOST_BYTES: u64 = 64 << 30;

/// The manifest.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: u32,
    /// Version of the Thingbed that made the capsule and that runs in its guests.
    pub thingbed: String,
    /// Its commit.
    pub commit: String,
    /// The version of QEMU that executed its runs.
    #[serde(default)]
    pub emulator: Option<String>,
    /// The experiment's name.
    pub experiment: String,
    /// The name of the experiment file.
    pub file: PathBuf,
    /// Its original folder.
    pub home: PathBuf,
    /// The seed of all runs.
    pub seed: u64,
    /// Runs of each cell.
    pub repeats: u32,
    /// The CPUs of the runs' guests.
    pub cpu: Vec<Cpu>,
    /// The runs, in the order of their numbers.
    pub runs: Vec<Packed>,
}

/// One run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Packed {
    /// Its values of the axes.
    pub cell: Cell,
    /// Its number among the runs of the cell.
    pub repeat: u32,
    /// The guest's image; its files are digests.
    pub image: Image,
    /// SHA-256 of each file of its folder.
    pub expected: BTreeMap<PathBuf, String>,
}

impl Manifest {
    /// Reads and validates the manifest of the capsule in `folder`.
    ///
    /// # Errors
    /// A message that says what is wrong with it.
    pub fn read(folder: &Path) -> Result<Self, String> {
        let path = folder.join(NAME);
        if fs::metadata(&path).is_ok_and(|found| found.len() > MOST_TEXT_BYTES) {
            return Err(format!("its {NAME} has more than {} MiB", MOST_TEXT_BYTES >> 20));
        }
        let text =
            fs::read_to_string(path).map_err(|error| format!("it has no {NAME}: {error}"))?;
        let manifest: Self = serde_json::from_str(&text).map_err(|error| {
            format!(
                "its {NAME} is damaged, or from another version of Thingbed (this is {}): {error}",
                env!("CARGO_PKG_VERSION")
            )
        })?;
        if manifest.format != FORMAT {
            return Err(format!(
                "it has format {}, and this version of Thingbed reads format {FORMAT}\n  use Thingbed {}",
                manifest.format, manifest.thingbed
            ));
        }
        manifest.check()?;
        Ok(manifest)
    }

    /// Writes the manifest of the capsule in `folder`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        fs::write(folder.join(NAME), serde_json::to_vec(self)?)
    }

    /// Validates the manifest, which may be hostile: no path in it may leave the capsule.
    fn check(&self) -> Result<(), String> {
        let plain = |path: &Path| path.components().count() == 1 && is_inside(path);
        if !plain(&self.file) {
            return Err(format!("`{}` is no file name", self.file.display()));
        }
        if self.cpu.is_empty() || self.cpu.iter().any(|cpu| cpu.is_infinite()) {
            return Err("it has no CPU of finite speed, which a capsule needs".to_owned());
        }
        for run in &self.runs {
            let copies = run.image.entries().filter_map(|entry| match entry {
                Entry::Copy(from, _) => Some(from),
                _ => None,
            });
            for name in copies.chain([&run.image.kernel]) {
                let digits = name.to_string_lossy();
                // They become names in the folder of the capsule.
                if digits.len() != 64 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                    return Err(format!("`{digits}` is no digest"));
                }
            }
            if let Some(name) = run.expected.keys().find(|name| !is_inside(name)) {
                return Err(format!("`{}` is no file of a run", name.display()));
            }
            if run.image.memory_bytes > MOST_BYTES {
                return Err(format!(
                    "a guest of it asks for too much memory: {} B",
                    run.image.memory_bytes
                ));
            }
            if run
                .cell
                // They become names of the folders of runs.
                .axes()
                .any(|(axis, value)| [axis, value].iter().any(|t| t.contains(['/', '\0'])))
            {
                return Err("a cell of it has a name that is not a file name".to_owned());
            }
        }
        match self.runs.is_empty() {
            true => Err("it has no runs".to_owned()),
            false => Ok(()),
        }
    }
}

/// Whether a path stays in the folder that it is relative to.
fn is_inside(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_)))
}

/// SHA-256 of the whole input, in hexadecimal digits.
///
/// # Errors
/// When the input cannot be read.
pub fn digest(mut from: impl Read) -> io::Result<String> {
    let mut sum = Sha256::new();
    let mut buffer = vec![0; 1 << 16];
    loop {
        match from.read(&mut buffer)? {
            0 => break,
            length => sum.update(&buffer[..length]),
        }
    }
    Ok(sum.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

#[cfg(test)]
#[path = "manifest_tests.rs"]
mod tests;
