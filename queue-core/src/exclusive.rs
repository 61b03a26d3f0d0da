//! Values that threads may share because none of them reaches them.

use std::sync::{Mutex, PoisonError};

/// A value that is reached only by `&mut`, so that its holder is [`Sync`] even if the value is not: a stream or a
/// function of the user's. It costs no locking.
pub(crate) struct Exclusive<T: ?Sized>(Mutex<T>);

impl<T> Exclusive<T> {
    pub(crate) const fn new(value: T) -> Self {
        Exclusive(Mutex::new(value))
    }
}

impl<T: ?Sized> Exclusive<T> {
    pub(crate) fn get(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}
