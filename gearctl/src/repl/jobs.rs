//! The verbs on jobs of the session: start them, list them, return to them.

use std::time::Duration;

use ctl_core::error::{CliError, Exit};
use ctl_core::link::Link as _;
use ctl_core::output::progress::Progress;
use ctl_core::output::{Column, Record, Shape};
use gearman_client::{Address, JobHandle};

use super::state::State;
use crate::commands::run::{self, RunArgs, Started};
use crate::error::cli_error;
use crate::link::Link;
use crate::names::{self, show_handle_of};
use crate::submit::running::{Running, show_share};

/// How often the server is queried about a job that nobody waits for.
const LOOK_EVERY: Duration = Duration::from_millis(300);

static JOBS: Shape = Shape::rows(
    "handle",
    &[
        Column::new("handle", "HANDLE"),
        Column::new("function", "FUNCTION"),
        Column::new("kind", "KIND"),
        Column::new("state", "STATE"),
        Column::new("progress", "PROGRESS"),
    ],
);

/// A job that the session should return to.
enum Own {
    /// One of these.
    Run(usize),
    /// A job that nobody waits for.
    Background(JobHandle),
}

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
        let (mut rows, is_several) = (Vec::new(), self.tool.link.is_several());
        let shown = |handle: &JobHandle| show_handle_of(handle, is_several);
        let mut open: Vec<(JobHandle, String, &'static str)> = Vec::new();
        for seen in self.session().runs.iter().flat_map(Running::jobs) {
            let Some(handle) = &seen.handle else { continue };
            match seen.end {
                None => open.push((handle.clone(), seen.function.clone(), "foreground")),
                Some(end) => {
                    let progress = seen.share.as_ref().and_then(show_share);
                    rows.push(row(shown(handle), &seen.function, "foreground", end, progress));
                }
            }
        }
        for job in &self.session().submitted {
            open.push((job.handle.clone(), job.function.clone(), "background"));
        }
        let servers: Vec<Address> = self.tool.link.client()?.addresses().cloned().collect();
        for (handle, function, kind) in open {
            if handle.server().is_some_and(|server| !servers.contains(server)) {
                // The session has switched to other servers since.
                rows.push(row(show_handle_of(&handle, true), &function, kind, "elsewhere", None));
                continue;
            }
            let status = self.tool.link.client()?.status(&handle).map_err(cli_error)?;
            let state = match (status.is_known, status.is_running) {
                (true, true) => "running",
                (true, false) => "queued",
                (false, _) => "ended",
            };
            let progress = status.is_running.then(|| show_share(&status.progress)).flatten();
            rows.push(row(shown(&handle), &function, kind, state, progress.filter(|p| p != "0")));
            if !status.is_known {
                // Reported once, because the server has nothing more to report.
                self.session().submitted.retain(|job| job.handle != handle);
            }
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
        match self.own(handle)? {
            Own::Run(at) => {
                let running = self.session().runs.remove(at);
                run::follow(self.tool, running)
            }
            Own::Background(handle) => self.watch_job(&handle),
        }
    }

    /// `attach HANDLE`.
    pub(super) fn attach(&mut self, handle: &str) -> Result<Exit, CliError> {
        let handle = names::handle(handle)?;
        self.watch_job(&handle)
    }

    /// The selected job; the last one if none is named.
    fn own(&mut self, handle: Option<&str>) -> Result<Own, CliError> {
        let session = self.session();
        let Some(text) = handle else {
            let last = session.submitted.back().map(|job| Own::Background(job.handle.clone()));
            let run = session.runs.len().checked_sub(1).map(Own::Run);
            return run.or(last).ok_or_else(|| {
                CliError::usage("this session has no running jobs")
                    .hint("start FUNCTION BODY, or run and then Ctrl-C")
            });
        };
        let handle = names::handle(text)?;
        if let Some(at) = session.runs.iter().rposition(|run| run.has(&handle)) {
            return Ok(Own::Run(at));
        }
        if session.submitted.iter().any(|job| job.handle.name() == handle.name()) {
            return Ok(Own::Background(handle));
        }
        Err(CliError::not_found(format!("the job {text} is not one of this session"))
            .hint(":jobs, to list its jobs")
            .hint(format!("attach {text}, to see the progress of any job on the server")))
    }

    /// A link to the server that a handle names, if the session has no connection to it.
    fn elsewhere(&mut self, handle: &JobHandle) -> Result<Option<Link>, CliError> {
        let Some(server) = handle.server() else { return Ok(None) };
        if self.tool.link.client()?.addresses().any(|own| own == server) {
            return Ok(None);
        }
        self.tool.link.to_server(&server.to_string()).map(Some)
    }

    /// Shows a job's progress until the server no longer knows it.
    fn watch_job(&mut self, handle: &JobHandle) -> Result<Exit, CliError> {
        let name = show_handle_of(handle, self.tool.link.is_several());
        let mut other = self.elsewhere(handle)?;
        let interrupts = self.tool.interrupts()?;
        let mut progress = Progress::start(&self.tool.messages, name.as_str(), None);
        let mut known = false;
        loop {
            let link = other.as_mut().unwrap_or(&mut self.tool.link);
            let status = link.client()?.status(handle).map_err(cli_error)?;
            if !status.is_known {
                break;
            }
            known = true;
            if let Some(done) = status.progress.numerator().filter(|_| status.is_running) {
                progress.set(done, status.progress.denominator().filter(|whole| *whole > 0));
            }
            if let Err(signal) = interrupts.sleep(LOOK_EVERY) {
                drop(progress);
                self.tool.messages.after_interrupt();
                self.tool.messages.note(format!("the job {name} keeps running"));
                return Ok(signal.exit);
            }
        }
        drop(progress);
        self.session().submitted.retain(|job| job.handle.name() != handle.name());
        if !known {
            return Err(CliError::not_found(format!(
                "the server does not know the job {name}: it has ended, or never existed"
            )));
        }
        let record = Record::new().with("handle", name.as_str()).with("state", "ended");
        let sentence = format!("the job {name} has ended; the server keeps no results");
        self.tool.out.done_with(&record, &["handle", "state"], &sentence)
    }
}

fn row(
    handle: String,
    function: &str,
    kind: &'static str,
    state: &'static str,
    progress: Option<String>,
) -> Record {
    Record::new()
        .with("handle", handle)
        .with("function", function)
        .with("kind", kind)
        .with("state", state)
        .with("progress", progress)
}
