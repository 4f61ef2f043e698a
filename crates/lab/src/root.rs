//! A separate root file system for a node: a read-only lower layer, with changes on top.
//!
//! The lower layer is never written. Changes go to the node's own tmpfs, which ends with its mount
//! namespace, as all mounts made here do.

use crate::boundary;
use crate::etc::{self, RESOLVER};
use crate::failure::{Failure, io, of};
use crate::mount_tree::put;
use crate::user::Who;
use crate::users::{Ids, Separate, Users, is_host_root};
use crate::wire::{NodeSpec, Root};
use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{Mode, SFlag, fstat, major, mknod};
use nix::unistd::{chdir, pivot_root};
use std::fs;
use std::io::Write;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{
    DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt, chown, fchown, symlink,
};
use std::path::{Path, PathBuf};

/// A node with a separate root, as seen from its init.
#[derive(Debug)]
pub(crate) struct Home {
    /// The configuration.
    pub root: Root,
    /// The user of its programs.
    pub who: Who,
    /// Its own users, unless they are those of the init.
    pub users: Option<Users>,
}

impl Home {
    /// The root of the node, in the init's numbering.
    fn owner(&self) -> Owner {
        Owner::among(self.users.as_ref().map(|users| users.ids))
    }

    /// Replaces the node's hosts file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set_hosts(&self, hosts: &str) -> Result<(), Failure> {
        write_etc("hosts", hosts.as_bytes(), self.owner())
    }
}

/// Whom the files belong to that the init creates for the node.
#[derive(Debug, Clone, Copy)]
struct Owner {
    user: u32,
    group: u32,
}

impl Owner {
    fn among(ids: Option<Ids>) -> Self {
        Self { user: ids.map_or(0, |ids| ids.user(0)), group: ids.map_or(0, |ids| ids.group(0)) }
    }
}

/// The folder of a root, opened in the mount namespace of its overlay, or a detached copy of its
/// mount.
enum Below {
    Folder(OwnedFd),
    Detached(OwnedFd),
}

/// Opens the folder of a root.
pub(crate) fn lower(root: &Root) -> Result<OwnedFd, Failure> {
    path_to(&root.lower, OFlag::O_PATH | OFlag::O_DIRECTORY)
}

const NONE: Option<&str> = None;
/// The default size of what a node writes to its root, and of its shared memory, in bytes: the 64
/// MiB that containers have as shared memory.
const STORAGE: u64 = 64 << 20;
/// The devices that every program may expect; none is hardware.
const DEVICES: [&str; 6] = ["null", "zero", "full", "random", "urandom", "tty"];

/// Makes `root` the root of this process. Also returns the mount namespace with the host's files,
/// for Thingbed's own programs.
pub(crate) fn enter(
    spec: &NodeSpec,
    root: &Root,
    separate: Option<Separate>,
) -> Result<(Home, OwnedFd), Failure> {
    let Separate { users, lower: shifted, .. } = separate.unwrap_or_default();
    let owner = Owner::among(users.as_ref().map(|users| users.ids));
    // Before the new namespace: it is the one in which Thingbed's own programs will run.
    let host = path_to(Path::new("/proc/self/ns/mnt"), OFlag::O_RDONLY)?;
    unshare(CloneFlags::CLONE_NEWNS).map_err(of("create a mount namespace for the root"))?;
    // Everything needed from the host is opened first, because it becomes hidden.
    let below = match shifted {
        Some(tree) => Below::Detached(tree),
        None => Below::Folder(lower(root)?),
    };
    let mode = fs::metadata(&root.lower).map_or(0o755, |meta| meta.mode() & 0o7777);
    let hosts = fs::read("/etc/hosts").unwrap_or_default();
    let common = DEVICES.iter().map(|name| Path::new("/dev").join(name));
    let mut devices = Vec::new();
    for path in common {
        devices.push((path_to(&path, OFlag::O_PATH)?, path));
    }
    for path in &spec.setting.devices {
        devices.push((device(path)?, path.clone()));
    }
    let storage = match spec.setting.storage {
        0 => STORAGE,
        bytes => bytes,
    };
    overlay(&below, mode, storage, owner).map_err(|failure| named(failure, root))?;
    drop(below);
    chdir("/tmp/root").map_err(of("enter the root"))?;
    // Afterwards the old root is mounted over the new one.
    pivot_root(".", ".").map_err(of("change the root"))?;
    let quiet = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    folder("/proc", 0o555, owner)?;
    mount(Some("proc"), "/proc", Some("proc"), quiet, NONE).map_err(of("mount /proc"))?;
    folder("/sys", 0o555, owner)?;
    // Refused to unprivileged users in a container that masks parts of the host's; few programs
    // need it.
    let _ = mount(Some("sysfs"), "/sys", Some("sysfs"), quiet | MsFlags::MS_RDONLY, NONE);
    make_dev(&devices, storage, owner)?;
    drop(devices);
    umount2(".", MntFlags::MNT_DETACH).map_err(of("detach the host's files"))?;
    chdir("/").map_err(of("enter the root"))?;
    // A kernel without control groups, as in guests, has nothing to hide.
    let _ = unshare(CloneFlags::CLONE_NEWCGROUP);
    // After `/dev`, which the masks need for `/dev/null`.
    if !spec.setting.privileged {
        boundary::mask()?;
    }
    folder("/tmp", 0o1777, owner)?;
    folder("/etc", 0o755, owner)?;
    write_etc("hosts", &hosts, owner)?;
    write_etc("hostname", format!("{}\n", spec.name).as_bytes(), owner)?;
    write_etc("resolv.conf", resolver(spec.setting.resolver).as_bytes(), owner)?;
    // In the new root, whose user database counts.
    let who = Who::find(&root.user, users.as_ref().map(|users| users.ids))?;
    // Allows unprivileged ping, as in other containers; the kernel's default denies it to all.
    let _ = fs::write("/proc/sys/net/ipv4/ping_group_range", "0 2147483647");
    Ok((Home { root: root.clone(), who, users }, host))
}

/// The text of a resolv.conf with this `server`.
pub(crate) fn resolver(server: Option<IpAddr>) -> String {
    match server {
        Some(address) => format!("nameserver {address}\n"),
        None => "# No name server here: names of nodes are in /etc/hosts.\n".to_owned(),
    }
}

/// Sets the name `server` of a node that sees the host's files.
pub(crate) fn set_name_server(server: IpAddr) -> Result<(), Failure> {
    let size = Some("mode=755,size=16k");
    mount(Some("names"), "/tmp", Some("tmpfs"), MsFlags::empty(), size)
        .map_err(of("mount a tmpfs"))?;
    fs::write("/tmp/resolv.conf", resolver(Some(server))).map_err(io("write a resolv.conf"))?;
    etc::ensure(RESOLVER)?;
    let over = RESOLVER;
    mount(Some("/tmp/resolv.conf"), over, NONE, MsFlags::MS_BIND, NONE)
        .map_err(of(format!("bind the node's own file over {over}")))?;
    umount2("/tmp", MntFlags::MNT_DETACH).map_err(of("detach the tmpfs"))
}

/// Opens a character device of the host.
pub(crate) fn device(path: &Path) -> Result<OwnedFd, Failure> {
    let shown = path.display();
    let kind =
        fs::metadata(path).map_err(io(format!("pass the device {shown} to the node")))?.file_type();
    if !kind.is_char_device() {
        let tried = format!("pass {shown} to the node: it is not a character device");
        return Err(Failure::of(tried, Errno::ENODEV));
    }
    path_to(path, OFlag::O_PATH)
}

/// Mounts the overlay at `/tmp/root`, on a tmpfs that is visible only for a moment.
fn overlay(below: &Below, mode: u32, storage: u64, owner: Owner) -> Result<(), Failure> {
    let size = format!("mode=755,size={storage}");
    mount(Some("changes"), "/tmp", Some("tmpfs"), MsFlags::empty(), Some(size.as_str()))
        .map_err(of("mount a tmpfs for changes"))?;
    for name in ["upper", "work", "root"] {
        folder(&format!("/tmp/{name}"), mode, owner)?;
    }
    let below = match below {
        // The kernel accepts it by number only from Linux 6.15 on.
        Below::Detached(tree) => {
            let place = "/tmp/below";
            folder(place, mode, owner)?;
            put(tree, Path::new(place)).map_err(of("attach the folder of the root"))?;
            place.to_owned()
        }
        // By number, because commas and colons in a path have a meaning here.
        Below::Folder(folder) => format!("/proc/self/fd/{}", folder.as_raw_fd()),
    };
    let users = if is_host_root() { "" } else { ",userxattr" };
    let options = format!("lowerdir={below},upperdir=/tmp/upper,workdir=/tmp/work{users}");
    let flags = MsFlags::MS_NODEV;
    mount(Some("overlay"), "/tmp/root", Some("overlay"), flags, Some(options.as_str()))
        .map_err(of("mount an overlay"))
}

/// Creates the node's `/dev`, with only these `devices` of the host and shared memory of `storage`
/// bytes.
fn make_dev(devices: &[(OwnedFd, PathBuf)], storage: u64, owner: Owner) -> Result<(), Failure> {
    folder("/dev", 0o755, owner)?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    let options = format!("mode=755,size=1m,uid={},gid={}", owner.user, owner.group);
    mount(Some("dev"), "/dev", Some("tmpfs"), flags, Some(options.as_str()))
        .map_err(of("mount /dev"))?;
    for (device, path) in devices {
        if let Some(dir) = path.parent() {
            fs::create_dir_all(dir).map_err(io(format!("create {}", dir.display())))?;
        }
        pass(device, path, owner)
            .map_err(io(format!("pass the device {} to the node", path.display())))?;
    }
    folder("/dev/pts", 0o755, owner)?;
    folder("/dev/shm", 0o1777, owner)?;
    let options = Some("newinstance,ptmxmode=0666,mode=0620");
    // A passed device may be a terminal of the host: then /dev/pts has the host's, and needs no own
    // ones.
    if fs::read_dir("/dev/pts").is_ok_and(|mut dir| dir.next().is_none()) {
        mount(Some("devpts"), "/dev/pts", Some("devpts"), flags, options)
            .map_err(of("mount /dev/pts"))?;
        link("pts/ptmx", "ptmx")?;
    }
    let size = format!("mode=1777,size={storage},uid={},gid={}", owner.user, owner.group);
    let flags = flags | MsFlags::MS_NODEV;
    mount(Some("shm"), "/dev/shm", Some("tmpfs"), flags, Some(size.as_str()))
        .map_err(of("mount /dev/shm"))?;
    for (to, name) in [
        ("/proc/self/fd", "fd"),
        ("/proc/self/fd/0", "stdin"),
        ("/proc/self/fd/1", "stdout"),
        ("/proc/self/fd/2", "stderr"),
    ] {
        link(to, name)?;
    }
    Ok(())
}

/// Major numbers of pseudo-terminals (Linux, Documentation/admin-guide/devices.txt).
const PTY_SLAVES: std::ops::RangeInclusive<u64> = 136..=143;

/// Creates a device of the host in the node's `/dev`: another file for the same device, which belongs
/// to the node's root, so that the node cannot change who may use the host's file. The same file in a
/// user namespace of an ordinary user, who cannot change that, and for a pseudo-terminal, which opens
/// only where it was made.
fn pass(device: &OwnedFd, path: &Path, owner: Owner) -> std::io::Result<()> {
    let theirs = fstat(device)?;
    let is_terminal = PTY_SLAVES.contains(&major(theirs.st_rdev)) && owner.user == 0;
    let made = match is_terminal {
        true => Err(Errno::EPERM),
        false => mknod(path, SFlag::S_IFCHR, Mode::empty(), theirs.st_rdev),
    };
    match made {
        Ok(()) => {
            chown(path, Some(owner.user), Some(owner.group))?;
            fs::set_permissions(path, fs::Permissions::from_mode(theirs.st_mode & 0o777))
        }
        Err(Errno::EPERM) => {
            fs::write(path, b"")?;
            let from = format!("/proc/self/fd/{}", device.as_raw_fd());
            Ok(mount(Some(from.as_str()), path, NONE, MsFlags::MS_BIND, NONE)?)
        }
        Err(errno) => Err(errno.into()),
    }
}

fn link(to: &str, name: &str) -> Result<(), Failure> {
    symlink(to, Path::new("/dev").join(name)).map_err(io(format!("link /dev/{name}")))
}

/// Writes a file into the node's `/etc`. An existing one may be a link to any place.
fn write_etc(name: &str, text: &[u8], owner: Owner) -> Result<(), Failure> {
    let path = Path::new("/etc").join(name);
    let _ = fs::remove_file(&path);
    // A new file: the node's programs may put a link back, and this process may write more than they.
    let file = fs::OpenOptions::new().write(true).create_new(true).open(&path);
    file.and_then(|mut file| {
        fchown(&file, Some(owner.user), Some(owner.group))?;
        file.write_all(text)
    })
    .map_err(io(format!("write {}", path.display())))
}

/// Creates a folder unless it exists.
fn folder(path: &str, mode: u32, owner: Owner) -> Result<(), Failure> {
    if Path::new(path).is_dir() {
        return Ok(());
    }
    let made = fs::DirBuilder::new().recursive(true).mode(mode).create(path);
    made.and_then(|()| chown(path, Some(owner.user), Some(owner.group)))
        .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode)))
        .map_err(io(format!("create the folder {path}")))
}

fn path_to(path: &Path, how: OFlag) -> Result<OwnedFd, Failure> {
    open(path, how | OFlag::O_CLOEXEC, Mode::empty())
        .map_err(|errno| Failure::of(format!("open {}", path.display()), errno))
}

fn named(failure: Failure, root: &Root) -> Failure {
    Failure { tried: format!("{} over {}", failure.tried, root.lower.display()), ..failure }
}
