//! Topics: subscriptions of members, and messages that members can subscribe to.

use crate::foreign::{give, guarded, read, slice};
use crate::messages::{finish, outcome, properties};
use crate::objects::{
    DirectorCollected, DirectorIncoming, DirectorListener, DirectorRequest, DirectorSession,
    NO_SESSION, SESSIONS, returned,
};
use director::MessageProperties;
use std::ffi::{c_char, c_int};
use std::ptr::null_mut;

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_publish_topic(
    session: *const DirectorSession,
    topic: *const c_char,
    message: *const u8,
    length: usize,
    error: *mut c_char,
    room: usize,
) -> *mut DirectorCollected {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let make = || {
            let (topic, message) =
                (read(topic, "topic")?.to_owned(), slice(message, length).to_vec());
            let session = SESSIONS.get(session).ok_or(NO_SESSION)?;
            let own = session.session.clone();
            let collected = session.thread.wait(async move { own.publish(&topic, &message).await });
            returned(collected)
        };
        give(make, error, room)
    }
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_subscribe(
    listener: *mut DirectorListener,
    filter: *const c_char,
    error: *mut c_char,
    room: usize,
) -> c_int {
    // SAFETY: guaranteed by the caller; there is no answer to write.
    unsafe {
        let made = || {
            let filter = read(filter, "filter")?.to_owned();
            outcome(listener, |own| async move { own.subscribe(&filter).await })
        };
        finish(made, null_mut(), null_mut(), error, room)
    }
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_unsubscribe(
    listener: *mut DirectorListener,
    filter: *const c_char,
    error: *mut c_char,
    room: usize,
) -> c_int {
    // SAFETY: guaranteed by the caller; there is no answer to write.
    unsafe {
        let made = || {
            let filter = read(filter, "filter")?.to_owned();
            outcome(listener, |own| async move { own.unsubscribe(&filter).await })
        };
        finish(made, null_mut(), null_mut(), error, room)
    }
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_publish_to(
    listener: *mut DirectorListener,
    topic: *const c_char,
    message: *const u8,
    length: usize,
    lifetime_ms: u64,
    priority: u32,
    error: *mut c_char,
    room: usize,
) -> c_int {
    // SAFETY: guaranteed by the caller; there is no answer to write.
    unsafe {
        let made = || {
            let (topic, message) =
                (read(topic, "topic")?.to_owned(), slice(message, length).to_vec());
            let properties = properties(lifetime_ms, priority);
            outcome(
                listener,
                |own| async move { own.publish_to(&topic, &message, properties).await },
            )
        };
        finish(made, null_mut(), null_mut(), error, room)
    }
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_publish_stored(
    listener: *mut DirectorListener,
    topic: *const c_char,
    message: *const u8,
    length: usize,
    lifetime_ms: u64,
    priority: u32,
    error: *mut c_char,
    room: usize,
) -> c_int {
    // SAFETY: guaranteed by the caller; there is no answer to write.
    unsafe {
        let made = || {
            let topic = match topic.is_null() {
                true => None,
                false => Some(read(topic, "topic")?.to_owned()),
            };
            let message = slice(message, length).to_vec();
            let properties =
                MessageProperties { stored: true, ..properties(lifetime_ms, priority) };
            outcome(listener, |own| async move {
                match topic {
                    Some(topic) => own.publish_to(&topic, &message, properties).await,
                    None => own.publish(&message, properties).await,
                }
            })
        };
        finish(made, null_mut(), null_mut(), error, room)
    }
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_topic(request: *const DirectorRequest) -> *const c_char {
    guarded(std::ptr::null(), || {
        // SAFETY: the caller guarantees null or a live object.
        let topic = unsafe { request.as_ref() }.and_then(|request| request.1.as_ref());
        topic.map_or(std::ptr::null(), |topic| topic.as_ptr())
    })
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_incoming_topic(
    incoming: *const DirectorIncoming,
) -> *const c_char {
    guarded(std::ptr::null(), || {
        // SAFETY: the caller guarantees null or a live object.
        let topic = unsafe { incoming.as_ref() }.and_then(|incoming| incoming.1.as_ref());
        topic.map_or(std::ptr::null(), |topic| topic.as_ptr())
    })
}
