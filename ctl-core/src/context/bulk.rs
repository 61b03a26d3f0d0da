//! Bulk operations of a command.

use crate::bulk::{Action, Bulk, Manner, OnError};
use crate::context::{Context, Tool};
use crate::error::CliError;

impl<T: Tool> Context<T> {
    /// Starts a bulk operation; `total` is the expected number of items, if known.
    ///
    /// # Errors
    /// The system denies the signal handlers.
    pub fn bulk(
        &mut self,
        action: Action,
        manner: impl Into<Manner>,
        total: Option<u64>,
    ) -> Result<Bulk, CliError> {
        let interrupts = self.interrupts()?;
        Ok(Bulk::start(action, manner, total, interrupts, &self.messages))
    }

    /// As [`Context::bulk`], for a command that continues after failures, on this many of `noun`.
    ///
    /// # Errors
    /// As [`Context::bulk`].
    pub fn bulk_of(
        &mut self,
        past: &'static str,
        noun: &'static str,
        total: u64,
    ) -> Result<Bulk, CliError> {
        let action = Action { past, noun, place: String::new() };
        self.bulk(action, OnError::Continue, Some(total))
    }
}
