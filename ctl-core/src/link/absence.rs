//! A server that goes away for a while, for commands that go on looking until somebody ends them.

use crate::error::{CliError, Exit};
use crate::output::messages::Messages;

/// Whether the server that is looked at is there.
pub struct Absence {
    messages: Messages,
    was_there: bool,
    why: Option<CliError>,
}

impl Absence {
    /// Before the first look.
    #[must_use]
    pub fn new(messages: &Messages) -> Self {
        Self { messages: messages.clone(), was_there: false, why: None }
    }

    /// What a look has shown: none while the server is away, which is told when it begins and when it is over.
    ///
    /// # Errors
    /// The first look failed, or one for another reason than that the server is away.
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

    /// Why the last look has shown nothing, if it has not.
    #[must_use]
    pub fn why(self) -> Option<CliError> {
        self.why
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn who_was_never_there_is_not_waited_for() {
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
