//! `thingbed console`: the terminal of a node that is a machine.

use super::enter::RawTerminal;
use super::find;
use crate::arguments::Console;
use crate::{Status, printable, remark};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use record::spec::{CONSOLE_ATTACH, CONSOLE_FOLLOW, CONSOLE_SOCKET};
use std::io::{self, IsTerminal, Read, Write};
use std::os::fd::AsFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::{Duration, Instant};

/// Ctrl-], which leaves the console.
const LEAVE: u8 = 0x1d;
/// A line that is longer is shown in parts, in bytes.
// A machine that prints without line ends must not fill the memory.
const MOST_LINE: usize = 1 << 16;

/// Connects this terminal to a node's console, or enters a line and waits for an answer.
pub fn console(arguments: &Console) -> Result<Status, String> {
    let node = find(&arguments.lab)?.node(&arguments.node)?;
    // It would print nothing until it goes on.
    if arguments.wait.is_some() && node.is_paused() {
        return Err(paused(&node.name));
    }
    let stream = connect(node.pid, &node.name)?;
    match arguments.send.is_some() || arguments.wait.is_some() {
        true => converse(stream, arguments),
        false => attach(stream, &node.name),
    }
}

fn paused(node: &str) -> String {
    format!(
        "the machine of {node} is paused and prints nothing\n  let it go on with `thingbed resume {node}`"
    )
}

/// Why the text did not come in time.
fn too_late(text: &str, arguments: &Console) -> String {
    // A user or a fault may have paused it meanwhile.
    let node = find(&arguments.lab).and_then(|lab| lab.node(&arguments.node));
    match node.is_ok_and(|node| node.is_paused()) {
        true => paused(&arguments.node),
        false => format!("the machine did not print {text:?} within {}", arguments.within),
    }
}

fn connect(init: i32, node: &str) -> Result<UnixStream, String> {
    lab::enter_network(init).map_err(|error| error.to_string())?;
    let stream = SocketAddr::from_abstract_name(CONSOLE_SOCKET)
        .and_then(|address| UnixStream::connect_addr(&address));
    stream.map_err(|error| match error.kind() {
        io::ErrorKind::ConnectionRefused => format!(
            "{node} has no console\n  nodes with `firmware` or `qemu` have one while they run; for \
             others use `thingbed shell {node}`"
        ),
        _ => format!("could not connect to the console of {node}: {error}"),
    })
}

fn failed(error: &io::Error) -> String {
    format!("could not use the console: {error}\n  the machine may have ended")
}

/// Enters a line and prints what the machine prints, until a text if there is one to wait for.
fn converse(mut stream: UnixStream, arguments: &Console) -> Result<Status, String> {
    // The first byte says what the connection is for: `record::spec` defines it.
    let mut entered = vec![CONSOLE_FOLLOW];
    if let Some(line) = &arguments.send {
        entered.extend(line.bytes());
        // The Enter key of a terminal sends a carriage return.
        entered.push(b'\r');
    }
    stream.write_all(&entered).map_err(|error| failed(&error))?;
    let Some(text) = &arguments.wait else { return Ok(Status::Fine) };
    let end = Instant::now() + Duration::from_nanos(arguments.within.as_ns());
    let (mut printed, mut found, mut buffer) = (Lines::default(), Search::of(text), [0; 4096]);
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let waited =
            // The timeout of poll(2) is an `int` of ms; one minute is below any limit, and the loop
            // checks the time itself.
            PollTimeout::try_from(left.min(Duration::from_secs(60))).unwrap_or(PollTimeout::ZERO);
        let mut fds = [PollFd::new(stream.as_fd(), PollFlags::POLLIN)];
        if poll(&mut fds, waited).is_ok_and(|ready| ready > 0) {
            let length = stream.read(&mut buffer).map_err(|error| failed(&error))?;
            if length == 0 {
                return Err(format!("the machine ended before it printed {text:?}"));
            }
            print(printed.whole(&buffer[..length]))?;
            found.look(&buffer[..length]);
        }
        if found.is_found {
            return print(printed.rest()).map(|()| Status::Fine);
        }
        if Instant::now() >= end {
            print(printed.rest())?;
            return Err(too_late(text, arguments));
        }
    }
}

/// Output that is shown in whole lines, so that no character is cut.
#[derive(Debug, Default)]
struct Lines {
    /// Output whose first `shown` bytes are shown.
    output: Vec<u8>,
    shown: usize,
}

impl Lines {
    /// Takes output; returns what can be shown now.
    fn whole(&mut self, output: &[u8]) -> &[u8] {
        self.output.drain(..self.shown);
        self.output.extend_from_slice(output);
        let end = self.output.iter().rposition(|byte| *byte == b'\n');
        let cut = (self.output.len() >= MOST_LINE).then_some(self.output.len());
        self.shown = end.map(|end| end + 1).or(cut).unwrap_or(0);
        &self.output[..self.shown]
    }

    /// What was not shown yet.
    fn rest(&self) -> &[u8] {
        &self.output[self.shown..]
    }
}

/// The search for a text in output that arrives in parts.
#[derive(Debug)]
struct Search<'a> {
    text: &'a [u8],
    /// The end of the output, which can be the beginning of the text.
    end: Vec<u8>,
    is_found: bool,
}

impl<'a> Search<'a> {
    fn of(text: &'a str) -> Self {
        Self { text: text.as_bytes(), end: Vec::new(), is_found: text.is_empty() }
    }

    // A text may come in two parts, so the last bytes, one less than the text has, are kept.
    fn look(&mut self, output: &[u8]) {
        self.end.extend_from_slice(output);
        let size = self.text.len().max(1);
        self.is_found |= self.end.windows(size).any(|part| part == self.text);
        self.end.drain(..(self.end.len() + 1).saturating_sub(size).min(self.end.len()));
    }
}

fn print(text: &[u8]) -> Result<(), String> {
    // The machine is foreign code: its control characters must not reach the terminal here, where
    // lines are shown and not a session.
    let text = printable(&String::from_utf8_lossy(text).replace('\r', ""));
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| failed(&error))
}

/// Connects this terminal until Ctrl-], the end of input, or the end of the machine.
fn attach(mut stream: UnixStream, node: &str) -> Result<Status, String> {
    let is_terminal = io::stdin().is_terminal();
    if is_terminal {
        remark(format_args!("console of {node}; Ctrl-] leaves it"));
    }
    let raw = is_terminal.then(RawTerminal::enter).transpose();
    let raw = raw.map_err(|error| format!("could not use this terminal: {error}"))?;
    let done = stream.write_all(&[CONSOLE_ATTACH]).and_then(|()| pump(&mut stream));
    // Before any message: lines printed in raw mode would have no carriage return.
    drop(raw);
    match done {
        Ok(true) => Ok(Status::Fine),
        Ok(false) => {
            remark(format_args!("the machine of {node} has ended"));
            Ok(Status::Fine)
        }
        Err(error) => Err(failed(&error)),
    }
}

/// Copies in both directions; returns whether the user left.
fn pump(stream: &mut UnixStream) -> io::Result<bool> {
    let (mut stdin, mut stdout, mut buffer) = (io::stdin(), io::stdout(), [0; 4096]);
    loop {
        let source = io::stdin();
        let mut fds = [
            PollFd::new(stream.as_fd(), PollFlags::POLLIN),
            PollFd::new(source.as_fd(), PollFlags::POLLIN),
        ];
        poll(&mut fds, PollTimeout::NONE)?;
        let ready = fds.map(|fd| fd.any().unwrap_or(false));
        if ready[0] {
            match stream.read(&mut buffer)? {
                0 => return Ok(false),
                length => {
                    stdout.write_all(&buffer[..length])?;
                    stdout.flush()?;
                }
            }
        }
        if ready[1] {
            let length = stdin.read(&mut buffer)?;
            let typed = &buffer[..length];
            let end = typed.iter().position(|key| *key == LEAVE);
            stream.write_all(&typed[..end.unwrap_or(length)])?;
            // The end of input leaves too, so that a console in a script ends.
            if length == 0 || end.is_some() {
                return Ok(true);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_found_across_parts_in_constant_memory() {
        let mut search = Search::of("alive");
        for _ in 0..1000 {
            search.look(b"is not aliv");
            search.look(b" ");
            assert!(search.end.len() < 5 && !search.is_found);
        }
        search.look(b"ali");
        search.look(b"ve");
        assert!(search.is_found);
        assert!(Search::of("").is_found);
    }

    #[test]
    fn lines_are_shown_whole_unless_they_have_no_end() {
        let mut lines = Lines::default();
        assert_eq!(lines.whole(b"one\ntw"), b"one\n");
        assert_eq!(lines.whole(b"o"), b"");
        assert_eq!(lines.whole(b"\nthr"), b"two\n");
        assert_eq!(lines.rest(), b"thr");
        assert_eq!(lines.whole(&[b'x'; MOST_LINE]).len(), MOST_LINE + 3);
        assert_eq!(lines.rest(), b"");
    }
}
