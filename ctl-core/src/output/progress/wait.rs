//! Waits: how long they have lasted, how long they may last, and what they see.

use std::time::{Duration, Instant};

use super::{Progress, ProgressWhen};
use crate::output::messages::Messages;

/// A wait, which may have an end. It shows nothing unless told to.
#[derive(Clone)]
pub struct Wait {
    messages: Messages,
    label: String,
    pub(super) bound: Option<Duration>,
    when: ProgressWhen,
    pub(super) began: Instant,
}

impl Wait {
    /// Begins now; `label` says what is waited for.
    #[must_use]
    pub fn new(messages: &Messages, label: impl Into<String>, bound: Option<Duration>) -> Self {
        let (messages, label, when) = (messages.clone(), label.into(), ProgressWhen::Never);
        Self { messages, label, bound, when, began: Instant::now() }
    }

    /// Shows how long it has lasted.
    #[must_use]
    pub fn showing(self, when: Option<ProgressWhen>) -> Self {
        Self { when: when.unwrap_or_default(), ..self }
    }

    /// How long it may last in total, if it has an end.
    #[must_use]
    pub fn bound(&self) -> Option<Duration> {
        self.bound
    }

    /// How long it has lasted.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// The time left.
    #[must_use]
    pub fn rest(&self) -> Duration {
        self.bound.map_or(Duration::MAX, |bound| bound.saturating_sub(self.elapsed()))
    }

    /// Whether no time is left.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.rest().is_zero()
    }

    pub(super) fn progress(&self) -> Progress {
        Progress::since(self.began, self.when, &self.messages, self.label.as_str(), None)
    }

    /// What shows it from the first [`Shown::see`] on, until it is dropped.
    #[must_use]
    pub fn shown(&self) -> Shown<'_> {
        Shown { wait: self, progress: None }
    }
}

/// Shows a wait. One that is over at once shows nothing.
pub struct Shown<'a> {
    wait: &'a Wait,
    progress: Option<Progress>,
}

impl Shown<'_> {
    /// It goes on, and this is seen, if anything.
    pub fn see(&mut self, seen: &str) {
        self.progress.get_or_insert_with(|| self.wait.progress()).see(seen, self.wait.bound);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Memory;

    #[test]
    fn a_wait_that_is_over_at_once_shows_nothing() {
        let sink = Memory::default();
        let messages = Messages::to(Box::new(sink.clone()), "tool", false, false);
        let wait = Wait::new(&messages, "waiting for a job", Some(Duration::ZERO))
            .showing(Some(ProgressWhen::Json));
        assert!(wait.is_over());
        drop(wait.shown());
        assert_eq!(sink.text(), "");
        wait.shown().see("none");
        assert!(sink.text().contains("\"seen\":\"none\""), "{}", sink.text());
    }

    #[test]
    fn a_wait_without_an_end_is_never_over() {
        let messages = Messages::to(Box::new(std::io::sink()), "tool", false, false);
        let wait = Wait::new(&messages, "waiting for a job", None);
        assert!(!wait.is_over() && wait.rest() == Duration::MAX);
    }
}
