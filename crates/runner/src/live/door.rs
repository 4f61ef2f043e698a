//! The control socket of a running lab, which only its user may open.

use super::links::Keeper;
use super::roll::Shared;
use super::{Made, Reply, Request};
use measure::Accounting;
use medium::Remote;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt};
use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// A request for the lab's own thread, with the channel for the reply.
pub(crate) struct Errand {
    pub request: Request,
    pub answer: Sender<Reply>,
}

/// The queue of requests, and the file descriptor that signals new ones.
pub(crate) struct Errands {
    errands: Receiver<Errand>,
    bell: UnixStream,
}

impl Errands {
    /// The next request, if any.
    pub(crate) fn next(&self) -> Option<Errand> {
        let _ = (&self.bell).read(&mut [0; 64]);
        self.errands.try_recv().ok()
    }
}

impl AsFd for Errands {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }
}

/// The control socket of a running lab.
pub(crate) struct Door {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    made: Arc<Mutex<Vec<Made>>>,
    thread: Option<JoinHandle<()>>,
}

const TURN_MS: u16 = 100;
/// I/O timeout of either side.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time limit of the lab to answer a request.
const ERRAND: Duration = Duration::from_secs(30);
/// Longest request, in bytes.
const LONGEST: u64 = 1 << 16;

/// Path of the control socket of the tool's process `pid`.
fn path_of(dir: &Path, pid: u32) -> PathBuf {
    dir.join(format!("lab-{pid}.sock"))
}

impl Door {
    /// Opens the socket.
    pub(crate) fn open(roll: &Shared, remote: Remote<Accounting>) -> io::Result<(Self, Errands)> {
        let path = path_of(&lab::own_dir()?, std::process::id());
        // A socket with this process id can only belong to a process that is gone.
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        let (stop, made) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let keeper = Keeper::new(roll.clone(), remote, made.clone());
        let (ringer, bell) = UnixStream::pair()?;
        bell.set_nonblocking(true)?;
        ringer.set_nonblocking(true)?;
        let (sender, errands) = channel();
        let end = stop.clone();
        let work = move || {
            while !end.load(Relaxed) {
                let mut fds = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
                let _ = poll(&mut fds, PollTimeout::from(TURN_MS));
                while let Ok((visitor, _)) = listener.accept() {
                    // A client that disconnects early gets no reply.
                    let _ = serve(&keeper, &visitor, &sender, &ringer);
                }
            }
        };
        let thread = std::thread::Builder::new().name("door".into()).spawn(work)?;
        let door = Self { path, stop, made, thread: Some(thread) };
        Ok((door, Errands { errands, bell }))
    }

    /// Closes the socket; returns the changes made through it.
    pub(crate) fn close(mut self) -> Vec<Made> {
        self.shut();
        std::mem::take(&mut *self.made.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn shut(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = fs::remove_file(&self.path);
            let _ = thread.join();
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.shut();
    }
}

fn serve(
    keeper: &Keeper,
    visitor: &UnixStream,
    errands: &Sender<Errand>,
    mut ringer: &UnixStream,
) -> io::Result<()> {
    visitor.set_nonblocking(false)?;
    visitor.set_read_timeout(Some(PATIENCE))?;
    visitor.set_write_timeout(Some(PATIENCE))?;
    let mut line = String::new();
    let mut limited = Read::take(BufReader::new(visitor), LONGEST);
    limited.read_line(&mut line)?;
    let reply = match (may(visitor), serde_json::from_str(&line)) {
        (false, _) => Reply::Refused("the lab belongs to another user".to_owned()),
        (true, Err(error)) => Reply::Refused(format!("the request is not valid: {error}")),
        (true, Ok(request)) => match request {
            Request::Show { .. } | Request::Set { .. } | Request::Down { .. } => {
                keeper.answer(request).unwrap_or_else(Reply::Refused)
            }
            Request::Capture { .. } => match keeper.capture(&request, visitor) {
                // The client has its answer; the frames that follow have their own sink.
                Ok(()) => return Ok(()),
                Err(why) => Reply::Refused(why),
            },
            request => {
                let (answer, replies) = channel();
                let _ = errands.send(Errand { request: request.clone(), answer });
                let _ = ringer.write(&[1]);
                let busy = "the lab is busy and did not answer; try again".to_owned();
                let reply = replies.recv_timeout(ERRAND).unwrap_or(Reply::Refused(busy));
                // Faults injected by hand are recorded as faults.
                let changes = matches!(request, Request::Change { .. } | Request::Destroy { .. });
                if changes && !matches!(reply, Reply::Refused(_) | Reply::Wrong(_)) {
                    keeper.record(request);
                }
                reply
            }
        },
    };
    let mut visitor = visitor;
    writeln!(visitor, "{}", serde_json::to_string(&reply).unwrap_or_default())
}

/// Only the user may access the folder, except for root.
fn may(visitor: &UnixStream) -> bool {
    let own = nix::unistd::geteuid().as_raw();
    getsockopt(visitor, sockopt::PeerCredentials).is_ok_and(|who| [0, own].contains(&who.uid()))
}

/// Process ids of the labs that this user can access.
///
/// # Errors
/// When the folder of control sockets cannot be read.
pub fn labs() -> io::Result<Vec<u32>> {
    let mut labs = doors()?;
    labs.retain(|pid| UnixStream::connect(path_of(&lab::ledger_dir(), *pid)).is_ok());
    Ok(labs)
}

/// Removes the sockets of tools that are gone; returns their number.
///
/// # Errors
/// When the folder of control sockets cannot be read.
pub fn forget() -> io::Result<usize> {
    let dir = lab::ledger_dir();
    let gone = |pid: &u32| {
        let knock = UnixStream::connect(path_of(&dir, *pid));
        knock.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    };
    let doors: Vec<u32> = doors()?.into_iter().filter(gone).collect();
    Ok(doors.iter().filter(|pid| fs::remove_file(path_of(&dir, **pid)).is_ok()).count())
}

fn doors() -> io::Result<Vec<u32>> {
    let entries = match fs::read_dir(lab::ledger_dir()) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let number = |name: String| name.strip_prefix("lab-")?.strip_suffix(".sock")?.parse().ok();
    let mut doors: Vec<u32> = names.filter_map(number).collect();
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
    let mut door = UnixStream::connect(path_of(&lab::ledger_dir(), pid))?;
    door.set_read_timeout(Some(ERRAND + 2 * PATIENCE))?;
    writeln!(door, "{}", serde_json::to_string(request)?)?;
    let (mut line, mut rest) = (String::new(), BufReader::new(door));
    rest.read_line(&mut line)?;
    Ok((serde_json::from_str(&line)?, rest))
}
