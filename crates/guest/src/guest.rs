//! The host's side of a guest: start, messages, end.

use crate::boot::{self, Exit};
use crate::console::{is_out_of_memory, is_unmapped, last_words};
use crate::kernel_process::prepare;
use crate::leftovers;
use crate::machine::Engine;
use crate::monitor::Monitor;
use crate::open_trace;
use crate::placement::Placement;
use crate::{Error, Image, Machine, Mount, Running, qemu, snapshot, uml};
use nix::fcntl::Flock;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::statvfs::statvfs;
use nix::unistd::Pid;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Polling interval of the guest's output.
const LOOK: Duration = Duration::from_millis(20);
/// Minimum memory of a guest in bytes; guests with less do not boot.
const LEAST_BYTES: u64 = 256 << 20;
/// Time for the kernel to answer SIGUSR1.
const ANSWER: Duration = Duration::from_millis(50);
/// Maximum length in bytes of a line; Thingbed's lines are shorter.
const LINE_BYTES: usize = 16 << 20;

/// An event of a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A line that the command printed.
    Line(String),
    /// The wait timed out.
    Silence,
    /// The command ended with this exit status, and the guest has ended.
    Ended(i32),
}

/// A running guest. Drop kills it and removes its files.
#[derive(Debug)]
pub struct Guest {
    child: Child,
    /// Its standard input, if it accepts input while it runs.
    input: Option<ChildStdin>,
    /// The output of the guest's command: a file, because each read from a pipe would interrupt
    /// the guest, so that runs would differ.
    output: File,
    /// The connection to QEMU, which exits when it closes.
    monitor: Option<Monitor>,
    /// The received part of an incomplete line.
    pending: Vec<u8>,
    exit: Option<i32>,
    /// Its place among the host's CPUs, with User Mode Linux: QEMU works with several threads.
    placement: Option<Placement>,
    /// Its input while it is paused.
    keys: Option<File>,
    /// The files of this host that it has copies of, in a guest with its own files.
    known: BTreeSet<PathBuf>,
    /// The names of files that its programs opened.
    asked: Vec<String>,
    /// The folders that it sends at its end.
    results: Vec<Mount>,
    /// Its init, its job and its console.
    folder: TempDir,
    /// Marks the folder as in use.
    _lock: Flock<File>,
}

impl Guest {
    /// Starts `machine`.
    ///
    /// # Errors
    /// When the host has too little memory or fails to start it.
    pub fn boot(machine: &Machine) -> Result<Self, Error> {
        match &machine.engine {
            Engine::UserModeLinux { kernel } => {
                let folder = Home::make(machine.memory_bytes)?;
                let mut command = uml::command(machine, kernel, folder.path())?;
                let log = console_log(folder.path())?;
                command.stdin(Stdio::piped()).stdout(log);
                let output =
                    output(folder.path()).map_err(Error::io("create the guest's output file"))?;
                let mut guest = Self::start(command, folder, output, Vec::new())?;
                guest.placement = Some(Placement::of(guest.child.id()));
                Ok(guest)
            }
            Engine::Qemu { kernel, mips } => {
                let image = Image::of(machine, kernel, *mips)?;
                let mut guest = Self::boot_image(&image, machine.writable.clone(), &machine.cache)?;
                guest.known = image.files.into_keys().collect();
                Ok(guest)
            }
        }
    }

    /// Starts a guest of QEMU from `image`. Its results go to the folders `results` of the host.
    /// `cache` holds snapshots of booted guests.
    ///
    /// # Errors
    /// When the host has too little memory or no QEMU.
    pub fn boot_image(image: &Image, results: Vec<Mount>, cache: &Path) -> Result<Self, Error> {
        let folder = Home::make(image.memory_bytes)?;
        // The output file must exist before QEMU starts, also for the QEMU that makes the snapshot.
        let output = output(folder.path()).map_err(Error::io("create the guest's output file"))?;
        let shape = qemu::Shape::of(image)?;
        let state = snapshot::state(image, shape, cache, folder.path())?;
        let mut command = qemu::command(image, shape, state, folder.path())?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut guest = Self::start(command, folder, output, results)?;
        let monitor = Monitor::of(&mut guest.child).and_then(|mut monitor| {
            monitor.load(qemu::STATE_FD)?;
            Ok(monitor)
        });
        guest.monitor = Some(monitor.map_err(|error| guest.died(error.to_string()))?);
        Ok(guest)
    }

    fn start(
        mut command: Command,
        home: Home,
        output: File,
        results: Vec<Mount>,
    ) -> Result<Self, Error> {
        let Home { memory, folder, lock } = home;
        let log = console_log(folder.path())?;
        command.current_dir(folder.path()).env("TMPDIR", &memory).stderr(log);
        prepare(&mut command);
        let mut child = command.spawn().map_err(Error::io("start the guest's kernel"))?;
        // A guest with its own files gets no input: its arrival would change the run (decision 42).
        let input = if results.is_empty() { child.stdin.take() } else { None };
        // For reading too, so that opening does not wait for a reader, and the guest never sees an
        // end of file.
        let keys = OpenOptions::new().read(true).write(true).open(folder.path().join(uml::KEYS));
        Ok(Self {
            known: BTreeSet::new(),
            asked: Vec::new(),
            keys: keys.ok(),
            monitor: None,
            placement: None,
            child,
            input,
            output,
            pending: Vec::new(),
            exit: None,
            results,
            folder,
            _lock: lock,
        })
    }

    /// The next event; waits at most `wait`.
    ///
    /// # Errors
    /// When the guest stopped before its command had ended.
    pub fn next(&mut self, wait: Duration) -> Result<Event, Error> {
        let until = Instant::now() + wait;
        loop {
            if let Some(line) = self.line() {
                match serde_json::from_str::<Exit>(&line) {
                    Ok(Exit { exit }) => self.exit = Some(exit),
                    Err(_) => return Ok(Event::Line(line)),
                }
                continue;
            }
            self.placement.iter_mut().for_each(Placement::look);
            // Check this before reading, so that all output before the end is read.
            let ended = self.child.try_wait().map_err(Error::io("wait for the guest"))?;
            let mut buffer = [0; 65_536];
            let length =
                self.output.read(&mut buffer).map_err(Error::io("read the guest's output"))?;
            self.pending.extend_from_slice(&buffer[..length]);
            match (length, ended) {
                (0, Some(status)) => return self.ended(status).map(Event::Ended),
                (0, None) if Instant::now() >= until => return Ok(Event::Silence),
                (0, None) => std::thread::sleep(LOOK.min(wait)),
                _ => {}
            }
            if self.pending.len() > LINE_BYTES {
                return Err(self.died("it wrote a line that is too long".to_owned()));
            }
        }
    }

    /// Sends a line to the command's standard input.
    ///
    /// # Errors
    /// When the guest has ended, or accepts no input while it runs (`Unsupported`).
    pub fn send(&mut self, line: &str) -> io::Result<()> {
        match &mut self.input {
            Some(input) => writeln!(input, "{line}"),
            None => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Sends a line to a guest that is paused in a read of `/proc/hold` (User Mode Linux only).
    ///
    /// # Errors
    /// When the guest has ended.
    pub fn answer(&mut self, line: &str) -> io::Result<()> {
        match &mut self.keys {
            Some(keys) => writeln!(keys, "{line}"),
            None => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Queries the guest's kernel for its time and its running program. None without an answer.
    pub fn running(&mut self) -> Option<Running> {
        self.input.as_ref()?;
        let pid = Pid::from_raw(self.child.id() as i32);
        let before = self.console_bytes().len();
        kill(pid, Signal::SIGUSR1).ok()?;
        // The kernel answers on its console, in its own time.
        std::thread::sleep(ANSWER);
        Running::after(&self.console_bytes(), before)
    }

    /// The files of this host (relative to `home`) that programs opened and that the guest lacks,
    /// for a guest with its own files. Complete only after the guest has ended.
    pub fn missing(&self, home: &Path) -> Vec<PathBuf> {
        match self.known.is_empty() {
            true => Vec::new(),
            false => open_trace::missing(&self.asked, &self.known, home),
        }
    }

    /// The output on its console.
    pub fn console(&self) -> String {
        String::from_utf8_lossy(&self.console_bytes()).into_owned()
    }

    fn console_bytes(&self) -> Vec<u8> {
        fs::read(console(self.folder.path())).unwrap_or_default()
    }

    fn line(&mut self) -> Option<String> {
        let end = self.pending.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.pending.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line).trim_end().to_owned())
    }

    /// The exit status of its command, after the kernel has ended with `status`.
    fn ended(&mut self, status: ExitStatus) -> Result<i32, Error> {
        if self.exit.is_some() && !self.results.is_empty() {
            // Only if the command ended: otherwise the memory may have half an archive.
            self.asked = qemu::take_results(self.folder.path(), &self.results)?;
        }
        self.exit.ok_or_else(|| {
            self.died(match (status.code(), status.signal()) {
                (Some(code), _) => format!("exit status {code} of its kernel"),
                (_, Some(libc::SIGBUS)) => "SIGBUS: the host has no memory left for it".to_owned(),
                (_, Some(signal)) => format!("signal {signal}"),
                _ => "unknown".to_owned(),
            })
        })
    }

    fn died(&self, how: String) -> Error {
        let console = console(self.folder.path());
        if is_out_of_memory(&console) {
            return Error::OutOfMemory;
        }
        if is_unmapped(&console) {
            return Error::Unmapped(last_words(&console));
        }
        Error::Died { how, words: last_words(&console) }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // The kernel leads a separate process group, which contains its programs.
        // The group's number cannot be reused before `wait`.
        let _ = killpg(Pid::from_raw(self.child.id() as i32), Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

/// The folder of a guest on the host.
struct Home {
    /// The folder for its memory.
    memory: PathBuf,
    folder: TempDir,
    lock: Flock<File>,
}

impl Home {
    fn make(memory_bytes: u64) -> Result<Self, Error> {
        let memory = memory_folder(memory_bytes)?;
        leftovers::remove_in(&memory);
        let prefix = leftovers::prefix();
        let folder = tempfile::Builder::new().prefix(&prefix).tempdir_in(&memory);
        let folder = folder.map_err(Error::io("create a folder for the guest"))?;
        let lock = leftovers::lock(folder.path()).map_err(Error::io("lock the guest's folder"))?;
        Ok(Self { memory, folder, lock })
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// The console's file, opened to append.
fn console_log(folder: &Path) -> Result<File, Error> {
    let file = OpenOptions::new().create(true).append(true).open(console(folder));
    file.map_err(Error::io("create the file of the guest's console"))
}

fn console(folder: &Path) -> PathBuf {
    folder.join("console")
}

/// The file that the guest's command writes to, opened for reading.
fn output(folder: &Path) -> io::Result<File> {
    let path = folder.join(boot::OUTPUT);
    fs::create_dir(&path)?;
    let path = path.join(boot::OUTPUT);
    File::create(&path)?;
    File::open(&path)
}

/// The folder for the file of the guest's memory: in memory if it has enough space, because on a
/// disk each page is written back.
fn memory_folder(needed: u64) -> Result<PathBuf, Error> {
    let free = |folder: &Path| {
        statvfs(folder).map_or(0, |found| found.blocks_available() * found.fragment_size())
    };
    let candidates = leftovers::folders();
    let roomy = candidates.iter().find(|folder| free(folder) >= needed);
    let best = roomy.or_else(|| candidates.iter().max_by_key(|folder| free(folder)));
    let folder = best.cloned().unwrap_or_else(std::env::temp_dir);
    match free(&folder) {
        free if free < LEAST_BYTES => {
            Err(Error::Memory { needed_mib: needed >> 20, free_mib: free >> 20, folder })
        }
        _ => Ok(folder),
    }
}
