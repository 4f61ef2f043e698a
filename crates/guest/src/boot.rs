//! The guest's side: its init, which makes the file system and runs the command.
//!
//! The kernel mounts the host's root read-only. Above it lies an overlay in memory, so that
//! programs find all files of the host and can write anywhere; what they write there is gone
//! with the guest. Only the folders that the machine is given reach the host.

use crate::asked;
use crate::machine::Engine;
use crate::{Machine, Mount, initramfs, randomness};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::reboot::{RebootMode, reboot};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::statvfs::statvfs;
use nix::sys::sysinfo::sysinfo;
use nix::sys::termios::{BaudRate, SetArg, cfmakeraw, cfsetspeed, tcgetattr, tcsetattr};
use nix::sys::wait::{WaitStatus, wait};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::{chdir, chroot, pivot_root, sethostname};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

/// The first argument by which the tool learns that it is a guest's init.
pub const INIT: &str = "guest-init";

/// The serial line from the host, over which it says that the user wants an end.
const FROM_HOST: &str = "/dev/ttyS0";
/// That to the host, of a guest with files of its own; the other one is its console.
const TO_HOST: &str = "/dev/ttyS1";
/// Memory that such a guest shares with the host.
const SHARED: &str = "/dev/pmem0";
/// `BLKFLSBUF` of linux/fs.h.
const FLUSH_BUFFERS: libc::c_ulong = 0x1261;
/// A write to it stops such a guest: the device `pvpanic`.
pub(crate) const PAUSE_PORT: u16 = 0x505;
/// Where the root of such a guest is made.
pub(crate) const NEW_ROOT: &str = "/newroot";
/// Where such a guest has its job and its kernel's modules.
pub(crate) const OWN: &str = "/guest";
pub(crate) const MODULES: &str = "/guest/modules";
/// The file that the command writes to, and the folder that it is in.
pub(crate) const OUTPUT: &str = "output";
/// The names of files that programs asked for, among the results.
pub(crate) const ASKED: &str = "asked";
/// Where that folder is in the guest.
const OUTPUT_AT: &str = "/run/output";
/// Descriptors that a program may ask for, as on most distributions.
const MOST_FILES: u64 = 1 << 20;

/// So old is a guest at least when its command begins.
const LEAST_AGE: Duration = Duration::from_secs(10);

/// What init is to do.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    tool: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    directory: PathBuf,
    writable: Vec<Mount>,
    /// Whether the guest sees the host's files; otherwise it has its own, and hands over what it
    /// wrote.
    host_files: bool,
    /// What all random numbers of a guest with files of its own come from.
    seed: u64,
}

/// The last line of the output.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Exit {
    pub exit: i32,
}

impl Job {
    pub fn of(machine: &Machine) -> Self {
        let host_files = matches!(machine.engine, Engine::UserModeLinux { .. });
        // What a guest does not need, such as when a run was, does not reach it.
        let seen = |mount: &Mount| match host_files {
            true => mount.clone(),
            false => Mount { host: PathBuf::new(), guest: mount.guest.clone() },
        };
        Self {
            tool: machine.tool.clone(),
            arguments: machine.arguments.clone(),
            environment: machine.environment.clone(),
            directory: machine.directory.clone(),
            writable: machine.writable.iter().map(seen).collect(),
            host_files,
            seed: machine.seed,
        }
    }

    /// The same, with its output in `folder` of the host.
    pub fn with_output_of(mut self, folder: &Path) -> Self {
        self.writable.push(Mount { host: folder.join(OUTPUT), guest: OUTPUT_AT.into() });
        self
    }

    /// Writes it into the folder in which the guest's init looks for it.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        fs::write(folder.join("job"), serde_json::to_vec(self)?)
    }

    fn read(folder: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&fs::read(folder.join("job"))?)?)
    }
}

/// The `main` of a guest's init. The argument after [`INIT`] is the folder that the host made for
/// it; the kernel adds others.
/// Does not return in a guest.
pub fn init() -> ExitCode {
    if std::process::id() != 1 {
        eprintln!("error: {INIT} is what Thingbed starts in a guest; it is no command");
        return ExitCode::from(2);
    }
    let folder = std::env::args_os().nth(2).map(PathBuf::from).unwrap_or_default();
    // QEMU ends when the guest would start again: not each has a way to power off.
    let own = folder == Path::new(OWN);
    let end = if own { RebootMode::RB_AUTOBOOT } else { RebootMode::RB_POWER_OFF };
    let made = match own {
        true => arrive().map(|root| (root.join("guest"), root)),
        false => overlay().map(|root| (folder, root)),
    };
    let outcome = made.map_err(|error| ("make the guest's root", error)).and_then(|(at, root)| {
        let job = Job::read(&at).map_err(|error| ("read what is to run", error))?;
        run(&job, &root)
    });
    if let Err((tried, error)) = outcome {
        // The host shows the console's last lines.
        eprintln!("guest: could not {tried}: {error}");
    }
    nix::unistd::sync();
    let _ = reboot(end);
    ExitCode::FAILURE
}

type Failure = (&'static str, io::Error);

fn run(job: &Job, root: &Path) -> Result<(), Failure> {
    make_root(job, root).map_err(|error| ("make the guest's root", error))?;
    if !job.host_files {
        randomness::seed(job.seed).map_err(|error| ("seed the kernel's random numbers", error))?;
    }
    settle();
    // Kernels that cannot do it run as well.
    let notes = !job.host_files && asked::begin().is_ok();
    let _ = sethostname("thingbed");
    let _ = setrlimit(Resource::RLIMIT_NOFILE, MOST_FILES, MOST_FILES);
    let input = job.input().map_err(|error| ("open the input", error))?;
    let mut output = job.output().map_err(|error| ("open the output", error))?;
    let share = |file: &File| file.try_clone().map_err(|error| ("share a file", error));
    let child = Command::new(&job.tool)
        .args(&job.arguments)
        .env_clear()
        .envs(job.environment.iter().map(|(key, value)| (key, value)))
        .current_dir(&job.directory)
        .stdin(share(&input)?)
        .stdout(share(&output)?)
        .spawn()
        .map_err(|error| ("start the command", error))?;
    let exit = exit_of(child.id() as i32).map_err(|error| ("wait for the command", error))?;
    // What was written reaches the host before the host hears that it is there.
    match job.host_files {
        true => nix::unistd::sync(),
        false => {
            let names = if notes { asked::end().unwrap_or_default() } else { BTreeSet::new() };
            hand_over(&job.writable, &names).map_err(|error| ("hand over the results", error))?;
        }
    }
    let line = serde_json::to_string(&Exit { exit }).unwrap_or_default();
    writeln!(output, "{line}").map_err(|error| ("write to the host", error))
}

/// Waits until the guest is as old as any machine that programs meet: some take a clock in its
/// first second for one that was not set (ping's pace is lost then).
fn settle() {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
    std::thread::sleep(LEAST_AGE.saturating_sub(now));
}

/// The exit status of process `wanted`; orphans are reaped on the way.
fn exit_of(wanted: i32) -> io::Result<i32> {
    loop {
        match wait()? {
            WaitStatus::Exited(pid, code) if pid.as_raw() == wanted => return Ok(code),
            WaitStatus::Signaled(pid, signal, _) if pid.as_raw() == wanted => {
                return Ok(128 + signal as i32);
            }
            _ => {}
        }
    }
}

impl Job {
    fn input(&self) -> io::Result<File> {
        match self.host_files {
            true => serial(FROM_HOST, OpenOptions::new().read(true)),
            false => File::open("/dev/null"),
        }
    }

    /// The host sees what is written when the write returns.
    fn output(&self) -> io::Result<File> {
        let path = Path::new(OUTPUT_AT).join(OUTPUT);
        match self.host_files {
            true => OpenOptions::new().append(true).custom_flags(libc::O_SYNC).open(path),
            false => serial(TO_HOST, OpenOptions::new().write(true)),
        }
    }
}

/// Opens a serial line that carries bytes as they are.
fn serial(line: &str, how: &mut OpenOptions) -> io::Result<File> {
    let file = how.custom_flags(libc::O_NOCTTY).open(line)?;
    let mut settings = tcgetattr(&file)?;
    cfmakeraw(&mut settings);
    cfsetspeed(&mut settings, BaudRate::B115200)?;
    tcsetattr(&file, SetArg::TCSANOW, &settings)?;
    Ok(file)
}

/// Writes what is in the folders as a tar archive to the memory that the host shares, with the
/// names of files that programs asked for.
fn hand_over(folders: &[Mount], asked: &BTreeSet<String>) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(SHARED)?;
    let mut archive = tar::Builder::new(io::BufWriter::with_capacity(1 << 20, file));
    archive.mode(tar::HeaderMode::Deterministic);
    archive.follow_symlinks(false);
    // The host takes no files with holes.
    archive.sparse(false);
    for (number, Mount { guest, .. }) in folders.iter().enumerate() {
        archive.append_dir_all(number.to_string(), guest)?;
    }
    let names = serde_json::to_vec(asked)?;
    let mut header = tar::Header::new_gnu();
    header.set_size(names.len() as u64);
    header.set_mode(0o644);
    archive.append_data(&mut header, ASKED, names.as_slice())?;
    let file = archive.into_inner()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()
}

/// Makes the root of a guest with files of its own. Up to [`pause`] all guests of a kernel and a
/// processor are the same, and the host keeps the state that they have there; then come the guest's
/// own files, through the memory that it shares with the host.
fn arrive() -> io::Result<PathBuf> {
    for (kind, at) in [("devtmpfs", "/dev"), ("proc", "/proc"), ("sysfs", "/sys")] {
        put(kind, Path::new(at), kind, "")?;
    }
    load_modules(Path::new(MODULES))?;
    for at in ["/sys", "/proc"] {
        umount2(at, MntFlags::empty())?;
    }
    let root = PathBuf::from(NEW_ROOT);
    put("tmpfs", &root, "tmpfs", "mode=0755,size=100%")?;
    pause()?;
    let shared = File::open(SHARED)?;
    // What the kernel has read of it was there before the files.
    // SAFETY: an ioctl without an argument, on an owned descriptor.
    nix::errno::Errno::result(unsafe { libc::ioctl(shared.as_raw_fd(), FLUSH_BUFFERS, 0) })?;
    initramfs::unpack(BufReader::with_capacity(1 << 20, shared), &root)?;
    limit(&root)?;
    umount2("/dev", MntFlags::empty())?;
    Ok(root)
}

/// Leaves half of the free memory to programs, whatever they write to files: a program that fills
/// the root gets ENOSPC, and the guest goes on.
fn limit(root: &Path) -> io::Result<()> {
    let found = statvfs(root)?;
    let used = (found.blocks() - found.blocks_free()) * found.fragment_size();
    let free = sysinfo()?.ram_unused();
    let size = format!("mode=0755,size={}", used + free / 2);
    let flags = MsFlags::MS_REMOUNT;
    Ok(mount(None::<&str>, root, None::<&str>, flags, Some(size.as_str()))?)
}

/// Stops the machine until the host has it go on, which may be in another process, and later.
fn pause() -> io::Result<()> {
    // SAFETY: this process alone may then write to that one port, which is QEMU's device.
    nix::errno::Errno::result(unsafe { libc::ioperm(PAUSE_PORT.into(), 1, 1) })?;
    // SAFETY: the port may be written, and no memory changes.
    unsafe {
        core::arch::asm!("out dx, al", in("dx") PAUSE_PORT, in("al") 1_u8, options(nomem, nostack));
    }
    Ok(())
}

/// Loads the kernel modules in `folder`, in the order of their names.
fn load_modules(folder: &Path) -> io::Result<()> {
    let mut modules: Vec<PathBuf> =
        fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
    modules.sort();
    for module in modules {
        let file = File::open(&module)?;
        let loaded = nix::kmod::finit_module(&file, c"", nix::kmod::ModuleInitFlags::empty());
        match loaded {
            Ok(()) | Err(nix::errno::Errno::EEXIST) => {}
            Err(errno) => {
                let error = io::Error::from(errno);
                let text = format!("load {}: {error}", module.display());
                return Err(io::Error::new(error.kind(), text));
            }
        }
    }
    Ok(())
}

/// An overlay in memory over the host's files, which the kernel has mounted read-only.
fn overlay() -> io::Result<PathBuf> {
    // Some folder that each host has; it is seen again below the overlay.
    let base = Path::new("/tmp");
    put("tmpfs", base, "tmpfs", "mode=0755")?;
    let (upper, work, root) = (base.join("upper"), base.join("work"), base.join("root"));
    for folder in [&upper, &work, &root] {
        fs::create_dir(folder)?;
    }
    let layers = format!("lowerdir=/,upperdir={},workdir={}", upper.display(), work.display());
    put("overlay", &root, "overlay", &layers)?;
    Ok(root)
}

fn make_root(job: &Job, root: &Path) -> io::Result<()> {
    for (kind, at, options) in [
        ("proc", "proc", ""),
        ("sysfs", "sys", ""),
        ("devtmpfs", "dev", ""),
        ("devpts", "dev/pts", "mode=0620,ptmxmode=0666"),
        ("tmpfs", "dev/shm", "mode=1777,size=20%"),
        ("cgroup2", "sys/fs/cgroup", ""),
        ("tmpfs", "run", "mode=0755"),
    ] {
        let at = root.join(at);
        fs::create_dir_all(&at)?;
        put(kind, &at, kind, options)?;
    }
    for (name, to) in [
        ("fd", "/proc/self/fd"),
        ("stdin", "/proc/self/fd/0"),
        ("stdout", "/proc/self/fd/1"),
        ("stderr", "/proc/self/fd/2"),
    ] {
        symlink(to, root.join("dev").join(name)).or_else(there_already)?;
    }
    for Mount { host, guest } in &job.writable {
        let at = root.join(guest.strip_prefix("/").unwrap_or(guest));
        fs::create_dir_all(&at)?;
        if job.host_files {
            put("none", &at, "hostfs", host)?;
        }
    }
    chdir(root)?;
    if job.host_files {
        pivot_root(".", ".")?;
        umount2(".", MntFlags::MNT_DETACH)?;
    } else {
        // The first root of all cannot be unmounted.
        mount(Some("."), "/", None::<&str>, MsFlags::MS_MOVE, None::<&str>)?;
        chroot(".")?;
    }
    Ok(chdir("/")?)
}

fn put(what: &str, at: &Path, kind: &str, options: impl AsRef<Path>) -> io::Result<()> {
    let mounted = mount(Some(what), at, Some(kind), MsFlags::empty(), Some(options.as_ref()));
    mounted.map_err(|errno| {
        let error = io::Error::from(errno);
        io::Error::new(error.kind(), format!("mount {kind} at {}: {error}", at.display()))
    })
}

fn there_already(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::AlreadyExists => Ok(()),
        _ => Err(error),
    }
}
