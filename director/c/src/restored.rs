//! Messages of former starts of a member, and their outcomes.

use crate::foreign::guarded;
use crate::messages::finish;
use crate::objects::{DirectorListener, LISTENERS, NO_LISTENER, topic_for_c};
use director::io::DurableMessage;
use std::ffi::{CString, c_char, c_int};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::Mutex;

/// A message of a former start.
pub struct DirectorRestored {
    message: Vec<u8>,
    topic: Option<CString>,
    /// The handle of its listener.
    listener: usize,
    /// `None` when its outcome is known.
    durable: Arc<Mutex<Option<DurableMessage>>>,
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_next_restored(
    listener: *mut DirectorListener,
) -> *mut DirectorRestored {
    guarded(std::ptr::null_mut(), || {
        let own = LISTENERS.get(listener);
        let next = own.and_then(|own| {
            own.restored.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
        });
        let Some(durable) = next else { return std::ptr::null_mut() };
        Box::into_raw(Box::new(DirectorRestored {
            message: durable.message.clone(),
            topic: topic_for_c(durable.topic.as_deref()),
            listener: listener.addr(),
            durable: Arc::new(Mutex::new(Some(durable))),
        }))
    })
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_restored_message(
    restored: *const DirectorRestored,
    length: *mut usize,
) -> *const u8 {
    guarded(std::ptr::null(), || {
        // SAFETY: the caller guarantees null or a live object, and null or a valid length.
        unsafe {
            let Some(restored) = restored.as_ref() else { return std::ptr::null() };
            if let Some(length) = length.as_mut() {
                *length = restored.message.len();
            }
            restored.message.as_ptr()
        }
    })
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_restored_topic(
    restored: *const DirectorRestored,
) -> *const c_char {
    guarded(std::ptr::null(), || {
        // SAFETY: the caller guarantees null or a live object.
        let topic = unsafe { restored.as_ref() }.and_then(|restored| restored.topic.as_ref());
        topic.map_or(std::ptr::null(), |topic| topic.as_ptr())
    })
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_restored_outcome(
    restored: *const DirectorRestored,
    patience_ms: u64,
    error: *mut c_char,
    room: usize,
) -> c_int {
    // SAFETY: guaranteed by the caller; there is no answer to write.
    unsafe {
        let made = || {
            let restored = restored.as_ref().ok_or("there is no message")?;
            let handle = std::ptr::without_provenance(restored.listener);
            let listener = LISTENERS.get(handle).ok_or(NO_LISTENER)?;
            let durable = restored.durable.clone();
            let patience = Duration::from_millis(patience_ms);
            let outcome = listener.thread.wait_within(patience, async move {
                let mut durable = durable.lock().await;
                let own = durable.as_mut().ok_or("its outcome was returned before")?;
                let outcome = own.next_outcome().await.map_err(|error| error.to_string())?;
                *durable = None;
                Ok(outcome)
            });
            match outcome {
                Some(outcome) => outcome,
                None if LISTENERS.get(handle).is_none() => Err(NO_LISTENER.to_owned()),
                None => Err("it has no outcome yet".to_owned()),
            }
        };
        finish(made, std::ptr::null_mut(), std::ptr::null_mut(), error, room)
    }
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_restored_free(restored: *mut DirectorRestored) {
    guarded((), || {
        if !restored.is_null() {
            // SAFETY: the caller guarantees an object of this library that is not used again.
            drop(unsafe { Box::from_raw(restored) });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::{director_incoming_message, director_receive};
    use crate::topics::director_publish_stored;
    use crate::{
        director_incoming_free, director_initiate, director_listen, director_listener_free,
        director_session_free,
    };

    fn free() -> CString {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        CString::new(socket.local_addr().unwrap().to_string()).unwrap()
    }

    /// What failed before: a program in C could store messages, and never learned what became of those of
    /// its former starts.
    #[test]
    fn outcomes_of_messages_of_former_starts() {
        let folder =
            std::env::temp_dir().join(format!("director-c-restored-{}", std::process::id()));
        let options = format!("{{\"storage\": \"{}\"}}", folder.display());
        let (options, plain) = (CString::new(options).unwrap(), c"{}");
        let (key, mut error, hub, own) = ([1_u8; 16], [0; 400], free(), free());
        let why = error.as_mut_ptr();
        // SAFETY: all pointers live over the calls; handles are no pointers.
        unsafe {
            let listen = || {
                director_listen(
                    options.as_ptr(),
                    key.as_ptr(),
                    16,
                    own.as_ptr(),
                    hub.as_ptr(),
                    why,
                    400,
                )
            };
            let listener = listen();
            assert!(!listener.is_null());
            assert!(director_next_restored(listener).is_null());
            let handle = listener.addr();
            // It waits for its outcome, which this start never learns.
            let publishing = std::thread::spawn(move || {
                let listener = std::ptr::without_provenance_mut(handle);
                let (message, topic) = (b"a reading", c"energy".as_ptr());
                let none = std::ptr::null_mut();
                director_publish_stored(listener, topic, message.as_ptr(), 9, 600_000, 100, none, 0)
            });
            let log = folder.join("outgoing.log");
            let is_stored = || {
                let log = std::fs::read(&log).unwrap_or_default();
                log.windows(9).any(|bytes| bytes == b"a reading")
            };
            while !is_stored() {
                std::thread::sleep(Duration::from_millis(5));
            }
            director_listener_free(listener);
            assert_eq!(publishing.join().unwrap(), 0);
            let listener = listen();
            let restored = director_next_restored(listener);
            assert!(!restored.is_null() && director_next_restored(listener).is_null());
            let mut length = 0;
            let message = director_restored_message(restored, &raw mut length);
            assert_eq!(std::slice::from_raw_parts(message, length), b"a reading");
            let topic = std::ffi::CStr::from_ptr(director_restored_topic(restored));
            assert_eq!(topic, c"energy");
            assert_eq!(director_restored_outcome(restored, 1, why, 400), 0);
            let text = std::ffi::CStr::from_ptr(why).to_str().unwrap();
            assert_eq!(text, "it has no outcome yet");
            let members = [own.as_ptr()];
            let session = director_initiate(
                plain.as_ptr(),
                key.as_ptr(),
                16,
                hub.as_ptr(),
                members.as_ptr(),
                1,
                why,
                400,
            );
            let incoming = director_receive(session, 120_000);
            let message = director_incoming_message(incoming, &raw mut length);
            assert_eq!(std::slice::from_raw_parts(message, length), b"a reading");
            director_incoming_free(incoming);
            assert_eq!(director_restored_outcome(restored, 120_000, why, 400), 1);
            // Once.
            assert_eq!(director_restored_outcome(restored, 1, why, 400), 0);
            director_restored_free(restored);
            director_listener_free(listener);
            // Its outcome is known: a further start does not have it.
            let listener = listen();
            assert!(director_next_restored(listener).is_null());
            director_listener_free(listener);
            director_session_free(session);
            // Objects outlast their listener, and absent ones are no crash.
            assert_eq!(director_restored_outcome(std::ptr::null(), 1, why, 400), 0);
            director_restored_free(std::ptr::null_mut());
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
