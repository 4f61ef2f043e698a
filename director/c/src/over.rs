//! Whether a session or listener is over: other functions return the same on a timeout.

use crate::foreign::guarded;
use crate::objects::{DirectorListener, DirectorSession, LISTENERS, SESSIONS};
use std::ffi::c_int;

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_session_is_over(session: *const DirectorSession) -> c_int {
    guarded(1, || c_int::from(SESSIONS.get(session).is_none_or(|own| own.session.is_over())))
}

/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn director_listener_is_over(listener: *const DirectorListener) -> c_int {
    guarded(1, || c_int::from(LISTENERS.get(listener).is_none_or(|own| own.publisher.is_over())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::director_receive;
    use crate::{
        director_initiate, director_listen, director_listener_free, director_next,
        director_session_free,
    };

    /// What failed before: a caller could not tell the end from a timeout, and waited again for ever.
    #[test]
    fn an_end_differs_from_a_timeout() {
        let (key, mut error) = ([1_u8; 16], [0; 200]);
        let (options, local, message) =
            (c"{}".as_ptr(), c"127.0.0.1:0".as_ptr(), error.as_mut_ptr());
        let other = c"127.0.0.1:9".as_ptr();
        let members = [other];
        // SAFETY: all pointers live over the calls; handles are no pointers.
        unsafe {
            let listener = director_listen(options, key.as_ptr(), 16, local, other, message, 200);
            assert!(director_next(listener, 1).is_null());
            assert_eq!(director_listener_is_over(listener), 0);
            director_listener_free(listener);
            assert!(director_next(listener, 1).is_null());
            assert_eq!(director_listener_is_over(listener), 1);
            let members = members.as_ptr();
            let session =
                director_initiate(options, key.as_ptr(), 16, local, members, 1, message, 200);
            assert!(director_receive(session, 1).is_null());
            assert_eq!(director_session_is_over(session), 0);
            director_session_free(session);
            assert_eq!(director_session_is_over(session), 1);
            assert_eq!(director_session_is_over(std::ptr::null()), 1);
        }
        assert_eq!(error[0], 0);
    }
}
