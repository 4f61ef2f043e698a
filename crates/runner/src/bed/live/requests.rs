//! Requests of control clients that wait for the lab's own thread.
//!
//! A request runs only while its client waits for the reply: a client that has given up may send the
//! request again, and it must not run twice.

use super::{Reply, Request};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// States of a request: each ends in `BEGUN` or `WITHDRAWN`, never in both.
const WAITING: u8 = 0;
const BEGUN: u8 = 1;
const WITHDRAWN: u8 = 2;

/// A request for the lab's own thread, with the channel for the reply.
pub(crate) struct Pending {
    pub request: Request,
    pub answer: Sender<Reply>,
    state: Arc<AtomicU8>,
    client: UnixStream,
}

impl Pending {
    /// Marks the request as begun; false if its client does not wait any more.
    fn begin(&self) -> bool {
        !has_gone(&self.client)
            && self.state.compare_exchange(WAITING, BEGUN, SeqCst, SeqCst).is_ok()
    }
}

/// Whether the client has closed its socket. One that has only closed its sending direction still
/// waits for the reply.
pub(super) fn has_gone(client: &UnixStream) -> bool {
    let mut fds = [PollFd::new(client.as_fd(), PollFlags::empty())];
    let _ = poll(&mut fds, PollTimeout::ZERO);
    fds[0].revents().is_some_and(|events| events.intersects(PollFlags::POLLHUP))
}

/// The lab's side of the queue, and the file descriptor that signals new requests.
pub(crate) struct Requests {
    requests: Receiver<Pending>,
    wake_up: UnixStream,
}

impl Requests {
    /// The next request whose client waits for the reply, if any.
    pub(crate) fn next(&self) -> Option<Pending> {
        // The bytes only wake the poll. Reading them first loses no request: one that is queued
        // later writes another byte.
        let _ = (&self.wake_up).read(&mut [0; 64]);
        self.requests.try_iter().find(Pending::begin)
    }
}

impl AsFd for Requests {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake_up.as_fd()
    }
}

/// The clients' side of the queue.
#[derive(Clone)]
pub(super) struct Queue {
    requests: Sender<Pending>,
    waker: Arc<UnixStream>,
}

/// A queue, and the lab's side of it.
///
/// # Errors
/// If no socket pair can be made.
pub(super) fn queue() -> io::Result<(Queue, Requests)> {
    let (waker, wake_up) = UnixStream::pair()?;
    wake_up.set_nonblocking(true)?;
    // A full pipe must not block clients.
    waker.set_nonblocking(true)?;
    let (sender, requests) = channel();
    Ok((Queue { requests: sender, waker: Arc::new(waker) }, Requests { requests, wake_up }))
}

impl Queue {
    /// Passes a request of `client` to the lab.
    ///
    /// # Errors
    /// If the client's socket cannot be duplicated.
    pub(super) fn submit(&self, request: Request, client: &UnixStream) -> io::Result<Submitted> {
        let (answer, replies) = channel();
        let state = Arc::new(AtomicU8::new(WAITING));
        let client = client.try_clone()?;
        // If the lab is ending, this fails, and the reply says so.
        let _ = self.requests.send(Pending { request, answer, state: state.clone(), client });
        // Fails only if the lab has not yet read many earlier ones, so it wakes up anyway.
        let _ = (&*self.waker).write(&[1]);
        Ok(Submitted { state, replies })
    }
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Progress {
    /// It ended with this reply.
    Replied(Reply),
    /// It has begun, and not ended within the limit.
    Running,
    /// It has not begun within the limit, and will not run.
    Withdrawn,
    /// The lab ended before it began.
    LabEnded,
    /// The lab ended while it ran.
    LabEndedDuring,
}

impl Progress {
    /// What the client is to know.
    pub(super) fn reply(&self) -> Reply {
        let why = match self {
            Self::Replied(reply) => return reply.clone(),
            Self::Running => {
                "the lab began this request and has not completed it yet; do not repeat it: it goes \
                 on, and `thingbed ps` shows its result"
            }
            Self::Withdrawn => {
                "the lab is busy and did not begin this request in time; it will not run, so you can \
                 try again"
            }
            Self::LabEnded => return Reply::Ending {},
            Self::LabEndedDuring => "the run or the lab ended during this request",
        };
        Reply::Refused(why.to_owned())
    }
}

/// A request that waits for the lab, or runs.
pub(super) struct Submitted {
    state: Arc<AtomicU8>,
    replies: Receiver<Reply>,
}

impl Submitted {
    /// Waits for the reply. A request that has not begun within `limit` is withdrawn.
    pub(super) fn wait(&self, limit: Duration) -> Progress {
        let withdrawn = || self.state.compare_exchange(WAITING, WITHDRAWN, SeqCst, SeqCst).is_ok();
        match self.replies.recv_timeout(limit) {
            Ok(reply) => Progress::Replied(reply),
            Err(RecvTimeoutError::Timeout) if withdrawn() => Progress::Withdrawn,
            Err(RecvTimeoutError::Timeout) => Progress::Running,
            Err(RecvTimeoutError::Disconnected) if self.state.load(SeqCst) == BEGUN => {
                Progress::LabEndedDuring
            }
            Err(RecvTimeoutError::Disconnected) => Progress::LabEnded,
        }
    }

    /// The reply of a request that has begun; `None` if the lab ended meanwhile.
    pub(super) fn reply(self) -> Option<Reply> {
        self.replies.recv().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::Shutdown;

    const NOW: Duration = Duration::ZERO;
    /// Ends only a wait that would never end.
    const LONG: Duration = Duration::from_secs(600);

    fn clone(count: usize) -> Request {
        Request::Clone { node: "meter".into(), count }
    }

    /// What failed before: the client was informed that the lab is busy, and the request ran later.
    #[test]
    fn a_request_that_timed_out_does_not_run() {
        let (queue, requests) = queue().unwrap();
        let (client, _other) = UnixStream::pair().unwrap();
        let first = queue.submit(clone(1), &client).unwrap();
        assert_eq!(first.wait(NOW), Progress::Withdrawn);
        let second = queue.submit(clone(2), &client).unwrap();
        let pending = requests.next().unwrap();
        assert_eq!(pending.request, clone(2), "the first one was withdrawn");
        assert!(requests.next().is_none());
        assert_eq!(second.wait(NOW), Progress::Running);
        pending.answer.send(Reply::Done {}).unwrap();
        assert_eq!(second.wait(LONG), Progress::Replied(Reply::Done {}));
    }

    #[test]
    fn a_request_whose_client_has_gone_does_not_run() {
        let (queue, requests) = queue().unwrap();
        let (client, other) = UnixStream::pair().unwrap();
        let _waits = queue.submit(clone(1), &client).unwrap();
        // As `socat` and `nc -N` do after the end of their input.
        other.shutdown(Shutdown::Write).unwrap();
        assert_eq!(requests.next().map(|pending| pending.request), Some(clone(1)));
        let _waits = queue.submit(clone(2), &client).unwrap();
        drop(other);
        assert!(requests.next().is_none());
    }

    #[test]
    fn the_reply_at_the_end_of_the_lab_says_whether_the_request_ran() {
        let (queue, requests) = queue().unwrap();
        let (client, _other) = UnixStream::pair().unwrap();
        let [begun, waiting] = [1, 2].map(|count| queue.submit(clone(count), &client).unwrap());
        drop(requests.next().unwrap());
        drop(requests);
        let late = queue.submit(clone(3), &client).unwrap();
        assert_eq!(begun.wait(LONG), Progress::LabEndedDuring);
        assert_eq!(waiting.wait(LONG), Progress::LabEnded);
        assert_eq!(late.wait(LONG), Progress::LabEnded);
    }

    #[derive(Debug, Clone, Copy)]
    enum Step {
        Submit,
        /// The client at this place (modulo their number) gives up waiting.
        TimeOut(usize),
        /// It disconnects.
        Leave(usize),
        /// The lab takes the next request.
        Take,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => Just(Step::Submit),
            2 => (0..8_usize).prop_map(Step::TimeOut),
            1 => (0..8_usize).prop_map(Step::Leave),
            3 => Just(Step::Take),
        ]
    }

    /// A client of the model.
    struct Client {
        submitted: Submitted,
        /// None after it has left.
        socket: Option<UnixStream>,
        may_run: bool,
        ran: bool,
    }

    proptest! {
        /// In any order of events, the lab takes requests in their order, each once, and none whose
        /// client has left or got the reply that it will not run.
        #[test]
        fn a_request_runs_once_or_not_at_all_and_its_client_knows(
            steps in prop::collection::vec(step(), 1..60),
        ) {
            let (queue, requests) = queue().unwrap();
            let mut clients: Vec<Client> = Vec::new();
            for step in steps {
                match step {
                    Step::Submit => {
                        let (ours, theirs) = UnixStream::pair().unwrap();
                        let submitted = queue.submit(clone(clients.len()), &ours).unwrap();
                        clients.push(Client {
                            submitted, socket: Some(theirs), may_run: true, ran: false,
                        });
                    }
                    Step::TimeOut(at) => {
                        let count = clients.len();
                        let Some(client) = clients.get_mut(at % count.max(1)) else { continue };
                        // Only a client that has no reply yet waits.
                        if !client.may_run && !client.ran || client.socket.is_none() {
                            continue;
                        }
                        let progress = client.submitted.wait(NOW);
                        match client.ran {
                            true => prop_assert_eq!(progress, Progress::Running),
                            false => prop_assert_eq!(progress, Progress::Withdrawn),
                        }
                        client.may_run = false;
                    }
                    Step::Leave(at) => {
                        let count = clients.len();
                        let Some(client) = clients.get_mut(at % count.max(1)) else { continue };
                        client.socket = None;
                        client.may_run = false;
                    }
                    Step::Take => {
                        let next = clients.iter().position(|client| client.may_run && !client.ran);
                        let taken = requests.next();
                        let expected = next.map(clone);
                        prop_assert_eq!(taken.as_ref().map(|taken| &taken.request), expected.as_ref());
                        // The reply stays open: a request that runs.
                        taken.into_iter().for_each(std::mem::forget);
                        next.into_iter().for_each(|next| clients[next].ran = true);
                    }
                }
            }
        }
    }
}
