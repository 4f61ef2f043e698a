//! The objects behind the handles of C.

use crate::table::Table;
use director::io::{
    Collected, DurableMessage, Inbox, Incoming, Listener, Publisher, Request, Session,
    StoredSending,
};
use director::session::SessionError;
use std::collections::VecDeque;
use std::ffi::CString;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::runtime::{Builder, Handle};
use tokio::sync::{Mutex, oneshot};

/// Time in which a runtime ends: its sockets are closed long before, but a name that is being resolved
/// can take longer.
const END_WITHIN: Duration = Duration::from_secs(2);

/// A runtime on its own thread, until it is ended.
pub struct Thread {
    handle: Handle,
    alive: std::sync::Mutex<Option<oneshot::Sender<()>>>,
    /// Disconnected when the runtime is gone.
    gone: std::sync::Mutex<mpsc::Receiver<()>>,
}

impl Thread {
    /// Starts it.
    ///
    /// # Errors
    /// The runtime cannot be built, or the thread does not start.
    pub fn start() -> Result<Self, String> {
        let run_time = Builder::new_current_thread().enable_all().build();
        let run_time = run_time.map_err(|error| error.to_string())?;
        let handle = run_time.handle().clone();
        let (alive, end) = oneshot::channel::<()>();
        let (over, gone) = mpsc::channel();
        std::thread::Builder::new()
            .name("director".to_owned())
            .spawn(move || {
                // Ends when the sender is dropped, as nothing is ever sent.
                drop(run_time.block_on(end));
                drop(run_time);
                drop(over);
            })
            .map_err(|error| error.to_string())?;
        let (alive, gone) = (std::sync::Mutex::new(Some(alive)), std::sync::Mutex::new(gone));
        Ok(Self { handle, alive, gone })
    }

    /// Ends the runtime and all of its tasks. Their sockets are closed then, so that a new session can
    /// have the same address.
    pub fn end(&self) {
        if let Ok(mut alive) = self.alive.lock() {
            *alive = None;
        }
        if let Ok(gone) = self.gone.lock() {
            let _ = gone.recv_timeout(END_WITHIN);
        }
    }

    /// Runs a future there and waits for its result; `None` if the runtime has ended.
    pub fn wait<F>(&self, future: F) -> Option<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let (sender, receiver) = mpsc::channel();
        // If the runtime ends, it drops the task and with it the sender.
        self.handle.spawn(async move { sender.send(future.await) });
        receiver.recv().ok()
    }

    /// As [`wait`](Self::wait), for `patience` at most. The limit includes the time in which another
    /// thread keeps what the future needs.
    pub fn wait_within<F>(&self, patience: Duration, future: F) -> Option<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        self.wait(async move { tokio::time::timeout(patience, future).await.ok() }).flatten()
    }
}

/// A session, from its hub.
pub struct DirectorSession {
    pub thread: Thread,
    pub session: Session,
    pub inbox: Arc<Mutex<Inbox>>,
    /// Stored messages of former starts that the program has not taken.
    pub restored: std::sync::Mutex<VecDeque<StoredSending>>,
}

/// Why a handle is of no use.
pub const NO_SESSION: &str =
    "the session does not exist: it was freed, or this process was forked from the one that has it";
/// The same for a listener.
pub const NO_LISTENER: &str = "the listener does not exist: it was freed, or this process was \
                               forked from the one that has it";
/// All sessions.
pub static SESSIONS: Table<DirectorSession> = Table::new();
/// All listeners.
pub static LISTENERS: Table<DirectorListener> = Table::new();

/// Responses to a message.
pub struct DirectorCollected(pub Vec<(u32, Vec<u8>)>, pub Vec<u32>);

/// A member.
pub struct DirectorListener {
    pub thread: Thread,
    pub listener: Arc<Mutex<Listener>>,
    pub publisher: Publisher,
    /// Messages of former starts that the program has not taken.
    pub restored: std::sync::Mutex<VecDeque<DurableMessage>>,
    /// A copy of the storage's log, if it was damaged.
    pub damaged: Option<PathBuf>,
}

/// A received message, and its topic as C reads it.
pub struct DirectorRequest(pub Request, pub Option<CString>);

/// A message of a member, and its topic as C reads it.
pub struct DirectorIncoming(pub Incoming, pub Option<CString>);

/// A topic for C; one with a zero inside ends there.
pub fn topic_for_c(topic: Option<&str>) -> Option<CString> {
    topic.map(|topic| {
        let text = topic.split('\0').next().unwrap_or_default();
        CString::new(text).unwrap_or_default()
    })
}

/// Sends to all members, or to some, and waits for their answers.
pub fn collect(
    session: *const DirectorSession,
    message: Vec<u8>,
    members: Option<Vec<u32>>,
) -> Result<*mut DirectorCollected, String> {
    let session = SESSIONS.get(session).ok_or(NO_SESSION)?;
    let own: Session = session.session.clone();
    let collected = session.thread.wait(async move {
        match members {
            Some(members) => own.collect_from(&members, &message).await,
            None => own.collect(&message).await,
        }
    });
    returned(collected)
}

/// Responses for C; `None` if the runtime has ended.
pub fn returned(
    collected: Option<Result<Collected, SessionError>>,
) -> Result<*mut DirectorCollected, String> {
    let collected = collected.ok_or("the session is over")?;
    let Collected { answers, lacking } = collected.map_err(|error| error.to_string())?;
    Ok(Box::into_raw(Box::new(DirectorCollected(answers.into_iter().collect(), lacking))))
}
