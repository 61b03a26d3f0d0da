//! The progress of a command that shows results as they come: it is seen only between them.

use std::time::{Duration, Instant};

use super::{Progress, Wait};
use crate::error::CliError;
use crate::system::signals::Interrupts;

/// A wait for the next result.
pub struct Waiting {
    wait: Wait,
    progress: Option<Progress>,
}

/// How often a pause shows the time.
const STEP: Duration = Duration::from_secs(1);

impl From<Wait> for Waiting {
    fn from(wait: Wait) -> Self {
        Self { wait, progress: None }
    }
}

impl Waiting {
    /// Shows how long it has lasted.
    pub fn see(&mut self) {
        self.progress.get_or_insert_with(|| self.wait.progress()).see("", self.wait.bound);
    }

    /// Waits for this long, and shows it.
    ///
    /// # Errors
    /// A signal came.
    pub fn sleep(&mut self, interrupts: &Interrupts, pause: Duration) -> Result<(), CliError> {
        let mut left = pause;
        loop {
            self.see();
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
    use crate::output::messages::Messages;
    use crate::output::progress::ProgressWhen;

    #[test]
    fn each_result_ends_a_wait() {
        let sink = Memory::default();
        let messages = Messages::to(Box::new(sink.clone()), "tool", false, false);
        let mut waiting = Waiting::from(
            Wait::new(&messages, "waiting for jobs", None).showing(Some(ProgressWhen::Json)),
        );
        waiting.sleep(&Interrupts::none(), Duration::from_millis(1)).unwrap();
        waiting.over();
        waiting.over();
        waiting.see();
        drop(waiting);
        drop(messages);
        let text = sink.text();
        assert_eq!(text.matches("\"waiting for jobs\"").count(), 2, "{text}");
    }
}
