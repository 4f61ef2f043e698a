//! Control channel between a program and the process that started it: JSON, one message per line.

use crate::error::Error;
use record::control::{Command, Status, take_lines};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Environment variable with the file descriptor of the channel, a connected Unix stream socket.
const VARIABLE: &str = "THINGBED_CONTROL_FD";

/// Both directions of the channel.
#[derive(Debug)]
pub struct Control {
    input: File,
    output: File,
    partial: Vec<u8>,
    stopped: bool,
}

impl Control {
    /// Uses the descriptor in the environment variable, else standard input and output, so that
    /// you can try a program by hand.
    ///
    /// # Errors
    /// The variable is not the number of an open descriptor.
    pub fn from_environment() -> Result<Self, Error> {
        let Some(value) = std::env::var_os(VARIABLE) else {
            return Self::over(libc::STDIN_FILENO, libc::STDOUT_FILENO);
        };
        let fd = value
            .to_str()
            .and_then(|text| text.parse::<RawFd>().ok())
            .filter(|fd| *fd >= 0)
            .ok_or_else(|| {
            Error::Control(format!(
                "{VARIABLE} is {value:?}; it must be the number of an open descriptor, such as 3"
            ))
        })?;
        Self::over(fd, fd)
    }

    /// Duplicates the descriptors, so that closing them leaves the originals open.
    pub(crate) fn over(input: RawFd, output: RawFd) -> Result<Self, Error> {
        let copy = |fd: RawFd| {
            // SAFETY: fcntl accepts any number and fails on a bad descriptor.
            // From 3 on, so that it never becomes a closed standard stream, to which logs are
            // written.
            let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) };
            if copy < 0 {
                return Err(Error::Control(format!(
                    "descriptor {fd} is not usable: {}; start the program with the \
                     channel on it, or without {VARIABLE} to use standard input and output",
                    io::Error::last_os_error()
                )));
            }
            // SAFETY: the copy is new and has no other owner.
            Ok(File::from(unsafe { OwnedFd::from_raw_fd(copy) }))
        };
        Ok(Self { input: copy(input)?, output: copy(output)?, partial: Vec::new(), stopped: false })
    }

    /// The descriptor to poll.
    pub fn descriptor(&self) -> RawFd {
        self.input.as_raw_fd()
    }

    /// A copy of the descriptor, to wait for it by other means than [`Self::descriptor`].
    ///
    /// # Errors
    /// There are too many open files.
    pub(crate) fn copy(&self) -> io::Result<OwnedFd> {
        self.input.as_fd().try_clone_to_owned()
    }

    /// Whether a stop message has ever arrived.
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Sends a message. A closed channel is not an error: the next `read` reports the end.
    pub fn send_status(&mut self, status: &Status) -> Result<(), Error> {
        let mut line = serde_json::to_vec(status)
            .map_err(|error| Error::Control(format!("could not write {status:?}: {error}")))?;
        line.push(b'\n');
        match self.output.write_all(&line) {
            Err(error) if !is_closed(&error) => Err(Error::Control(format!("write: {error}"))),
            _ => Ok(()),
        }
    }

    /// Reads the available messages. Blocks unless the descriptor is readable. The end of the
    /// channel counts as a stop message.
    pub fn read(&mut self) -> Result<Vec<Command>, Error> {
        let mut chunk = [0u8; 1024];
        let n = match self.input.read(&mut chunk) {
            Ok(n) => n,
            Err(error) if is_closed(&error) => 0,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
                ) =>
            {
                return Ok(Vec::new());
            }
            Err(error) => return Err(Error::Control(format!("read: {error}"))),
        };
        self.partial.extend_from_slice(&chunk[..n]);
        let mut commands = Vec::new();
        for line in take_lines(&mut self.partial) {
            if !line.trim_ascii().is_empty() {
                commands.push(parse(&line)?);
            }
        }
        // Messages in front of the end still count.
        if n == 0 {
            commands.push(Command::Stop {});
        }
        self.stopped |= commands.contains(&Command::Stop {});
        Ok(commands)
    }
}

fn parse(line: &[u8]) -> Result<Command, Error> {
    serde_json::from_slice(line).map_err(|error| {
        Error::Control(format!(
            "did not understand {:?}: {error}; expected {{\"start\":{{\"at_ns\":N}}}} or {{\"stop\":{{}}}}",
            String::from_utf8_lossy(line.trim_ascii())
        ))
    })
}

fn is_closed(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixStream;

    /// A channel, and the tool's end of it.
    pub(crate) fn pair() -> (UnixStream, Control) {
        let (near, far) = UnixStream::pair().unwrap();
        let control = Control::over(far.as_raw_fd(), far.as_raw_fd()).unwrap();
        (near, control)
    }

    #[test]
    fn speaks_as_agreed() {
        let (near, mut control) = pair();
        control.send_status(&Status::Ready {}).unwrap();
        control.send_status(&Status::Progress { sent: 2, replies: 1 }).unwrap();
        control.send_status(&Status::Done {}).unwrap();
        control.send_status(&Status::Failed { error: "no".into() }).unwrap();
        drop(control);
        let lines: Vec<_> = BufReader::new(near).lines().map(Result::unwrap).collect();
        assert_eq!(
            lines,
            [
                r#"{"ready":{}}"#,
                r#"{"progress":{"sent":2,"replies":1}}"#,
                r#"{"done":{}}"#,
                r#"{"failed":{"error":"no"}}"#
            ]
        );
    }

    #[test]
    fn understands_orders_in_pieces_and_the_end() {
        let (mut near, mut control) = pair();
        near.write_all(b"{\"start\":{\"at_").unwrap();
        assert_eq!(control.read().unwrap(), []);
        near.write_all(b"ns\":17}}\n\n{\"stop\":{}}\n").unwrap();
        assert!(!control.is_stopped());
        assert_eq!(control.read().unwrap(), [Command::Start { at_ns: 17 }, Command::Stop {}]);
        assert!(control.is_stopped());
        drop(near);
        assert_eq!(control.read().unwrap(), [Command::Stop {}]);
    }

    #[test]
    fn says_what_it_expected() {
        let (mut near, mut control) = pair();
        near.write_all(b"go\n").unwrap();
        let error = control.read().unwrap_err().to_string();
        assert!(error.contains("\"go\"") && error.contains("at_ns"), "{error}");
    }

    #[test]
    fn a_closed_descriptor_is_named() {
        let error = Control::over(9_999, 9_999).unwrap_err().to_string();
        assert!(error.contains("9999"), "{error}");
    }

    /// However a tool's messages arrive in pieces, the same are read.
    #[test]
    fn pieces_of_messages_make_no_difference() {
        let text = b"{\"start\":{\"at_ns\":18446744073709551615}}\n \r\n{\"stop\":{}}\n";
        for piece in 1..text.len() {
            let (mut near, mut control) = pair();
            let mut found = Vec::new();
            for piece in text.chunks(piece) {
                near.write_all(piece).unwrap();
                found.extend(control.read().unwrap());
            }
            assert_eq!(found, [Command::Start { at_ns: u64::MAX }, Command::Stop {}], "{piece}");
        }
    }

    #[test]
    fn an_incomplete_message_at_the_end_is_no_message_and_a_foreign_one_is_shown() {
        let (mut near, mut control) = pair();
        near.write_all(b"{\"start\":{\"at_ns\":1").unwrap();
        assert_eq!(control.read().unwrap(), []);
        drop(near);
        assert_eq!(control.read().unwrap(), [Command::Stop {}]);
        assert!(control.is_stopped());
        for wrong in
            ["{}", "{\"go\":{}}", "{\"start\":{}}", "{\"start\":{\"at_ns\":-1}}", "\u{fffd}"]
        {
            let (mut near, mut control) = pair();
            near.write_all(format!("{wrong}\n").as_bytes()).unwrap();
            let error = control.read().unwrap_err().to_string();
            assert!(error.contains(&format!("{wrong:?}")) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_tool_that_has_gone_is_no_error_of_a_status() {
        let (near, mut control) = pair();
        drop(near);
        control.send_status(&Status::Ready {}).unwrap();
        assert_eq!(control.read().unwrap(), [Command::Stop {}]);
    }
}
