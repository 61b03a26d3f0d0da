//! How handlers settle messages.

use std::fmt;

/// How to settle a message.
///
/// A handler returns a decision, or `()` for [`Delete`](Decision::Delete), or a `Result` of either. An error or a panic
/// returns the message to the right end, until it was [delivered too often](crate::WorkerOptions::max_duplications).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// Deleted.
    Delete,
    /// Returned to the left end: the next pull by any client gets it.
    ReturnLeft,
    /// Returned to the right end, behind all others.
    ReturnRight,
    /// Moved to the [dead-letter queue](crate::WorkerOptions::dead_letter); without one, returned to the right end.
    DeadLetter,
}

queue_core::words!(Decision, crate::Error, "decision":
    "delete" = Delete, "return-left" = ReturnLeft, "return-right" = ReturnRight, "dead-letter" = DeadLetter);

/// What a handler may return: `()`, a [`Decision`], or a `Result` of one of them with any `Display` error.
pub trait IntoDecision {
    /// The decision, or the text of the error.
    ///
    /// # Errors
    ///
    /// The handler's.
    fn into_decision(self) -> Result<Decision, String>;
}

impl IntoDecision for () {
    fn into_decision(self) -> Result<Decision, String> {
        Ok(Decision::Delete)
    }
}

impl IntoDecision for Decision {
    fn into_decision(self) -> Result<Decision, String> {
        Ok(self)
    }
}

impl<T: IntoDecision, E: fmt::Display> IntoDecision for Result<T, E> {
    /// Uses the error's alternate form (`{:#}`), which includes the causes of anyhow's errors.
    fn into_decision(self) -> Result<Decision, String> {
        self.map_err(|error| format!("{error:#}"))?.into_decision()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handlers_may_return_nothing_a_decision_or_any_error() {
        assert_eq!(().into_decision(), Ok(Decision::Delete));
        assert_eq!(Ok::<_, u8>(Decision::ReturnLeft).into_decision(), Ok(Decision::ReturnLeft));
        assert_eq!(Err::<(), _>("no such picture").into_decision(), Err("no such picture".into()));
    }
}
