//! The control socket of a running lab, which only its user may open.

use super::inventory::Shared;
use super::links::LinkApi;
use super::{ManualChange, Reply, Request};
use engine::Remote;
use measure::Accounting;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt};
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A request for the lab's own thread, with the channel for the reply.
pub(crate) struct Pending {
    pub request: Request,
    pub answer: Sender<Reply>,
}

/// The queue of requests, and the file descriptor that signals new ones.
pub(crate) struct Requests {
    requests: Receiver<Pending>,
    wake_up: UnixStream,
}

impl Requests {
    /// The next request, if any.
    pub(crate) fn next(&self) -> Option<Pending> {
        // The bytes only wake the poll. Reading them first loses no request: one that is queued
        // later writes another byte.
        let _ = (&self.wake_up).read(&mut [0; 64]);
        self.requests.try_recv().ok()
    }
}

impl AsFd for Requests {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake_up.as_fd()
    }
}

/// The control socket of a running lab.
pub(crate) struct ControlSocket {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    made: Arc<Mutex<Vec<ManualChange>>>,
    thread: Option<JoinHandle<()>>,
}

/// Time between two looks at the stop flag. A client wakes the thread at once.
const TURN_MS: u16 = 100;
/// I/O timeout of either side.
const IO_TIMEOUT: Duration = Duration::from_secs(2);
/// Time limit of the lab to answer a request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest request, in bytes.
const LONGEST: u64 = 1 << 16;

/// The process of a lab's tool.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Door {
    pid: u32,
    /// The PID namespace of its id: containers can share the folder.
    namespace: u64,
}

impl Door {
    /// That of a process in this namespace.
    fn of(pid: u32) -> Self {
        Self { pid, namespace: lab::pid_namespace() }
    }

    /// Path of its control socket.
    fn path(self, dir: &Path) -> PathBuf {
        dir.join(format!("lab-{}-{:x}.sock", self.pid, self.namespace))
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

impl ControlSocket {
    /// Opens the socket.
    pub(crate) fn open(
        inventory: &Shared,
        remote: Remote<Accounting>,
    ) -> io::Result<(Self, Requests)> {
        let path = Door::of(std::process::id()).path(&lab::own_dir()?);
        // A socket with this process id can only belong to a process that is gone.
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        // In addition to the folder's permissions and the check of the peer (decision 17).
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        let (stop, made) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let link_api = LinkApi::new(inventory.clone(), remote, made.clone());
        let (waker, wake_up) = UnixStream::pair()?;
        wake_up.set_nonblocking(true)?;
        // A full pipe must not block the thread of the socket, which also answers link requests.
        waker.set_nonblocking(true)?;
        let (sender, requests) = channel();
        let end = stop.clone();
        let work = move || {
            while !end.load(Relaxed) {
                let mut fds = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
                let _ = poll(&mut fds, PollTimeout::from(TURN_MS));
                while let Ok((client, _)) = listener.accept() {
                    // A client that disconnects early gets no reply.
                    let _ = serve(&link_api, &client, &sender, &waker);
                }
            }
        };
        let thread = std::thread::Builder::new().name("door".into()).spawn(work)?;
        let socket = Self { path, stop, made, thread: Some(thread) };
        Ok((socket, Requests { requests, wake_up }))
    }

    /// The changes made through it so far.
    pub(crate) fn made(&self) -> Vec<ManualChange> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Closes the socket; returns the changes made through it.
    pub(crate) fn close(mut self) -> Vec<ManualChange> {
        self.shut();
        std::mem::take(&mut *self.made.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn shut(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // Before the thread has ended, so that no further client connects to it.
            let _ = fs::remove_file(&self.path);
            let _ = thread.join();
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.shut();
    }
}

fn serve(
    link_api: &LinkApi,
    client: &UnixStream,
    requests: &Sender<Pending>,
    mut waker: &UnixStream,
) -> io::Result<()> {
    // Timeouts work only on a blocking socket.
    client.set_nonblocking(false)?;
    client.set_read_timeout(Some(IO_TIMEOUT))?;
    client.set_write_timeout(Some(IO_TIMEOUT))?;
    let mut line = String::new();
    // A client that sends no line end must not fill the memory.
    let mut limited = Read::take(BufReader::new(client), LONGEST);
    limited.read_line(&mut line)?;
    let reply = match (may(client), serde_json::from_str(&line)) {
        (false, _) => Reply::Refused("the lab belongs to another user".to_owned()),
        (true, Err(error)) => Reply::Refused(format!("the request is not valid: {error}")),
        (true, Ok(request)) => match request {
            // They need the engine's thread only, not the lab's own.
            Request::Show { .. } | Request::Set { .. } | Request::Down { .. } => {
                link_api.answer(request).unwrap_or_else(Reply::Refused)
            }
            Request::Capture { .. } => match link_api.capture(&request, client) {
                // The client has its answer; the frames that follow have their own sink.
                Ok(()) => return Ok(()),
                Err(why) => Reply::Refused(why),
            },
            request => {
                let (answer, replies) = channel();
                let _ = requests.send(Pending { request: request.clone(), answer });
                // Fails only if the lab has not yet read many earlier ones, so it wakes up anyway.
                let _ = waker.write(&[1]);
                let reply = replies.recv_timeout(REQUEST_TIMEOUT).unwrap_or_else(|error| {
                    let why = match error {
                        RecvTimeoutError::Timeout => {
                            "the lab is busy and did not answer; try again"
                        }
                        RecvTimeoutError::Disconnected => "the run or the lab is ending",
                    };
                    Reply::Refused(why.to_owned())
                });
                // Faults injected by hand are recorded as faults.
                let changes = matches!(request, Request::Change { .. } | Request::Destroy { .. });
                if changes && !matches!(reply, Reply::Refused(_) | Reply::Wrong(_)) {
                    link_api.record(request);
                }
                reply
            }
        },
    };
    let mut client = client;
    writeln!(client, "{}", serde_json::to_string(&reply).unwrap_or_default())
}

/// Only the user may access the folder, except for root.
fn may(client: &UnixStream) -> bool {
    let own = nix::unistd::geteuid().as_raw();
    getsockopt(client, sockopt::PeerCredentials).is_ok_and(|who| [0, own].contains(&who.uid()))
}

/// Process ids of the labs that this user can access.
///
/// # Errors
/// When the folder of control sockets cannot be read.
pub fn labs() -> io::Result<Vec<u32>> {
    let labs = doors()?.into_iter().filter(|door| door.is_here() && knock(*door).is_ok());
    Ok(labs.map(|door| door.pid).collect())
}

/// The number of labs in other PID namespaces, such as other containers, whose process ids mean
/// nothing here: a command for them could reach other processes.
///
/// # Errors
/// When the folder of control sockets cannot be read.
pub fn labs_elsewhere() -> io::Result<usize> {
    let labs = doors()?.into_iter().filter(|door| !door.is_here() && knock(*door).is_ok());
    Ok(labs.count())
}

fn knock(door: Door) -> io::Result<UnixStream> {
    UnixStream::connect(door.path(&lab::ledger_dir()))
}

/// Removes the sockets of tools that are gone; returns their number.
///
/// # Errors
/// When the folder of control sockets cannot be read.
pub fn forget() -> io::Result<usize> {
    // The file exists, but no process listens. Other errors, such as missing permission, say nothing
    // about the process.
    let gone = |door: &Door| {
        knock(*door).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    };
    let gone = doors()?.into_iter().filter(gone);
    Ok(gone.filter(|door| fs::remove_file(door.path(&lab::ledger_dir())).is_ok()).count())
}

fn doors() -> io::Result<Vec<Door>> {
    let entries = match fs::read_dir(lab::ledger_dir()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut doors: Vec<Door> = names.filter_map(|name| Door::of_name(&name)).collect();
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

/// Like [`ask`], and returns the stream that follows the reply.
///
/// # Errors
/// See [`ask`].
pub fn open(pid: u32, request: &Request) -> io::Result<(Reply, BufReader<UnixStream>)> {
    let mut stream = knock(Door::of(pid))?;
    // Longer than the lab tries to answer, so that its reason arrives.
    stream.set_read_timeout(Some(REQUEST_TIMEOUT + 2 * IO_TIMEOUT))?;
    writeln!(stream, "{}", serde_json::to_string(request)?)?;
    let (mut line, mut rest) = (String::new(), BufReader::new(stream));
    rest.read_line(&mut line)?;
    Ok((serde_json::from_str(&line)?, rest))
}
