//! `smoke`: do client, worker, network and server work together.

use std::thread;
use std::time::Duration;

use ctl_core::commands::smoke::{STEPS, Steps};
use ctl_core::error::{CliError, Exit};
use gearman_client::blocking::Worker;
use gearman_client::protocol::AdminCommand;
use gearman_client::{FunctionName, SubmitOptions, WorkerInfo};

use super::functions::status_of;
use crate::error::cli_error;
use crate::link::{Answer, Link, worker};
use crate::names::show_handle;
use crate::scratch;
use crate::tool::Tool;

/// The end of `smoke --help`.
pub const HELP: &str = "\
Protocol: CAN_DO, workers, SUBMIT_JOB, GRAB_JOB_UNIQ, GET_STATUS, WORK_COMPLETE, status, version, drop function, with a
randomly named function of its own. The workload has every byte value and must come back unchanged. Nothing is left
behind except that name, on servers without drop function. Missing optional commands (version, drop function) are not
failures.
Exit 0 if every step passed, 1 if one failed; 69, 76 or 124 if the connection itself failed.

Example:
  gearctl smoke -o json";

/// What is shown of a command that the server says it has not.
const UNSUPPORTED: &str = "not supported";
/// What is shown of a command that the server leaves unanswered.
const SILENT: &str = "no answer";

/// The bound of each step where `--timeout` says nothing.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs `smoke`.
///
/// # Errors
/// The connection's failure; a failed step is exit 1 after the table.
pub fn run(tool: &mut Tool) -> Result<Exit, CliError> {
    tool.out.expect(&STEPS)?;
    let function = scratch::function("smoke")?;
    let bound = tool.link.dialer.timeout().unwrap_or(PATIENCE);
    tool.link.dialer.only()?;
    tool.link.client()?;
    let mut smoke = Smoke { steps: Steps::default(), bound, left_behind: None };
    let outcome = smoke.run(&mut tool.link, &function);
    if let Some(why) = smoke.left_behind.take() {
        let text = format!("the function {function} stays on the server: drop function: {why}");
        tool.messages.note(text);
    }
    if let (Err(error), false) = (outcome, smoke.steps.has_failed()) {
        smoke.steps.broke(error);
    }
    smoke.steps.finish(&mut tool.out)
}

struct Smoke {
    steps: Steps,
    bound: Duration,
    /// Why the function could not be dropped.
    left_behind: Option<&'static str>,
}

impl Smoke {
    /// All steps; after a failed one the rest is not tried.
    fn run(&mut self, link: &mut Link, function: &FunctionName) -> Result<(), CliError> {
        let workload: Vec<u8> = (0..=u8::MAX).collect();
        let mut worker = worker(link.worker_options()?, function)?;
        // Not in `status`: rustygeard lists no function there before it has a job.
        let seen = self.until(|| {
            let connections = link.listing::<WorkerInfo>(&AdminCommand::Workers)?;
            Ok(connections.iter().any(|connection| connection.functions.contains(function)))
        })?;
        self.step("register", "CAN_DO", "1 worker", if seen { "1 worker" } else { "none" }, seen)?;

        let mut client = link.open_client()?;
        let options = SubmitOptions::default().timeout(self.bound);
        let job = client.submit(function.clone(), &workload, options).map_err(cli_error)?;
        let handle = show_handle(job.handle());
        self.step("submit", "SUBMIT_JOB", "JOB_CREATED", &format!("JOB_CREATED {handle}"), true)?;

        let grabbed = worker.next_job(self.bound).map_err(cli_error)?;
        let same = grabbed.as_ref().is_some_and(|grabbed| grabbed.workload == workload);
        let got = match &grabbed {
            Some(grabbed) => format!("{} bytes, {}", grabbed.workload.len(), word(same)),
            None => "no job".to_owned(),
        };
        self.step("grab", "GRAB_JOB_UNIQ", "256 bytes, as sent", &got, same)?;

        let status = link.client()?.status(job.handle()).map_err(cli_error)?;
        // rustygeard does not tell of a job that it runs.
        let got = format!("known {}, running {}", status.is_known, status.is_running);
        self.step("status", "GET_STATUS", "known true", &got, status.is_known)?;

        let result: Vec<u8> = workload.iter().rev().copied().collect();
        if let Some(grabbed) = grabbed {
            worker.complete(grabbed, &result).map_err(cli_error)?;
        }
        let back = job.outcome().map_err(cli_error)?.complete();
        let same = back.as_deref() == Some(result.as_slice());
        let got = match &back {
            Some(back) => format!("{} bytes, {}", back.len(), word(same)),
            None => "the job failed".to_owned(),
        };
        self.step("complete", "WORK_COMPLETE", "256 bytes, as sent", &got, same)?;
        self.administer(link, worker, function)
    }

    fn administer(
        &mut self,
        link: &mut Link,
        worker: Worker,
        function: &FunctionName,
    ) -> Result<(), CliError> {
        let left = status_of(link, function)?.map(|status| status.total);
        let got = left.map_or_else(|| "no such function".to_owned(), |left| format!("{left} jobs"));
        self.step("admin", "status", "0 jobs", &got, left.unwrap_or(0) == 0)?;
        let version = link
            .probe(&AdminCommand::Version)?
            .and_then(|reply| reply.value().map_err(cli_error))?;
        let (got, ok) = match version {
            Answer::Came(version) => (version.clone(), !version.is_empty()),
            Answer::Unsupported(_) => (UNSUPPORTED.to_owned(), true),
            Answer::Silent(_) => (SILENT.to_owned(), true),
        };
        self.step("version", "version", "a version", &got, ok)?;
        let _ = worker.stop();
        let dropped = scratch::remove(link, function, self.bound)?;
        let over = dropped.is_some();
        let got = match dropped {
            None => "in use",
            Some(Answer::Came(())) => "OK",
            Some(Answer::Unsupported(_)) => UNSUPPORTED,
            Some(Answer::Silent(_)) => SILENT,
        };
        if over && got != "OK" {
            self.left_behind = Some(got);
        }
        self.step("clean up", "drop function", "OK", got, over)
    }

    /// Looks again until it is true, or the time of a step is over.
    fn until(&self, mut look: impl FnMut() -> Result<bool, CliError>) -> Result<bool, CliError> {
        loop {
            if look()? {
                return Ok(true);
            }
            if self.steps.since().elapsed() >= self.bound {
                return Ok(false);
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Notes the outcome of a step.
    fn step(
        &mut self,
        step: &'static str,
        command: &'static str,
        expected: &'static str,
        got: &str,
        ok: bool,
    ) -> Result<(), CliError> {
        let ok = self.steps.note((step, command), expected, got, ok);
        if ok { Ok(()) } else { Err(CliError::internal(format!("the step {step} failed"))) }
    }
}

fn word(same: bool) -> &'static str {
    if same { "as sent" } else { "other ones" }
}
