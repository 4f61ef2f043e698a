//! Checks the architecture of a machine under QEMU.

use crate::nearest::advice;
use crate::problem::Problem;
use crate::read::{At, Sink};
use std::path::Path;

/// Names in QEMU's programs `qemu-system-...` (QEMU 7.2 to 10.0: `softmmu` targets of `configs/targets`).
const KNOWN: [&str; 31] = [
    "aarch64",
    "alpha",
    "arm",
    "avr",
    "cris",
    "hppa",
    "i386",
    "loongarch64",
    "m68k",
    "microblaze",
    "microblazeel",
    "mips",
    "mips64",
    "mips64el",
    "mipsel",
    "nios2",
    "or1k",
    "ppc",
    "ppc64",
    "riscv32",
    "riscv64",
    "rx",
    "s390x",
    "sh4",
    "sh4eb",
    "sparc",
    "sparc64",
    "tricore",
    "x86_64",
    "xtensa",
    "xtensaeb",
];

/// Names that other tools give to architectures, and QEMU's.
const OTHER_NAMES: [(&str, &str); 13] = [
    ("amd64", "x86_64"),
    ("x64", "x86_64"),
    ("x86", "i386"),
    ("i486", "i386"),
    ("i586", "i386"),
    ("i686", "i386"),
    ("arm64", "aarch64"),
    ("armhf", "arm"),
    ("armv7l", "arm"),
    ("riscv", "riscv64"),
    ("powerpc", "ppc"),
    ("ppc64le", "ppc64"),
    ("s390", "s390x"),
];

/// Reports an architecture that QEMU does not have, unless this machine has a program of its name.
pub(super) fn check(arch: &At<String>, sink: &mut Sink) {
    let name = arch.value.as_str();
    if KNOWN.contains(&name) || is_installed(name) {
        return;
    }
    // Written with another separator, or in capitals.
    let plain = name.to_lowercase().replace(['-', '.', ' '], "_");
    let other = OTHER_NAMES.iter().find(|(other, _)| *other == plain).map(|(_, qemu)| *qemu);
    let meant = other.or_else(|| KNOWN.into_iter().find(|known| *known == plain));
    let label = match meant {
        Some(meant) => format!("QEMU calls it `{meant}`"),
        None => advice(name, &KNOWN),
    };
    let text = format!(
        "QEMU has no architecture `{name}`, and this machine has no program qemu-system-{name}"
    );
    sink.add(Problem::new(text).at(arch.place).label(label));
}

/// Whether a program of QEMU for the architecture is in PATH.
fn is_installed(name: &str) -> bool {
    let program = format!("qemu-system-{name}");
    let path = std::env::var_os("PATH").unwrap_or_default();
    // A name with a separator would leave the folders of PATH.
    let is_word = Path::new(&program).components().count() == 1;
    is_word && std::env::split_paths(&path).any(|folder| folder.join(&program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Place;

    fn message(name: &str) -> Option<String> {
        let mut sink = Sink::default();
        check(&At { value: name.to_owned(), place: Place::default() }, &mut sink);
        sink.problems.first().map(|problem| format!("{problem:?}"))
    }

    #[test]
    fn names_of_other_tools_and_slips_lead_to_those_of_qemu() {
        for (name, meant) in [
            ("x86-64", "QEMU calls it `x86_64`"),
            ("X86_64", "QEMU calls it `x86_64`"),
            ("amd64", "QEMU calls it `x86_64`"),
            ("arm64", "QEMU calls it `aarch64`"),
            ("riscv", "QEMU calls it `riscv64`"),
            ("aarch46", "did you mean `aarch64`?"),
            ("vax", "known: aarch64"),
            ("../../bin/x", "known: aarch64"),
        ] {
            let text = message(name).unwrap_or_else(|| panic!("{name} is accepted"));
            assert!(text.contains(meant), "{name}: {text}");
        }
        for name in ["arm", "aarch64", "x86_64", "riscv32", "i386"] {
            assert_eq!(message(name), None, "{name}");
        }
    }
}
