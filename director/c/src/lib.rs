//! The C interface of the director; `include/director.h` documents each function. Each session
//! and each listener has its own thread with a tokio runtime, so that callers may use any thread.
//! Handles are numbers in a table: if a session ends while another thread waits in it, that
//! thread gets an error.

mod damaged;
mod foreign;
mod membership;
mod messages;
mod objects;
mod options;
mod over;
mod restored;
mod sendings;
mod table;
mod topics;

use director::io::{Preconnection, resolve, resolve_from};
use director::session::Security;
use foreign::{give, guarded, read, slice, write};
use objects::{
    DirectorCollected, DirectorIncoming, DirectorListener, DirectorRequest, DirectorSession,
    LISTENERS, SESSIONS, Thread, topic_for_c,
};
use options::Options;
use std::ffi::{c_char, c_int};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

fn address(name: &str) -> Result<SocketAddr, String> {
    resolve(name).map_err(|error| error.to_string())
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_initiate(
    options: *const c_char,
    key: *const u8,
    key_length: usize,
    local: *const c_char,
    members: *const *const c_char,
    count: usize,
    error: *mut c_char,
    room: usize,
) -> *mut DirectorSession {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let make = || {
            let security = Security::Key(slice(key, key_length).to_vec());
            initiate(options, security, local, members, count)
        };
        give(make, error, room)
    }
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_initiate_keys(
    options: *const c_char,
    keys: *const *const u8,
    key_lengths: *const usize,
    key_count: usize,
    local: *const c_char,
    members: *const *const c_char,
    count: usize,
    error: *mut c_char,
    room: usize,
) -> *mut DirectorSession {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let make = || {
            let keys = slice(keys, key_count).iter().zip(slice(key_lengths, key_count));
            let keys = keys.map(|(key, length)| slice(*key, *length).to_vec()).collect();
            initiate(options, Security::Keys(keys), local, members, count)
        };
        give(make, error, room)
    }
}

/// Starts a session as its hub.
///
/// # Safety
/// As `director_initiate`.
unsafe fn initiate(
    options: *const c_char,
    security: Security,
    local: *const c_char,
    members: *const *const c_char,
    count: usize,
) -> Result<*mut DirectorSession, String> {
    // SAFETY: guaranteed by the caller.
    let (options, local, members) = unsafe {
        let members: Result<Vec<&str>, String> =
            slice(members, count).iter().map(|member| read(*member, "a member")).collect();
        (read(options, "options")?, read(local, "local")?, members?)
    };
    let preconnection = Options::read(options)?.preconnection(security)?;
    let local = address(local)?;
    let members = members.into_iter().map(address).collect::<Result<Vec<_>, _>>()?;
    // In the runtime, which its sockets and tasks belong to.
    let (thread, session) = open(move || preconnection.initiate(local, &members))?;
    let inbox = session.inbox().ok_or("the session is over")?;
    // Shared, because two threads may wait for messages at the same time.
    let inbox = Arc::new(Mutex::new(inbox));
    let restored = std::sync::Mutex::new(session.restored().into());
    Ok(SESSIONS.add(DirectorSession { thread, session, inbox, restored }))
}

/// Opens a session or listener in a new runtime.
fn open<T: Send + 'static>(
    make: impl FnOnce() -> Result<T, director::io::Error> + Send + 'static,
) -> Result<(Thread, T), String> {
    let thread = Thread::start()?;
    let made = thread.wait(async move { make() }).ok_or("the runtime has ended")?;
    match made {
        Ok(made) => Ok((thread, made)),
        Err(error) => {
            thread.end();
            Err(error.to_string())
        }
    }
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_ready(
    session: *const DirectorSession,
    patience_ms: u64,
) -> c_int {
    guarded(0, || {
        // Held from here on, so that another thread can free the handle meanwhile.
        let Some(session) = SESSIONS.get(session) else { return 0 };
        let own = session.session.clone();
        let patience = Duration::from_millis(patience_ms);
        let ready = session.thread.wait(async move { own.ready(patience).await });
        c_int::from(ready == Some(true))
    })
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_collect(
    session: *const DirectorSession,
    message: *const u8,
    length: usize,
    error: *mut c_char,
    room: usize,
) -> *mut DirectorCollected {
    let make = || {
        // SAFETY: guaranteed by the caller.
        let message = unsafe { slice(message, length) }.to_vec();
        objects::collect(session, message, None)
    };
    // SAFETY: guaranteed by the caller.
    unsafe { give(make, error, room) }
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_answers(collected: *const DirectorCollected) -> usize {
    guarded(0, || {
        // SAFETY: the caller guarantees null or a live object.
        unsafe { collected.as_ref() }.map_or(0, |collected| collected.0.len())
    })
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_lacking(collected: *const DirectorCollected) -> usize {
    guarded(0, || {
        // SAFETY: the caller guarantees null or a live object.
        unsafe { collected.as_ref() }.map_or(0, |collected| collected.1.len())
    })
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_answer(
    collected: *const DirectorCollected,
    place: usize,
    member: *mut u32,
    bytes: *mut *const u8,
    length: *mut usize,
) -> c_int {
    guarded(0, || {
        // SAFETY: the caller guarantees null or live objects, also for the outputs.
        unsafe {
            let Some((number, answer)) = collected.as_ref().and_then(|all| all.0.get(place)) else {
                return 0;
            };
            if let Some(member) = member.as_mut() {
                *member = *number;
            }
            if let Some(bytes) = bytes.as_mut() {
                *bytes = answer.as_ptr();
            }
            if let Some(length) = length.as_mut() {
                *length = answer.len();
            }
        }
        1
    })
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_explain(
    session: *const DirectorSession,
    text: *mut c_char,
    room: usize,
) -> c_int {
    guarded(0, || {
        let Some(session) = SESSIONS.get(session) else { return 0 };
        let own = session.session.clone();
        let Some(Some(explanation)) = session.thread.wait(async move { own.explain().await })
        else {
            return 0;
        };
        // SAFETY: guaranteed by the caller.
        unsafe { write(&explanation.to_string(), text, room) };
        1
    })
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_listen(
    options: *const c_char,
    key: *const u8,
    key_length: usize,
    local: *const c_char,
    hub: *const c_char,
    error: *mut c_char,
    room: usize,
) -> *mut DirectorListener {
    let make = || {
        // SAFETY: guaranteed by the caller.
        let (options, key, local, hub) = unsafe {
            let (local, hub) = (read(local, "local")?, read(hub, "hub")?);
            (read(options, "options")?, slice(key, key_length), local, hub.to_owned())
        };
        let security = Security::Key(key.to_vec());
        let preconnection: Preconnection = Options::read(options)?.preconnection(security)?;
        let local = address(local)?;
        let (thread, mut listener) =
            open(move || preconnection.listen_by(local, move || resolve_from(local, &hub)))?;
        let publisher = listener.publisher();
        let restored = std::sync::Mutex::new(listener.restored().into());
        let damaged = listener.damaged_log().map(Into::into);
        let listener = Arc::new(Mutex::new(listener));
        Ok(LISTENERS.add(DirectorListener { thread, listener, publisher, restored, damaged }))
    };
    // SAFETY: guaranteed by the caller.
    unsafe { give(make, error, room) }
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_next(
    listener: *mut DirectorListener,
    patience_ms: u64,
) -> *mut DirectorRequest {
    guarded(std::ptr::null_mut(), || {
        let Some(listener) = LISTENERS.get(listener) else { return std::ptr::null_mut() };
        let own = listener.listener.clone();
        let patience = Duration::from_millis(patience_ms);
        let next = async move { own.lock().await.next().await };
        match listener.thread.wait_within(patience, next).flatten() {
            Some(request) => {
                let topic = topic_for_c(request.topic.as_deref());
                Box::into_raw(Box::new(DirectorRequest(request, topic)))
            }
            None => std::ptr::null_mut(),
        }
    })
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_message(
    request: *const DirectorRequest,
    length: *mut usize,
) -> *const u8 {
    guarded(std::ptr::null(), || {
        // SAFETY: the caller guarantees null or a live object.
        unsafe {
            let Some(request) = request.as_ref() else { return std::ptr::null() };
            if let Some(length) = length.as_mut() {
                *length = request.0.message.len();
            }
            request.0.message.as_ptr()
        }
    })
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_reply(
    request: *mut DirectorRequest,
    answer: *const u8,
    length: usize,
) {
    guarded((), || {
        if !request.is_null() {
            // SAFETY: the caller guarantees a request of `director_next` that is not used again.
            let request = unsafe { Box::from_raw(request) };
            // SAFETY: guaranteed by the caller.
            request.0.reply(unsafe { slice(answer, length) });
        }
    })
}

macro_rules! frees {
    ($($name:ident: $type:ty),* $(,)?) => {$(
        /// # Safety
        /// See the header.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(what: *mut $type) {
            if !what.is_null() {
                // SAFETY: the caller guarantees an object of this library that is not used again.
                guarded((), || drop(unsafe { Box::from_raw(what) }));
            }
        }
    )*};
}

frees! {
    director_collected_free: DirectorCollected,
    director_incoming_free: DirectorIncoming,
    director_request_free: DirectorRequest,
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_session_free(session: *mut DirectorSession) {
    guarded((), || {
        // Threads that wait in it get an error: the end of the runtime drops what they wait for.
        if let Some(session) = SESSIONS.remove(session) {
            session.thread.end();
        }
    })
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_listener_free(listener: *mut DirectorListener) {
    guarded((), || {
        if let Some(listener) = LISTENERS.remove(listener) {
            listener.thread.end();
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absurd_arguments_are_answered() {
        let (bytes, name) = ([1_u8; 4], c"127.0.0.1:0");
        let mut error: [c_char; 200] = [0; 200];
        let message = error.as_mut_ptr();
        // SAFETY: all pointers live over the calls; a length that no memory has is not read.
        unsafe {
            assert!(slice(bytes.as_ptr(), usize::MAX).is_empty());
            assert_eq!(slice(bytes.as_ptr(), 4), bytes);
            let key = bytes.as_ptr();
            let local = name.as_ptr();
            let options = c"{}".as_ptr();
            let none = std::ptr::null();
            let session =
                director_initiate(options, key, usize::MAX, local, none, usize::MAX, message, 200);
            assert!(session.is_null() && error[0] != 0);
            assert_eq!(director_ready(session, u64::MAX), 0);
            assert!(director_next(std::ptr::null_mut(), u64::MAX).is_null());
            assert_eq!(director_answers(std::ptr::null()), 0);
            director_reply(std::ptr::null_mut(), key, usize::MAX);
            director_session_free(session);
        }
    }

    /// What failed before: a socket was closed some time after its session was freed, so that a new
    /// session at the same address sometimes failed.
    #[test]
    fn an_address_is_free_when_its_listener_is() {
        let (key, mut error) = ([1_u8; 16], [0; 200]);
        let (options, hub, message) = (c"{}".as_ptr(), c"127.0.0.1:9".as_ptr(), error.as_mut_ptr());
        let free = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let local = std::ffi::CString::new(free.to_string()).unwrap();
        for _ in 0..50 {
            // SAFETY: all pointers live over the calls; handles are no pointers.
            unsafe {
                let local = local.as_ptr();
                let listener = director_listen(options, key.as_ptr(), 16, local, hub, message, 200);
                assert!(!listener.is_null());
                director_listener_free(listener);
            }
        }
    }

    /// Waits in a thread with a limit of minutes, until `waits` says that it does; then `again`, a
    /// call with a limit of milliseconds, must not wait for that thread.
    fn waits_no_longer(
        long: impl FnOnce() + Send + 'static,
        waits: impl Fn() -> bool,
        again: impl FnOnce(),
        free: impl FnOnce(),
    ) {
        let other = std::thread::spawn(long);
        while !waits() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let began = std::time::Instant::now();
        again();
        assert!(began.elapsed() < Duration::from_secs(100), "{:?}", began.elapsed());
        free();
        other.join().unwrap();
    }

    #[test]
    fn a_thread_that_waits_does_not_extend_the_limit_of_another() {
        const LONG_MS: u64 = 200_000;
        let (key, mut error) = ([1_u8; 16], [0; 200]);
        let (options, local, message) =
            (c"{}".as_ptr(), c"127.0.0.1:0".as_ptr(), error.as_mut_ptr());
        let member = c"127.0.0.1:9".as_ptr();
        // SAFETY: all pointers live over the calls; handles are no pointers.
        unsafe {
            let listener = director_listen(options, key.as_ptr(), 16, local, member, message, 200);
            assert!(!listener.is_null());
            let handle = listener.addr();
            let the = move || std::ptr::without_provenance_mut::<DirectorListener>(handle);
            waits_no_longer(
                move || assert!(director_next(the(), LONG_MS).is_null()),
                || LISTENERS.get(the()).is_some_and(|own| own.listener.try_lock().is_err()),
                || assert!(director_next(the(), 5).is_null()),
                || director_listener_free(the()),
            );
            let members = [member];
            let session = director_initiate(
                options,
                key.as_ptr(),
                16,
                local,
                members.as_ptr(),
                1,
                message,
                200,
            );
            assert!(!session.is_null());
            let handle = session.addr();
            let the = move || std::ptr::without_provenance_mut::<DirectorSession>(handle);
            waits_no_longer(
                move || assert!(messages::director_receive(the(), LONG_MS).is_null()),
                || SESSIONS.get(the()).is_some_and(|own| own.inbox.try_lock().is_err()),
                || assert!(messages::director_receive(the(), 5).is_null()),
                || director_session_free(the()),
            );
            assert_eq!(error[0], 0);
        }
    }
}
