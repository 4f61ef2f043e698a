//! What the core takes from its platform: of the standard library, or of `alloc` and small crates
//! where there is none.

#[cfg(feature = "std")]
pub(crate) use std::sync::{Arc, Mutex};

#[cfg(not(feature = "std"))]
pub(crate) use portable_atomic_util::Arc;
#[cfg(not(feature = "std"))]
pub(crate) use spin::Mutex;

/// Names of the standard library's prelude, and functions of floating-point numbers, which `core`
/// lacks.
#[cfg(not(feature = "std"))]
pub(crate) mod prelude {
    pub(crate) use alloc::borrow::ToOwned;
    pub(crate) use alloc::boxed::Box;
    pub(crate) use alloc::string::{String, ToString};
    pub(crate) use alloc::vec::Vec;
    pub(crate) use alloc::{format, vec};
    pub(crate) use num_traits::Float;
}

/// The content of a mutex; `None` if a thread has panicked while it used it.
#[cfg(feature = "std")]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> Option<std::sync::MutexGuard<'_, T>> {
    mutex.lock().ok()
}

/// The content of a mutex; `None` if another one uses it now.
#[cfg(not(feature = "std"))]
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> Option<spin::MutexGuard<'_, T>> {
    mutex.try_lock()
}
