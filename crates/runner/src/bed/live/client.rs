//! Clients of control sockets: finds labs and sends requests to them.

use super::{Reply, Request};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use units::Span;

/// I/O timeout of either side.
pub(super) const IO_TIMEOUT: Duration = Duration::from_secs(2);
/// Time limit of the lab to answer a request.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Time limit of a client to receive the reply: longer than the lab's, so that the lab's reason
/// arrives.
const REPLY_TIMEOUT: Duration = Duration::from_secs(34);

/// The process of a lab's tool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Door {
    pid: u32,
    /// The PID namespace of its id: containers can share the folder.
    namespace: u64,
}

impl Door {
    /// That of a process in this namespace.
    pub(super) fn of(pid: u32) -> Self {
        Self { pid, namespace: lab::pid_namespace() }
    }

    /// Path of its control socket.
    pub(super) fn path(self, dir: &Path) -> PathBuf {
        dir.join(format!("lab-{}-{:x}.sock", self.pid, self.namespace))
    }

    /// Path of its control socket in the folder of this user.
    fn socket(self) -> PathBuf {
        self.path(&lab::ledger_dir())
    }

    /// That of a control socket.
    fn of_name(name: &str) -> Option<Self> {
        let (pid, namespace) = name.strip_prefix("lab-")?.strip_suffix(".sock")?.split_once('-')?;
        let namespace = u64::from_str_radix(namespace, 16).ok()?;
        Some(Self { pid: pid.parse().ok()?, namespace })
    }

    fn is_here(self) -> bool {
        self.namespace == lab::pid_namespace()
    }
}

/// Process ids of the labs that this user can access.
///
/// # Errors
/// When the folder of control sockets cannot be read.
pub fn labs() -> io::Result<Vec<u32>> {
    let labs = doors()?.into_iter().filter(|door| door.is_here() && listens(&door.socket()));
    Ok(labs.map(|door| door.pid).collect())
}

/// The number of labs in other PID namespaces, such as other containers, whose process ids mean
/// nothing here: a command for them could reach other processes.
///
/// # Errors
/// When the folder of control sockets cannot be read.
pub fn labs_elsewhere() -> io::Result<usize> {
    let labs = doors()?.into_iter().filter(|door| !door.is_here() && listens(&door.socket()));
    Ok(labs.count())
}

/// Whether a process that this user can reach has the socket open.
fn listens(path: &Path) -> bool {
    // `WouldBlock`: it has not accepted many connections before, but it is there.
    reach(path).map_or_else(|error| error.kind() == io::ErrorKind::WouldBlock, |_| true)
}

/// Connects to a control socket.
///
/// # Errors
/// If no process has it open, if this user must not open it, or `WouldBlock` if its process does not
/// accept connections: a blocking connect would wait without a limit.
fn reach(path: &Path) -> io::Result<UnixStream> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    connect(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Removes the sockets of tools that are gone; returns their number.
///
/// # Errors
/// When the folder of control sockets cannot be read.
pub fn forget() -> io::Result<usize> {
    // The file exists, but no process listens. Other errors, such as missing permission, say nothing
    // about the process.
    let gone = |door: &Door| {
        let reached = reach(&door.socket());
        reached.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    };
    let gone = doors()?.into_iter().filter(gone);
    Ok(gone.filter(|door| fs::remove_file(door.socket()).is_ok()).count())
}

fn doors() -> io::Result<Vec<Door>> {
    let files = lab::ledger_files()?;
    let names = files.iter().filter_map(|file| file.file_name()?.to_str());
    let mut doors: Vec<Door> = names.filter_map(Door::of_name).collect();
    doors.sort_unstable();
    Ok(doors)
}

/// Sends a request to the lab of the tool's process `pid`.
///
/// # Errors
/// When the lab cannot be reached or does not answer.
pub fn ask(pid: u32, request: &Request) -> io::Result<Reply> {
    Ok(open(pid, request)?.0)
}

/// Sends a request to several labs at once. Returns for each, in this order, its process id and the
/// reply, or the error: `TimedOut` if it has not answered within `limit`.
pub fn ask_all(pids: &[u32], request: &Request, limit: Duration) -> Vec<(u32, io::Result<Reply>)> {
    let paths: Vec<_> = pids.iter().map(|pid| Door::of(*pid).socket()).collect();
    pids.iter().copied().zip(ask_sockets(&paths, request, limit)).collect()
}

/// Like [`ask_all`], with the paths of the control sockets. No thread: callers enter namespaces, which
/// only a process with one thread can.
fn ask_sockets(paths: &[PathBuf], request: &Request, limit: Duration) -> Vec<io::Result<Reply>> {
    let deadline = clock::now() + Span::from(limit);
    let mut all: Vec<_> = paths.iter().map(|path| Asked::send(path, request)).collect();
    loop {
        let left = deadline - clock::now();
        let mut waiting: Vec<_> = all.iter_mut().flatten().filter(|one| one.is_waiting()).collect();
        if waiting.is_empty() || left == Span::ZERO {
            break;
        }
        let mut fds: Vec<_> =
            waiting.iter().map(|one| PollFd::new(one.stream.as_fd(), PollFlags::POLLIN)).collect();
        // Rounded up, so that the last wait ends after the deadline.
        let left_ms = left.as_ns().div_ceil(1_000_000).min(1_000) as u16;
        let _ = poll(&mut fds, PollTimeout::from(left_ms));
        waiting.iter_mut().for_each(|one| one.read());
    }
    let late = |error: io::Error| match error.kind() {
        io::ErrorKind::WouldBlock => no_reply(limit),
        _ => error,
    };
    all.into_iter().map(|asked| asked.and_then(Asked::reply).map_err(late)).collect()
}

/// A lab that was asked, and what it has answered so far.
struct Asked {
    stream: UnixStream,
    line: Vec<u8>,
    ended: Option<io::Result<()>>,
}

impl Asked {
    fn send(path: &Path, request: &Request) -> io::Result<Self> {
        let mut stream = reach(path)?;
        stream.set_nonblocking(true)?;
        // Shorter than the empty buffer of a new socket.
        writeln!(stream, "{}", serde_json::to_string(request)?)?;
        Ok(Self { stream, line: Vec::new(), ended: None })
    }

    fn is_waiting(&self) -> bool {
        self.ended.is_none()
    }

    /// Reads what has arrived.
    fn read(&mut self) {
        let mut buffer = [0; 1 << 12];
        while self.ended.is_none() {
            match self.stream.read(&mut buffer) {
                Ok(0) => self.ended = Some(Ok(())),
                Ok(length) => {
                    self.line.extend_from_slice(&buffer[..length]);
                    if self.line.ends_with(b"\n") {
                        self.ended = Some(Ok(()));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => self.ended = Some(Err(error)),
            }
        }
    }

    /// The reply; `WouldBlock` if it is not complete.
    fn reply(self) -> io::Result<Reply> {
        self.ended.unwrap_or_else(|| Err(io::ErrorKind::WouldBlock.into()))?;
        Ok(serde_json::from_slice(&self.line)?)
    }
}

/// Like [`ask`], and returns the stream that follows the reply.
///
/// # Errors
/// See [`ask`].
pub fn open(pid: u32, request: &Request) -> io::Result<(Reply, BufReader<UnixStream>)> {
    open_within(&Door::of(pid).socket(), request, REPLY_TIMEOUT)
}

/// Like [`open`], with the path of the control socket and the time limit of each step.
fn open_within(
    path: &Path,
    request: &Request,
    limit: Duration,
) -> io::Result<(Reply, BufReader<UnixStream>)> {
    let late = |error: io::Error| match error.kind() {
        io::ErrorKind::WouldBlock => no_reply(limit),
        _ => error,
    };
    let mut stream = reach(path).map_err(late)?;
    stream.set_read_timeout(Some(limit))?;
    stream.set_write_timeout(Some(limit))?;
    writeln!(stream, "{}", serde_json::to_string(request)?).map_err(late)?;
    let (mut line, mut rest) = (String::new(), BufReader::new(stream));
    rest.read_line(&mut line).map_err(late)?;
    Ok((serde_json::from_str(&line)?, rest))
}

/// A lab begins no request whose client has gone, so that is known even of a lab that hangs.
fn no_reply(limit: Duration) -> io::Error {
    let text = format!(
        "it did not answer within {} s; if it had not begun the request by then, it will not run it",
        limit.as_secs_f64()
    );
    io::Error::new(io::ErrorKind::TimedOut, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// What failed before: labs were asked one after the other, so each that hangs delayed the list by
    /// 34 s.
    #[test]
    fn all_labs_are_asked_before_the_first_one_answers() {
        let dir = tempfile::tempdir().unwrap();
        let paths = ["one", "gone", "two"].map(|name| dir.path().join(name));
        drop(UnixListener::bind(&paths[1]).unwrap());
        let both = [0, 2].map(|at| UnixListener::bind(&paths[at]).unwrap());
        let serve = std::thread::spawn(move || {
            let clients = both.map(|listener| listener.accept().unwrap().0);
            for client in clients {
                BufReader::new(&client).read_line(&mut String::new()).unwrap();
                writeln!(&client, "{}", serde_json::to_string(&Reply::Done {}).unwrap()).unwrap();
            }
        });
        let limit = Duration::from_secs(120);
        let replies = ask_sockets(&paths, &Request::Lab {}, limit).into_iter();
        let kinds: Vec<_> = replies.map(|reply| reply.map_err(|error| error.kind())).collect();
        let gone = Err(io::ErrorKind::ConnectionRefused);
        assert_eq!(kinds, [Ok(Reply::Done {}), gone, Ok(Reply::Done {})]);
        serve.join().unwrap();
    }

    #[test]
    fn a_lab_that_hangs_is_not_awaited_beyond_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hangs");
        let _listener = UnixListener::bind(&path).unwrap();
        let replies = ask_sockets(&[path], &Request::Lab {}, Duration::from_millis(50));
        let error = replies[0].as_ref().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().contains("it will not run it"), "{error}");
    }

    /// A connect to a process that accepts nothing blocks once its backlog is full.
    #[test]
    fn a_lab_that_accepts_no_connection_is_there_and_does_not_answer() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lab.sock");
        let _listener = UnixListener::bind(&path).unwrap();
        let mut waiting = Vec::new();
        let full = loop {
            match reach(&path) {
                Ok(stream) => waiting.push(stream),
                Err(error) => break error,
            }
        };
        assert_eq!(full.kind(), io::ErrorKind::WouldBlock);
        assert!(listens(&path));
        let error = open_within(&path, &Request::Lab {}, Duration::from_secs(600)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
