//! Tolerates an unreachable server in commands that repeat until they are stopped.

use crate::error::{CliError, Exit};
use crate::output::messages::Messages;

/// Whether the server is reachable.
pub struct Absence {
    messages: Messages,
    was_there: bool,
    why: Option<CliError>,
}

impl Absence {
    /// The state before the first sample.
    #[must_use]
    pub fn new(messages: &Messages) -> Self {
        Self { messages: messages.clone(), was_there: false, why: None }
    }

    /// The result of a sample; `None` while the server is unreachable. The beginning and the end of that time are
    /// reported.
    ///
    /// # Errors
    /// The first sample failed, or a later one for another reason than an unreachable server.
    pub fn settle<T>(&mut self, look: Result<T, CliError>) -> Result<Option<T>, CliError> {
        match look {
            Ok(seen) => {
                self.was_there = true;
                if self.why.take().is_some() {
                    self.messages.note("the server is back");
                }
                Ok(Some(seen))
            }
            Err(error) if self.was_there && error.exit == Exit::Unavailable => {
                if self.why.is_none() {
                    self.messages.warn(format!("{error}; retrying until it works"));
                }
                self.why = Some(error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Where the reports go.
    pub fn messages(&self) -> &Messages {
        &self.messages
    }

    /// The error of the last sample, if it failed.
    pub fn why(self) -> Option<CliError> {
        self.why
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn does_not_wait_for_a_server_that_was_never_reachable() {
        let messages = Messages::to(Box::new(io::sink()), "tool", false, false);
        let away = || Err::<(), _>(CliError::unavailable("gone"));
        let mut absence = Absence::new(&messages);
        assert_eq!(absence.settle(away()).unwrap_err().exit, Exit::Unavailable);
        assert_eq!(absence.settle(Ok(())).unwrap(), Some(()));
        assert_eq!(absence.settle(away()).unwrap(), None);
        let no = Err::<(), _>(CliError::usage("no"));
        assert_eq!(absence.settle(no).unwrap_err().exit, Exit::Usage);
        assert!(absence.why().is_some());
    }
}
