//! What crosses the C interface: texts, bytes and errors, of callers that may be wrong.

use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Writes text, terminated by 0 and truncated to the room: never inside a character.
///
/// # Safety
/// `to` is null or points to `room` bytes.
pub(crate) unsafe fn write(text: &str, to: *mut c_char, room: usize) {
    if to.is_null() || room == 0 {
        return;
    }
    // One byte is for the 0.
    let length = text.floor_char_boundary(room - 1);
    let bytes = text.as_bytes();
    // SAFETY: the caller guarantees room for `length` bytes and the 0.
    unsafe {
        std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.cast(), length);
        *to.add(length) = 0;
    }
}

/// # Safety
/// `text` is null or ends with 0.
pub(crate) unsafe fn read<'a>(text: *const c_char, what: &str) -> Result<&'a str, String> {
    if text.is_null() {
        return Err(format!("{what} is missing"));
    }
    // SAFETY: the caller guarantees the terminating 0.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str().map_err(|_| format!("{what} is not UTF-8 text"))
}

/// `length` elements; none if `start` is null, or if no memory holds this number (a negative one that
/// a caller passes as a length).
///
/// # Safety
/// `start` is null or points to `length` elements.
pub(crate) unsafe fn slice<'a, T>(start: *const T, length: usize) -> &'a [T] {
    let holds =
        // The limit of Rust's slices.
        length.checked_mul(size_of::<T>()).is_some_and(|bytes| bytes <= isize::MAX as usize);
    if start.is_null() || !holds {
        return &[];
    }
    // SAFETY: the caller guarantees the length.
    unsafe { std::slice::from_raw_parts(start, length) }
}

/// The result of `call`, or `otherwise` if it panics: a panic must not cross into C, where it would
/// end the caller's process.
pub(crate) fn guarded<T>(otherwise: T, call: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(otherwise)
}

/// Returns a new object, or null and the reason in `error`. Catches panics, which must not cross
/// into C.
///
/// # Safety
/// As for `write`.
pub(crate) unsafe fn give<T>(
    make: impl FnOnce() -> Result<*mut T, String>,
    error: *mut c_char,
    room: usize,
) -> *mut T {
    let made = guarded(Err("internal error of the director library".to_owned()), make);
    match made {
        Ok(made) => made,
        Err(why) => {
            // SAFETY: guaranteed by the caller.
            unsafe { write(&why, error, room) };
            std::ptr::null_mut()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::c_int;

    /// What failed before: a text that was cut inside a character, which Python does not decode.
    #[test]
    fn a_text_that_is_too_long_ends_with_a_whole_character() {
        for (room, expected) in
            [(0, "?"), (1, ""), (2, "a"), (3, "a"), (4, "a\u{fc}"), (9, "a\u{fc}b")]
        {
            let mut to = *b"?\0        ";
            // SAFETY: the array has more room.
            unsafe { write("a\u{fc}b", to.as_mut_ptr().cast::<c_char>(), room) };
            let text = CStr::from_bytes_until_nul(&to).unwrap();
            assert_eq!(text.to_str(), Ok(expected), "{room}");
        }
    }

    #[test]
    fn a_panic_does_not_cross_into_c() {
        assert_eq!(guarded(7, || -> c_int { panic!("on purpose") }), 7);
        let mut error = [1; 40];
        // SAFETY: the array has the given room.
        let made: *mut u8 = unsafe {
            give(|| panic!("on purpose"), error.as_mut_ptr().cast::<c_char>(), error.len())
        };
        assert!(made.is_null());
        assert_eq!(
            CStr::from_bytes_until_nul(&error),
            Ok(c"internal error of the director library")
        );
    }
}
