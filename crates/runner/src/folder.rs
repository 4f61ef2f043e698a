//! The run folder: the files that a finished run writes.

use crate::error::Error;
use experiment::Plan;
use journal::Contents;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The folder of one run.
#[derive(Debug)]
pub struct Folder(PathBuf);

/// Creates `<out>/<experiment>/<time>-<seed>` for a sweep.
///
/// # Errors
/// When it cannot be created.
pub fn sweep_folder(out: &Path, experiment: &str, seed: u64) -> Result<PathBuf, Error> {
    let now = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let time: String = now.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    let parent = out.join(experiment);
    fs::create_dir_all(&parent).map_err(Error::write(&parent))?;
    // Two sweeps within a second get separate folders.
    for n in 0.. {
        let again = if n == 0 { String::new() } else { format!("-{n}") };
        let path = parent.join(format!("{time}-{seed}{again}"));
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::write(&path)(error)),
        }
    }
    unreachable!("a free number is found")
}

impl Folder {
    /// Creates the folder of one run.
    ///
    /// # Errors
    /// When it cannot be created or exists already.
    pub fn make(path: PathBuf) -> Result<Self, Error> {
        fs::create_dir(&path).map_err(Error::write(&path))?;
        Ok(Self(path))
    }

    /// Uses an existing folder without results.
    pub fn take(path: PathBuf) -> Self {
        Self(path)
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn write_plan(&self, plan: &Plan) -> Result<(), Error> {
        self.json("plan.json", &json!(plan))
    }

    /// The folder of the programs' own files.
    pub(crate) fn programs(&self) -> Result<PathBuf, Error> {
        let path = self.0.join("programs");
        fs::create_dir(&path).map_err(Error::write(&path))?;
        // Programs start elsewhere, so their files need absolute paths.
        fs::canonicalize(&path).map_err(Error::write(&path))
    }

    /// All files of the run so far.
    pub(crate) fn contents(&self) -> Result<Contents, Error> {
        let mut contents = Contents::default();
        for path in files_below(&self.0)? {
            let Some(name) = path.strip_prefix(&self.0).ok().and_then(Path::to_str) else {
                continue;
            };
            if is_of_sweep(name) {
                continue;
            }
            let added = match is_auxiliary(name) {
                true => contents.add_auxiliary(&self.0, name),
                false => contents.add(&self.0, name),
            };
            added.map_err(Error::write(&path))?;
        }
        Ok(contents)
    }

    pub(crate) fn json(&self, name: &str, value: &Value) -> Result<(), Error> {
        let path = self.0.join(name);
        let text = serde_json::to_string_pretty(value).unwrap_or_default() + "\n";
        journal::write(&path, text).map_err(Error::write(&path))
    }
}

/// Files of a sweep, whose folder is also that of its only run.
fn is_of_sweep(name: &str) -> bool {
    // Drafts and locks of the sweep begin with a dot.
    let own = ["experiment.yaml", "reference.json", "expect.json", "report.html", "host.json"];
    name.starts_with('.') || name.starts_with("slurm/") || own.contains(&name)
}

/// Files that no figure depends on: captures, decisions, programs' output.
fn is_auxiliary(name: &str) -> bool {
    let own = ["capture.pcapng", "decisions.parquet"];
    name.starts_with("programs/") || own.contains(&name)
}

/// The regular files below a folder, in order.
fn files_below(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let (mut found, mut todo) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(next) = todo.pop() {
        for entry in fs::read_dir(&next).map_err(Error::write(&next))? {
            let entry = entry.map_err(Error::write(&next))?;
            let kind = entry.file_type().map_err(Error::write(&next))?;
            let path = entry.path();
            match (kind.is_dir(), kind.is_file()) {
                (true, _) => todo.push(path),
                (_, true) => found.push(path),
                // A symbolic link of a program may lead anywhere; a FIFO would block its reader.
                _ => {}
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_of_one_second_have_folders_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        // More than fit into a second's name.
        let folders: Vec<_> = (0..3).map(|_| sweep_folder(dir.path(), "e", 7).unwrap()).collect();
        let distinct: std::collections::BTreeSet<_> = folders.iter().collect();
        assert_eq!(distinct.len(), 3, "{folders:?}");
        assert!(folders.iter().all(|folder| folder.is_dir()));
    }

    #[test]
    fn the_list_of_files_has_those_of_the_run_and_checksums_of_what_figures_depend_on() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::make(dir.path().join("run")).unwrap();
        let programs = folder.programs().unwrap();
        for name in ["summary.json", "decisions.parquet", "experiment.yaml", ".summary.json.draft"]
        {
            fs::write(folder.path().join(name), "x").unwrap();
        }
        fs::write(programs.join("a.out"), "text").unwrap();
        let contents = folder.contents().unwrap();
        let listed: Vec<_> =
            contents.iter().map(|(name, entry)| (name.to_owned(), entry.crc32.is_some())).collect();
        let expected =
            [("decisions.parquet", false), ("programs/a.out", false), ("summary.json", true)];
        assert_eq!(listed, expected.map(|(name, sum)| (name.to_owned(), sum)));
        assert!(Folder::make(folder.path().to_owned()).is_err(), "another run would mix with it");
    }
}
