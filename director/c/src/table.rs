//! Handles for C callers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// Objects by handle. A handle is a unique number in the form of a pointer, which is never
/// dereferenced. A process that was forked does not have its parent's objects: their threads are not
/// there, so that a call would wait for ever.
pub struct Table<T> {
    next: AtomicUsize,
    all: Mutex<BTreeMap<usize, (u32, Arc<T>)>>,
}

impl<T> Table<T> {
    /// An empty table.
    pub const fn new() -> Self {
        // From 1: 0 is null in C, which means failure.
        Self { next: AtomicUsize::new(1), all: Mutex::new(BTreeMap::new()) }
    }

    /// Adds an object; returns its handle.
    pub fn add(&self, thing: T) -> *mut T {
        // Numbers are never used again, so that a second free of a handle finds nothing.
        let number = self.next.fetch_add(1, Relaxed);
        // A panic while it was locked cannot leave the map half changed.
        let own = (std::process::id(), Arc::new(thing));
        self.all.lock().unwrap_or_else(PoisonError::into_inner).insert(number, own);
        std::ptr::without_provenance_mut(number)
    }

    /// The object of a handle, if it exists.
    pub fn get(&self, number: *const T) -> Option<Arc<T>> {
        // Cloned, so that the table is not locked while a caller waits in the object.
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let (process, thing) = all.get(&number.addr())?;
        (*process == std::process::id()).then(|| thing.clone())
    }

    /// Removes an object.
    pub fn remove(&self, number: *const T) -> Option<Arc<T>> {
        // The lock ends before a caller drops the object.
        let own = self.all.lock().unwrap_or_else(PoisonError::into_inner).remove(&number.addr());
        let (process, thing) = own?;
        if process != std::process::id() {
            // Without the thread, its end would be waited for.
            std::mem::forget(thing);
            return None;
        }
        Some(thing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_or_never_was_is_none() {
        let table = Table::new();
        let one = table.add("one");
        let held = table.get(one);
        assert_eq!(held.as_deref(), Some(&"one"));
        assert!(table.remove(one).is_some() && table.remove(one).is_none());
        assert_eq!((table.get(one), held.as_deref()), (None, Some(&"one")));
        assert!(table.get(std::ptr::null()).is_none());
        assert_ne!(table.add("two"), one);
    }
}
