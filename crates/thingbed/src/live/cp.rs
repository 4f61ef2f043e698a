//! `thingbed cp`: copies a file into a node or out of it.

use super::find;
use crate::arguments::Cp;
use crate::{Status, say};
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Copies a file.
pub fn cp(arguments: &Cp) -> Result<Status, String> {
    let (from, to) = (end(&arguments.from), end(&arguments.to));
    let lab = find(&arguments.lab)?;
    let name =
        Path::new(from.1).file_name().ok_or(format!("`{}` is not a file", arguments.from))?;
    let failed = |what: &str| {
        let what = what.to_owned();
        move |error: io::Error| format!("could not copy {what}: {error}")
    };
    // Open the file on the host before entering the node's file system.
    let copied = match (from.0, to.0) {
        (None, Some(node)) => {
            let source = File::open(from.1).map_err(failed(&arguments.from))?;
            lab::enter_files(lab.node(node)?.pid).map_err(|error| error.to_string())?;
            let target = whole(Path::new(to.1), name);
            write(&source, create(&target))
        }
        (Some(node), None) => {
            let target = whole(Path::new(to.1), name);
            let pid = lab.node(node)?.pid;
            let sink = Target::open(&target).map_err(failed(&arguments.to))?;
            lab::enter_files(pid).map_err(|error| error.to_string())?;
            // A program in the node may have put an endless device or a pipe there.
            let source =
                input::open(Path::new(from.1), input::ANY_SIZE).map_err(failed(&arguments.from))?;
            let sink = sink.empty().map_err(failed(&arguments.to))?;
            let copied = io::copy(&mut &source, &mut &sink);
            let _ = set_mode(&source, &sink);
            copied
        }
        _ => {
            return Err(
                "one path must be in a node (NODE:FILE), the other on the host; to copy between \
                 nodes, copy twice"
                    .to_owned(),
            );
        }
    };
    let bytes = copied.map_err(failed(&format!("{} to {}", arguments.from, arguments.to)))?;
    say(format_args!("{bytes} B"));
    Ok(Status::Fine)
}

/// Splits a path into its node, if any, and the file.
fn end(text: &str) -> (Option<&str>, &str) {
    match text.split_once(':') {
        // As with scp, a host path with a colon needs a slash: ./a:b.
        Some((node, file)) if !node.contains('/') => {
            (Some(node), if file.is_empty() { "." } else { file })
        }
        _ => (None, text),
    }
}

/// A file on the host, opened before the source, which only exists in the node's file system. Until it
/// is emptied, it stays as it was; a new one is removed again.
struct Target {
    file: File,
    /// The folder and name of a new file.
    new: Option<(File, CString)>,
}

impl Target {
    fn open(path: &Path) -> io::Result<Self> {
        let mut options = File::options();
        options.write(true);
        match options.clone().create_new(true).open(path) {
            Ok(file) => {
                let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
                let folder = File::open(folder.unwrap_or(Path::new(".")))?;
                let name = path.file_name().unwrap_or_default();
                Ok(Self { file, new: Some((folder, CString::new(name.as_bytes())?)) })
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // Also through a symbolic link to a file that does not exist yet.
                let file = options.create(true).truncate(false).open(path)?;
                Ok(Self { file, new: None })
            }
            Err(error) => Err(error),
        }
    }

    /// The empty file.
    fn empty(mut self) -> io::Result<File> {
        self.new = None;
        // A device or a pipe has no length.
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.file.try_clone()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Some((folder, name)) = &self.new {
            // By the folder's descriptor: paths are those of the node by now.
            // SAFETY: the name is a valid string over the call.
            unsafe { libc::unlinkat(folder.as_raw_fd(), name.as_ptr(), 0) };
        }
    }
}

/// If `path` is a folder, the file `name` in it.
fn whole(path: &Path, name: &std::ffi::OsStr) -> PathBuf {
    if path.is_dir() { path.join(name) } else { path.to_owned() }
}

/// Creates or empties a file of a node. To open a pipe would wait for a program that reads it.
fn create(path: &Path) -> io::Result<File> {
    if fs::metadata(path).is_ok_and(|found| found.file_type().is_fifo()) {
        return Err(io::Error::other("it is a pipe (FIFO), not a regular file"));
    }
    File::create(path)
}

fn write(source: &File, target: io::Result<File>) -> io::Result<u64> {
    let target = target?;
    let copied = io::copy(&mut &*source, &mut &target)?;
    set_mode(source, &target)?;
    Ok(copied)
}

/// Gives a copy the mode of its source, if it is a file: a device, such as `/dev/null`, keeps its own.
/// Without the set-user-ID bits: a node's file must not become a privileged program on the host.
fn set_mode(source: &File, target: &File) -> io::Result<()> {
    if !target.metadata()?.is_file() {
        return Ok(());
    }
    let mode = source.metadata()?.permissions().mode() & 0o777;
    target.set_permissions(fs::Permissions::from_mode(mode))
}
