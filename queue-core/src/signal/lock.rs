//! Locks that ignore poisoning.

use crate::sync::{Mutex, MutexGuard};
use std::sync::PoisonError;

/// Takes a lock, even after a panic of a thread that held it: the panic concerns the thread that joins it, and the
/// others continue.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
