//! Copies of damaged logs of storages: messages in them are lost, which a program must learn.

use crate::foreign::{guarded, write};
use crate::objects::{DirectorListener, DirectorSession, LISTENERS, SESSIONS};
use std::ffi::{c_char, c_int};
use std::path::PathBuf;

/// Writes a path; returns 1, or 0 if there is none.
///
/// # Safety
/// `to` is null or points to `room` bytes.
unsafe fn written(path: Option<PathBuf>, to: *mut c_char, room: usize) -> c_int {
    let Some(path) = path else { return 0 };
    // SAFETY: guaranteed by the caller.
    unsafe { write(&path.to_string_lossy(), to, room) };
    1
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_session_damaged_log(
    session: *const DirectorSession,
    path: *mut c_char,
    room: usize,
) -> c_int {
    let damaged = || SESSIONS.get(session)?.session.damaged_log();
    // SAFETY: guaranteed by the caller.
    unsafe { written(guarded(None, damaged), path, room) }
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_listener_damaged_log(
    listener: *const DirectorListener,
    path: *mut c_char,
    room: usize,
) -> c_int {
    let damaged = || LISTENERS.get(listener)?.damaged.clone();
    // SAFETY: guaranteed by the caller.
    unsafe { written(guarded(None, damaged), path, room) }
}
