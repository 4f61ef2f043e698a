//! libmosquitto's callbacks, which collect the events of a session.

use super::ffi;
use std::ffi::{CStr, c_char, c_int, c_void};

/// An event of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionEvent {
    /// CONNACK with this code; 0 is accepted.
    Connack(c_int),
    /// The connection ended or failed, for this reason.
    Closed(c_int),
    /// SUBACK with these codes.
    Suback(Vec<c_int>),
    /// The broker acknowledged a message; reason codes from 128 are refusals.
    Acknowledged {
        /// The message's identifier in the session.
        mid: c_int,
        /// The reason code.
        reason: c_int,
        /// When, in ns of [`Options::clock`].
        at: u64,
    },
    /// A message arrived.
    Message {
        /// Its topic.
        topic: String,
        /// Its payload.
        payload: Vec<u8>,
        /// When, in ns of [`Options::clock`].
        at: u64,
    },
}

/// State that callbacks write; it outlives the client.
pub(super) struct Inbox {
    pub clock: fn() -> u64,
    pub events: Vec<SessionEvent>,
    /// The last error that libmosquitto logged.
    pub last_log: String,
}

/// The inbox of a callback.
///
/// # Safety
/// `user` must be the pointer passed to `mosquitto_new`; call it only within a callback.
unsafe fn inbox<'a>(user: *mut c_void) -> &'a mut Inbox {
    // SAFETY: it is the session's inbox; no other reference exists during a callback.
    unsafe { &mut *user.cast::<Inbox>() }
}

pub(super) unsafe extern "C" fn on_connect(
    _: *mut ffi::Mosquitto,
    user: *mut c_void,
    code: c_int,
    _flags: c_int,
) {
    // SAFETY: libmosquitto calls this with the inbox pointer.
    unsafe { inbox(user) }.events.push(SessionEvent::Connack(code));
}

pub(super) unsafe extern "C" fn on_disconnect(
    _: *mut ffi::Mosquitto,
    user: *mut c_void,
    code: c_int,
) {
    // SAFETY: libmosquitto calls this with the inbox pointer.
    unsafe { inbox(user) }.events.push(SessionEvent::Closed(code));
}

pub(super) unsafe extern "C" fn on_publish(
    _: *mut ffi::Mosquitto,
    user: *mut c_void,
    mid: c_int,
    reason: c_int,
    _: *const ffi::Property,
) {
    // SAFETY: libmosquitto calls this with the inbox pointer.
    let inbox = unsafe { inbox(user) };
    let at = (inbox.clock)();
    inbox.events.push(SessionEvent::Acknowledged { mid, reason, at });
}

pub(super) unsafe extern "C" fn on_subscribe(
    _: *mut ffi::Mosquitto,
    user: *mut c_void,
    _mid: c_int,
    count: c_int,
    levels: *const c_int,
) {
    // SAFETY: libmosquitto calls this with the inbox pointer and `count` levels.
    unsafe {
        let levels = std::slice::from_raw_parts(levels, count.max(0) as usize).to_vec();
        inbox(user).events.push(SessionEvent::Suback(levels));
    }
}

pub(super) unsafe extern "C" fn on_message(
    _: *mut ffi::Mosquitto,
    user: *mut c_void,
    message: *const ffi::Message,
) {
    // SAFETY: libmosquitto calls this with the inbox pointer and a message; its payload has the
    // given length and is null only if empty; its topic is a string.
    unsafe {
        let inbox = inbox(user);
        let at = (inbox.clock)();
        let (start, length) = ((*message).payload.cast::<u8>(), (*message).payloadlen);
        let payload = match start.is_null() {
            true => Vec::new(),
            false => std::slice::from_raw_parts(start, length.max(0) as usize).to_vec(),
        };
        let topic = CStr::from_ptr((*message).topic).to_string_lossy().into_owned();
        inbox.events.push(SessionEvent::Message { topic, payload, at });
    }
}

pub(super) unsafe extern "C" fn on_log(
    _: *mut ffi::Mosquitto,
    user: *mut c_void,
    level: c_int,
    text: *const c_char,
) {
    if level & ffi::LOG_ERR != 0 {
        // SAFETY: libmosquitto calls this with the inbox pointer and a string.
        unsafe {
            inbox(user).last_log = CStr::from_ptr(text).to_string_lossy().trim().to_owned();
        }
    }
}
