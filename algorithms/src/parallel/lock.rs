//! Locks whose values outlive a panic.

use std::sync::{Mutex, PoisonError};

/// Takes a lock that only a panic could have poisoned; what it guards are scratch memory, tables and messages, without an
/// invariant that a panic could break, and state of a run that the panic ends.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
