//! An MQTT client with libmosquitto: one thread runs the connection, any thread publishes.

use super::super::channel::Channel;
use super::ffi;
use crate::carrier::{self, To};
use std::ffi::{CString, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// At least once: both client and broker acknowledge and retransmit.
const QOS: c_int = 1;
/// Maximum number of unacknowledged messages; further ones are dropped.
const MAX_WAITING: usize = 1_024;
/// Keep-alive interval, in s.
const KEEP_ALIVE: c_int = 60;
/// Maximum time that the thread waits for the network before it checks for the end, in ms.
const TURN: c_int = 500;

/// State of the callbacks. They run only in the thread of [`Client::turn`].
struct Inbox {
    channel: Channel,
    topics: Vec<CString>,
    waiting: AtomicUsize,
}

/// A client; publishing is possible while its thread runs.
pub struct Client {
    own: *mut ffi::Mosquitto,
    inbox: *mut Inbox,
    host: CString,
    port: u16,
}

// SAFETY: libmosquitto is in threaded mode and locks shared state; the inbox's channel is used by
// one thread only, its counter is atomic.
unsafe impl Send for Client {}
// SAFETY: as above.
unsafe impl Sync for Client {}

impl Client {
    /// A client that subscribes to `topics` and passes messages to `channel`; not connected yet.
    /// `None` if memory is exhausted.
    pub fn new(
        id: &CString,
        (host, port): (CString, u16),
        topics: Vec<CString>,
        channel: Channel,
    ) -> Option<Self> {
        let inbox =
            Box::into_raw(Box::new(Inbox { channel, topics, waiting: AtomicUsize::new(0) }));
        // SAFETY: the library may be initialised several times; the identifier lives until the
        // call returns, the inbox until after the client.
        let own = unsafe {
            ffi::mosquitto_lib_init();
            ffi::mosquitto_new(id.as_ptr(), true, inbox.cast())
        };
        let client = Self { own, inbox, host, port };
        if own.is_null() {
            return None;
        }
        // SAFETY: we own the client; the callbacks have the right signatures.
        unsafe {
            ffi::mosquitto_threaded_set(own, true);
            // An answer must not wait for the acknowledgement of earlier data.
            ffi::mosquitto_int_option(own, ffi::TCP_NODELAY, 1);
            ffi::mosquitto_connect_callback_set(own, on_connect);
            ffi::mosquitto_publish_callback_set(own, on_publish);
            ffi::mosquitto_message_callback_set(own, on_message);
        }
        Some(client)
    }

    /// Sets user name and password.
    pub fn credentials(&self, name: &CString, password: &CString) {
        // SAFETY: we own the client; the call copies the texts.
        unsafe {
            ffi::mosquitto_username_pw_set(self.own, name.as_ptr(), password.as_ptr());
        }
    }

    fn inbox(&self) -> &Inbox {
        // SAFETY: the inbox lives as long as the client, and only its counter changes.
        unsafe { &*self.inbox }
    }

    /// Publishes now or after a reconnect; drops the message if too many are queued.
    pub fn publish(&self, topic: &CString, payload: &[u8]) {
        let waiting = &self.inbox().waiting;
        let Ok(length) = c_int::try_from(payload.len()) else { return };
        if waiting.load(Ordering::Relaxed) >= MAX_WAITING {
            return;
        }
        // Count first: the acknowledgement can arrive before the call returns.
        waiting.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the call copies topic and payload.
        let code = unsafe {
            ffi::mosquitto_publish(
                self.own,
                ptr::null_mut(),
                topic.as_ptr(),
                length,
                payload.as_ptr().cast(),
                QOS,
                false,
            )
        };
        // Without a connection the library queues the message.
        if code != ffi::SUCCESS && code != ffi::NO_CONN {
            done(waiting);
        }
    }

    /// Starts to connect; blocks while it resolves a name. Returns whether it could start.
    pub fn connect(&self) -> bool {
        let (host, port) = (self.host.as_ptr(), c_int::from(self.port));
        // SAFETY: we own the client; the text lives until the call returns.
        unsafe { ffi::mosquitto_connect_async(self.own, host, port, KEEP_ALIVE) == ffi::SUCCESS }
    }

    /// Runs the connection for a moment; returns whether it is up.
    pub fn turn(&self) -> bool {
        // SAFETY: we own the client, and no other thread calls this.
        unsafe { ffi::mosquitto_loop(self.own, TURN, 1) == ffi::SUCCESS }
    }

    /// Whether the session has ended. Call it only in the connection's thread.
    pub fn is_over(&self) -> bool {
        self.inbox().channel.receive().is_err()
    }

    /// Disconnects cleanly, so that the broker sends no last will.
    pub fn disconnect(&self) {
        // SAFETY: we own the client.
        unsafe {
            ffi::mosquitto_disconnect(self.own);
        }
        self.turn();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // SAFETY: `new` has created both, and they are not used after this; the client goes first
        // because its callbacks use the inbox.
        unsafe {
            if !self.own.is_null() {
                ffi::mosquitto_destroy(self.own);
            }
            drop(Box::from_raw(self.inbox));
        }
    }
}

fn done(waiting: &AtomicUsize) {
    let less = |count: usize| Some(count.saturating_sub(1));
    let _ = waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
}

unsafe extern "C" fn on_connect(client: *mut ffi::Mosquitto, user: *mut c_void, code: c_int) {
    // SAFETY: the library passes our pointer, which outlives the client.
    let inbox = unsafe { &*user.cast::<Inbox>() };
    if code != 0 {
        return;
    }
    // Subscribe after each connect: the session is not persistent.
    for topic in &inbox.topics {
        // SAFETY: the client is the caller's; the text lives until the call returns.
        unsafe {
            ffi::mosquitto_subscribe(client, ptr::null_mut(), topic.as_ptr(), QOS);
        }
    }
}

unsafe extern "C" fn on_publish(_: *mut ffi::Mosquitto, user: *mut c_void, _: c_int) {
    // SAFETY: the library passes our pointer, which outlives the client.
    done(unsafe { &(*user.cast::<Inbox>()).waiting });
}

unsafe extern "C" fn on_message(
    _: *mut ffi::Mosquitto,
    user: *mut c_void,
    message: *const ffi::Message,
) {
    // SAFETY: the library passes our pointer and a message; its payload has the given length and
    // is null only if empty.
    let (inbox, payload) = unsafe {
        let (start, length) = ((*message).payload.cast::<u8>(), (*message).payloadlen);
        if start.is_null() {
            return;
        }
        let payload = std::slice::from_raw_parts(start, usize::try_from(length).unwrap_or(0));
        (&*user.cast::<Inbox>(), payload)
    };
    // Ignore messages that do not belong to a session.
    if carrier::model_of(payload).is_some() {
        inbox.channel.send((To::Hub, payload.to_vec()));
    }
}
