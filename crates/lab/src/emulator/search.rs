//! Which emulators are installed.

use super::{ARCHITECTURES, Emulator};
use crate::error::Error;
use elf::ElfStream;
use elf::abi::PT_INTERP;
use elf::endian::AnyEndian;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

impl Emulator {
    /// The emulator for programs of the architecture with this name in images (GOARCH).
    ///
    /// # Errors
    /// QEMU has none, or it is not in PATH.
    pub fn find(architecture: &str) -> Result<Self, Error> {
        let all = &ARCHITECTURES;
        let Some(known) = all.iter().find(|known| known.image == architecture) else {
            let names: Vec<_> = all.iter().map(|known| known.image).collect();
            let why = format!("QEMU has none; it has those for {}", names.join(", "));
            return Err(Error::Emulator { architecture: architecture.to_owned(), why });
        };
        let mut why = format!("qemu-{}-static is not in PATH", known.qemu);
        for name in [format!("qemu-{}-static", known.qemu), format!("qemu-{}", known.qemu)] {
            for program in in_path(&name) {
                match is_static(&program) {
                    Ok(true) => return Ok(Self { architecture: architecture.to_owned(), program }),
                    Ok(false) => {
                        why = format!(
                            "{} needs shared libraries, which the node's root does not have",
                            program.display()
                        );
                    }
                    Err(error) => why = format!("{}: {error}", program.display()),
                }
            }
        }
        Err(Error::Emulator { architecture: architecture.to_owned(), why })
    }

    /// All emulators in PATH for architectures that are not this machine's.
    pub fn installed() -> Vec<Self> {
        let others = ARCHITECTURES.iter().filter(|known| known.qemu != std::env::consts::ARCH);
        others.filter_map(|known| Self::find(known.image).ok()).collect()
    }
}

fn in_path(name: &str) -> impl Iterator<Item = PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let name = name.to_owned();
    folders.into_iter().map(move |folder| folder.join(&name)).filter(|file| file.is_file())
}

/// Whether a program needs no loader.
fn is_static(program: &Path) -> io::Result<bool> {
    let file = ElfStream::<AnyEndian, _>::open_stream(File::open(program)?)
        .map_err(|error| io::Error::other(format!("no ELF file: {error}")))?;
    Ok(!file.segments().iter().any(|segment| segment.p_type == PT_INTERP))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_architecture_is_answered_with_the_known_ones() {
        let text = Emulator::find("vax").unwrap_err().to_string();
        assert!(text.contains("for programs of vax") && text.contains("riscv64"), "{text}");
    }
}
