//! The control socket of a running lab, which only its user may open.

use super::client::{Door, IO_TIMEOUT, REQUEST_TIMEOUT};
use super::inventory::Shared;
use super::links::LinkApi;
use super::requests::{Progress, Queue, Requests, queue};
use super::{ManualChange, Reply, Request};
use engine::Remote;
use measure::Accounting;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{getsockopt, sockopt};
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use units::Span;

/// The control socket of a running lab.
pub(crate) struct ControlSocket {
    path: PathBuf,
    stop: Arc<AtomicBool>,
    made: Arc<Mutex<Vec<ManualChange>>>,
    thread: Option<JoinHandle<()>>,
}

/// Time between two looks at the stop flag. A client wakes the thread at once.
const TURN_MS: u16 = 100;
/// Longest request, in bytes.
const LONGEST: usize = 1 << 16;
/// Maximum number of clients at a time, each with a thread; more wait to be accepted.
const MOST_CLIENTS: usize = 64;

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
        let (queue, requests) = queue()?;
        let server = Arc::new(Server { link_api, queue });
        let end = stop.clone();
        let work = move || accept(&listener, &server, &end);
        let thread = std::thread::Builder::new().name("door".into()).spawn(work)?;
        let socket = Self { path, stop, made, thread: Some(thread) };
        Ok((socket, requests))
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

/// Accepts clients until `end`, then waits until each has its reply. A client that is slow, or whose
/// request takes long, delays no other.
fn accept(listener: &UnixListener, server: &Arc<Server>, end: &AtomicBool) {
    let mut clients: Vec<JoinHandle<()>> = Vec::new();
    while !end.load(Relaxed) {
        clients.retain(|client| !client.is_finished());
        let mut fds = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        // With the maximum of clients, only the time ends the wait.
        let watched = if clients.len() < MOST_CLIENTS { 1 } else { 0 };
        let _ = poll(&mut fds[..watched], PollTimeout::from(TURN_MS));
        while clients.len() < MOST_CLIENTS
            && let Ok((client, _)) = listener.accept()
        {
            let server = server.clone();
            let serve = move || {
                // A client that disconnects early gets no reply.
                let _ = server.serve(&client);
            };
            // Without a thread, the client is disconnected.
            clients.extend(std::thread::Builder::new().name("client".into()).spawn(serve));
        }
    }
    for client in clients {
        let _ = client.join();
    }
}

/// What serves the clients.
struct Server {
    link_api: LinkApi,
    queue: Queue,
}

impl Server {
    fn serve(&self, client: &UnixStream) -> io::Result<()> {
        // Timeouts work only on a blocking socket.
        client.set_nonblocking(false)?;
        client.set_write_timeout(Some(IO_TIMEOUT))?;
        let line = request_line(client, IO_TIMEOUT)?;
        let request = match (may(client), serde_json::from_slice(&line)) {
            (false, _) => return refuse(client, "the lab belongs to another user"),
            (true, Err(error)) => {
                return refuse(client, &format!("the request is not valid: {error}"));
            }
            (true, Ok(request)) => request,
        };
        match request {
            // They need the engine's thread only, not the lab's own.
            Request::Show { .. } | Request::Set { .. } | Request::Down { .. } => {
                let reply = self.link_api.answer(request, client).unwrap_or_else(Reply::Refused);
                send(client, &reply)
            }
            Request::Capture { .. } => match self.link_api.capture(&request, client) {
                // The client has its answer; the frames that follow have their own sink.
                Ok(()) => Ok(()),
                Err(why) => refuse(client, &why),
            },
            request => self.pass_on(request, client),
        }
    }

    /// Passes a request to the lab's own thread, and the reply to the client.
    fn pass_on(&self, request: Request, client: &UnixStream) -> io::Result<()> {
        let submitted = self.queue.submit(request.clone(), client)?;
        let progress = submitted.wait(REQUEST_TIMEOUT);
        // Before the client knows, so that its next request finds the record.
        if let Progress::Replied(reply) = &progress {
            self.record(&request, reply);
        }
        let sent = send(client, &progress.reply());
        if progress == Progress::Running
            && let Some(reply) = submitted.reply()
        {
            self.record(&request, &reply);
        }
        sent
    }

    /// Records a change of nodes by hand as a fault.
    fn record(&self, request: &Request, reply: &Reply) {
        let changes = matches!(request, Request::Change { .. } | Request::Destroy { .. });
        if changes && !matches!(reply, Reply::Refused(_) | Reply::Wrong(_)) {
            self.link_api.record(request.clone());
        }
    }
}

/// Reads the line of a request.
///
/// # Errors
/// If it does not arrive within `limit`, however often a part of it does: the lab's end waits for its
/// clients.
fn request_line(mut client: &UnixStream, limit: Duration) -> io::Result<Vec<u8>> {
    let deadline = clock::now() + Span::from(limit);
    let (mut line, mut buffer) = (Vec::new(), [0; 1 << 12]);
    // A client that sends no line end must not fill the memory.
    while !line.contains(&b'\n') && line.len() < LONGEST {
        let left = deadline - clock::now();
        if left == Span::ZERO {
            return Err(io::ErrorKind::TimedOut.into());
        }
        client.set_read_timeout(Some(left.into()))?;
        match client.read(&mut buffer)? {
            0 => break,
            length => line.extend_from_slice(&buffer[..length]),
        }
    }
    let end = line.iter().position(|byte| *byte == b'\n').map_or(line.len(), |end| end + 1);
    line.truncate(end);
    Ok(line)
}

fn send(mut client: &UnixStream, reply: &Reply) -> io::Result<()> {
    writeln!(client, "{}", serde_json::to_string(reply).unwrap_or_default())
}

fn refuse(client: &UnixStream, why: &str) -> io::Result<()> {
    send(client, &Reply::Refused(why.to_owned()))
}

/// Only the user may access the folder, except for root.
fn may(client: &UnixStream) -> bool {
    let own = nix::unistd::geteuid().as_raw();
    getsockopt(client, sockopt::PeerCredentials).is_ok_and(|who| [0, own].contains(&who.uid()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What failed before: a client that sends a byte from time to time kept the lab from ending.
    #[test]
    fn a_request_arrives_within_the_limit_or_not_at_all() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let drip = std::thread::spawn(move || {
            // Ends when the other end is closed.
            while theirs.write_all(b" ").is_ok() {
                std::thread::sleep(Duration::from_millis(10));
            }
        });
        let error = request_line(&ours, Duration::from_millis(100)).unwrap_err();
        assert!(matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock));
        drop(ours);
        drip.join().unwrap();
    }

    #[test]
    fn a_request_ends_with_its_line_or_the_longest_length() {
        let limit = Duration::from_secs(600);
        for (sent, expected) in [
            (&b"{\"lab\":{}}\n"[..], 11),
            (b"{\"lab\":{}}\n{\"end\":{}}\n", 11),
            // A client may close its sending direction instead.
            (b"{\"lab\":{}}", 10),
            (&[b' '; LONGEST], LONGEST),
        ] {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let write = std::thread::spawn({
                let sent = sent.to_vec();
                move || {
                    theirs.write_all(&sent).unwrap();
                    theirs.shutdown(std::net::Shutdown::Write).unwrap();
                    theirs
                }
            });
            assert_eq!(request_line(&ours, limit).unwrap().len(), expected);
            write.join().unwrap();
        }
    }
}
