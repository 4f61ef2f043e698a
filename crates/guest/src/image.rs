//! What a guest with files of its own starts from.

use crate::boot::{self, Job};
use crate::files::{Entry, Files};
use crate::{Error, Machine, QemuKernel};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// What the guest's programs take for the system's users and hosts.
const ETC: [(&str, &str); 5] = [
    ("/etc/resolv.conf", ""),
    ("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"),
    ("/etc/group", "root:x:0:\nnogroup:x:65534:\n"),
    ("/etc/hosts", "127.0.0.1 localhost\n"),
    ("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
];
/// Folders that each system has.
const FOLDERS: [&str; 8] =
    ["/dev", "/proc", "/sys", "/run", "/tmp", "/root", "/var/run", "/var/tmp"];

/// All that decides what a guest of QEMU does: two of the same image do the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// The kernel's image, a file of the host.
    pub kernel: PathBuf,
    /// The guest's files by their paths; the kernel's modules, its init and its job among them.
    pub files: BTreeMap<PathBuf, Entry>,
    /// Million instructions a second.
    pub mips: u32,
    /// Its memory in bytes, beside that for its files.
    pub memory_bytes: u64,
    /// What all random numbers come from.
    pub seed: u64,
}

impl Image {
    /// That of `machine`, with the files of this host.
    ///
    /// # Errors
    /// When a file that it names cannot be read.
    pub fn of(machine: &Machine, kernel: &QemuKernel, mips: u32) -> Result<Self, Error> {
        let files = files(machine, kernel).map_err(Error::io("gather the guest's files"))?;
        Ok(Self {
            kernel: kernel.image.clone(),
            files,
            mips,
            memory_bytes: machine.memory_bytes,
            seed: machine.seed,
        })
    }

    /// The files of the host that it is made of; their paths can be changed.
    pub fn sources(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let copies = self.files.values_mut().filter_map(|entry| match entry {
            Entry::Copy(from, _) => Some(from),
            _ => None,
        });
        std::iter::once(&mut self.kernel).chain(copies)
    }
}

fn files(machine: &Machine, kernel: &QemuKernel) -> io::Result<BTreeMap<PathBuf, Entry>> {
    let mut files = Files::default();
    for path in [&machine.tool, &machine.directory].into_iter().chain(&machine.files) {
        if *path == machine.directory {
            files.put(path, Entry::Folder);
        } else {
            files.add(path)?;
        }
    }
    files.put(Path::new("/init"), Entry::Link(machine.tool.clone()));
    for (path, text) in ETC {
        files.put(Path::new(path), Entry::Text(text.into(), 0o644));
    }
    for folder in FOLDERS {
        files.put(Path::new(folder), Entry::Folder);
    }
    for (number, module) in kernel.modules.iter().enumerate() {
        let name = format!("{}/{number:03}.ko", boot::MODULES);
        files.put(Path::new(&name), Entry::Copy(module.clone(), 0o644));
    }
    let job = serde_json::to_vec(&Job::of(machine))?;
    files.put(&Path::new(boot::OWN).join("job"), Entry::Text(job, 0o644));
    Ok(files.entries)
}
