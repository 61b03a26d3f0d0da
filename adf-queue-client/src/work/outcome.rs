//! How handlers settle messages.

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
}

queue_core::decisions! {
    /// An outcome and its reason.
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
    Delete
}

#[cfg(test)]
mod tests {
    use std::fmt;

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
