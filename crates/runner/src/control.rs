//! The control protocol between the tool and a program: JSON lines over a socket.

use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// A message from a program.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FromProgram {
    /// The program is connected and waits for the start.
    Ready {},
    /// Progress counters.
    Progress { sent: u64, replies: u64 },
    /// The schedule is over and all answers have arrived.
    Done {},
    /// The machine is contended.
    Contended { why: String },
    /// The program cannot continue.
    Failed { error: String },
}

/// A message to a program.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ToProgram {
    /// Offset 0 of the schedule, in ns of CLOCK_MONOTONIC.
    Start { at_ns: u64 },
    /// Stop now.
    Stop {},
}

/// The tool's end of a control connection.
#[derive(Debug)]
pub(crate) struct ControlConnection {
    socket: UnixStream,
    unread: Vec<u8>,
    over: bool,
}

/// Longest valid line, in bytes.
const LONGEST: usize = 64 * 1024;

impl ControlConnection {
    /// Creates a connection and the program's end of it.
    pub(crate) fn begin() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        Ok((Self { socket: ours, unread: Vec::new(), over: false }, theirs.into()))
    }

    /// Whether the program can still send messages.
    pub(crate) fn is_open(&self) -> bool {
        !self.over
    }

    /// Sends a message; ignored if the program is gone.
    pub(crate) fn send(&mut self, what: ToProgram) {
        let line = serde_json::to_string(&what).unwrap_or_default() + "\n";
        // The few short lines of a run always fit into the socket's buffer.
        let _ = self.socket.write_all(line.as_bytes());
    }

    /// Reads all new messages of the program. An invalid message counts as a failure.
    pub(crate) fn receive(&mut self) -> Vec<FromProgram> {
        let mut buffer = [0; 4096];
        loop {
            match self.socket.read(&mut buffer) {
                Ok(0) => self.over = true,
                Ok(n) => {
                    self.unread.extend_from_slice(&buffer[..n]);
                    if self.unread.len() <= LONGEST {
                        continue;
                    }
                    self.over = true;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => self.over = true,
            }
            break;
        }
        let mut messages = Vec::new();
        while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            messages.push(serde_json::from_slice(&line).unwrap_or_else(|error| {
                FromProgram::Failed {
                    error: format!(
                        "sent `{}` on its control socket, which is not a valid message: {error}",
                        String::from_utf8_lossy(&line).trim()
                    ),
                }
            }));
        }
        messages
    }
}

impl AsFd for ControlConnection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_in_pieces_and_nonsense() {
        let (mut ours, theirs) = ControlConnection::begin().unwrap();
        let mut theirs = UnixStream::from(theirs);
        theirs.write_all(b"{\"ready\":{}}\n{\"progress\":{\"sent\":3,").unwrap();
        assert_eq!(ours.receive(), [FromProgram::Ready {}]);
        theirs.write_all(b"\"replies\":2}}\nhello\n").unwrap();
        let messages = ours.receive();
        assert_eq!(messages[0], FromProgram::Progress { sent: 3, replies: 2 });
        assert!(matches!(&messages[1], FromProgram::Failed { error } if error.contains("`hello`")));
        assert!(ours.is_open());
        ours.send(ToProgram::Start { at_ns: 7 });
        ours.send(ToProgram::Stop {});
        let mut received = [0; 100];
        let n = theirs.read(&mut received).unwrap();
        assert_eq!(&received[..n], b"{\"start\":{\"at_ns\":7}}\n{\"stop\":{}}\n");
        drop(theirs);
        assert!(ours.receive().is_empty() && !ours.is_open());
    }
}
