//! Event observers.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

/// Receives each event `E` where it happens. A panic in the observer is contained: the reporting code continues, since
/// a connection or a job may depend on it.
pub struct Observer<E>(Arc<dyn Fn(&E) + Send + Sync>);

impl<E> Observer<E> {
    /// Calls `observer`, which must not wait.
    pub fn new(observer: impl Fn(&E) + Send + Sync + 'static) -> Self {
        Observer(Arc::new(observer))
    }

    /// Tells it of an event.
    pub fn tell(&self, event: &E) {
        // The panic hook has said what there is to say.
        let _ = catch_unwind(AssertUnwindSafe(|| (self.0)(event)));
    }
}

impl<E> Clone for Observer<E> {
    fn clone(&self) -> Self {
        Observer(self.0.clone())
    }
}

impl<E> fmt::Debug for Observer<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}
