//! The verbs on jobs of the session: start them, list them, return to them.

use std::ops::ControlFlow;

use ctl_core::error::{CliError, Exit};
use ctl_core::output::{Column, Record, Shape};

use super::state::State;
use crate::commands::run::{self, RunArgs};
use crate::names::{self, show_handle_of};

pub(super) static JOBS: Shape = Shape::rows(
    "handle",
    &[
        Column::new("handle", "HANDLE"),
        Column::new("function", "FUNCTION"),
        Column::new("state", "STATE"),
        Column::new("progress", "PROGRESS"),
    ],
);

impl State<'_> {
    /// `start`: as `run`, without waiting.
    pub(super) fn start(&mut self, args: RunArgs) -> Result<Exit, CliError> {
        let mut running = match run::start(self.tool, args)? {
            ControlFlow::Continue((running, _)) => running,
            ControlFlow::Break(exit) => return Ok(exit),
        };
        running.hide();
        let interrupts = self.tool.interrupts()?;
        let Some(handle) = running.first(&interrupts)? else {
            // It could not be submitted; following it shows why.
            return running.follow(self.tool);
        };
        self.session().push(running);
        let handle = show_handle_of(&handle, self.tool.link.is_several());
        let record = Record::new().with("handle", handle.as_str());
        self.tool.out.done(&record, &handle)
    }

    /// `fg [HANDLE]`.
    pub(super) fn foreground(&mut self, handle: Option<&str>) -> Result<Exit, CliError> {
        let handle = handle.map(names::handle).transpose()?;
        let runs = self.session();
        let at = match &handle {
            Some(handle) => runs.iter().rposition(|run| run.has(handle)).ok_or_else(|| {
                let name = show_handle_of(handle, true);
                CliError::not_found(format!("the job {name} is not one of this session"))
                    .hint(":jobs, to list its jobs")
                    .hint(format!("job {name}, to see what the server knows of any job"))
            })?,
            None => runs.len().checked_sub(1).ok_or_else(|| {
                CliError::usage("this session has no running jobs")
                    .hint("start FUNCTION BODY, or run and then Ctrl-C")
            })?,
        };
        self.session().remove(at).follow(self.tool)
    }
}
