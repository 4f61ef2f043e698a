//! The files of `/etc` that a lab mounts its own over. A minimal system may lack them.

use crate::failure::{Failure, io, of};
use crate::users::is_host_root;
use nix::mount::{MsFlags, mount};
use std::fs;
use std::path::Path;

pub(crate) const HOSTS: &str = "/etc/hosts";
pub(crate) const RESOLVER: &str = "/etc/resolv.conf";

/// Makes sure that `file` exists, because files can only be mounted over files. If it does not, `/etc`
/// becomes an overlay that only this mount namespace has, with all that is missing: nothing of the
/// host's changes. `/tmp` is a file system of the caller's with room for the overlay.
pub(crate) fn ensure(file: &str) -> Result<(), Failure> {
    // A link to a file that does not exist counts as missing.
    let is_missing = |file: &&str| !Path::new(file).exists();
    if !is_missing(&file) {
        return Ok(());
    }
    let missing: Vec<&str> = [HOSTS, RESOLVER].into_iter().filter(is_missing).collect();
    let tried = "add files to /etc";
    for folder in ["/tmp/upper", "/tmp/work"] {
        fs::create_dir(folder).map_err(io(tried))?;
    }
    // Overlays in a user namespace keep their marks in `user.*` attributes (mount option
    // `userxattr`, Linux 5.11).
    let users = if is_host_root() { "" } else { ",userxattr" };
    let options = format!("lowerdir=/etc,upperdir=/tmp/upper,workdir=/tmp/work{users}");
    mount(Some("etc"), "/etc", Some("overlay"), MsFlags::empty(), Some(options.as_str()))
        .map_err(of(tried))?;
    // A dangling link: writing through it would create a file elsewhere.
    for file in missing {
        let _ = fs::remove_file(file);
        fs::write(file, "").map_err(io(tried))?;
    }
    Ok(())
}
