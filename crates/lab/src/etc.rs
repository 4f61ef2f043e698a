//! The files of `/etc` that a lab mounts its own over. A minimal system may lack them.

use crate::failure::Failure;
use crate::root::is_host_root;
use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use std::fs;
use std::path::Path;

/// Files that must exist, because files can only be mounted over files.
const FILES: [&str; 2] = ["/etc/hosts", "/etc/resolv.conf"];

/// Makes empty files of those that are missing, on an overlay that only this mount namespace has:
/// nothing of the host's changes. `/tmp` is a file system of the caller's with room for the overlay.
pub(crate) fn complete() -> Result<(), Failure> {
    // A link to a file that does not exist counts as missing.
    let missing: Vec<_> = FILES.into_iter().filter(|file| !Path::new(file).exists()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let tried = |errno| Failure::of("add files to /etc", errno);
    let io =
        |error: std::io::Error| tried(Errno::from_raw(error.raw_os_error().unwrap_or(libc::EIO)));
    for folder in ["/tmp/upper", "/tmp/work"] {
        fs::create_dir(folder).map_err(io)?;
    }
    let users = if is_host_root() { "" } else { ",userxattr" };
    let options = format!("lowerdir=/etc,upperdir=/tmp/upper,workdir=/tmp/work{users}");
    mount(Some("etc"), "/etc", Some("overlay"), MsFlags::empty(), Some(options.as_str()))
        .map_err(tried)?;
    for file in missing {
        let _ = fs::remove_file(file);
        fs::write(file, "").map_err(io)?;
    }
    Ok(())
}
