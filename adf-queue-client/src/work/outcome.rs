//! How handlers settle messages.

use std::fmt;

/// The outcome that a handler chooses for its message.
///
/// A handler returns one of these, or `()` for [`Delete`](Outcome::Delete), or a `Result` of either: an error is a
/// [`Retry`](Outcome::Retry), and so is a panic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The message is done.
    Delete,
    /// Returned to the left end: the next pull by any client gets it.
    ReturnLeft,
    /// Returned to the right end, behind all others.
    ReturnRight,
    /// Not handled now, and no failure: returned to the right end, behind all others. Its delivery does not count towards
    /// [`max_duplications`](crate::WorkerOptions::max_duplications), as far as this worker remembers: the server counts
    /// every delivery, so a worker keeps the deferrals of up to 10,000 messages of a server, and forgets the oldest.
    Defer,
    /// Moved to the [dead-letter queue](crate::WorkerOptions::dead_letter); without one, returned to the right end.
    DeadLetter,
    /// The message failed: returned to the right end, or moved to the dead-letter queue once it was [delivered too
    /// often](crate::WorkerOptions::max_duplications).
    Retry,
}

queue_core::words!(Outcome, crate::Error, "outcome":
    "delete" = Delete, "return-left" = ReturnLeft, "return-right" = ReturnRight, "defer" = Defer,
    "dead-letter" = DeadLetter,
    "retry" = Retry);

impl Outcome {
    /// [`Defer`](Outcome::Defer). The server has no delays.
    #[must_use]
    pub fn defer() -> Self {
        Outcome::Defer
    }

    /// The same with a reason, which is reported like a failure's message:
    /// [`WorkerEventKind::Failed`](crate::WorkerEventKind::Failed). The server stores no reasons.
    #[must_use]
    pub fn because(self, reason: impl fmt::Display) -> Decision {
        Decision { outcome: self, reason: Some(format!("{reason:#}")) }
    }
}

/// An outcome, and the reason for it.
///
/// ```
/// use adf_queue_client::{Decision, Outcome};
///
/// enum Refused { Malformed, Busy }
/// # impl std::fmt::Display for Refused {
/// #     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { f.write_str("refused") }
/// # }
/// # fn send(_: &[u8]) -> Result<(), Refused> { Err(Refused::Malformed) }
/// // What a handler may return:
/// # fn handler(body: &[u8]) -> Decision {
/// Decision::classify(send(body), |refused| match refused {
///     Refused::Malformed => Outcome::DeadLetter,
///     Refused::Busy => Outcome::Retry,
/// })
/// # }
/// # assert_eq!(handler(b"x").outcome, Outcome::DeadLetter);
/// # let _ = Refused::Busy;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(deny_unknown_fields)
)]
#[non_exhaustive]
pub struct Decision {
    /// The outcome for the message.
    pub outcome: Outcome,
    /// The reason, if any.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub reason: Option<String>,
}

impl Decision {
    /// The decision for a result, based on custom error types: `classify` maps an error to an outcome, and its
    /// `Display` text is the reason, in its alternate form (`{:#}`), which for anyhow's errors includes the causes.
    pub fn classify<T, E>(result: Result<T, E>, classify: impl FnOnce(&E) -> Outcome) -> Self
    where
        T: IntoOutcome,
        E: fmt::Display,
    {
        match result {
            Ok(value) => {
                let (outcome, reason) = value.into_outcome();
                Decision { outcome, reason }
            }
            Err(error) => classify(&error).because(error),
        }
    }
}

impl fmt::Display for Decision {
    /// The outcome, and behind a colon the reason, on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.outcome.fmt(f)?;
        self.reason.as_ref().map_or(Ok(()), |reason| write!(f, ": {}", reason.escape_debug()))
    }
}

impl From<Outcome> for Decision {
    fn from(outcome: Outcome) -> Self {
        Decision { outcome, reason: None }
    }
}

/// What a handler may return: `()`, an [`Outcome`], a [`Decision`], or a `Result` of one of them with any `Display`
/// error.
#[diagnostic::on_unimplemented(
    message = "a handler cannot return `{Self}`",
    label = "not an outcome",
    note = "return `()`, an `Outcome`, a `Decision`, or a `Result` of one of them with any error that implements `Display`"
)]
pub trait IntoOutcome {
    /// The outcome, and the text of a failure.
    fn into_outcome(self) -> (Outcome, Option<String>);
}

impl IntoOutcome for () {
    fn into_outcome(self) -> (Outcome, Option<String>) {
        (Outcome::Delete, None)
    }
}

impl IntoOutcome for Outcome {
    fn into_outcome(self) -> (Outcome, Option<String>) {
        (self, None)
    }
}

impl IntoOutcome for Decision {
    fn into_outcome(self) -> (Outcome, Option<String>) {
        (self.outcome, self.reason)
    }
}

impl<T: IntoOutcome, E: fmt::Display> IntoOutcome for Result<T, E> {
    /// The text of an error is its alternate form (`{:#}`), which for anyhow's errors includes the causes.
    fn into_outcome(self) -> (Outcome, Option<String>) {
        match self {
            Ok(value) => value.into_outcome(),
            Err(error) => (Outcome::Retry, Some(format!("{error:#}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handlers_may_return_nothing_an_outcome_a_decision_or_any_error() {
        assert_eq!(().into_outcome(), (Outcome::Delete, None));
        assert_eq!(Ok::<_, u8>(Outcome::ReturnLeft).into_outcome(), (Outcome::ReturnLeft, None));
        let failed = Err::<(), _>("no such picture").into_outcome();
        assert_eq!(failed, (Outcome::Retry, Some("no such picture".into())));
        let set_aside = Outcome::DeadLetter.because("no such picture");
        assert_eq!(set_aside.to_string(), "dead-letter: no such picture");
        assert_eq!(set_aside.into_outcome(), (Outcome::DeadLetter, failed.1));
    }

    #[test]
    fn a_decision_by_the_type_of_the_error_has_its_causes_for_a_reason() {
        struct Chain;
        impl fmt::Display for Chain {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(if f.alternate() { "outer: inner" } else { "outer" })
            }
        }
        let decision = Decision::classify(Err::<(), _>(Chain), |_| Outcome::DeadLetter);
        assert_eq!(decision, Outcome::DeadLetter.because("outer: inner"));
        assert_eq!(Err::<(), _>(Chain).into_outcome().1.as_deref(), Some("outer: inner"));
        assert_eq!(
            Decision::classify(Ok::<_, Chain>(()), |_| Outcome::Retry),
            Outcome::Delete.into()
        );
    }
}
