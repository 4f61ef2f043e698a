//! The guest's side: its init, which creates the file system and runs the command.
//!
//! In User Mode Linux the kernel mounts the host's root read-only, below an overlay in memory.
//! Programs see all files of the host and can write anywhere; the writes disappear with the
//! guest. Only the machine's writable folders are on the host.

use crate::machine::Engine;
use crate::open_trace;
use crate::{Machine, Mount, initramfs, randomness};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::reboot::{RebootMode, reboot};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::statvfs::statvfs;
use nix::sys::sysinfo::sysinfo;
use nix::sys::termios::{BaudRate, SetArg, cfmakeraw, cfsetspeed, tcgetattr, tcsetattr};
use nix::sys::wait::{WaitStatus, wait};
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

/// The first argument of the tool when it runs as a guest's init.
pub const INIT: &str = "guest-init";

/// The serial line from the host, which carries the user's interrupt.
const FROM_HOST: &str = "/dev/ttyS0";
/// The serial line to the host, in a guest with its own files; the other line is its console.
const TO_HOST: &str = "/dev/ttyS1";
/// The memory that a guest with its own files shares with the host.
const SHARED: &str = "/dev/pmem0";
/// `BLKFLSBUF` of linux/fs.h.
const FLUSH_BUFFERS: libc::c_ulong = 0x1261;
/// I/O port of the device `pvpanic`: a write pauses the guest.
pub(crate) const PAUSE_PORT: u16 = 0x505;
/// Where a guest with its own files creates its root.
pub(crate) const NEW_ROOT: &str = "/newroot";
/// The folder with the job and the kernel's modules, in a guest with its own files.
pub(crate) const OWN: &str = "/guest";
pub(crate) const MODULES: &str = "/guest/modules";
/// The name of the file that the command writes to, and of its folder.
pub(crate) const OUTPUT: &str = "output";
/// The entry of the results with the names of files that programs opened.
pub(crate) const ASKED: &str = "asked";
/// The path of that folder in the guest.
const OUTPUT_AT: &str = "/run/output";
/// Hard limit of open files per program, as on most distributions.
const MOST_FILES: u64 = 1 << 20;

/// Minimum uptime of a guest when its command starts.
const LEAST_AGE: Duration = Duration::from_secs(10);

/// The task of a guest's init.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    tool: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    directory: PathBuf,
    writable: Vec<Mount>,
    /// Whether the guest sees the host's files; otherwise it has its own, and sends its results
    /// as an archive.
    host_files: bool,
    /// The seed of all random numbers, in a guest with its own files.
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
        // The guest gets no input that it does not need, e.g. the date of the run.
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

    /// Puts its output into `folder` of the host.
    pub fn with_output_of(mut self, folder: &Path) -> Self {
        self.writable.push(Mount { host: folder.join(OUTPUT), guest: OUTPUT_AT.into() });
        self
    }

    /// Writes the job into the folder in which the guest's init looks for it.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, folder: &Path) -> io::Result<()> {
        fs::write(folder.join("job"), serde_json::to_vec(self)?)
    }

    fn read(folder: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&fs::read(folder.join("job"))?)?)
    }
}

/// The `main` of a guest's init; does not return in a guest. The argument after [`INIT`] is the
/// guest's folder on the host; the kernel adds others.
pub fn init() -> ExitCode {
    if std::process::id() != 1 {
        let _ = writeln!(
            io::stderr(),
            "error: `{INIT}` is internal to Thingbed: it runs only in a guest"
        );
        return ExitCode::from(2);
    }
    let folder = std::env::args_os().nth(2).map(PathBuf::from).unwrap_or_default();
    // QEMU exits when the guest reboots: some guests cannot power off.
    let own = folder == Path::new(OWN);
    let end = if own { RebootMode::RB_AUTOBOOT } else { RebootMode::RB_POWER_OFF };
    let made = match own {
        true => arrive().map(|root| (root.join("guest"), root)),
        false => overlay().map(|root| (folder, root)),
    };
    let outcome =
        made.map_err(|error| ("create the guest's root", error)).and_then(|(at, root)| {
            let job = Job::read(&at).map_err(|error| ("read the job", error))?;
            run(&job, &root)
        });
    if let Err((tried, error)) = outcome {
        // The host shows the console's last lines.
        let _ = writeln!(io::stderr(), "guest: could not {tried}: {error}");
    }
    nix::unistd::sync();
    let _ = reboot(end);
    ExitCode::FAILURE
}

type Failure = (&'static str, io::Error);

fn run(job: &Job, root: &Path) -> Result<(), Failure> {
    make_root(job, root).map_err(|error| ("create the guest's root", error))?;
    if !job.host_files {
        randomness::seed(job.seed).map_err(|error| ("seed the kernel's random numbers", error))?;
    }
    // All frames between nodes pass this queue of the processor. The default of 1,000 overflows when
    // some hundred nodes answer a multicast at once; errors do not matter, since drops are reported.
    let _ = fs::write("/proc/sys/net/core/netdev_max_backlog", BACKLOG);
    settle();
    // Kernels without it work, too.
    let notes = !job.host_files && open_trace::begin().is_ok();
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
    // All files must reach the host before the host learns that the command has ended.
    match job.host_files {
        true => nix::unistd::sync(),
        false => {
            let names = if notes { open_trace::end().unwrap_or_default() } else { BTreeSet::new() };
            hand_over(&job.writable, &names).map_err(|error| ("send the results", error))?;
        }
    }
    // After the results: the host takes this line as the end of the command.
    let line = serde_json::to_string(&Exit { exit }).unwrap_or_default();
    writeln!(output, "{line}").map_err(|error| ("write to the host", error))
}

/// Frames that the kernel queues between its network devices: about 60 MB of memory when full.
const BACKLOG: &str = "30000";

/// Waits until the guest's uptime is that of a usual machine: some programs treat a clock below
/// one second as unset (ping then sends without its interval).
fn settle() {
    let now = Duration::from_nanos(clock::now_ns());
    std::thread::sleep(LEAST_AGE.saturating_sub(now));
}

/// Waits for process `selected` and returns its exit status; also reaps orphans.
fn exit_of(selected: i32) -> io::Result<i32> {
    loop {
        match wait()? {
            WaitStatus::Exited(pid, code) if pid.as_raw() == selected => return Ok(code),
            WaitStatus::Signaled(pid, signal, _) if pid.as_raw() == selected => {
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

    /// A write is visible to the host when it returns.
    fn output(&self) -> io::Result<File> {
        let path = Path::new(OUTPUT_AT).join(OUTPUT);
        match self.host_files {
            true => OpenOptions::new().append(true).custom_flags(libc::O_SYNC).open(path),
            false => serial(TO_HOST, OpenOptions::new().write(true)),
        }
    }
}

/// Opens a serial line in raw mode.
fn serial(line: &str, how: &mut OpenOptions) -> io::Result<File> {
    let file = how.custom_flags(libc::O_NOCTTY).open(line)?;
    let mut settings = tcgetattr(&file)?;
    cfmakeraw(&mut settings);
    cfsetspeed(&mut settings, BaudRate::B115200)?;
    tcsetattr(&file, SetArg::TCSANOW, &settings)?;
    Ok(file)
}

/// Writes the content of the folders, and the names of files that programs opened, as a tar
/// archive to the memory shared with the host.
fn hand_over(folders: &[Mount], requested: &BTreeSet<String>) -> io::Result<()> {
    let file = OpenOptions::new().write(true).open(SHARED)?;
    let mut archive = tar::Builder::new(io::BufWriter::with_capacity(1 << 20, file));
    archive.mode(tar::HeaderMode::Deterministic);
    archive.follow_symlinks(false);
    // The host rejects sparse files.
    archive.sparse(false);
    for (number, Mount { guest, .. }) in folders.iter().enumerate() {
        archive.append_dir_all(number.to_string(), guest)?;
    }
    let names = serde_json::to_vec(requested)?;
    let mut header = tar::Header::new_gnu();
    header.set_size(names.len() as u64);
    header.set_mode(0o644);
    archive.append_data(&mut header, ASKED, names.as_slice())?;
    let file = archive.into_inner()?.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()
}

/// Creates the root of a guest with its own files. Up to [`pause`] all guests of a kernel and a
/// processor are identical, and the host saves a snapshot there. Then the guest reads its files
/// from the memory shared with the host.
fn arrive() -> io::Result<PathBuf> {
    for (kind, at) in [("devtmpfs", "/dev"), ("proc", "/proc"), ("sysfs", "/sys")] {
        put(kind, Path::new(at), kind, "")?;
    }
    // Before the pause: modules are part of the snapshot.
    load_modules(Path::new(MODULES))?;
    for at in ["/sys", "/proc"] {
        umount2(at, MntFlags::empty())?;
    }
    let root = PathBuf::from(NEW_ROOT);
    put("tmpfs", &root, "tmpfs", "mode=0755,size=100%")?;
    // From here on guests differ.
    pause()?;
    let shared = File::open(SHARED)?;
    // The kernel may have cached data from before the host wrote the files.
    // SAFETY: an ioctl without an argument, on an owned descriptor.
    nix::errno::Errno::result(unsafe { libc::ioctl(shared.as_raw_fd(), FLUSH_BUFFERS, 0) })?;
    initramfs::unpack(BufReader::with_capacity(1 << 20, shared), &root)?;
    limit(&root)?;
    umount2("/dev", MntFlags::empty())?;
    Ok(root)
}

/// Limits files to half of the free memory, which leaves the rest to programs: a program that
/// fills the root gets ENOSPC, and the guest continues.
fn limit(root: &Path) -> io::Result<()> {
    let found = statvfs(root)?;
    let used = (found.blocks() - found.blocks_free()) * found.fragment_size();
    let free = sysinfo()?.ram_unused();
    let size = format!("mode=0755,size={}", used + free / 2);
    let flags = MsFlags::MS_REMOUNT;
    Ok(mount(None::<&str>, root, None::<&str>, flags, Some(size.as_str()))?)
}

/// Pauses the machine until the host resumes it, possibly later and in another process.
fn pause() -> io::Result<()> {
    // SAFETY: only permits this process to write to one port, QEMU's device.
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

/// Mounts an overlay in memory over the host's files, which the kernel has mounted read-only.
fn overlay() -> io::Result<PathBuf> {
    // A folder that each host has; the overlay shows its content again.
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
        // The initial root file system (rootfs) cannot be unmounted.
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
