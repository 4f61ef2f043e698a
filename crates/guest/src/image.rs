//! The image of a guest with its own files (QEMU).

use crate::boot::{self, Job};
use crate::files::{Entry, Files};
use crate::{Error, Machine, QemuKernel};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// The guest's files of users, groups and name resolution.
const ETC: [(&str, &str); 5] = [
    ("/etc/resolv.conf", ""),
    ("/etc/passwd", include_str!("etc/passwd")),
    ("/etc/group", "root:x:0:\nnogroup:x:65534:\n"),
    ("/etc/hosts", "127.0.0.1 localhost\n"),
    ("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
];
/// Folders that each system has.
const FOLDERS: [&str; 8] =
    ["/dev", "/proc", "/sys", "/run", "/tmp", "/root", "/var/run", "/var/tmp"];

/// All inputs of a guest of QEMU: two guests of the same image behave identically.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Image {
    /// The kernel's image, a file of the host.
    pub kernel: PathBuf,
    /// The files that it boots from: its init, the kernel's modules.
    pub boot: BTreeMap<PathBuf, Entry>,
    /// The guest's files by path, including its job.
    pub files: BTreeMap<PathBuf, Entry>,
    /// The CPU's speed in 10^6 instructions per second.
    pub mips: u32,
    /// Its memory in bytes, without the memory for its files.
    pub memory_bytes: u64,
    /// The seed of all random numbers.
    pub seed: u64,
}

impl Image {
    /// The image of `machine`, with the files of this host.
    ///
    /// # Errors
    /// When a file that it names cannot be read.
    pub fn of(machine: &Machine, kernel: &QemuKernel, mips: u32) -> Result<Self, Error> {
        let files = files(machine).map_err(Error::io("gather the guest's files"))?;
        let boot = boot_files(machine, kernel).map_err(Error::io("gather the guest's init"))?;
        Ok(Self {
            kernel: kernel.image.clone(),
            boot,
            files,
            mips,
            memory_bytes: machine.memory_bytes,
            seed: machine.seed,
        })
    }

    /// All entries: boot files and the guest's files.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.boot.values().chain(self.files.values())
    }

    /// Mutable paths of all host files in the image.
    pub fn sources(&mut self) -> impl Iterator<Item = &mut PathBuf> {
        let all = self.boot.values_mut().chain(self.files.values_mut());
        let copies = all.filter_map(|entry| match entry {
            Entry::Copy(from, _) => Some(from),
            _ => None,
        });
        std::iter::once(&mut self.kernel).chain(copies)
    }
}

fn files(machine: &Machine) -> io::Result<BTreeMap<PathBuf, Entry>> {
    let mut files = Files::default();
    for path in [&machine.tool, &machine.directory].into_iter().chain(&machine.files) {
        // The working directory may have gigabytes of other files; those that are needed are named
        // one by one.
        if *path == machine.directory {
            files.put(path, Entry::Folder);
        } else {
            files.add(path)?;
        }
    }
    // After the host's files, which they replace: a guest must not depend on this machine's users
    // and names.
    for (path, text) in ETC {
        files.put(Path::new(path), Entry::Text(text.into(), 0o644));
    }
    for folder in FOLDERS {
        files.put(Path::new(folder), Entry::Folder);
    }
    let job = serde_json::to_vec(&Job::of(machine))?;
    files.put(&Path::new(boot::OWN).join("job"), Entry::Text(job, 0o644));
    Ok(files.entries)
}

/// The boot files of a guest: the tool as init, folders, and the kernel's modules.
fn boot_files(machine: &Machine, kernel: &QemuKernel) -> io::Result<BTreeMap<PathBuf, Entry>> {
    let mut files = Files::default();
    files.add(&machine.tool)?;
    files.put(Path::new("/init"), Entry::Link(machine.tool.clone()));
    for folder in ["/dev", "/proc", "/sys", boot::NEW_ROOT] {
        files.put(Path::new(folder), Entry::Folder);
    }
    for (number, module) in kernel.modules.iter().enumerate() {
        // The order of loading, which `load_modules` takes from the names.
        let name = format!("{}/{number:03}.ko", boot::MODULES);
        files.put(Path::new(&name), Entry::Copy(module.clone(), 0o644));
    }
    Ok(files.entries)
}
