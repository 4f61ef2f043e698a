//! `thingbed exec` and `shell`: run programs in a node, on this terminal.

use super::find;
use crate::arguments::{Exec, Shell};
use crate::remark;
use lab::Seal;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::openpty;
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use runner::NodeShown;
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Environment variable: set if the terminal was created for the program alone.
pub(crate) const OWN_TERMINAL: &str = "THINGBED_OWN_TERMINAL";

/// Runs a program in a node. Returns its exit status.
pub fn exec(arguments: &Exec) -> Result<u8, String> {
    let node = find(&arguments.lab)?.node(&arguments.node)?;
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let mut command = Command::new(&arguments.command[0]);
    command.args(&arguments.command[1..]);
    set_environment(&mut command, &node);
    for variable in &arguments.env {
        match variable.split_once('=') {
            Some((name, value)) => drop(command.env(name, value)),
            None => match std::env::var_os(variable) {
                Some(value) => drop(command.env(variable, value)),
                None => {
                    return Err(format!(
                        "--env {variable}: there is no such variable here\n  write --env \
                         {variable}=VALUE to set it"
                    ));
                }
            },
        }
    }
    run(command, &node, arguments.workdir.clone().unwrap_or(here))
}

/// Opens a shell in a node. Returns its exit status.
pub fn shell(arguments: &Shell) -> Result<u8, String> {
    let node = find(&arguments.lab)?.node(&arguments.node)?;
    let here = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    // Prefer the user's shell, if the node has it.
    let own = std::env::var("SHELL").unwrap_or_default();
    let inside = PathBuf::from(format!("/proc/{}/root{own}", node.pid));
    let shell = if !own.is_empty() && inside.exists() { own } else { "sh".to_owned() };
    let mut command = Command::new(shell);
    set_environment(&mut command, &node);
    run(command, &node, here)
}

/// Sets the variables of a program: the node's, and of the caller's only those that every program
/// needs. Others may be secrets, which the node's programs could read.
fn set_environment(command: &mut Command, node: &NodeShown) {
    lab::clean_environment(command);
    if node.boundary.rooted {
        // Libraries of the host's LD_LIBRARY_PATH are not in the node, or are other ones.
        command.env("PATH", lab::PATH).env("HOME", "/root").env_remove("LD_LIBRARY_PATH");
    }
    // After the defaults, so that the experiment's `env` wins.
    command.envs(node.env.iter().map(|(name, value)| (name, value)));
    command.env("THINGBED_NODE", &node.name);
}

fn run(mut command: Command, shown: &NodeShown, folder: PathBuf) -> Result<u8, String> {
    let node = &shown.name;
    if shown.has_own_stack {
        remark(format_args!(
            "{node} is a machine, and this program runs outside of it, without its address; to use \
             the machine: thingbed console {node}"
        ));
    }
    // Before entering: what is prepared here needs the host's files (decision 57).
    let seal = shown.boundary.seal();
    let seal =
        seal.map_err(|error| format!("could not prepare the boundary of {node}: {error}"))?;
    lab::enter(shown.pid).map_err(|error| error.to_string())?;
    // The node may have another root file system, without this folder.
    command.current_dir(if folder.is_dir() { folder } else { PathBuf::from("/") });
    let path = command.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, path)| path);
    let path = path.unwrap_or_default().to_string_lossy().into_owned();
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |error: io::Error| {
        let hint = match error.kind() {
            io::ErrorKind::NotFound => {
                format!("\n  the program is not in the node's file system; PATH is {path}")
            }
            io::ErrorKind::PermissionDenied => {
                "\n  the file is not executable; run chmod +x".to_owned()
            }
            _ => String::new(),
        };
        format!("could not run {program} in {node}: {error}{hint}")
    };
    let terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    let status = match terminal {
        // Inside a guest with `--stop-at` the pseudoterminal exists already.
        true if std::env::var_os(OWN_TERMINAL).is_some() => {
            take_terminal(&mut command);
            apply(&seal, &mut command);
            // The program would pass it on, and a `thingbed shell` in it would take the wrong
            // terminal.
            command.env_remove(OWN_TERMINAL).spawn().and_then(|mut child| child.wait())
        }
        true => at_terminal(command, &seal),
        false => {
            apply(&seal, &mut command);
            command.spawn().and_then(|mut child| {
                // The terminal sends Ctrl-C to the whole process group; only the program handles it.
                // After the start, because a child inherits ignored signals.
                for signal in [libc::SIGINT, libc::SIGQUIT] {
                    // SAFETY: ignoring a signal touches no memory of this process.
                    unsafe { libc::signal(signal, libc::SIG_IGN) };
                }
                child.wait()
            })
        }
    };
    Ok(code(status.map_err(failed)?))
}

/// Exit status as in shells: the status, or 128 plus the signal.
fn code(status: ExitStatus) -> u8 {
    status.code().unwrap_or(128 + status.signal().unwrap_or(0)) as u8
}

/// Limits a program as the node's own; the last step of its start. Of the descriptors of this
/// process it has the three standard ones.
fn apply(seal: &Seal, command: &mut Command) {
    seal.bound(command);
    seal.close(command, 3);
}

/// Makes standard input the controlling terminal of a program.
fn take_terminal(command: &mut Command) {
    // SAFETY: only system calls between fork and exec.
    unsafe {
        command.pre_exec(|| {
            // Only the leader of a new session can take a controlling terminal (tty_ioctl(4)).
            if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(())
        });
    }
}

/// Runs a program on a new pseudoterminal that is connected to this terminal: in the node's PID
/// namespace, a shell could not identify the foreground process of this terminal.
fn at_terminal(mut command: Command, seal: &Seal) -> io::Result<ExitStatus> {
    let saved = tcgetattr(io::stdin())?;
    let pty = openpty(Some(&size()), Some(&saved))?;
    let [a, b, c] = [pty.slave.try_clone()?, pty.slave.try_clone()?, pty.slave.try_clone()?];
    command.stdin(a).stdout(b).stderr(c);
    take_terminal(&mut command);
    apply(seal, &mut command);
    let child = command.spawn()?;
    // It holds the slave's descriptors; while one is open here, the end of the program is not an
    // end of file.
    drop(command);
    drop(pty.slave);
    // After the start: a program that cannot be started must leave the terminal as it was.
    let raw = RawTerminal::enter()?;
    let ended = pump(&pty.master, child);
    drop(raw);
    ended
}

/// This terminal, while it passes all keys on as they are. Restored on drop.
pub(super) struct RawTerminal(Termios);

impl RawTerminal {
    pub fn enter() -> io::Result<Self> {
        let saved = tcgetattr(io::stdin())?;
        let mut raw = saved.clone();
        cfmakeraw(&mut raw);
        tcsetattr(io::stdin(), SetArg::TCSANOW, &raw)?;
        Ok(Self(saved))
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, &self.0);
    }
}

fn size() -> nix::pty::Winsize {
    let mut size = nix::pty::Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: writes to one structure, which outlives the call.
    unsafe { libc::ioctl(0, libc::TIOCGWINSZ, &raw mut size) };
    size
}

/// Copies input and output between both terminals until the program exits.
fn pump(master: &OwnedFd, mut child: Child) -> io::Result<ExitStatus> {
    let resized = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(libc::SIGWINCH, resized.clone())?;
    let (mut stdin_lock, mut stdout) = (io::stdin().lock(), io::stdout().lock());
    let mut terminal = std::fs::File::from(master.try_clone()?);
    let (mut stdin_open, mut buffer) = (true, [0; 4096]);
    loop {
        if resized.swap(false, Relaxed) {
            let size = size();
            // SAFETY: reads one structure, which outlives the call.
            unsafe { libc::ioctl(master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
        }
        let stdin = io::stdin();
        let mut fds = vec![PollFd::new(master.as_fd(), PollFlags::POLLIN)];
        if stdin_open {
            fds.push(PollFd::new(stdin.as_fd(), PollFlags::POLLIN));
        }
        // 100 ms: SIGWINCH and the end of the child have no descriptor here, so both are looked at
        // in turn.
        let _ = poll(&mut fds, PollTimeout::from(100_u16));
        let ready: Vec<bool> = fds.iter().map(|fd| fd.any().unwrap_or(false)).collect();
        if ready[0] {
            match terminal.read(&mut buffer) {
                // All processes with the terminal open have closed it.
                Ok(0) | Err(_) => return child.wait(),
                Ok(length) => {
                    stdout.write_all(&buffer[..length])?;
                    stdout.flush()?;
                }
            }
        }
        if ready.get(1).copied().unwrap_or(false) {
            match stdin_lock.read(&mut buffer) {
                Ok(0) | Err(_) => stdin_open = false,
                Ok(length) => terminal.write_all(&buffer[..length])?,
            }
        }
        // A background process may keep the terminal open; the output so far is read first.
        if let (false, Some(status)) = (ready[0], child.try_wait()?) {
            return Ok(status);
        }
    }
}
