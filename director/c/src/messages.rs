//! Messages that members send at any time, and requests to some members.

use crate::foreign::{give, guarded, slice, write};
use crate::objects::{
    DirectorCollected, DirectorIncoming, DirectorListener, DirectorSession, LISTENERS, NO_LISTENER,
    SESSIONS, collect, topic_for_c,
};
use director::io::Publisher;
use director::session::SessionError;
use director::{MessageProperties, Outcome, Span};
use std::ffi::{c_char, c_int};
use std::time::Duration;

/// `enum director_outcome` of the header; 0 if a message is not accepted.
const ACKNOWLEDGED: c_int = 1;
const FAILED: c_int = 2;
const UNKNOWN: c_int = 3;

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_collect_from(
    session: *const DirectorSession,
    members: *const u32,
    count: usize,
    message: *const u8,
    length: usize,
    error: *mut c_char,
    room: usize,
) -> *mut DirectorCollected {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let make = || {
            let (members, message) = (slice(members, count), slice(message, length));
            collect(session, message.to_vec(), Some(members.to_vec()))
        };
        give(make, error, room)
    }
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_lacking_member(
    collected: *const DirectorCollected,
    place: usize,
    member: *mut u32,
) -> c_int {
    guarded(0, || {
        // SAFETY: the caller guarantees null or live objects.
        unsafe {
            let Some(number) = collected.as_ref().and_then(|all| all.1.get(place)) else {
                return 0;
            };
            if let Some(member) = member.as_mut() {
                *member = *number;
            }
        }
        1
    })
}

/// Lets a member's publisher send something, and waits for the outcome.
pub(crate) fn outcome<F>(
    listener: *const DirectorListener,
    send: impl FnOnce(Publisher) -> F,
) -> Result<Outcome, String>
where
    F: Future<Output = Result<Outcome, SessionError>> + Send + 'static,
{
    let listener = LISTENERS.get(listener).ok_or(NO_LISTENER)?;
    let outcome = listener.thread.wait(send(listener.publisher.clone()));
    outcome.ok_or("the listener is over")?.map_err(|error| error.to_string())
}

/// Sends a message of a member and waits for its outcome.
fn send(
    listener: *const DirectorListener,
    message: Vec<u8>,
    is_request: bool,
    properties: MessageProperties,
) -> Result<Outcome, String> {
    outcome(listener, |own| async move {
        match is_request {
            true => own.request(&message, properties).await,
            false => own.publish(&message, properties).await,
        }
    })
}

/// A lifetime in ms (0: the default).
pub(crate) fn lifetime(ms: u64) -> Span {
    match ms {
        0 => MessageProperties::default().lifetime,
        ms => Span::from_ms(ms),
    }
}

/// The code of an outcome, as the header names it.
pub(crate) fn code_of(outcome: &Outcome) -> c_int {
    match outcome {
        Outcome::Acknowledged(_) => ACKNOWLEDGED,
        Outcome::Failed(_) => FAILED,
        Outcome::Unknown => UNKNOWN,
    }
}

/// Lifetime in ms (0: the default) and priority.
pub(crate) fn properties(lifetime_ms: u64, priority: u32) -> MessageProperties {
    MessageProperties { lifetime: lifetime(lifetime_ms), priority, ..MessageProperties::default() }
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_publish(
    listener: *mut DirectorListener,
    message: *const u8,
    length: usize,
    lifetime_ms: u64,
    priority: u32,
    error: *mut c_char,
    room: usize,
) -> c_int {
    // SAFETY: guaranteed by the caller; there is no answer to write.
    unsafe {
        let message = slice(message, length).to_vec();
        let none = std::ptr::null_mut();
        let made = || send(listener, message, false, properties(lifetime_ms, priority));
        finish(made, std::ptr::null_mut(), none, error, room)
    }
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_ask(
    listener: *mut DirectorListener,
    message: *const u8,
    length: usize,
    lifetime_ms: u64,
    priority: u32,
    answer: *mut u8,
    answer_length: *mut usize,
    error: *mut c_char,
    room: usize,
) -> c_int {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let message = slice(message, length).to_vec();
        let made = || send(listener, message, true, properties(lifetime_ms, priority));
        finish(made, answer, answer_length, error, room)
    }
}

/// Writes an answer, or the reason of another outcome.
///
/// # Safety
/// `answer` is null or has room for `*length` bytes, `length` is null or valid; `error` as for
/// `write`.
pub(crate) unsafe fn finish(
    made: impl FnOnce() -> Result<Outcome, String>,
    answer: *mut u8,
    length: *mut usize,
    error: *mut c_char,
    room: usize,
) -> c_int {
    let made = guarded(Err("internal error of the director library".to_owned()), made);
    let (code, why) = match made {
        Ok(Outcome::Acknowledged(bytes)) => {
            let bytes = bytes.unwrap_or_default();
            // SAFETY: guaranteed by the caller.
            if let Some(length) = unsafe { length.as_mut() } {
                if !answer.is_null() {
                    // The whole length is written, so that the caller sees that the answer was cut.
                    let count = bytes.len().min(*length);
                    // SAFETY: the caller guarantees room for `*length` bytes.
                    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), answer, count) };
                }
                *length = bytes.len();
            }
            return ACKNOWLEDGED;
        }
        Ok(Outcome::Failed(why)) => (FAILED, why.to_string()),
        Ok(Outcome::Unknown) => {
            let why = "it was sent, but the hub has not confirmed it before its lifetime ended";
            (UNKNOWN, why.to_owned())
        }
        Err(why) => (0, why),
    };
    // SAFETY: guaranteed by the caller.
    unsafe { write(&why, error, room) };
    code
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_leave(listener: *mut DirectorListener) {
    guarded((), || {
        if let Some(listener) = LISTENERS.get(listener) {
            listener.publisher.leave();
        }
    });
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_come_back(listener: *mut DirectorListener) {
    guarded((), || {
        if let Some(listener) = LISTENERS.get(listener) {
            listener.publisher.come_back();
        }
    });
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_receive(
    session: *const DirectorSession,
    patience_ms: u64,
) -> *mut DirectorIncoming {
    guarded(std::ptr::null_mut(), || {
        let Some(session) = SESSIONS.get(session) else { return std::ptr::null_mut() };
        let inbox = session.inbox.clone();
        let patience = Duration::from_millis(patience_ms);
        let next = async move { inbox.lock().await.next().await };
        match session.thread.wait_within(patience, next).flatten() {
            Some(incoming) => {
                let topic = topic_for_c(incoming.topic.as_deref());
                Box::into_raw(Box::new(DirectorIncoming(incoming, topic)))
            }
            None => std::ptr::null_mut(),
        }
    })
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_incoming_message(
    incoming: *const DirectorIncoming,
    length: *mut usize,
) -> *const u8 {
    guarded(std::ptr::null(), || {
        // SAFETY: the caller guarantees null or a live object.
        unsafe {
            let Some(incoming) = incoming.as_ref() else { return std::ptr::null() };
            if let Some(length) = length.as_mut() {
                *length = incoming.0.message.len();
            }
            incoming.0.message.as_ptr()
        }
    })
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_incoming_member(incoming: *const DirectorIncoming) -> u32 {
    // SAFETY: the caller guarantees null or a live object.
    guarded(0, || unsafe { incoming.as_ref() }.map_or(0, |incoming| incoming.0.member()))
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_incoming_is_request(incoming: *const DirectorIncoming) -> c_int {
    // SAFETY: the caller guarantees null or a live object.
    let asks = || unsafe { incoming.as_ref() }.is_some_and(|incoming| incoming.0.is_request);
    guarded(0, || c_int::from(asks()))
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_incoming_reply(
    incoming: *mut DirectorIncoming,
    answer: *const u8,
    length: usize,
) {
    guarded((), || {
        if !incoming.is_null() {
            // SAFETY: the caller guarantees an object of this library that is not used again.
            let incoming = unsafe { Box::from_raw(incoming) };
            // SAFETY: guaranteed by the caller.
            incoming.0.reply(unsafe { slice(answer, length) });
        }
    });
}
