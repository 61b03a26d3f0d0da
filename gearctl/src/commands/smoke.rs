//! `smoke`: checks that client, worker, network and server work together.

use std::thread;
use std::time::Duration;

use ctl_core::commands::smoke::{STEPS, Steps};
use ctl_core::error::{CliError, Exit};
use gearman_client::blocking::{Client, GrabbedJob, Job, Worker};
use gearman_client::protocol::AdminCommand;
use gearman_client::{FunctionName, JobHandle, SubmitOptions, WorkerInfo};

use crate::error::cli_error;
use crate::link::status_of;
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
This is for people who set a server up; check roundtrip asks the workers of a function, for monitoring.
Exit 0 if every step passed, 1 if one failed; 69, 76 or 124 if the connection itself failed.

Example:
  gearctl smoke -o json";

/// Shown for a command that the server does not have.
const UNSUPPORTED: &str = "not supported";
/// Shown for a command that the server leaves unanswered.
const SILENT: &str = "no answer";

/// The step that needs a connection of its own.
const SUBMIT: (&str, &str) = ("submit", "SUBMIT_JOB");

/// Time limit of each step without `--timeout`.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a worker waits for a job that may be left.
const MOMENT: Duration = Duration::from_millis(100);

/// Runs `smoke`.
///
/// # Errors
/// The connection's failure; a failed step is exit 1 after the table.
pub fn run(tool: &mut Tool) -> Result<Exit, CliError> {
    tool.refuse_dry_run("smoke", "gearctl ping changes nothing")?;
    tool.out.expect(&STEPS)?;
    let function = scratch::function("smoke")?;
    let bound = tool.link.dialer.timeout().unwrap_or(PATIENCE);
    tool.link.dialer.only()?;
    tool.link.client()?;
    let mut smoke = Smoke { steps: Steps::default(), bound, left_behind: None };
    smoke.run(&mut tool.link, &function);
    if let Some(why) = smoke.left_behind.take() {
        let text = format!("the function {function} stays on the server: drop function: {why}");
        tool.messages.note(text);
    }
    smoke.steps.finish(&mut tool.out)
}

struct Smoke {
    steps: Steps,
    bound: Duration,
    /// Why the function could not be dropped.
    left_behind: Option<&'static str>,
}

/// The result of a step, its text, and whether it is as expected.
type Tried<T> = Result<(T, String, bool), CliError>;

impl Smoke {
    /// Runs all steps up to the first failure.
    fn run(&mut self, link: &mut Link, function: &FunctionName) -> Option<()> {
        let mut worker = self.registered(link, function)?;
        if self.worked(link, &mut worker, function).is_none() {
            self.abandon(link, worker, function);
            return None;
        }
        self.administered(link, worker, function)
    }

    /// Leaves as little behind as possible after a failure.
    fn abandon(&mut self, link: &mut Link, worker: Worker, function: &FunctionName) {
        let _ = worker.stop();
        // A function that is dropped with a job in it may take gearmand along.
        match self.until(|| is_emptied(link, function)) {
            Ok(true) => drop(self.remove(link, function)),
            _ => self.left_behind = Some("not tried, as it may have a job"),
        }
    }

    fn registered(&mut self, link: &mut Link, function: &FunctionName) -> Option<Worker> {
        let tried = self.register(link, function);
        self.step(("register", "CAN_DO"), "1 worker", tried)
    }

    fn register(&self, link: &mut Link, function: &FunctionName) -> Tried<Worker> {
        let worker = worker(link.worker_options()?, function)?;
        // Not in `status`, where rustygeard lists no function before it has a job.
        let seen = self.until(|| {
            let connections = link.listing::<WorkerInfo>(&AdminCommand::Workers)?;
            Ok(connections.iter().any(|connection| connection.functions.contains(function)))
        })?;
        Ok((worker, if seen { "1 worker" } else { "none" }.to_owned(), seen))
    }

    /// A job, from its submission to its result.
    fn worked(
        &mut self,
        link: &mut Link,
        worker: &mut Worker,
        function: &FunctionName,
    ) -> Option<()> {
        let workload: Vec<u8> = (0..=u8::MAX).collect();
        let mut client = match link.open_client() {
            Ok(client) => client,
            Err(error) => return self.step(SUBMIT, "JOB_CREATED", Err(error)),
        };
        let submitted = submit(&mut client, function, &workload, self.bound);
        let job = self.step(SUBMIT, "JOB_CREATED", submitted)?;
        let grabbed = grab(worker, &workload, self.bound);
        let grabbed = self.step(("grab", "GRAB_JOB_UNIQ"), "256 bytes, as sent", grabbed)??;
        let status = status(link, job.handle());
        self.step(("status", "GET_STATUS"), "known true", status)?;
        let result: Vec<u8> = workload.into_iter().rev().collect();
        let completed = complete(worker, grabbed, job, &result);
        self.step(("complete", "WORK_COMPLETE"), "256 bytes, as sent", completed)
    }

    fn administered(
        &mut self,
        link: &mut Link,
        worker: Worker,
        function: &FunctionName,
    ) -> Option<()> {
        let left = left(link, function);
        self.step(("admin", "status"), "0 jobs", left)?;
        let version = version(link);
        self.step(("version", "version"), "a version", version)?;
        let _ = worker.stop();
        let removed = self.remove(link, function);
        self.step(("clean up", "drop function"), "OK", removed)
    }

    fn remove(&mut self, link: &mut Link, function: &FunctionName) -> Tried<()> {
        let dropped = scratch::remove(link, function, self.bound)?;
        let got = match dropped {
            None => "in use",
            Some(Answer::Came(())) => "OK",
            Some(Answer::Unsupported(_)) => UNSUPPORTED,
            Some(Answer::Silent(_)) => SILENT,
        };
        let over = dropped.is_some();
        if over && got != "OK" {
            self.left_behind = Some(got);
        }
        Ok(((), got.to_owned(), over))
    }

    /// Polls until it is true, or the time of a step is over.
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

    /// Records the outcome of a step, and returns its result if it is as expected.
    fn step<T>(
        &mut self,
        names: (&'static str, &str),
        expected: &'static str,
        tried: Tried<T>,
    ) -> Option<T> {
        match tried {
            Ok((brought, got, ok)) => self.steps.note(names, expected, &got, ok).then_some(brought),
            Err(error) => {
                self.steps.fail(names, expected, error);
                None
            }
        }
    }
}

/// Whether the function has no jobs any more. The server frees a job whose client has gone only when a worker asks for
/// it after the server has noticed that.
fn is_emptied(link: &mut Link, function: &FunctionName) -> Result<bool, CliError> {
    if status_of(link, function)?.is_none_or(|status| status.total == 0) {
        return Ok(true);
    }
    let mut worker = worker(link.worker_options()?, function)?;
    if let Ok(Some(job)) = worker.next_job(MOMENT) {
        let _ = worker.complete(job, b"");
    }
    let _ = worker.stop();
    Ok(false)
}

fn submit<'a>(
    client: &'a mut Client,
    function: &FunctionName,
    workload: &[u8],
    bound: Duration,
) -> Tried<Job<'a>> {
    let options = SubmitOptions::default().timeout(bound);
    let job = client.submit(function.clone(), workload, options).map_err(cli_error)?;
    let got = format!("JOB_CREATED {}", show_handle(job.handle()));
    Ok((job, got, true))
}

fn grab(worker: &mut Worker, workload: &[u8], bound: Duration) -> Tried<Option<GrabbedJob>> {
    let grabbed = worker.next_job(bound).map_err(cli_error)?;
    let same = grabbed.as_ref().is_some_and(|grabbed| grabbed.workload == workload);
    let got = match &grabbed {
        Some(grabbed) => format!("{} bytes, {}", grabbed.workload.len(), word(same)),
        None => "no job".to_owned(),
    };
    Ok((grabbed, got, same))
}

fn status(link: &mut Link, handle: &JobHandle) -> Tried<()> {
    let status = link.client()?.status(handle).map_err(cli_error)?;
    // rustygeard does not report a job that is running.
    let got = format!("known {}, running {}", status.is_known, status.is_running);
    Ok(((), got, status.is_known))
}

fn complete(worker: &mut Worker, grabbed: GrabbedJob, job: Job<'_>, result: &[u8]) -> Tried<()> {
    worker.complete(grabbed, result).map_err(cli_error)?;
    let back = job.outcome().map_err(cli_error)?.complete();
    let same = back.as_deref() == Some(result);
    let got = match &back {
        Some(back) => format!("{} bytes, {}", back.len(), word(same)),
        None => "the job failed".to_owned(),
    };
    Ok(((), got, same))
}

fn left(link: &mut Link, function: &FunctionName) -> Tried<()> {
    let left = status_of(link, function)?.map(|status| status.total);
    let got = left.map_or_else(|| "no such function".to_owned(), |left| format!("{left} jobs"));
    Ok(((), got, left.unwrap_or(0) == 0))
}

fn version(link: &mut Link) -> Tried<()> {
    let reply = link.probe(&AdminCommand::Version)?;
    let (got, ok) = match reply.and_then(|reply| reply.value().map_err(cli_error))? {
        Answer::Came(version) => (version.clone(), !version.is_empty()),
        Answer::Unsupported(_) => (UNSUPPORTED.to_owned(), true),
        Answer::Silent(_) => (SILENT.to_owned(), true),
    };
    Ok(((), got, ok))
}

fn word(same: bool) -> &'static str {
    if same { "as sent" } else { "other ones" }
}
