//! The verbs on jobs of the session: start them, list them, return to them.

use ctl_core::error::{CliError, Exit};
use ctl_core::output::{Column, Record, Shape};
use gearman_client::Address;

use super::state::State;
use crate::commands::run::{self, RunArgs, Started};
use crate::error::cli_error;
use crate::names::{self, show_handle_of};
use crate::submit::running::{Running, Seen, show_share};

static JOBS: Shape = Shape::rows(
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
            Started::Over(exit) => return Ok(exit),
            Started::Running(jobs) => jobs.running,
        };
        running.hide();
        let interrupts = self.tool.interrupts()?;
        let Some(handle) = running.first(&interrupts)? else {
            // It could not be submitted; following it shows why.
            return run::follow(self.tool, *running);
        };
        self.session().runs.push(*running);
        let handle = show_handle_of(&handle, self.tool.link.is_several());
        let record = Record::new().with("handle", handle.as_str());
        self.tool.out.done(&record, &handle)
    }

    /// `:jobs`.
    pub(super) fn show_jobs(&mut self) -> Result<Exit, CliError> {
        let is_several = self.tool.link.is_several();
        let servers: Vec<Address> = self.tool.link.client()?.addresses().cloned().collect();
        let mut rows = Vec::new();
        let seen: Vec<Seen> = self.session().runs.iter().flat_map(Running::jobs).cloned().collect();
        for seen in &seen {
            let Some(handle) = &seen.handle else { continue };
            let (is_several, state, progress) = match seen.end {
                Some(end) => (is_several, end, seen.share.as_ref().and_then(show_share)),
                // The session has switched to other servers since.
                None if handle.server().is_some_and(|server| !servers.contains(server)) => {
                    (true, "elsewhere", None)
                }
                None => {
                    let status = self.tool.link.client()?.status(handle).map_err(cli_error)?;
                    let state = match (status.is_known, status.is_running) {
                        (true, true) => "running",
                        (true, false) => "queued",
                        (false, _) => "ended",
                    };
                    let progress =
                        status.is_running.then(|| show_share(&status.progress)).flatten();
                    (is_several, state, progress.filter(|progress| progress != "0"))
                }
            };
            rows.push(
                Record::new()
                    .with("handle", show_handle_of(handle, is_several))
                    .with("function", seen.function.as_str())
                    .with("state", state)
                    .with("progress", progress),
            );
        }
        let mut list = self.tool.out.list(&JOBS)?;
        for row in rows {
            list.push(row)?;
        }
        list.finish()?;
        Ok(Exit::Done)
    }

    /// `fg [HANDLE]`.
    pub(super) fn foreground(&mut self, handle: Option<&str>) -> Result<Exit, CliError> {
        let handle = handle.map(names::handle).transpose()?;
        let runs = &self.session().runs;
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
        let running = self.session().runs.remove(at);
        run::follow(self.tool, running)
    }
}
