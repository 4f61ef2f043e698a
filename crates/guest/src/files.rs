//! The files of a guest with its own file system, by their paths on the host.

use crate::libraries::Libraries;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, FileType};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

/// Maximum number of symbolic links in one path, as in Linux; more are a loop.
const LINKS: usize = 40;
/// Maximum length in bytes of a script's interpreter line, as in Linux.
const SHEBANG_BYTES: usize = 256;

/// A file system entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// A folder.
    Folder,
    /// A copy of this file of the host, with this mode.
    Copy(PathBuf, u32),
    /// A file with this content and mode.
    Text(Vec<u8>, u32),
    /// A symbolic link to this target.
    Link(PathBuf),
}

/// Entries by path; the parent folders of each entry are also entries.
#[derive(Debug, Default)]
pub(crate) struct Files {
    pub entries: BTreeMap<PathBuf, Entry>,
    /// The folders that were added with their whole content, not only as parents of a file.
    whole: BTreeSet<PathBuf>,
    libraries: Libraries,
}

impl Files {
    /// Adds the file, or the folder with its content, at the absolute `path` of the host. Keeps
    /// symbolic links in the path as links. For programs, also adds the libraries and
    /// interpreters that they name. A path that does not exist adds nothing.
    ///
    /// # Errors
    /// When an existing file cannot be read.
    pub fn add(&mut self, path: &Path) -> io::Result<()> {
        let Some(real) = self.links_of(path)? else { return Ok(()) };
        let found = match fs::metadata(&real) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(about(&real, error)),
        };
        if found.is_dir() {
            return self.folder(&real);
        }
        // Added before: symbolic links may form loops, and many programs need one library.
        if !found.is_file() || matches!(self.entries.get(&real), Some(Entry::Copy(..))) {
            return Ok(());
        }
        let mode = found.permissions().mode() & 0o777;
        self.put(&real, Entry::Copy(real.clone(), mode));
        let needed = self.needed(&real).map_err(|error| about(&real, error))?;
        needed.iter().try_for_each(|path| self.add(path))
    }

    /// Puts an entry at `path`, and adds its parent folders.
    pub fn put(&mut self, path: &Path, entry: Entry) {
        for folder in path.ancestors().skip(1).filter(|folder| folder.parent().is_some()) {
            self.entries.entry(folder.to_owned()).or_insert(Entry::Folder);
        }
        self.entries.insert(path.to_owned(), entry);
    }

    fn folder(&mut self, path: &Path) -> io::Result<()> {
        // A folder that is in itself, by a link, ends here.
        if !self.whole.insert(path.to_owned()) {
            return Ok(());
        }
        self.put(path, Entry::Folder);
        let entries = fs::read_dir(path).map_err(|error| about(path, error))?;
        for entry in entries {
            let entry = entry.map_err(|error| about(path, error))?;
            let kind = entry.file_type().map_err(|error| about(path, error))?;
            if is_kept(kind) {
                self.add(&entry.path())?;
            }
        }
        Ok(())
    }

    /// Adds the symbolic links in `path`; returns the resolved path, or none if it does not exist.
    fn links_of(&mut self, path: &Path) -> io::Result<Option<PathBuf>> {
        let mut rest: Vec<PathBuf> = reversed(path);
        let (mut real, mut links) = (PathBuf::from("/"), 0);
        while let Some(next) = rest.pop() {
            if next == Path::new("..") {
                real.pop();
                continue;
            }
            let here = real.join(&next);
            match fs::read_link(&here) {
                Ok(target) => {
                    links += 1;
                    if links > LINKS {
                        return Ok(None);
                    }
                    self.put(&here, Entry::Link(target.clone()));
                    if target.is_absolute() {
                        real = PathBuf::from("/");
                    }
                    rest.extend(reversed(&target));
                }
                // Not a link.
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => real = here,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) if error.raw_os_error() == Some(libc::ENOTDIR) => return Ok(None),
                Err(error) => return Err(about(&here, error)),
            }
        }
        Ok(Some(real))
    }

    /// The interpreter and the libraries of the program at `path`; empty for other files.
    fn needed(&mut self, path: &Path) -> io::Result<Vec<PathBuf>> {
        // Opening a pipe would block, and a device is no program.
        if !fs::metadata(path)?.is_file() {
            return Ok(Vec::new());
        }
        let mut head = [0; SHEBANG_BYTES];
        let length = io::Read::read(&mut fs::File::open(path)?, &mut head)?;
        match &head[..length] {
            [0x7f, b'E', b'L', b'F', ..] => self.libraries.of(path),
            [b'#', b'!', line @ ..] => Ok(interpreters(line)),
            _ => Ok(Vec::new()),
        }
    }
}

/// The interpreter of a script, whose first line after `#!` is `line`; for `env` also the program
/// that it starts.
fn interpreters(line: &[u8]) -> Vec<PathBuf> {
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let text = String::from_utf8_lossy(line);
    let mut words = text.split_whitespace();
    let Some(first) = words.next() else { return Vec::new() };
    let mut all = vec![PathBuf::from(first)];
    if first.ends_with("/env") {
        // Options of `env` such as `-S` precede the program.
        all.extend(words.find(|word| !word.starts_with('-')).and_then(in_path));
    }
    all
}

/// The path of the program that a shell would run for this name.
pub fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join(name));
    // Daemons are there, and a user's PATH may lack both.
    let usual = ["/usr/sbin", "/sbin"].map(|folder| Path::new(folder).join(name));
    found.chain(usual).find(|path| path.is_file())
}

fn is_kept(kind: FileType) -> bool {
    kind.is_file() || kind.is_dir() || kind.is_symlink()
}

/// The components of a path, in reverse order.
fn reversed(path: &Path) -> Vec<PathBuf> {
    let names = path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(PathBuf::from(name)),
        Component::ParentDir => Some(PathBuf::from("..")),
        _ => None,
    });
    let mut names: Vec<PathBuf> = names.collect();
    names.reverse();
    names
}

fn about(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_script_brings_its_interpreter_and_that_its_libraries() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("s");
        fs::write(&script, "#!/usr/bin/env -S sh\necho\n").unwrap();
        let link = dir.path().join("link");
        symlink("s", &link).unwrap();
        let mut files = Files::default();
        files.add(&link).unwrap();
        let real = fs::canonicalize(dir.path()).unwrap();
        assert_eq!(files.entries[&real.join("link")], Entry::Link("s".into()));
        assert!(matches!(files.entries[&real.join("s")], Entry::Copy(..)));
        let has = |name: &str| files.entries.keys().any(|path| path.ends_with(name));
        assert!(has("bin/env") && has("bin/sh"), "{:?}", files.entries.keys());
        let loader = files.entries.keys().any(|path| path.to_string_lossy().contains("ld-"));
        assert!(loader && has("libc.so.6"), "{:?}", files.entries.keys());
        for path in files.entries.keys() {
            let above = path.parent().filter(|parent| parent.parent().is_some());
            let folder = |path: &Path| {
                matches!(files.entries.get(path), Some(Entry::Folder | Entry::Link(_)))
            };
            assert!(above.is_none_or(folder), "{}", path.display());
        }
    }

    #[test]
    fn a_folder_that_was_the_way_to_a_file_comes_whole_when_it_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(dir.path()).unwrap();
        for name in ["a", "b"] {
            fs::write(real.join(name), name).unwrap();
        }
        let mut files = Files::default();
        files.add(&real.join("a")).unwrap();
        assert!(!files.entries.contains_key(&real.join("b")));
        files.add(&real).unwrap();
        assert!(files.entries.contains_key(&real.join("b")));
    }

    #[test]
    fn circles_and_what_is_not_there_add_nothing_to_copy() {
        let dir = tempfile::tempdir().unwrap();
        symlink("b", dir.path().join("a")).unwrap();
        symlink("a", dir.path().join("b")).unwrap();
        let mut files = Files::default();
        files.add(&dir.path().join("a")).unwrap();
        files.add(&dir.path().join("missing/x")).unwrap();
        assert!(!files.entries.values().any(|entry| matches!(entry, Entry::Copy(..))));
    }
}
