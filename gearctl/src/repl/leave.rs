//! Leaving while foreground jobs are in progress: when their client disconnects, the server drops those that still wait
//! for a worker.

use ctl_core::error::{CliError, Exit};
use ctl_core::text::units;

use super::state::State;
use crate::names::show_handle;

impl State<'_> {
    /// Shows the results of all jobs. Returns false if Ctrl-C ends the wait, and the person stays.
    pub(super) fn wait_for_all(&mut self) -> Result<bool, CliError> {
        while !self.session().is_empty() {
            match self.session().remove(0).follow(self.tool) {
                Ok(Exit::Interrupted) => return Ok(false),
                Ok(_) => {}
                Err(error) if error.is_broken_pipe() => return Err(error),
                // One job's failure must not end the wait for the others.
                Err(error) => self.tool.messages.failure(&error, false),
            }
        }
        self.tool.out.flush().map(|()| true)
    }

    /// Leaves all jobs to the server, and reports that. Returns true, because nothing keeps the session.
    pub(super) fn leave_all(&mut self) -> bool {
        let jobs = units::count(self.count_open() as u64, "foreground job");
        let handles: Vec<String> = self.open_jobs().iter().map(show_handle).collect();
        let names =
            if handles.is_empty() { String::new() } else { format!(": {}", handles.join(", ")) };
        self.session().clear();
        self.tool.messages.warn(format!("{jobs} left to the server{names}"));
        true
    }
}
