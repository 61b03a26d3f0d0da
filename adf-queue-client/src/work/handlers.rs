//! What both faces know of handlers, and of the messages that they have.

use std::{any::Any, sync::OnceLock};

use queue_core::{Quick, Signal};

use crate::{Decision, LostReason};

/// What a handler gives: a decision, or what went wrong.
pub(crate) type Ended = Result<Decision, String>;

/// A handler `H`, and how it behaves.
#[derive(Debug)]
pub(crate) struct Registered<H> {
    pub(crate) handler: H,
    pub(crate) quick: Quick,
}

impl<H> Registered<H> {
    pub(crate) fn new(handler: H) -> Self {
        Registered { handler, quick: Quick::default() }
    }
}

/// A panic is a failure of its message, and of nothing else.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Ended {
    Err(format!("the handler panicked: {}", queue_core::panic_text(panic)))
}

/// That a message is somebody else's.
#[derive(Debug, Default)]
pub(crate) struct Loss {
    reason: OnceLock<LostReason>,
    pub(crate) signal: Signal,
}

impl Loss {
    pub(crate) fn set(&self, reason: LostReason) {
        // The first reason stays.
        let _ = self.reason.set(reason);
        self.signal.set();
    }

    /// Why, once it is so.
    pub(crate) fn reason(&self) -> Option<LostReason> {
        self.reason.get().copied()
    }
}
