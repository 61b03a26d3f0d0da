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
    /// Calls `observer`, which must not block.
    pub fn new(observer: impl Fn(&E) + Send + Sync + 'static) -> Self {
        Observer(Arc::new(observer))
    }

    /// Also reports each event to `first`, before this observer.
    #[must_use]
    pub fn after(self, first: Option<Self>) -> Self
    where
        E: 'static,
    {
        match first {
            Some(first) => Observer::new(move |event| {
                first.notify(event);
                self.notify(event);
            }),
            None => self,
        }
    }

    /// Reports an event.
    pub fn notify(&self, event: &E) {
        // The panic hook has already reported the panic.
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

/// An event with the server concerned and what happened, as an observer gets it.
#[doc(hidden)]
#[macro_export]
macro_rules! server_event {
    ($(#[$attribute:meta])* $event:ident: $what:ty, $address:ty) => {
        $(#[$attribute])*
        #[derive(Clone, Debug)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize))]
        #[non_exhaustive]
        pub struct $event {
            /// The server concerned.
            pub server: $address,
            /// What happened.
            pub what: $what,
        }

        impl std::fmt::Display for $event {
            /// Formats the server and the event on one line.
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{}: {}", self.server, self.what)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::lock;

    #[test]
    fn observers_run_in_order_despite_a_panic() {
        let observation = Arc::new(Mutex::new(Vec::new()));
        let noting = |name: &'static str| {
            let observation = observation.clone();
            Observer::new(move |event: &u8| {
                lock(&observation).push((name, *event));
                assert_ne!(name, "panics");
            })
        };
        let third = noting("third").after(Some(noting("panics").after(Some(noting("first")))));
        third.notify(&7);
        assert_eq!(*lock(&observation), [("first", 7), ("panics", 7), ("third", 7)]);
    }
}
