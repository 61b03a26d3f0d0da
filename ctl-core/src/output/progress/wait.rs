//! Waits: how long they have lasted, how long they may last, and what they see.

use std::time::{Duration, Instant};

use super::Progress;
use crate::error::CliError;
use crate::output::messages::{Messages, ProgressWhen};
use crate::system::signals::Interrupts;

/// A wait, which may have an end. It is silent by default.
#[derive(Clone)]
pub struct Wait {
    messages: Messages,
    label: String,
    bound: Option<Duration>,
    began: Instant,
}

impl Wait {
    /// Begins now; `label` says what is waited for.
    #[must_use]
    pub fn new(messages: &Messages, label: impl Into<String>, bound: Option<Duration>) -> Self {
        let (messages, label) = (messages.without_progress(), label.into());
        Self { messages, label, bound, began: Instant::now() }
    }

    /// Shows how long it has lasted, as these messages show progress.
    #[must_use]
    pub fn showing(self, messages: &Messages) -> Self {
        Self { messages: messages.clone(), ..self }
    }

    /// How long it may last in total, if it has an end.
    pub fn bound(&self) -> Option<Duration> {
        self.bound
    }

    /// How long it has lasted.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    /// The time left.
    pub fn rest(&self) -> Duration {
        self.bound.map_or(Duration::MAX, |bound| bound.saturating_sub(self.elapsed()))
    }

    /// Whether no time is left.
    pub fn is_over(&self) -> bool {
        self.rest().is_zero()
    }

    /// Whether it is shown.
    pub fn is_seen(&self) -> bool {
        self.messages.progress() != ProgressWhen::Never
    }

    /// What shows it from the first [`Waiting::see`] on, until it is dropped.
    pub fn shown(&self) -> Waiting {
        Waiting { wait: self.clone(), progress: None }
    }
}

/// Shows a wait. One that is over at once shows nothing.
pub struct Waiting {
    wait: Wait,
    progress: Option<Progress>,
}

/// How often a pause shows the time.
const STEP: Duration = Duration::from_secs(1);

impl Waiting {
    /// Updates the display with this value, if any.
    pub fn see(&mut self, seen: &str) {
        let Wait { messages, label, bound, began } = &self.wait;
        let progress = || Progress::since(*began, messages, label.as_str(), None);
        self.progress.get_or_insert_with(progress).see(seen, *bound);
    }

    /// Sets the time limit, and updates the display with this value, if any.
    ///
    /// # Errors
    /// A signal came.
    pub fn sleep(
        &mut self,
        interrupts: &Interrupts,
        pause: Duration,
        seen: &str,
    ) -> Result<(), CliError> {
        let mut left = pause;
        loop {
            self.see(seen);
            let step = left.min(STEP);
            interrupts.sleep(step)?;
            left -= step;
            if left.is_zero() {
                return Ok(());
            }
        }
    }

    /// Makes room for a result; the wait for the next begins.
    pub fn over(&mut self) {
        self.progress = None;
        self.wait.began = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Memory;
    use crate::output::messages::ProgressWhen;

    #[test]
    fn a_wait_that_ends_at_once_prints_nothing() {
        let sink = Memory::default();
        let messages = Messages::to(Box::new(sink.clone()), "tool", false, false);
        let wait = Wait::new(&messages, "waiting for a job", Some(Duration::ZERO))
            .showing(&messages.with_progress(ProgressWhen::Json));
        assert!(wait.is_over());
        drop(wait.shown());
        assert_eq!(sink.text(), "");
        wait.shown().see("none");
        assert!(sink.text().contains("\"seen\":\"none\""), "{}", sink.text());
    }

    #[test]
    fn an_unlimited_wait_never_ends() {
        let messages = Messages::to(Box::new(std::io::sink()), "tool", false, false);
        let wait = Wait::new(&messages, "waiting for a job", None);
        assert!(!wait.is_over() && wait.rest() == Duration::MAX);
    }

    #[test]
    fn each_result_ends_a_wait() {
        let sink = Memory::default();
        let messages = Messages::to(Box::new(sink.clone()), "tool", false, false);
        let wait = Wait::new(&messages, "waiting for jobs", None)
            .showing(&messages.with_progress(ProgressWhen::Json));
        let mut waiting = wait.shown();
        waiting.sleep(&Interrupts::none(), Duration::from_millis(1), "").unwrap();
        waiting.over();
        waiting.over();
        waiting.see("");
        drop(waiting);
        drop((wait, messages));
        let text = sink.text();
        assert_eq!(text.matches("\"waiting for jobs\"").count(), 2, "{text}");
    }
}
