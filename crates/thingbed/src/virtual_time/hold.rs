//! The guest's side of `--stop-at`: the clock is paused, and the user has shells in nodes.
//!
//! A read of `/proc/hold` halts the guest's kernel until the host writes. Shells must still
//! work, so this code reads it only when all programs wait: with an infinite CPU no time passes
//! while a program runs.

use super::pause::{PauseCommand, PauseEvent};
use super::wire::{Message, send};
use crate::environment::current_exe;
use crate::live::OWN_TERMINAL;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, openpty};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use units::{Instant, Span};

/// The file whose read halts the guest.
const HOLD: &str = "/proc/hold";

/// Starts a thread that pauses the guest `at` after `start`.
pub(super) fn stop_at(start: Instant, at: Span, interrupted: Arc<AtomicBool>) {
    std::thread::spawn(move || {
        // Timers of this thread are exact (slack of 1 ns).
        // The default slack of 50 us would stop the run at another time than asked, and differently
        // with other programs' timers.
        // SAFETY: a plain system call.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        clock::sleep_until(start + at);
        if let Err(error) = hold(start, &interrupted) {
            say(PauseEvent::Failed(format!("could not stop the run: {error}")));
        }
    });
}

/// Executes the user's commands until the run continues.
fn hold(start: Instant, interrupted: &AtomicBool) -> io::Result<()> {
    let opened = File::open(HOLD).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => io::Error::other(
            "the guest's kernel cannot pause: it is an older version\n  make kernel",
        ),
        _ => error,
    });
    let mut host = Host(BufReader::new(opened?));
    loop {
        say(PauseEvent::At((clock::now() - start).as_ns()));
        match host.command()? {
            PauseCommand::Shell { node, rows, columns } => {
                let ended = shell(&node, (rows, columns), &mut host);
                say(ended.map_or_else(
                    |error| PauseEvent::Failed(error.to_string()),
                    |()| PauseEvent::Left,
                ));
            }
            PauseCommand::Pass(ns) => clock::sleep_until(clock::now() + Span::from_ns(ns)),
            PauseCommand::Go => return Ok(()),
            PauseCommand::End => {
                interrupted.store(true, Relaxed);
                return Ok(());
            }
            PauseCommand::Keys(_) | PauseCommand::Size { .. } => {}
        }
    }
}

/// The connection to the user at the host.
struct Host(BufReader<File>);

impl Host {
    fn command(&mut self) -> io::Result<PauseCommand> {
        let mut line = String::new();
        self.0.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }
}

/// Runs a shell in a node until it ends.
fn shell(node: &str, (rows, columns): (u16, u16), host: &mut Host) -> io::Result<()> {
    let size =
        |rows, columns| Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = openpty(Some(&size(rows, columns)), None)?;
    let [stdin, stdout, stderr] =
        [pty.slave.try_clone()?, pty.slave.try_clone()?, pty.slave.try_clone()?];
    let mut command = Command::new(current_exe());
    // By `thingbed shell`, so that the shell has the node's boundary and environment as in a live
    // lab.
    command.args(["shell", node]).env(OWN_TERMINAL, "1").stdin(stdin).stdout(stdout).stderr(stderr);
    let mut child = command.spawn()?;
    drop(command);
    drop(pty.slave);
    let mut terminal = File::from(pty.master);
    loop {
        // First what the shell has printed, then its input: the prompt is visible before the user
        // types.
        if !print(&mut terminal, &mut child, Duration::ZERO)? {
            return Ok(());
        }
        if others_run() {
            // The other programs run during this sleep; the clock moves only when all wait.
            std::thread::sleep(Duration::from_nanos(1));
            continue;
        }
        say(PauseEvent::Waits);
        match host.command()? {
            PauseCommand::Keys(keys) => terminal.write_all(&keys)?,
            PauseCommand::Size { rows, columns } => {
                let size = size(rows, columns);
                // SAFETY: reads one structure that lives over the call.
                unsafe { libc::ioctl(terminal.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
            }
            PauseCommand::Pass(ns) => {
                // `poll` may return early for output, so the time is kept here.
                let until = clock::now() + Span::from_ns(ns);
                while clock::now() < until {
                    let left = until - clock::now();
                    if !print(&mut terminal, &mut child, left.into())? {
                        return Ok(());
                    }
                }
            }
            PauseCommand::Go | PauseCommand::End | PauseCommand::Shell { .. } => {
                child.kill()?;
                return child.wait().map(drop);
            }
        }
    }
}

/// Forwards the shell's output, waiting up to `wait` for it; returns whether the shell runs.
fn print(terminal: &mut File, child: &mut Child, wait: Duration) -> io::Result<bool> {
    let mut buffer = [0; 4096];
    // In whole milliseconds, the unit of poll(2).
    let wait = PollTimeout::try_from(wait.as_millis().clamp(0, 60_000) as i32);
    let mut wait = wait.unwrap_or(PollTimeout::ZERO);
    loop {
        let mut fds = [PollFd::new(terminal.as_fd(), PollFlags::POLLIN)];
        let speaks = poll(&mut fds, wait).is_ok_and(|n| n > 0);
        wait = PollTimeout::ZERO;
        if !speaks {
            return Ok(child.try_wait()?.is_none());
        }
        match terminal.read(&mut buffer) {
            // The last process that had the terminal open has closed it.
            Ok(0) | Err(_) => return child.wait().map(|_| false),
            Ok(length) => say(PauseEvent::Printed(buffer[..length].to_vec())),
        }
    }
}

/// Whether any other program is runnable, by the count in `/proc/loadavg` (proc(5)).
fn others_run() -> bool {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let running = text.split_whitespace().nth(3).and_then(|word| word.split('/').next());
    running.and_then(|running| running.parse().ok()).is_some_and(|running: u32| running > 1)
}

fn say(event: PauseEvent) {
    send(&Message::Held(event));
}
