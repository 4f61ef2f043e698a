//! open62541's event loop, polled from outside, and hooks on its TCP connections to observe open
//! and close.

use super::status;
use crate::error::Error;
use open62541_sys::*;
use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::c_void;
use std::os::fd::RawFd;
use std::path::Path;
use std::ptr;
use units::{Instant, Span};

type Open = unsafe extern "C" fn(
    *mut UA_ConnectionManager,
    *const UA_KeyValueMap,
    *mut c_void,
    *mut c_void,
    UA_ConnectionManager_connectionCallback,
) -> UA_StatusCode;
type Close = unsafe extern "C" fn(*mut UA_ConnectionManager, usize) -> UA_StatusCode;

/// State of the TCP hooks.
#[derive(Default)]
struct TcpHooks {
    open: Option<Open>,
    close: Option<Close>,
    callback: UA_ConnectionManager_connectionCallback,
    /// Descriptor of the last connection attempt.
    socket: Option<RawFd>,
    /// Number of further connection attempts allowed; none is unlimited.
    left: Option<u32>,
    /// Whether to keep connections open that open62541 closes.
    hold: bool,
    /// A connection kept open.
    kept_open: Option<(*mut UA_ConnectionManager, usize)>,
}

thread_local! {
    /// open62541 passes only its own structures to these callbacks, and a program has one event
    /// loop.
    static HOOKS: RefCell<TcpHooks> = RefCell::default();
}

/// open62541's event loop. It must outlive the client or server that uses it.
pub(super) struct Events {
    raw: *mut UA_EventLoop,
    /// Readable when the loop has work. open62541 has no call that returns this descriptor, so it
    /// is found by comparing the open descriptors before and after.
    epoll: RawFd,
}

impl Events {
    /// Creates and starts an event loop with TCP.
    pub(super) fn start() -> Result<Self, Error> {
        let failed = |why: String| Error::protocol("start open62541's event loop", why);
        let before = polls().map_err(failed)?;
        // SAFETY: open62541 creates and links the parts; each is checked before use, and the name
        // outlives the call.
        let raw = unsafe {
            let raw = UA_EventLoop_new_POSIX(log());
            let mut name = *b"tcp";
            let manager = UA_ConnectionManager_new_POSIX_TCP(text(&mut name));
            if raw.is_null() || manager.is_null() {
                return Err(failed("no memory".into()));
            }
            HOOKS.with_borrow_mut(|hooks| {
                hooks.open = (*manager).openConnection.replace(open);
                hooks.close = (*manager).closeConnection.replace(close);
            });
            let register = (*raw).registerEventSource.map(|call| call(raw, manager.cast()));
            let started = (*raw).start.map(|call| call(raw));
            for status in [register, started] {
                match status {
                    Some(UA_STATUSCODE_GOOD) => {}
                    Some(status) => return Err(failed(status::name(status))),
                    None => return Err(failed("a function of it is missing".into())),
                }
            }
            raw
        };
        let after = polls().map_err(failed)?;
        match after.difference(&before).next() {
            Some(&epoll) => Ok(Self { raw, epoll }),
            None => Err(failed("no epoll descriptor found".into())),
        }
    }

    /// For open62541's configurations.
    pub(super) fn raw(&self) -> *mut UA_EventLoop {
        self.raw
    }

    /// The descriptor to poll.
    pub(super) fn descriptor(&self) -> RawFd {
        self.epoll
    }

    /// Processes pending work without blocking.
    pub(super) fn turn(&self) {
        // SAFETY: the loop lives as long as `self`. Its callbacks are functions of open62541 and
        // this module.
        let status = unsafe { (*self.raw).run.map(|call| call(self.raw, 0)) };
        debug_assert!(status.is_some());
    }

    /// Time of the next timer.
    pub(super) fn next(&self) -> Instant {
        // SAFETY: as above.
        let gap = unsafe {
            let next = (*self.raw).nextTimer.map_or(i64::MAX, |call| call(self.raw));
            let now = (*self.raw).dateTime_nowMonotonic.map_or(0, |call| call(self.raw));
            next.saturating_sub(now).max(0)
        };
        // open62541 counts in units of 100 ns.
        clock::now() + Span::from_ns((gap as u64).saturating_mul(100))
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        const TURNS: u32 = 100;
        // SAFETY: nothing uses the loop any more; it is freed after it has stopped.
        unsafe {
            if let Some(stop) = (*self.raw).stop {
                stop(self.raw);
            }
            for _ in 0..TURNS {
                if ptr::read_volatile(&raw const (*self.raw).state)
                    == UA_EventLoopState::UA_EVENTLOOPSTATE_STOPPED
                {
                    break;
                }
                self.turn();
            }
            if let Some(free) = (*self.raw).free {
                free(self.raw);
            }
        }
    }
}

/// Takes the descriptor of the last connection attempt.
pub(super) fn take_socket() -> Option<RawFd> {
    HOOKS.with_borrow_mut(|hooks| hooks.socket.take())
}

/// Limits the number of further connection attempts; open62541 would retry without a pause.
pub(super) fn allow(connections: u32) {
    HOOKS.with_borrow_mut(|hooks| hooks.left = Some(connections));
}

/// Whether to keep connections open that open62541 closes.
pub(super) fn hold(hold: bool) {
    HOOKS.with_borrow_mut(|hooks| hooks.hold = hold);
}

/// Whether a connection is kept open.
pub(super) fn is_holding() -> bool {
    HOOKS.with_borrow(|hooks| hooks.kept_open.is_some())
}

/// Closes the connection that was kept open.
pub(super) fn release() {
    hold(false);
    let (kept_open, close) = HOOKS.with_borrow_mut(|hooks| (hooks.kept_open.take(), hooks.close));
    if let (Some((manager, id)), Some(close)) = (kept_open, close) {
        // SAFETY: open62541 passed both for this call, and its loop is alive.
        unsafe { close(manager, id) };
    }
}

/// Counts a connection attempt and inserts the callback `on_connection`.
unsafe extern "C" fn open(
    manager: *mut UA_ConnectionManager,
    params: *const UA_KeyValueMap,
    application: *mut c_void,
    context: *mut c_void,
    callback: UA_ConnectionManager_connectionCallback,
) -> UA_StatusCode {
    let open = HOOKS.with_borrow_mut(|hooks| {
        hooks.callback = callback;
        if let Some(left) = &mut hooks.left {
            // None ends the closure: the attempt is refused.
            *left = left.checked_sub(1)?;
        }
        hooks.open
    });
    let Some(open) = open else { return UA_STATUSCODE_BADCONNECTIONCLOSED };
    // SAFETY: open62541's function, with its original arguments.
    unsafe { open(manager, params, application, context, Some(on_connection)) }
}

unsafe extern "C" fn on_connection(
    manager: *mut UA_ConnectionManager,
    id: usize,
    application: *mut c_void,
    context: *mut *mut c_void,
    state: UA_ConnectionState,
    params: *const UA_KeyValueMap,
    message: UA_ByteString,
) {
    let callback = HOOKS.with_borrow_mut(|hooks| {
        if state == UA_ConnectionState::UA_CONNECTIONSTATE_OPENING {
            hooks.socket = RawFd::try_from(id).ok();
        }
        hooks.callback
    });
    if let Some(callback) = callback {
        // SAFETY: as in `open`.
        unsafe { callback(manager, id, application, context, state, params, message) }
    }
}

unsafe extern "C" fn close(manager: *mut UA_ConnectionManager, id: usize) -> UA_StatusCode {
    let close = HOOKS.with_borrow_mut(|hooks| {
        if hooks.hold {
            hooks.kept_open = Some((manager, id));
            return None;
        }
        hooks.close
    });
    // SAFETY: as in `open`.
    close.map_or(UA_STATUSCODE_GOOD, |close| unsafe { close(manager, id) })
}

/// This process's epoll descriptors.
fn polls() -> Result<HashSet<RawFd>, String> {
    let folder = std::fs::read_dir("/proc/self/fd").map_err(|error| error.to_string())?;
    let number = |name: &std::ffi::OsStr| name.to_str().and_then(|name| name.parse().ok());
    Ok(folder
        .flatten()
        .filter(|entry| {
            std::fs::read_link(entry.path())
                .is_ok_and(|to| to == Path::new("anon_inode:[eventpoll]"))
        })
        .filter_map(|entry| number(&entry.file_name()))
        .collect())
}

/// A logger for open62541's errors, to standard output.
pub(super) fn log() -> *mut UA_Logger {
    // SAFETY: creates a logger, which its owner frees.
    unsafe { UA_Log_Stdout_new(UA_LogLevel::UA_LOGLEVEL_ERROR) }
}

/// A string for a call that only reads it; valid as long as `bytes`.
pub(super) fn text(bytes: &mut [u8]) -> UA_String {
    UA_String { length: bytes.len(), data: bytes.as_mut_ptr() }
}
