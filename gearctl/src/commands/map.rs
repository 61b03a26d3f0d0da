//! `map`: a job for every line, a line for every result.

use std::collections::{HashMap, HashSet};

use clap::Args;
use ctl_core::bulk::Action;
use ctl_core::error::{CliError, Exit};
use ctl_core::input::intake::would;
use ctl_core::output::{Column, Format, Record, Shape};
use gearman_client::JobEvent;

use super::submit::connect;
use crate::names::show_handle_of;
use crate::submit::merged::Guard;
use crate::submit::pool::{Kind, Pool, What};
use crate::submit::results::{ResultArgs, too_large, too_much};
use crate::submit::tasks::TaskArgs;
use crate::tool::Tool;

/// The end of `map --help`.
pub const HELP: &str = "\
Protocol: SUBMIT_JOB for every line.
One line in, one line out, like xargs: results are printed as they arrive, or in the order of the lines with
--ordered. A result's trailing line ending is dropped, and TABs, line endings and backslashes are escaped, so each result is one
line. -o ndjson prints a record for each job, including failed ones. The exit code is 3 if some jobs failed, 1 if all
did. A result larger than --max-result counts as a failure. With --ordered, results are buffered up to that size, and
anything beyond it waits at the server.

Examples:
  gearctl map resize -j 8 < files
  gearctl map geocode -j 4 --ordered -o ndjson < addresses";

/// Arguments of `map`.
#[derive(Debug, Args)]
pub struct MapArgs {
    #[command(flatten)]
    task: TaskArgs,

    #[command(flatten)]
    results: ResultArgs,
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
    // Lines, unless other framing was requested.
    args.task.lines = !(args.task.null || args.task.ndjson);
    let wanted = args.task.read()?;
    let tasks = wanted.tasks((&mut tool.input, &tool.messages), tool.link.dialer.timeout())?;
    if tool.globals.dry_run {
        return would(&mut tool.out, tasks, ("map", "job", ""));
    }
    tool.out.expect(&RESULTS)?;
    let clients = connect(tool, &wanted)?;
    let interrupts = tool.interrupts()?;
    let action = Action { past: "mapped", noun: "job", place: String::new() };
    let mut bulk = tool.bulk(action, &wanted.args.pace, None)?;
    let (most, kept) = (args.results.most(), args.results.kept_in_order());
    let guard = Guard::new(&mut tool.link, &tool.messages)?;
    let mut pool = Pool::start(clients, tasks, Kind::Foreground, kept, (&bulk.gate(), guard))?;
    if tool.out.style.format == Format::Table && tool.globals.output.is_none() {
        // One line in, one line out, even on a terminal.
        tool.out.style.format = Format::Plain;
    }
    let is_several = tool.link.is_several();
    let mut list = tool.out.list(&RESULTS)?;
    bulk.beside(&list);
    let structured = tool.globals.output.is_some_and(Format::has_records);
    let mut jobs = Jobs::new(most, !list.streams(), is_several);
    loop {
        let news = match pool.next(&interrupts) {
            Ok(Some(news)) => news,
            Ok(None) => break,
            Err(error) => return Err(bulk.abort(error)),
        };
        let Some((record, failure)) = jobs.take(news.job, news.what) else { continue };
        let ok = failure.is_none();
        let counted = bulk.count(news.label, failure.map_or(Ok(()), Err));
        bulk = bulk.after(counted)?;
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

/// Jobs that have not ended: their handles, and their results so far.
struct Jobs {
    open: HashMap<u64, (String, Vec<u8>)>,
    /// Jobs whose result is too large: the rest of it is discarded.
    given_up: HashSet<u64>,
    /// Size in bytes of the results that are buffered until the end; none if they are not buffered.
    kept: Option<usize>,
    most: usize,
    /// Whether a handle needs its server.
    is_several: bool,
}

impl Jobs {
    fn new(most: usize, keeps: bool, is_several: bool) -> Self {
        let (open, given_up) = (HashMap::new(), HashSet::new());
        Self { open, given_up, kept: keeps.then_some(0), most, is_several }
    }

    /// Takes an event of a job. If the job has ended, returns its record, if the server had it, and why it failed.
    fn take(&mut self, job: u64, what: What) -> Option<(Option<Record>, Option<CliError>)> {
        let failed = |text: String| Some(CliError::new(Exit::Negative, "JOB_FAILED", text));
        if self.given_up.contains(&job) {
            let is_last = matches!(&what, What::Error(_))
                || matches!(&what, What::Event(event) if event.is_last());
            if is_last {
                self.given_up.remove(&job);
            }
            return None;
        }
        let failure = match what {
            What::Taken(handle, ..) => {
                self.open.insert(job, (show_handle_of(&handle, self.is_several), Vec::new()));
                return None;
            }
            What::Event(JobEvent::Data(bytes)) => {
                let error = self.add(job, &bytes)?;
                self.given_up.insert(job);
                return Some(self.end(job, Some(error)));
            }
            What::Event(JobEvent::Complete(bytes)) => {
                self.add(job, &bytes).or_else(|| self.keep(job))
            }
            What::Event(JobEvent::Fail) => failed("the job failed".to_owned()),
            What::Event(JobEvent::Exception(text)) => {
                failed(format!("the job failed: {}", String::from_utf8_lossy(&text).trim_end()))
            }
            What::Event(_) => return None,
            What::Error(error) => {
                self.open.remove(&job);
                return Some((None, Some(error)));
            }
        };
        Some(self.end(job, failure))
    }

    /// Adds to a result. If it becomes too large to keep, discards it and returns the reason.
    fn add(&mut self, job: u64, bytes: &[u8]) -> Option<CliError> {
        let (handle, body) = self.open.entry(job).or_default();
        if bytes.len() > self.most.saturating_sub(body.len()) {
            *body = Vec::new();
            return Some(too_large(handle, self.most));
        }
        body.extend_from_slice(bytes);
        None
    }

    /// Counts a result that is buffered until the end. If there is no room for it, discards it and returns the reason.
    fn keep(&mut self, job: u64) -> Option<CliError> {
        let kept = self.kept?;
        let (handle, body) = self.open.entry(job).or_default();
        if body.len() > self.most.saturating_sub(kept) {
            *body = Vec::new();
            return Some(too_much(handle, self.most));
        }
        self.kept = Some(kept + body.len());
        None
    }

    fn end(&mut self, job: u64, failure: Option<CliError>) -> (Option<Record>, Option<CliError>) {
        let (handle, mut body) = self.open.remove(&job).unwrap_or_default();
        if body.last() == Some(&b'\n') {
            body.pop();
        }
        let record = Record::new().with("i", job).with("handle", handle);
        (Some(record.with("ok", failure.is_none()).with_body(body)), failure)
    }
}
