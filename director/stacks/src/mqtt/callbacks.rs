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

/// Calls `then` with the inbox of a callback.
///
/// # Safety
/// `user` must be the pointer passed to `mosquitto_new`; call it only within a callback, and do not
/// call libmosquitto in `then`, which could lead to a second reference.
unsafe fn with_inbox(user: *mut c_void, then: impl FnOnce(&mut Inbox)) {
    // SAFETY: it is the session's inbox; no other reference exists during a callback.
    then(unsafe { &mut *user.cast::<Inbox>() });
}

/// A copy of `count` elements; empty if `start` is null, as libmosquitto has it for an empty list,
/// or if there are less than one.
///
/// # Safety
/// `start` is null or points to `count` elements.
unsafe fn list<T: Copy>(start: *const T, count: c_int) -> Vec<T> {
    let Ok(count) = usize::try_from(count) else { return Vec::new() };
    if start.is_null() {
        return Vec::new();
    }
    // SAFETY: guaranteed by the caller.
    unsafe { std::slice::from_raw_parts(start, count) }.to_vec()
}

/// A copy of a text; empty if it is null.
///
/// # Safety
/// `text` is null or ends with 0.
unsafe fn text(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: guaranteed by the caller.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

pub(super) unsafe extern "C" fn on_connect(
    _: *mut ffi::Mosquitto,
    user: *mut c_void,
    code: c_int,
    _flags: c_int,
) {
    // SAFETY: libmosquitto calls this with the inbox pointer.
    unsafe { with_inbox(user, |inbox| inbox.events.push(SessionEvent::Connack(code))) };
}

pub(super) unsafe extern "C" fn on_disconnect(
    _: *mut ffi::Mosquitto,
    user: *mut c_void,
    code: c_int,
) {
    // SAFETY: libmosquitto calls this with the inbox pointer.
    unsafe { with_inbox(user, |inbox| inbox.events.push(SessionEvent::Closed(code))) };
}

pub(super) unsafe extern "C" fn on_publish(
    _: *mut ffi::Mosquitto,
    user: *mut c_void,
    mid: c_int,
    reason: c_int,
    _: *const ffi::Property,
) {
    // SAFETY: libmosquitto calls this with the inbox pointer.
    unsafe {
        with_inbox(user, |inbox| {
            let at = (inbox.clock)();
            inbox.events.push(SessionEvent::Acknowledged { mid, reason, at });
        });
    }
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
        let levels = list(levels, count);
        with_inbox(user, |inbox| inbox.events.push(SessionEvent::Suback(levels)));
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
        let message = &*message;
        let payload = list(message.payload.cast::<u8>(), message.payloadlen);
        let topic = text(message.topic);
        with_inbox(user, |inbox| {
            let at = (inbox.clock)();
            inbox.events.push(SessionEvent::Message { topic, payload, at });
        });
    }
}

pub(super) unsafe extern "C" fn on_log(
    _: *mut ffi::Mosquitto,
    user: *mut c_void,
    level: c_int,
    line: *const c_char,
) {
    if level & ffi::LOG_ERR != 0 {
        // SAFETY: libmosquitto calls this with the inbox pointer and a string.
        unsafe {
            let line = text(line).trim().to_owned();
            with_inbox(user, |inbox| inbox.last_log = line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    /// What a broker's odd answers give: lists and texts that are null, and negative counts.
    #[test]
    fn null_lists_and_texts_are_empty() {
        let mut inbox = Inbox { clock: || 7, events: Vec::new(), last_log: "old".to_owned() };
        let user = (&raw mut inbox).cast();
        let levels = [0, 1];
        let message = ffi::Message {
            mid: 1,
            topic: ptr::null_mut(),
            payload: ptr::null_mut(),
            payloadlen: 3,
            qos: 0,
            retain: false,
        };
        // SAFETY: the inbox, the list and the message outlive the calls.
        unsafe {
            on_subscribe(ptr::null_mut(), user, 1, 2, ptr::null());
            on_subscribe(ptr::null_mut(), user, 1, -1, levels.as_ptr());
            on_subscribe(ptr::null_mut(), user, 1, 2, levels.as_ptr());
            on_message(ptr::null_mut(), user, &raw const message);
            on_log(ptr::null_mut(), user, ffi::LOG_ERR, ptr::null());
        }
        let nothing = SessionEvent::Message { topic: String::new(), payload: Vec::new(), at: 7 };
        let suback = |levels: &[c_int]| SessionEvent::Suback(levels.to_vec());
        assert_eq!(inbox.events, [suback(&[]), suback(&[]), suback(&[0, 1]), nothing]);
        assert!(inbox.last_log.is_empty());
    }
}
