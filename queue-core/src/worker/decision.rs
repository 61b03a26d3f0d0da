//! What handlers decide about their jobs.

/// A `Decision`, which is an `Outcome` and its reason, and what else a handler may return: `()` for the outcome
/// `$done`, and errors for `Outcome::Retry`. The attributes are those of `Decision`.
#[doc(hidden)]
#[macro_export]
macro_rules! decisions {
    ($(#[$attribute:meta])* $done:ident) => {
        impl Outcome {
            /// Adds a reason, which is reported like a failure's message:
            /// [`WorkerEventKind::Failed`](crate::WorkerEventKind::Failed). The server stores no reasons.
            #[must_use]
            pub fn because(self, reason: impl std::fmt::Display) -> Decision {
                Decision { outcome: self, reason: Some(format!("{reason:#}")) }
            }
        }

        $(#[$attribute])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[cfg_attr(
            feature = "serde",
            derive(serde::Serialize, serde::Deserialize),
            serde(deny_unknown_fields)
        )]
        #[non_exhaustive]
        pub struct Decision {
            /// The outcome.
            pub outcome: Outcome,
            /// The reason, if any.
            #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
            pub reason: Option<String>,
        }

        impl Decision {
            /// Turns a result with a custom error into a decision: `classify` maps the error to an outcome, and its
            /// `Display` text becomes the reason, in its alternate form (`{:#}`), which for anyhow's errors includes the
            /// causes.
            pub fn classify<T, E>(result: Result<T, E>, classify: impl FnOnce(&E) -> Outcome) -> Self
            where
                T: IntoOutcome,
                E: std::fmt::Display,
            {
                match result {
                    Ok(value) => Self::of(value),
                    Err(error) => classify(&error).because(error),
                }
            }

            /// What a handler has returned.
            pub(crate) fn of(value: impl IntoOutcome) -> Self {
                let (outcome, reason) = value.into_outcome();
                Decision { outcome, reason }
            }
        }

        impl std::fmt::Display for Decision {
            /// Formats the outcome and the reason on one line, separated by a colon.
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.outcome.fmt(f)?;
                let reason = self.reason.as_ref();
                reason.map_or(Ok(()), |reason| write!(f, ": {}", reason.escape_debug()))
            }
        }

        impl From<Outcome> for Decision {
            fn from(outcome: Outcome) -> Self {
                Decision { outcome, reason: None }
            }
        }

        /// What a handler may return: `()`, an [`Outcome`], a [`Decision`], or a `Result` of one of them with any
        /// `Display` error.
        #[diagnostic::on_unimplemented(
            message = "a handler cannot return `{Self}`",
            label = "not an outcome",
            note = "return `()`, an `Outcome`, a `Decision`, or a `Result` of one of them with any error that implements `Display`"
        )]
        pub trait IntoOutcome {
            /// The outcome, and the message of a failure.
            fn into_outcome(self) -> (Outcome, Option<String>);
        }

        impl IntoOutcome for () {
            fn into_outcome(self) -> (Outcome, Option<String>) {
                (Outcome::$done, None)
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

        impl<T: IntoOutcome, E: std::fmt::Display> IntoOutcome for Result<T, E> {
            /// The text of an error is its alternate form (`{:#}`), which for anyhow's errors includes the causes.
            fn into_outcome(self) -> (Outcome, Option<String>) {
                match self {
                    Ok(value) => value.into_outcome(),
                    Err(error) => (Outcome::Retry, Some(format!("{error:#}"))),
                }
            }
        }
    };
}
