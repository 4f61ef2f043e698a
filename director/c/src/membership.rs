//! Who is in a session: revocation, admission, members that have joined.

use crate::foreign::{guarded, slice, write};
use crate::objects::{DirectorSession, NO_SESSION, SESSIONS};
use std::ffi::{c_char, c_int};

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_revoke(session: *const DirectorSession, member: u32) -> c_int {
    let revoke = || {
        let session = SESSIONS.get(session)?;
        let own = session.session.clone();
        session.thread.wait(async move { own.revoke(member).await })?.ok()
    };
    c_int::from(guarded(None, revoke).is_some())
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_admit(
    session: *const DirectorSession,
    member: u32,
    key: *const u8,
    key_length: usize,
    error: *mut c_char,
    room: usize,
) -> c_int {
    // SAFETY: guaranteed by the caller.
    let key = unsafe { slice(key, key_length) }.to_vec();
    let admit = || {
        let session = SESSIONS.get(session).ok_or(NO_SESSION)?;
        let own = session.session.clone();
        let admitted = session.thread.wait(async move { own.admit(member, &key).await });
        admitted.ok_or("the session is over")?.map_err(|error| error.to_string())
    };
    let admitted: Result<(), String> =
        guarded(Err("internal error of the director library".to_owned()), admit);
    match admitted {
        Ok(()) => 1,
        Err(why) => {
            // SAFETY: guaranteed by the caller.
            unsafe { write(&why, error, room) };
            0
        }
    }
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_members(
    session: *const DirectorSession,
    members: *mut u32,
    room: usize,
) -> usize {
    guarded(0, || {
        let Some(session) = SESSIONS.get(session) else { return 0 };
        let own = session.session.clone();
        let present = session.thread.wait(async move { own.members().await }).unwrap_or_default();
        if !members.is_null() {
            // The number of all is returned, so that the caller can come back with more room.
            let count = present.len().min(room);
            // SAFETY: the caller guarantees room for this number of members.
            unsafe { std::ptr::copy_nonoverlapping(present.as_ptr(), members, count) };
        }
        present.len()
    })
}
