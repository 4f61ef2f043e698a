//! A machine on a terminal of its node: an emulator, or a firmware that was built for this system.
//! What it prints goes to the log, the steps of the spec are entered, and clients of the node's
//! socket share the terminal.

mod clients;
mod ending;
mod keyboard;
mod script;

use crate::error::Error;
use clients::Clients;
use ending::Ending;
use keyboard::Keyboard;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, openpty};
use record::spec::ConsoleSpec;
use script::{PlainLines, Script};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command};
use units::Span;

/// Runs the machine until it ends; returns its exit status, as shells do: 128 plus the signal if one
/// ended it.
///
/// # Errors
/// There is no terminal, or the program cannot be started.
pub fn run(spec: &ConsoleSpec) -> Result<u8, Error> {
    let mut ending = Ending::new()?;
    let (mut terminal, mut child) = start(spec)?;
    let mut clients = Clients::listen()?;
    let (mut script, mut lines) = (Script::new(spec.steps.clone()), PlainLines::default());
    let mut keys = Keyboard::default();
    let mut buffer = vec![0; 1 << 16];
    // The first step may wait for nothing.
    if !spec.steps.is_empty() {
        eprintln_state(&script);
        enter(&mut script, &[], &mut keys);
    }
    loop {
        let now = clock::now();
        let mut events = PollFlags::POLLIN;
        events.set(PollFlags::POLLOUT, !keys.ready(now).is_empty());
        let mut all = vec![PollFd::new(terminal.as_fd(), events), ending.descriptor()];
        all.extend(clients.descriptors());
        let pause =
            [keys.pause(now), script.pause(now), ending.pause(now)].into_iter().flatten().min();
        match poll(&mut all, timeout(pause)) {
            Err(nix::errno::Errno::EINTR) => continue,
            Err(errno) => return Err(Error::io("wait for the machine")(errno.into())),
            Ok(_) => {}
        }
        let found: Vec<PollFlags> =
            all.iter().map(|fd| fd.revents().unwrap_or(PollFlags::empty())).collect();
        let has_ended = ending.serve(clock::now(), &mut child);
        if found[0].contains(PollFlags::POLLOUT) {
            let now = clock::now();
            let written = terminal.write(keys.ready(now)).unwrap_or(0);
            keys.entered(written, now);
        }
        if found[0].intersects(PollFlags::POLLIN | PollFlags::POLLHUP | PollFlags::POLLERR) {
            let length = match terminal.read(&mut buffer) {
                Ok(length) if length > 0 => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && !has_ended => continue,
                // The machine has closed the terminal.
                _ => return end(&mut child),
            };
            let printed = &buffer[..length];
            let mut out = io::stdout();
            // A full disk does not stop the machine.
            let _ = out.write_all(&lines.take(printed)).and_then(|()| out.flush());
            clients.print(printed);
            keys.hear(printed, clock::now());
            enter(&mut script, printed, &mut keys);
        } else if has_ended {
            return end(&mut child);
        } else if script.pause(now).is_some() {
            enter(&mut script, &[], &mut keys);
        }
        clients.serve(&found[2..], |typed| keys.take(typed));
    }
}

/// The time to wait for events if input waits for `pause`.
fn timeout(pause: Option<Span>) -> PollTimeout {
    // A millisecond more than needed rather than none.
    let ms = pause.map(|pause| pause.as_ns() / 1_000_000 + 1);
    ms.map_or(PollTimeout::NONE, |ms| PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX))
}

/// The terminal of the started machine, whose other end only the machine has.
fn start(spec: &ConsoleSpec) -> Result<(File, Child), Error> {
    let failed = |errno: nix::errno::Errno| Error::io("create a terminal")(errno.into());
    // The size that programs assume for a terminal without one, such as a serial line.
    let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = openpty(Some(&size), None).map_err(failed)?;
    nix::fcntl::fcntl(&pty.master, nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK))
        .map_err(failed)?;
    let copy = |fd: &OwnedFd| fd.try_clone().map_err(Error::io("copy a terminal"));
    let (stdin, stdout, stderr) = (copy(&pty.slave)?, copy(&pty.slave)?, pty.slave);
    let mut command = Command::new(&spec.argv[0]);
    command.args(&spec.argv[1..]).stdin(stdin).stdout(stdout).stderr(stderr);
    if spec.network_is_fixed {
        // SAFETY: only a system call between fork and exec.
        unsafe { command.pre_exec(without_net_admin) };
    }
    let master = pty.master;
    set_close_on_exec(&master).map_err(failed)?;
    let child = command.spawn().map_err(|error| not_started(&spec.argv[0], error))?;
    // The command has the machine's end of the terminal open until here.
    drop(command);
    Ok((File::from(master), child))
}

/// The number of CAP_NET_ADMIN (linux/capability.h).
const NET_ADMIN: libc::c_ulong = 12;

/// Takes from the program that is executed next the right to change its node's network.
fn without_net_admin() -> io::Result<()> {
    // Without the capability SETPCAP it fails. Then the program has no user who would get the right.
    // SAFETY: a plain system call on this process.
    unsafe { libc::prctl(libc::PR_CAPBSET_DROP, NET_ADMIN, 0, 0, 0) };
    Ok(())
}

fn set_close_on_exec(fd: &OwnedFd) -> nix::Result<()> {
    let flag = nix::fcntl::FdFlag::FD_CLOEXEC;
    nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_SETFD(flag)).map(drop)
}

fn not_started(program: &str, error: io::Error) -> Error {
    let hint = match error.kind() {
        io::ErrorKind::NotFound if program.starts_with("qemu-system") => {
            format!(
                "it is not installed; on Debian or Ubuntu it is in qemu-system-arm, \
                     qemu-system-x86 or qemu-system-misc, see `apt-file search bin/{program}`"
            )
        }
        io::ErrorKind::NotFound if Path::new(program).exists() => match program.contains('/') {
            true => {
                "the interpreter in its first line (`#!`), or its loader, does not exist".into()
            }
            false => format!("it is not in PATH; for the experiment's file, write ./{program}"),
        },
        io::ErrorKind::NotFound => {
            "there is no such program; paths are relative to the experiment file".to_owned()
        }
        io::ErrorKind::PermissionDenied if Path::new(program).is_dir() => {
            "it is a folder; name the program in it".to_owned()
        }
        io::ErrorKind::PermissionDenied => {
            format!("it may not be executed; to allow it: chmod +x {program}")
        }
        _ if error.raw_os_error() == Some(libc::ENOEXEC) => {
            "it is no program for this system; a script needs a first line such as `#!/bin/sh`"
                .to_owned()
        }
        _ => error.to_string(),
    };
    Error::protocol(&format!("start the machine {program}"), hint)
}

/// Enters what the steps say to what was printed.
fn enter(script: &mut Script, printed: &[u8], keys: &mut Keyboard) {
    let (entered, is_step_done) = script.take(printed, clock::now());
    keys.take(&entered);
    if is_step_done {
        eprintln_state(script);
    }
}

/// Writes how far the steps are to the log of errors.
fn eprintln_state(script: &Script) {
    let _ = writeln!(io::stderr(), "{}", script.state());
}

/// The exit status of a machine that has closed its terminal.
fn end(child: &mut Child) -> Result<u8, Error> {
    let status = child.wait().map_err(Error::io("wait for the machine"))?;
    Ok(status.code().unwrap_or(128 + status.signal().unwrap_or(0)) as u8)
}
