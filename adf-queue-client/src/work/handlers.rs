//! Handlers and their messages, shared by both faces.

use std::{any::Any, sync::OnceLock};

use queue_core::Signal;

use crate::{LostReason, Outcome};

/// The result of a handler.
#[derive(Debug)]
pub(crate) struct Ended {
    /// The outcome for the message.
    pub(crate) outcome: Outcome,
    /// The message of the failure.
    pub(crate) error: Option<String>,
    /// Whether it panicked.
    pub(crate) is_panic: bool,
}

impl Ended {
    /// The class of the failure, if it failed: `error.type`.
    pub(crate) fn error_type(&self) -> Option<&'static str> {
        self.error.as_ref().map(|_| if self.is_panic { "panic" } else { "error" })
    }
}

impl From<(Outcome, Option<String>)> for Ended {
    fn from((outcome, error): (Outcome, Option<String>)) -> Self {
        Ended { outcome, error, is_panic: false }
    }
}

/// A panic is a failure of its message only.
pub(crate) fn panicked(panic: &(dyn Any + Send)) -> Ended {
    let words = format!("the handler panicked: {}", queue_core::panic_text(panic));
    Ended { outcome: Outcome::Retry, error: Some(words), is_panic: true }
}

/// The loss of a message.
#[derive(Debug, Default)]
pub(crate) struct MessageLoss {
    reason: OnceLock<LostReason>,
    pub(crate) signal: Signal,
}

impl MessageLoss {
    pub(crate) fn set(&self, reason: LostReason) {
        // The first reason wins.
        let _ = self.reason.set(reason);
        self.signal.set();
    }

    /// The reason, once it is lost.
    pub(crate) fn reason(&self) -> Option<LostReason> {
        self.reason.get().copied()
    }
}
