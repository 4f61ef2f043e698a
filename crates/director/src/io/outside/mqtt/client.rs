//! A client of a broker, by libmosquitto: one thread has it connected, whoever likes publishes.

use super::super::line::Line;
use super::ffi;
use crate::carrier::{self, To};
use std::ffi::{CString, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// At least once: the broker and the client each acknowledge and send again.
const QOS: c_int = 1;
/// What is not acknowledged at most; what is more is dropped.
const MOST_WAITING: usize = 1_024;
/// A sign of life after so many s without.
const KEEP_ALIVE: c_int = 60;
/// So long the thread waits for the network before it looks whether it is over, in ms.
const TURN: c_int = 500;

/// What callbacks have. They run in the thread of [`Client::run`] alone.
struct Inbox {
    line: Line,
    topics: Vec<CString>,
    waiting: AtomicUsize,
}

/// A client; publishing and the thread may be at it at the same time.
pub struct Client {
    own: *mut ffi::Mosquitto,
    inbox: *mut Inbox,
    host: CString,
    port: u16,
}

// SAFETY: libmosquitto is told that threads share the client, and locks what they share; the
// inbox's line is used by one thread alone, its counter is atomic.
unsafe impl Send for Client {}
// SAFETY: as above.
unsafe impl Sync for Client {}

impl Client {
    /// One that hears `topics` and gives what comes to `line`; not connected yet. None if there
    /// is no memory.
    pub fn new(
        id: &CString,
        (host, port): (CString, u16),
        topics: Vec<CString>,
        line: Line,
    ) -> Option<Self> {
        let inbox = Box::into_raw(Box::new(Inbox { line, topics, waiting: AtomicUsize::new(0) }));
        // SAFETY: initialises the library, which may be done often; the identifier lives over the
        // call, the inbox until after the client.
        let own = unsafe {
            ffi::mosquitto_lib_init();
            ffi::mosquitto_new(id.as_ptr(), true, inbox.cast())
        };
        let client = Self { own, inbox, host, port };
        if own.is_null() {
            return None;
        }
        // SAFETY: the client is ours; callbacks keep to their signatures.
        unsafe {
            ffi::mosquitto_threaded_set(own, true);
            // An answer must not wait for an acknowledgement of what went before.
            ffi::mosquitto_int_option(own, ffi::TCP_NODELAY, 1);
            ffi::mosquitto_connect_callback_set(own, on_connect);
            ffi::mosquitto_publish_callback_set(own, on_publish);
            ffi::mosquitto_message_callback_set(own, on_message);
        }
        Some(client)
    }

    /// Who it says to be.
    pub fn credentials(&self, name: &CString, password: &CString) {
        // SAFETY: the client is ours, the texts live over the call, which copies them.
        unsafe {
            ffi::mosquitto_username_pw_set(self.own, name.as_ptr(), password.as_ptr());
        }
    }

    fn inbox(&self) -> &Inbox {
        // SAFETY: it lives as long as the client, and nobody changes it but by its counter.
        unsafe { &*self.inbox }
    }

    /// Publishes, now or when there is a broker again; or drops it.
    pub fn publish(&self, topic: &CString, payload: &[u8]) {
        let waiting = &self.inbox().waiting;
        let Ok(length) = c_int::try_from(payload.len()) else { return };
        if waiting.load(Ordering::Relaxed) >= MOST_WAITING {
            return;
        }
        // Before it goes: it may be acknowledged before the call is back.
        waiting.fetch_add(1, Ordering::Relaxed);
        // SAFETY: topic and payload live over the call, which copies them.
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
        // Without a connection it is kept for the next.
        if code != ffi::SUCCESS && code != ffi::NO_CONN {
            done(waiting);
        }
    }

    /// Connects; waits for that where a name has to be asked for. Whether it could be begun.
    pub fn connect(&self) -> bool {
        let (host, port) = (self.host.as_ptr(), c_int::from(self.port));
        // SAFETY: the client is ours, the text lives over the call.
        unsafe { ffi::mosquitto_connect_async(self.own, host, port, KEEP_ALIVE) == ffi::SUCCESS }
    }

    /// Reads and writes for a moment; whether there is still a connection.
    pub fn turn(&self) -> bool {
        // SAFETY: the client is ours, and no other thread does this.
        unsafe { ffi::mosquitto_loop(self.own, TURN, 1) == ffi::SUCCESS }
    }

    /// Whether nobody wants it any more. For the thread that has the connection.
    pub fn is_over(&self) -> bool {
        self.inbox().line.receive().is_err()
    }

    /// Says goodbye, so that the broker tells nobody of an accident.
    pub fn disconnect(&self) {
        // SAFETY: the client is ours.
        unsafe {
            ffi::mosquitto_disconnect(self.own);
        }
        self.turn();
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // SAFETY: both were made by `new` and are not used after this; the client goes first,
        // since its callbacks use the inbox.
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
    // SAFETY: called by the library with our pointer, which outlives the client.
    let inbox = unsafe { &*user.cast::<Inbox>() };
    if code != 0 {
        return;
    }
    // Anew each time: the broker has forgotten it.
    for topic in &inbox.topics {
        // SAFETY: the client is the one that calls, the text lives over the call.
        unsafe {
            ffi::mosquitto_subscribe(client, ptr::null_mut(), topic.as_ptr(), QOS);
        }
    }
}

unsafe extern "C" fn on_publish(_: *mut ffi::Mosquitto, user: *mut c_void, _: c_int) {
    // SAFETY: called by the library with our pointer, which outlives the client.
    done(unsafe { &(*user.cast::<Inbox>()).waiting });
}

unsafe extern "C" fn on_message(
    _: *mut ffi::Mosquitto,
    user: *mut c_void,
    message: *const ffi::Message,
) {
    // SAFETY: called by the library with our pointer and a message, whose payload is as long as
    // it says and null only if empty.
    let (inbox, payload) = unsafe {
        let (start, length) = ((*message).payload.cast::<u8>(), (*message).payloadlen);
        if start.is_null() {
            return;
        }
        let payload = std::slice::from_raw_parts(start, usize::try_from(length).unwrap_or(0));
        (&*user.cast::<Inbox>(), payload)
    };
    // Whatever else is published there is of no session.
    if carrier::model_of(payload).is_some() {
        inbox.line.send((To::Hub, payload.to_vec()));
    }
}
