//! Finds the guest's kernel.

use crate::{Error, QemuKernel};
use nix::unistd::{AccessFlags, access};
use std::path::{Path, PathBuf};

/// The file name of the kernel.
pub const KERNEL: &str = "thingbed-linux";

/// The kernel that `THINGBED_KERNEL` names, else the kernel in the folder of `tool`, in the folder
/// above it, or in its package's folder.
///
/// # Errors
/// When none exists.
pub fn find_kernel(tool: &Path) -> Result<PathBuf, Error> {
    // No fallback: a run with another kernel than the named one would not be noticed.
    if let Some(named) = std::env::var_os("THINGBED_KERNEL") {
        let named = PathBuf::from(named);
        return if is_program(&named) { Ok(named) } else { Err(Error::WrongKernel(named)) };
    }
    let folders = folders(tool);
    let found = folders.iter().map(|folder| folder.join(KERNEL)).find(|path| is_program(path));
    found.ok_or_else(|| {
        let looked: Vec<String> = folders.iter().map(|f| f.display().to_string()).collect();
        Error::NoKernel { name: KERNEL, looked: looked.join(", ") }
    })
}

/// The name of the folder with the kernel for QEMU: `vmlinuz`, and modules, loaded in the order
/// of their names.
pub const QEMU_KERNEL: &str = "thingbed-qemu";

/// The kernel for QEMU: in the folder that `THINGBED_QEMU_KERNEL` names, else in the folders that
/// [`find_kernel`] searches.
///
/// # Errors
/// When none exists.
pub fn find_qemu_kernel(tool: &Path) -> Result<QemuKernel, Error> {
    let folders = match std::env::var_os("THINGBED_QEMU_KERNEL") {
        Some(folder) => vec![PathBuf::from(folder)],
        None => folders(tool).iter().map(|folder| folder.join(QEMU_KERNEL)).collect(),
    };
    let found = folders.iter().find(|folder| folder.join("vmlinuz").is_file());
    let folder = found.ok_or_else(|| {
        let looked: Vec<String> = folders.iter().map(|f| f.display().to_string()).collect();
        Error::NoQemuKernel { name: QEMU_KERNEL, looked: looked.join(", ") }
    })?;
    let entries = std::fs::read_dir(folder).map_err(Error::io("list the kernel's modules"))?;
    let paths = entries.flatten().map(|entry| entry.path());
    let mut modules: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "ko")).collect();
    modules.sort();
    Ok(QemuKernel { image: folder.join("vmlinuz"), modules })
}

fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, AccessFlags::X_OK).is_ok()
}

fn folders(tool: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    if let Some(folder) = tool.parent() {
        folders.push(folder.to_owned());
        folders.extend(folder.parent().map(Path::to_owned));
        folders.extend(folder.parent().map(|prefix| prefix.join("lib/thingbed")));
    }
    folders.push(PathBuf::from("/usr/lib/thingbed"));
    folders.dedup();
    folders
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn it_is_found_beside_the_tool_and_above() {
        let dir = tempfile::tempdir().unwrap();
        let tool = dir.path().join("release/thingbed");
        std::fs::create_dir(dir.path().join("release")).unwrap();
        let kernel = dir.path().join(KERNEL);
        std::fs::write(&kernel, "").unwrap();
        // A file that is not executable is not a kernel.
        let missing = find_kernel(&tool);
        std::fs::set_permissions(&kernel, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find_kernel(&tool).unwrap(), kernel);
        if let Err(error) = missing {
            assert!(error.to_string().contains("make kernel"), "{error}");
        }
    }
}
