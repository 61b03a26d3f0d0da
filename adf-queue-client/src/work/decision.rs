//! How handlers settle messages.

use std::fmt;

/// What a handler wants to become of its message.
///
/// A handler returns one of these, or `()` for [`Delete`](Decision::Delete), or a `Result` of either. An error puts the
/// message back at the right end, until it was [delivered too often](crate::WorkerOptions::max_duplications). So does a
/// panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// It is done with.
    Delete,
    /// Put back at the left end: the next pull by any client gets it.
    ReturnLeft,
    /// Put back at the right end, behind all others.
    ReturnRight,
    /// Moved to the [dead-letter queue](crate::WorkerOptions::dead_letter); without one, put back at the right end.
    DeadLetter,
}

queue_core::words!(Decision, crate::Error, "decision":
    "delete" = Delete, "return-left" = ReturnLeft, "return-right" = ReturnRight, "dead-letter" = DeadLetter);

/// What a handler may return: `()`, a [`Decision`], or a `Result` of one of them with any `Display` error.
pub trait IntoDecision {
    /// The decision, or what the error says.
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
    /// An error says its alternate form (`{:#}`), which for those of anyhow has the causes.
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
