//! The control protocol between the tool and a program: JSON lines over a socket.

use record::control::{Command, Status, take_lines};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

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
        // One thread serves the connections of all programs, so no program may make it wait.
        ours.set_nonblocking(true)?;
        Ok((Self { socket: ours, unread: Vec::new(), over: false }, theirs.into()))
    }

    /// Whether the program can still send messages.
    pub(crate) fn is_open(&self) -> bool {
        !self.over
    }

    /// Sends a message; ignored if the program is gone.
    pub(crate) fn send(&mut self, what: Command) {
        let line = serde_json::to_string(&what).unwrap_or_default() + "\n";
        // The few short lines of a run always fit into the socket's buffer.
        let _ = self.socket.write_all(line.as_bytes());
    }

    /// Reads all new messages of the program. An invalid message counts as a failure.
    pub(crate) fn receive(&mut self) -> Vec<Status> {
        let mut buffer = [0; 4096];
        let mut messages = Vec::new();
        loop {
            match self.socket.read(&mut buffer) {
                Ok(0) => self.over = true,
                Ok(n) => {
                    self.unread.extend_from_slice(&buffer[..n]);
                    messages.extend(take_lines(&mut self.unread).iter().map(|line| message(line)));
                    // A program that sends no line ends must not fill the memory.
                    if self.unread.len() <= LONGEST {
                        continue;
                    }
                    self.over = true;
                    self.unread.clear();
                    messages.push(too_long());
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // A program that ended with unread commands resets the connection (ECONNRESET).
                Err(_) => self.over = true,
            }
            return messages;
        }
    }
}

/// The failure of a program whose line is too long; what follows it is not read.
fn too_long() -> Status {
    let error = format!("sent a line of more than {LONGEST} B on its control socket");
    Status::Failed { error }
}

/// The message of a line.
fn message(line: &[u8]) -> Status {
    serde_json::from_slice(line).unwrap_or_else(|error| {
        let line = String::from_utf8_lossy(line);
        let line = line.trim();
        let error =
            format!("sent `{line}` on its control socket, which is not a valid message: {error}");
        Status::Failed { error }
    })
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
        assert_eq!(ours.receive(), [Status::Ready {}]);
        theirs.write_all(b"\"replies\":2}}\nhello\n").unwrap();
        let messages = ours.receive();
        assert_eq!(messages[0], Status::Progress { sent: 3, replies: 2 });
        assert!(matches!(&messages[1], Status::Failed { error } if error.contains("`hello`")));
        assert!(ours.is_open());
        ours.send(Command::Start { at_ns: 7 });
        ours.send(Command::Stop {});
        let mut received = [0; 100];
        let n = theirs.read(&mut received).unwrap();
        assert_eq!(&received[..n], b"{\"start\":{\"at_ns\":7}}\n{\"stop\":{}}\n");
        drop(theirs);
        assert!(ours.receive().is_empty() && !ours.is_open());
    }

    /// What failed: lines that were valid and short ended the connection if they arrived together.
    #[test]
    fn any_number_of_lines_is_read_at_once() {
        let (mut ours, theirs) = ControlConnection::begin().unwrap();
        let mut theirs = UnixStream::from(theirs);
        let line = b"{\"received\":{\"messages\":1234567}}\n";
        let count = LONGEST / line.len() + 100;
        theirs.write_all(&line.repeat(count)).unwrap();
        let messages = ours.receive();
        assert_eq!(messages, vec![Status::Received { messages: 1_234_567 }; count]);
        theirs.write_all(b"{\"done\":{}}\n").unwrap();
        assert_eq!(ours.receive(), [Status::Done {}]);
    }

    #[test]
    fn a_line_without_end_is_a_failure_and_the_last_thing_that_is_read() {
        let (mut ours, theirs) = ControlConnection::begin().unwrap();
        let mut theirs = UnixStream::from(theirs);
        theirs.write_all(b"{\"done\":{}}\n").unwrap();
        theirs.write_all(&vec![b'x'; LONGEST + 1]).unwrap();
        let messages = ours.receive();
        assert_eq!(messages[0], Status::Done {});
        assert!(matches!(&messages[1..], [Status::Failed { error }] if error.contains("65536 B")));
        assert!(!ours.is_open());
    }

    #[test]
    fn what_a_program_said_before_its_end_is_read_and_half_a_line_is_not() {
        let (mut ours, theirs) = ControlConnection::begin().unwrap();
        let mut theirs = UnixStream::from(theirs);
        theirs.write_all(b"{\"done\":{}}\n{\"ready").unwrap();
        drop(theirs);
        assert_eq!(ours.receive(), [Status::Done {}]);
        assert!(!ours.is_open() && ours.receive().is_empty());
        // A program that is gone gets nothing, which is no error.
        ours.send(Command::Stop {});
    }
}
