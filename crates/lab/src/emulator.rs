//! QEMU's emulators of single programs, by which a node runs programs of another architecture.
//!
//! The kernel's binfmt_misc starts the emulator for each program of that architecture, also for those
//! that programs start. Since Linux 6.7 each user namespace can have its own list of such formats, so
//! that a node's is seen by its programs only, and no rights on the machine are needed.

mod search;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// An architecture, and how its programs begin (ELF header, System V ABI).
#[derive(Debug)]
struct Architecture {
    /// Its name in images: GOARCH.
    image: &'static str,
    /// Its name in QEMU.
    qemu: &'static str,
    /// EI_CLASS: 1 for 32 bits, 2 for 64 bits.
    class: u8,
    /// EI_DATA: 1 for little-endian, 2 for big-endian.
    data: u8,
    /// `e_machine`.
    machine: u16,
}

const fn known(
    image: &'static str,
    qemu: &'static str,
    class: u8,
    data: u8,
    machine: u16,
) -> Architecture {
    Architecture { image, qemu, class, data, machine }
}

const ARCHITECTURES: [Architecture; 13] = [
    known("386", "i386", 1, 1, 3),
    known("amd64", "x86_64", 2, 1, 62),
    known("arm", "arm", 1, 1, 40),
    known("arm64", "aarch64", 2, 1, 183),
    known("loong64", "loongarch64", 2, 1, 258),
    known("mips", "mips", 1, 2, 8),
    known("mipsle", "mipsel", 1, 1, 8),
    known("mips64", "mips64", 2, 2, 8),
    known("mips64le", "mips64el", 2, 1, 8),
    known("ppc64", "ppc64", 2, 2, 21),
    known("ppc64le", "ppc64le", 2, 1, 21),
    known("riscv64", "riscv64", 2, 1, 243),
    known("s390x", "s390x", 2, 2, 22),
];

impl Architecture {
    /// The first bytes of its programs, and which bits of them count.
    fn format(&self) -> ([u8; 20], [u8; 20]) {
        let word = |value: u16| match self.data {
            1 => value.to_le_bytes(),
            _ => value.to_be_bytes(),
        };
        let (mut magic, mut mask) = ([0; 20], [0; 20]);
        magic[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', self.class, self.data, 1]);
        mask[..7].fill(0xff);
        // `e_type`: ET_EXEC is 2, ET_DYN 3.
        magic[16..18].copy_from_slice(&word(2));
        mask[16..18].copy_from_slice(&word(0xfffe));
        magic[18..].copy_from_slice(&word(self.machine));
        mask[18..].fill(0xff);
        (magic, mask)
    }
}

/// An installed emulator of single programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Emulator {
    /// The architecture's name in images, such as `arm64`.
    pub architecture: String,
    /// Its file. It is linked statically, because the node's root has no libraries for it.
    pub program: PathBuf,
}

/// Where the lists of formats are mounted, on this machine and for a moment in a node.
const MACHINE_LIST: &str = "/proc/sys/fs/binfmt_misc";
const NODE_LIST: &str = "/proc";

impl Emulator {
    fn known(&self) -> Option<&'static Architecture> {
        ARCHITECTURES.iter().find(|known| known.image == self.architecture)
    }

    /// The line that adds it to a list of formats (Linux, admin-guide/binfmt-misc). Flags: `P` keeps
    /// the program's own name as its first argument, `O` passes the program opened, and `F` opens the
    /// emulator now, so that nodes need not see it.
    fn line(&self) -> Option<Vec<u8>> {
        let known = self.known()?;
        let (magic, mask) = known.format();
        let escaped = |bytes: [u8; 20]| {
            bytes.iter().fold(String::new(), |mut text, byte| {
                let _ = write!(text, "\\x{byte:02x}");
                text
            })
        };
        // A separator that is in no path that people use.
        let fields = ["", known.qemu, "M", "", &escaped(magic), &escaped(mask)].join("\x01");
        let program = self.program.as_os_str().as_encoded_bytes();
        Some([fields.as_bytes(), b"\x01", program, b"\x01POF"].concat())
    }

    /// Adds it to the list of this process's user namespace, in a mount namespace of this process. The
    /// list stays while its folder [`Emulator::list`] is open.
    pub(crate) fn register(&self) -> Result<(), Errno> {
        unshare(CloneFlags::CLONE_NEWNS)?;
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        let none: Option<&str> = None;
        mount(Some("binfmt_misc"), NODE_LIST, Some("binfmt_misc"), flags, none)?;
        let line = self.line().ok_or(Errno::EINVAL)?;
        fs::write(Path::new(NODE_LIST).join("register"), line)
            .map_err(|error| Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)))
    }

    /// The list of the process `pid`, which has called [`Emulator::register`].
    pub(crate) fn list(pid: i32) -> PathBuf {
        Path::new(&format!("/proc/{pid}/root")).join(&NODE_LIST[1..])
    }

    /// Whether the machine's list has an emulator for the architecture that nodes can use.
    pub(crate) fn is_registered(&self) -> bool {
        let Some(known) = self.known() else { return false };
        let entry = Path::new(MACHINE_LIST).join(format!("qemu-{}", known.qemu));
        fs::read_to_string(entry).is_ok_and(|entry| is_usable(&entry))
    }
}

/// Whether an entry of a list is enabled, and has opened its emulator already (flag `F`).
fn is_usable(entry: &str) -> bool {
    let mut lines = entry.lines();
    lines.next() == Some("enabled")
        && lines.filter_map(|line| line.strip_prefix("flags: ")).any(|flags| flags.contains('F'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn emulator(architecture: &str) -> Emulator {
        Emulator { architecture: architecture.to_owned(), program: "/opt/q:e,mu".into() }
    }

    #[test]
    fn a_format_is_that_of_programs_of_the_architecture() {
        let line = String::from_utf8(emulator("arm64").line().unwrap()).unwrap();
        let fields: Vec<&str> = line.split('\x01').collect();
        let (name, kind, magic, mask) = (fields[1], fields[2], fields[4], fields[5]);
        assert_eq!((name, kind, fields[6], fields[7]), ("aarch64", "M", "/opt/q:e,mu", "POF"));
        assert!(magic.starts_with(r"\x7f\x45\x4c\x46\x02\x01\x01\x00"), "{magic}");
        assert!(magic.ends_with(r"\x02\x00\xb7\x00") && mask.ends_with(r"\xfe\xff\xff\xff"));
        assert_eq!((magic.len(), mask.len()), (80, 80));
        let (magic, mask) = ARCHITECTURES.iter().find(|a| a.image == "s390x").unwrap().format();
        assert_eq!((&magic[16..], &mask[16..18]), (&[0, 2, 0, 22][..], &[0xff, 0xfe][..]));
    }

    #[test]
    fn this_program_begins_as_its_architecture_says() {
        let bytes = fs::read("/proc/self/exe").unwrap();
        let mine = ARCHITECTURES.iter().find(|known| known.qemu == std::env::consts::ARCH);
        let Some(mine) = mine else { return };
        let (magic, mask) = mine.format();
        assert!(bytes.iter().zip(magic).zip(mask).all(|((b, m), k)| b & k == m & k));
    }

    #[test]
    fn the_machines_entry_must_be_enabled_and_open() {
        assert!(is_usable("enabled\ninterpreter /usr/bin/q\nflags: OCF\noffset 0\n"));
        assert!(!is_usable("enabled\ninterpreter /usr/bin/q\nflags: OC\n"));
        assert!(!is_usable("disabled\ninterpreter /usr/bin/F\nflags: F\n"));
        assert!(!is_usable(""));
    }
}
