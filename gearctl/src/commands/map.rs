//! `map`: a job for every line, a line for every result.

use std::collections::HashMap;

use clap::Args;
use ctl_core::bulk::{Action, Bulk, OnError};
use ctl_core::error::{CliError, Exit};
use ctl_core::output::{Column, Format, Record, Shape};
use gearman_client::JobEvent;

use super::submit::{connect, would};
use crate::names::show_handle;
use crate::pool::{Kind, Pool, What};
use crate::tasks::TaskArgs;
use crate::tool::Tool;

/// The end of `map --help`.
pub const HELP: &str = "\
Protocol: SUBMIT_JOB for every line.
One line in, one line out, as xargs: results come when they are ready, in the order of the lines with --ordered. The
line end of a result is not kept, and TAB, line ends and backslashes in it are escaped, so that it is one line. -o ndjson
has a record for each job, also for those that failed. Some jobs failed: exit code 3; all: 1.

Examples:
  gearctl map resize -j 8 < files
  gearctl map geocode -j 4 --ordered -o ndjson < addresses";

/// Arguments of `map`.
#[derive(Debug, Args)]
pub struct MapArgs {
    #[command(flatten)]
    task: TaskArgs,

    /// Results in the order of the lines
    #[arg(long)]
    ordered: bool,

    /// Take no new lines after the first failure
    #[arg(long)]
    fail_fast: bool,
}

static RESULTS: Shape = Shape::rows(
    "body",
    &[
        Column::on_request("i", "I"),
        Column::on_request("handle", "HANDLE"),
        Column::on_request("ok", "OK"),
        Column::new("body", "RESULT"),
    ],
);

/// Runs `map`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, mut args: MapArgs) -> Result<Exit, CliError> {
    // Lines, unless another cut was asked for.
    args.task.lines = !(args.task.null || args.task.ndjson);
    let tasks = args.task.tasks(&mut tool.input, tool.link.timeout())?;
    if tool.globals.dry_run {
        return would(tool, tasks, "map");
    }
    let clients = connect(tool, &args.task)?;
    let interrupts = tool.interrupts()?;
    let when = tool.globals.progress.unwrap_or_default();
    let action = Action { past: "mapped", noun: "job", place: String::new() };
    let on_error = if args.fail_fast { OnError::Stop } else { OnError::Continue };
    let mut bulk = Bulk::start(action, on_error, None, when, interrupts.clone(), &tool.messages);
    let kind = Kind::Foreground { retries: 0 };
    let mut pool = Pool::start(clients, tasks, kind, args.ordered, &bulk.gate())?;
    if tool.out.style.format == Format::Table && tool.globals.output.is_none() {
        // One line in, one line out, on a terminal too.
        tool.out.style.format = Format::Plain;
    }
    let mut list = tool.out.list(&RESULTS)?;
    let structured = tool.globals.output.is_some_and(Format::is_json);
    let mut jobs = Jobs::default();
    loop {
        let news = match pool.next(&interrupts) {
            Ok(Some(news)) => news,
            Ok(None) => break,
            Err(error) => return Err(bulk.abort(error)),
        };
        let Some((record, failure)) = jobs.take(news.job, news.what) else { continue };
        let ok = failure.is_none();
        match failure {
            None => bulk.success(),
            Some(failure) => {
                if let Err(error) = bulk.failure(news.label, failure) {
                    return Err(bulk.abort(error));
                }
            }
        }
        // A job that failed has no line, only a record.
        if let Some(record) = record.filter(|_| ok || structured) {
            list.push(record)?;
            list.flush()?;
        }
    }
    let exit = bulk.finish_silently()?;
    list.finish()?;
    Ok(exit)
}

/// Jobs that have not ended: their handles, and the results so far.
#[derive(Default)]
struct Jobs(HashMap<u64, (String, Vec<u8>)>);

impl Jobs {
    /// Takes news of a job. When it has ended: its record, if the server had it, and why it failed.
    fn take(&mut self, job: u64, what: What) -> Option<(Option<Record>, Option<CliError>)> {
        let failed = |text: String| Some(CliError::new(Exit::Negative, "JOB_FAILED", text));
        let failure = match what {
            What::Taken(handle, _) => {
                self.0.insert(job, (show_handle(&handle), Vec::new()));
                return None;
            }
            What::Event(JobEvent::Data(bytes)) => {
                self.0.entry(job).or_default().1.extend_from_slice(&bytes);
                return None;
            }
            What::Event(JobEvent::Complete(bytes)) => {
                self.0.entry(job).or_default().1.extend_from_slice(&bytes);
                None
            }
            What::Event(JobEvent::Fail) => failed("the job failed".to_owned()),
            What::Event(JobEvent::Exception(text)) => {
                failed(format!("the job failed: {}", String::from_utf8_lossy(&text).trim_end()))
            }
            What::Event(_) => return None,
            What::Error(error) => {
                self.0.remove(&job);
                return Some((None, Some(error)));
            }
        };
        let (handle, mut body) = self.0.remove(&job).unwrap_or_default();
        if body.last() == Some(&b'\n') {
            body.pop();
        }
        let record = Record::new().with("i", job).with("handle", handle);
        Some((Some(record.with("ok", failure.is_none()).with_body(body)), failure))
    }
}
