//! Whether nodes can be machines here: emulators, and a TAP for each.

use super::finding::{Finding, Grade};
use crate::environment::current_exe;
use std::collections::BTreeSet;

/// Finds the emulators in PATH, and tries a node with a TAP.
pub(super) fn machines() -> Finding {
    let what = "machines as nodes";
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = emulators(std::env::split_paths(&path));
    let effect = "nodes with `qemu`, or with `firmware` and `tap`, cannot start";
    if let Err(error) = lab::try_machine(&current_exe()) {
        let text = error.to_string();
        let (found, fix) = text.split_once('\n').unwrap_or((&text, ""));
        let fix = if fix.is_empty() { "as root: modprobe -a bridge tun" } else { fix.trim() };
        return Finding::bad(what, Grade::Lacking, found, effect, fix);
    }
    match found.is_empty() {
        false => Finding::good(what, format!("bridge and TAP work; QEMU for {}", found.join(", "))),
        true => Finding::bad(
            what,
            Grade::Lacking,
            "no qemu-system-... in PATH; bridge and TAP work",
            "nodes with `qemu` cannot start",
            "Debian and Ubuntu: apt install qemu-system-x86 qemu-system-arm qemu-system-misc; \
             Fedora: dnf install qemu; Arch: pacman -S qemu-full",
        ),
    }
}

/// Tries whether a node can run programs of another architecture.
pub(super) fn emulators_of_programs() -> Finding {
    let what = "programs of other CPUs";
    let effect = "nodes whose `root` has another `platform` cannot start";
    let installed = lab::Emulator::installed();
    let Some(first) = installed.first() else {
        return Finding::bad(
            what,
            Grade::Lacking,
            "no static qemu-... for single programs in PATH",
            effect,
            "Debian, Ubuntu and Arch: package qemu-user-static; Fedora: package \
             qemu-user-static-aarch64",
        );
    };
    let names: Vec<_> = installed.iter().map(|one| one.architecture.as_str()).collect();
    match lab::try_emulator(&current_exe(), first) {
        Ok(()) => Finding::good(what, format!("nodes can run those for {}", names.join(", "))),
        Err(error) => {
            let text = error.to_string();
            let (found, fix) = text.split_once('\n').unwrap_or((&text, ""));
            Finding::bad(what, Grade::Lacking, found, effect, fix.trim())
        }
    }
}

/// Architectures of QEMU's emulators in these folders, sorted.
fn emulators(folders: impl Iterator<Item = std::path::PathBuf>) -> Vec<String> {
    let files = folders.filter_map(|folder| folder.read_dir().ok()).flatten().flatten();
    let names = files.filter_map(|file| file.file_name().into_string().ok());
    let found: BTreeSet<String> = names
        .filter_map(|name| name.strip_prefix("qemu-system-").map(str::to_owned))
        // Names such as `qemu-system-x86_64-microvm` are variants of an emulator, not
        // architectures.
        .filter(|arch| !arch.contains('-'))
        .collect();
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn emulators_are_found_once_and_helpers_are_not() {
        let dir = tempfile::tempdir().unwrap();
        for name in
            ["qemu-system-arm", "qemu-system-aarch64", "qemu-system-x86_64-spice", "qemu-img"]
        {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let twice = [dir.path().to_owned(), dir.path().to_owned(), "/nowhere/at/all".into()];
        assert_eq!(super::emulators(twice.into_iter()), ["aarch64", "arm"]);
    }
}
