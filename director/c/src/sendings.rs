//! Stored messages of a hub, and their outcomes.

use crate::foreign::{give, guarded, slice};
use crate::messages::{code_of, lifetime};
use crate::objects::{DirectorSession, NO_SESSION, SESSIONS};
use director::Outcome;
use director::io::StoredSending;
use std::ffi::{c_char, c_int};
use std::sync::{Arc, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::Mutex;

/// A stored message of a hub.
pub struct DirectorSending {
    message: Vec<u8>,
    /// The handle of its session.
    session: usize,
    sending: Arc<Mutex<StoredSending>>,
    outcomes: Arc<OnceLock<Vec<(u32, Outcome)>>>,
}

fn object(session: *const DirectorSession, sending: StoredSending) -> *mut DirectorSending {
    Box::into_raw(Box::new(DirectorSending {
        message: sending.message.clone(),
        session: session.addr(),
        sending: Arc::new(Mutex::new(sending)),
        outcomes: Arc::default(),
    }))
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_store(
    session: *const DirectorSession,
    members: *const u32,
    count: usize,
    message: *const u8,
    length: usize,
    lifetime_ms: u64,
    error: *mut c_char,
    room: usize,
) -> *mut DirectorSending {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let make = || {
            let own = SESSIONS.get(session).ok_or(NO_SESSION)?;
            let members = slice(members, count).to_vec();
            let message = slice(message, length).to_vec();
            let sender = own.session.clone();
            let lifetime = lifetime(lifetime_ms).into();
            let stored =
                own.thread.wait(async move { sender.store(&members, &message, lifetime).await });
            let stored = stored.ok_or("the session is over")?;
            Ok(object(session, stored.map_err(|error| error.to_string())?))
        };
        give(make, error, room)
    }
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_next_sending(
    session: *const DirectorSession,
) -> *mut DirectorSending {
    guarded(std::ptr::null_mut(), || {
        let next = SESSIONS.get(session).and_then(|own| {
            own.restored.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
        });
        next.map_or(std::ptr::null_mut(), |sending| object(session, sending))
    })
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_sending_message(
    sending: *const DirectorSending,
    length: *mut usize,
) -> *const u8 {
    guarded(std::ptr::null(), || {
        // SAFETY: the caller guarantees null or a live object, and null or a valid length.
        unsafe {
            let Some(sending) = sending.as_ref() else { return std::ptr::null() };
            if let Some(length) = length.as_mut() {
                *length = sending.message.len();
            }
            sending.message.as_ptr()
        }
    })
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_sending_is_over(
    sending: *const DirectorSending,
    patience_ms: u64,
) -> c_int {
    guarded(0, || {
        // SAFETY: the caller guarantees null or a live object.
        let Some(own) = (unsafe { sending.as_ref() }) else { return 0 };
        if own.outcomes.get().is_some() {
            return 1;
        }
        let Some(session) = SESSIONS.get(std::ptr::without_provenance(own.session)) else {
            return 0;
        };
        let (waiting, known) = (own.sending.clone(), own.outcomes.clone());
        let ended = session.thread.wait_within(Duration::from_millis(patience_ms), async move {
            let mut sending = waiting.lock().await;
            // Another thread may have waited for them.
            if known.get().is_none() {
                let outcomes = sending.outcomes().await.ok()?;
                let _ = known.set(outcomes.into_iter().collect());
            }
            Some(())
        });
        c_int::from(ended.flatten().is_some())
    })
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_sending_outcome(
    sending: *const DirectorSending,
    place: usize,
    member: *mut u32,
    answer: *mut *const u8,
    length: *mut usize,
) -> c_int {
    guarded(0, || {
        // SAFETY: the caller guarantees null or live objects.
        unsafe {
            let known = sending.as_ref().and_then(|own| own.outcomes.get());
            let Some((number, outcome)) = known.and_then(|known| known.get(place)) else {
                return 0;
            };
            let bytes = match outcome {
                Outcome::Acknowledged(Some(bytes)) => &bytes[..],
                _ => &[],
            };
            if let Some(member) = member.as_mut() {
                *member = *number;
            }
            if let Some(answer) = answer.as_mut() {
                *answer = bytes.as_ptr();
            }
            if let Some(length) = length.as_mut() {
                *length = bytes.len();
            }
            code_of(outcome)
        }
    })
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_sending_free(sending: *mut DirectorSending) {
    guarded((), || {
        if !sending.is_null() {
            // SAFETY: the caller guarantees an object of this library that is not used again.
            drop(unsafe { Box::from_raw(sending) });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        director_initiate, director_listen, director_listener_free, director_message,
        director_next, director_reply, director_request_free, director_session_free,
    };
    use std::ffi::{CStr, CString};

    fn free() -> CString {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        CString::new(socket.local_addr().unwrap().to_string()).unwrap()
    }

    #[test]
    fn messages_of_a_hub_outlast_its_session() {
        let folder = std::env::temp_dir().join(format!("director-c-hub-{}", std::process::id()));
        let options = format!("{{\"storage\": \"{}\"}}", folder.display());
        let (options, plain) = (CString::new(options).unwrap(), c"{}");
        let (key, mut error, hub, own) = ([1_u8; 16], [0; 400], free(), free());
        let why = error.as_mut_ptr();
        // SAFETY: all pointers live over the calls; handles are no pointers.
        unsafe {
            let members = [own.as_ptr()];
            let initiate = |options: &CStr| {
                let (options, hub) = (options.as_ptr(), hub.as_ptr());
                director_initiate(options, key.as_ptr(), 16, hub, members.as_ptr(), 1, why, 400)
            };
            let store = |session, number: u32, text: &[u8]| {
                director_store(
                    session,
                    &raw const number,
                    1,
                    text.as_ptr(),
                    text.len(),
                    0,
                    why,
                    400,
                )
            };
            let session = initiate(plain);
            assert!(store(session, 0, b"a price").is_null());
            assert!(CStr::from_ptr(why).to_str().unwrap().contains("there is no storage"));
            director_session_free(session);
            let session = initiate(&options);
            assert!(director_next_sending(session).is_null());
            assert!(store(session, 9, b"a price").is_null());
            assert!(CStr::from_ptr(why).to_str().unwrap().contains("no member 9"));
            let sending = store(session, 0, b"a price");
            assert!(!sending.is_null());
            assert_eq!(director_sending_is_over(sending, 1), 0);
            director_session_free(session);
            assert_eq!(director_sending_is_over(sending, 1), 0);
            director_sending_free(sending);

            let session = initiate(&options);
            let sending = director_next_sending(session);
            assert!(!sending.is_null() && director_next_sending(session).is_null());
            let mut length = 0;
            let message = director_sending_message(sending, &raw mut length);
            assert_eq!(std::slice::from_raw_parts(message, length), b"a price");
            let (key, own, hub) = (key.as_ptr(), own.as_ptr(), hub.as_ptr());
            let listener = director_listen(plain.as_ptr(), key, 16, own, hub, why, 400);
            let request = director_next(listener, 120_000);
            let message = director_message(request, &raw mut length);
            assert_eq!(std::slice::from_raw_parts(message, length), b"a price");
            let (mut member, mut answer) = (9, std::ptr::null());
            let no = std::ptr::null_mut::<u8>();
            assert_eq!(
                director_sending_outcome(sending, 0, &raw mut member, no.cast(), no.cast()),
                0
            );
            director_reply(request, b"yes".as_ptr(), 3);
            assert_eq!(director_sending_is_over(sending, 120_000), 1);
            let to = (&raw mut member, &raw mut answer, &raw mut length);
            let code = director_sending_outcome(sending, 0, to.0, to.1, to.2);
            assert_eq!((code, member), (1, 0));
            assert_eq!(std::slice::from_raw_parts(answer, length), b"yes");
            assert_eq!(director_sending_outcome(sending, 1, no.cast(), no.cast(), no.cast()), 0);
            // Freed without an answer, it counts as taken.
            let next = store(session, 0, b"another");
            director_request_free(director_next(listener, 120_000));
            assert_eq!(director_sending_is_over(next, 120_000), 1);
            assert_eq!(director_sending_outcome(next, 0, no.cast(), no.cast(), no.cast()), 1);
            director_sending_free(next);
            director_sending_free(sending);
            director_listener_free(listener);
            director_session_free(session);
            let session = initiate(&options);
            assert!(director_next_sending(session).is_null(), "its outcome is known");
            director_session_free(session);
            director_sending_free(std::ptr::null_mut());
            assert_eq!(director_sending_is_over(std::ptr::null(), 1), 0);
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
