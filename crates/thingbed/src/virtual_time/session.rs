//! The host's side of `--stop-at`: the prompt and shells in the user's terminal.

use super::pause::{PauseCommand, PauseEvent};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};
use nix::unistd::read;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use units::Span;

/// Ctrl-] advances the clock by `STEP_NS` (ns) while a shell is open.
const ESCAPE: u8 = 0x1d;
/// Ctrl-D, the terminal's end of input.
const END: u8 = 4;
const STEP_NS: u64 = 100_000_000;
/// Polling interval of the user's interrupt, in ms.
const TICK_MS: u8 = 200;

/// The dialogue with the user.
pub(super) struct Session<'a> {
    interrupted: &'a AtomicBool,
    nodes: Vec<String>,
    terminal: bool,
    /// The terminal's settings before a shell used it.
    saved: Option<Termios>,
    greeted: bool,
    size: (u16, u16),
}

impl<'a> Session<'a> {
    pub fn new(nodes: Vec<String>, interrupted: &'a AtomicBool) -> Self {
        let terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        Self { interrupted, nodes, terminal, saved: None, greeted: false, size: size() }
    }

    /// Handles a message; returns the user's next command if the guest waits for one.
    pub fn handle(&mut self, event: PauseEvent) -> Option<PauseCommand> {
        match event {
            PauseEvent::At(ns) => Some(self.ask(ns)),
            PauseEvent::Waits => Some(self.read_input()),
            PauseEvent::Printed(bytes) => {
                let mut out = io::stdout().lock();
                let _ = out.write_all(&bytes).and_then(|()| out.flush());
                None
            }
            PauseEvent::Left => {
                self.restore();
                None
            }
            PauseEvent::Failed(text) => {
                self.restore();
                crate::complain(text);
                None
            }
        }
    }

    /// Prompts until the user enters a valid command.
    fn ask(&mut self, ns: u64) -> PauseCommand {
        let at = format!("{:.6} s", ns as f64 / 1e9);
        if !self.greeted {
            self.greeted = true;
            crate::remark(format_args!(
                "The run is paused at {at}; nodes: {}\n  NODE opens a shell there (exit closes \
                 it; Ctrl-] advances the clock by 100 ms), `go` continues, `go 50ms` continues for \
                 50 ms, `quit` ends the run",
                self.nodes.join(", ")
            ));
        }
        loop {
            let mut out = io::stderr().lock();
            let _ = write!(out, "{at}> ").and_then(|()| out.flush());
            drop(out);
            // At the end of input, as in a script, no command can follow, so the run goes on to its
            // end.
            let Some(line) = self.line() else {
                return if self.interrupted.load(Relaxed) {
                    PauseCommand::End
                } else {
                    PauseCommand::Go
                };
            };
            if !self.terminal {
                crate::remark(&line);
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            let advice = match words.as_slice() {
                [] => continue,
                ["go"] => return PauseCommand::Go,
                ["go", span] => match span.parse::<Span>() {
                    Ok(span) => return PauseCommand::Pass(span.as_ns()),
                    Err(error) => error.to_string(),
                },
                ["quit" | "exit"] => return PauseCommand::End,
                [node] if self.nodes.iter().any(|known| known == node) => {
                    if self.terminal {
                        self.take_terminal();
                    }
                    self.size = size();
                    let (rows, columns) = self.size;
                    return PauseCommand::Shell { node: (*node).to_owned(), rows, columns };
                }
                _ => format!("no node is called `{line}`"),
            };
            crate::remark(format_args!("{advice}; enter a node, `go`, `go 50ms` or `quit`"));
        }
    }

    /// The next input for the shell.
    fn read_input(&mut self) -> PauseCommand {
        if !self.terminal {
            // One line at a time, as from a keyboard: the next line may be for the prompt.
            return PauseCommand::Keys(
                self.line().map_or_else(|| vec![END], |line| (line + "\n").into_bytes()),
            );
        }
        let now = size();
        if now != self.size {
            self.size = now;
            return PauseCommand::Size { rows: now.0, columns: now.1 };
        }
        if !self.wait_for_input() {
            return PauseCommand::End;
        }
        let mut buffer = [0; 128];
        match read(io::stdin(), &mut buffer) {
            Ok(0) | Err(_) => PauseCommand::Keys(vec![END]),
            // Alone in a read, it is a key; inside of pasted text it is text.
            Ok(1) if buffer[0] == ESCAPE => PauseCommand::Pass(STEP_NS),
            Ok(length) => PauseCommand::Keys(buffer[..length].to_vec()),
        }
    }

    /// The next line of standard input, read byte by byte because the rest may be for a shell.
    /// None at the end of input, or after an interrupt.
    fn line(&self) -> Option<String> {
        let mut line = Vec::new();
        loop {
            let mut byte = [0];
            if !self.wait_for_input() {
                return None;
            }
            match read(io::stdin(), &mut byte) {
                Ok(1) if byte[0] == b'\n' => break,
                Ok(1) => line.push(byte[0]),
                _ if line.is_empty() => return None,
                _ => break,
            }
        }
        Some(String::from_utf8_lossy(&line).trim().to_owned())
    }

    /// Waits for input; false after an interrupt.
    fn wait_for_input(&self) -> bool {
        while !self.interrupted.load(Relaxed) {
            let stdin = io::stdin();
            let mut fds = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
            if poll(&mut fds, PollTimeout::from(TICK_MS)).is_ok_and(|n| n > 0) {
                return true;
            }
        }
        false
    }

    fn take_terminal(&mut self) {
        let Ok(now) = tcgetattr(io::stdin()) else { return };
        let mut raw = now.clone();
        cfmakeraw(&mut raw);
        if tcsetattr(io::stdin(), SetArg::TCSANOW, &raw).is_ok() {
            self.saved = Some(now);
        }
    }

    fn restore(&mut self) {
        if let Some(saved) = self.saved.take() {
            let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, &saved);
        }
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        self.restore();
    }
}

/// Rows and columns of the terminal; 24 and 80 without a terminal.
fn size() -> (u16, u16) {
    let mut size = nix::pty::Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
    // SAFETY: writes one structure that lives over the call.
    unsafe { libc::ioctl(0, libc::TIOCGWINSZ, &raw mut size) };
    (size.ws_row, size.ws_col)
}
