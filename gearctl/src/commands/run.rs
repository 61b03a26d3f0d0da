//! `run`: foreground jobs, their results as they come.

use std::collections::HashMap;

use clap::Args;
use ctl_core::args::ProgressWhen;
use ctl_core::bulk::{Action, Bulk, OnError};
use ctl_core::error::{CliError, Exit};
use ctl_core::escape;
use ctl_core::messages::Messages;
use ctl_core::output::{Column, Format, Output, Record, Shape};
use ctl_core::progress::Progress;
use gearman_client::{JobEvent, Progress as Share};

use super::submit::{self, SubmitArgs, connect, would};
use crate::names::{show_handle, show_unique};
use crate::pool::{Kind, News, Pool, What};
use crate::tasks::TaskArgs;
use crate::tool::Tool;

/// The end of `run --help`.
pub const HELP: &str = "\
Protocol: SUBMIT_JOB, SUBMIT_JOB_HIGH, SUBMIT_JOB_LOW; with -b their background relatives, as `submit`.
Results go to stdout byte for byte, data as it arrives (with -j, each job's when it has ended). Warnings and exceptions
go to stderr; the worker's status is a progress bar on a terminal. -o ndjson prints every event as a record, -o json the
outcome. A job that failed is exit code 1, some of several 3. --timeout bounds each job; there is no bound otherwise.

Examples:
  gearctl run wc < file
  gearctl run reverse 'some text' --timeout 10s
  gearctl run resize --lines -j 8 -o ndjson < files";

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    #[command(flatten)]
    task: TaskArgs,

    /// Do not wait: as `submit`
    #[arg(short, long)]
    background: bool,

    /// Submit a job that failed so often again, unless it has shown data
    #[arg(long, value_name = "N", default_value_t = 0)]
    retries: u32,

    /// After a failure: go on or stop
    #[arg(long, value_name = "WHAT", default_value = "continue")]
    on_error: OnError,
}

static RESULTS: Shape = Shape::rows(
    "handle",
    &[
        Column::new("n", "N"),
        Column::new("handle", "HANDLE"),
        Column::new("unique", "UNIQUE"),
        Column::new("outcome", "OUTCOME"),
        Column::new("body", "BODY"),
    ],
);

/// Runs `run`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: RunArgs) -> Result<Exit, CliError> {
    if args.background {
        let RunArgs { task, on_error, .. } = args;
        return submit::run(tool, SubmitArgs { task, at: None, delay: None, on_error });
    }
    let timeout = tool.link.timeout();
    let tasks = args.task.tasks(&mut tool.input, timeout)?;
    if tool.globals.dry_run {
        return would(tool, tasks, "run");
    }
    let single = args.task.is_single();
    let clients = connect(tool, &args.task)?;
    let streams = clients.len() == 1;
    let interrupts = tool.interrupts()?;
    let when = tool.globals.progress.unwrap_or_default();
    let action = Action { past: "ran", noun: "job", place: String::new() };
    let mut bulk =
        Bulk::start(action, args.on_error, None, when, interrupts.clone(), &tool.messages);
    let kind = Kind::Foreground { retries: args.retries };
    let mut pool = Pool::start(clients, tasks, kind, &bulk.gate())?;
    let mut results = Results {
        out: &mut tool.out,
        messages: tool.messages.clone(),
        jobs: HashMap::new(),
        kept: Vec::new(),
        progress: None,
        when: if single { when } else { ProgressWhen::Never },
        streams,
        null: args.task.null,
    };
    loop {
        let news = match pool.next(&interrupts) {
            Ok(Some(news)) => news,
            Ok(None) => break,
            Err(error) => return Err(if single { error } else { bulk.abort(error) }),
        };
        let label = news.label.clone();
        let outcome = match results.take(news)? {
            Step::Going => Ok(()),
            Step::Done => {
                bulk.success();
                Ok(())
            }
            Step::Failed(error) if single => return Err(error),
            Step::Failed(error) => bulk.failure(label, error),
        };
        if let Err(error) = outcome {
            return Err(bulk.abort(error));
        }
    }
    let exit = bulk.finish_silently()?;
    results.finish(single)?;
    Ok(exit)
}

/// What became of a job by some news.
enum Step {
    Going,
    Done,
    Failed(CliError),
}

/// A job that has not ended.
#[derive(Default)]
struct Open {
    handle: String,
    unique: Option<String>,
    data: Vec<u8>,
}

/// The way of results to stdout.
struct Results<'a> {
    out: &'a mut Output,
    messages: Messages,
    jobs: HashMap<u64, Open>,
    /// Records of documents that are written at the end.
    kept: Vec<Record>,
    progress: Option<Progress>,
    when: ProgressWhen,
    /// Data goes out as it arrives: there is one job at a time.
    streams: bool,
    null: bool,
}

impl Results<'_> {
    fn take(&mut self, news: News) -> Result<Step, CliError> {
        let number = news.job;
        match news.what {
            What::Taken(handle, unique) => {
                let unique = unique.as_ref().map(show_unique);
                let open = Open { handle: show_handle(&handle), unique, data: Vec::new() };
                self.jobs.insert(number, open);
                self.event(number, "created", |record| record)?;
            }
            What::Error(error) => {
                self.end_progress();
                self.jobs.remove(&number);
                return Ok(Step::Failed(error));
            }
            What::Event(event) => return self.job_event(number, event),
        }
        Ok(Step::Going)
    }

    fn job_event(&mut self, number: u64, event: JobEvent) -> Result<Step, CliError> {
        match event {
            JobEvent::Data(bytes) => {
                self.data(number, &bytes)?;
                self.event(number, "data", |record| record.with_body(bytes.to_vec()))?;
            }
            JobEvent::Warning(bytes) => {
                if self.is(Format::Ndjson) {
                    self.event(number, "warning", |record| record.with_body(bytes.to_vec()))?;
                } else {
                    self.messages.warn(String::from_utf8_lossy(&bytes).trim_end());
                }
            }
            JobEvent::Status(share) => {
                self.show(&share);
                self.event(number, "status", |record| {
                    record
                        .with("numerator", share.numerator())
                        .with("denominator", share.denominator())
                })?;
            }
            JobEvent::Complete(bytes) => {
                self.end_progress();
                self.data(number, &bytes)?;
                self.event(number, "complete", |record| record.with_body(bytes.to_vec()))?;
                self.complete(number)?;
                return Ok(Step::Done);
            }
            JobEvent::Fail => return self.failed(number, "fail", None),
            JobEvent::Exception(bytes) => return self.failed(number, "exception", Some(&bytes)),
            _ => {}
        }
        Ok(Step::Going)
    }

    fn is(&self, format: Format) -> bool {
        self.out.style.format == format
    }

    fn is_document(&self) -> bool {
        matches!(self.out.style.format, Format::Json | Format::Yaml)
    }

    /// One event as a record, under `-o ndjson`.
    fn event(
        &mut self,
        number: u64,
        name: &'static str,
        fill: impl FnOnce(Record) -> Record,
    ) -> Result<(), CliError> {
        static EVENT: Shape = Shape::rows("event", &[Column::new("event", "EVENT")]);
        if !self.is(Format::Ndjson) {
            return Ok(());
        }
        let mut record = Record::new().with("event", name).with("n", number);
        if let Some(open) = self.jobs.get(&number) {
            record = record.with("handle", open.handle.as_str());
            if name == "created" {
                record = record.with("unique", open.unique.as_deref());
            }
        }
        self.out.object(&EVENT, fill(record))
    }

    fn data(&mut self, number: u64, bytes: &[u8]) -> Result<(), CliError> {
        if self.is(Format::Ndjson) {
            return Ok(());
        }
        if self.streams && !self.is_document() {
            return self.write(bytes);
        }
        if let Some(open) = self.jobs.get_mut(&number) {
            open.data.extend_from_slice(bytes);
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        if self.out.style.terminal {
            self.end_progress();
        }
        let style = &self.out.style;
        if style.terminal && !style.force_raw && style.format != Format::Raw {
            let view = escape::bytes_view(bytes);
            self.out.text(&view)?;
        } else {
            self.out.raw_body(bytes)?;
        }
        self.out.flush()
    }

    fn complete(&mut self, number: u64) -> Result<(), CliError> {
        let open = self.jobs.remove(&number).unwrap_or_default();
        if self.is(Format::Ndjson) {
            return Ok(());
        }
        if self.is_document() {
            self.kept.push(outcome(number, &open, "complete", true).with_body(open.data));
            return Ok(());
        }
        if !self.streams {
            self.write(&open.data)?;
        }
        if self.null {
            self.out.text("\0")?;
        }
        self.out.flush()
    }

    fn failed(
        &mut self,
        number: u64,
        how: &'static str,
        text: Option<&[u8]>,
    ) -> Result<Step, CliError> {
        self.end_progress();
        self.event(number, how, |record| match text {
            Some(text) => record.with_body(text.to_vec()),
            None => record,
        })?;
        let open = self.jobs.remove(&number).unwrap_or_default();
        let said = text.map(|text| String::from_utf8_lossy(text).trim_end().to_owned());
        if self.is_document() {
            let record = outcome(number, &open, how, false).with("exception", said.as_deref());
            self.kept.push(record.with_body(open.data));
        } else if !self.streams && !open.data.is_empty() && !self.is(Format::Ndjson) {
            self.write(&open.data)?;
        }
        let handle = open.handle;
        Ok(Step::Failed(match said {
            Some(said) => CliError::new(
                Exit::Negative,
                "JOB_EXCEPTION",
                format!("the job {handle} failed: {said}"),
            ),
            None => CliError::new(Exit::Negative, "JOB_FAILED", format!("the job {handle} failed")),
        }))
    }

    fn show(&mut self, share: &Share) {
        let Some(done) = share.numerator() else { return };
        let progress = self
            .progress
            .get_or_insert_with(|| Progress::start(self.when, &self.messages, "job", None));
        progress.set(done, share.denominator().filter(|whole| *whole > 0));
    }

    fn end_progress(&mut self) {
        self.progress = None;
    }

    /// Writes what waited for the end.
    fn finish(mut self, single: bool) -> Result<(), CliError> {
        if self.is_document() {
            self.kept.sort_by_key(|record| match record.get("n") {
                Some(ctl_core::output::Field::Value(n)) => n.as_u64(),
                _ => None,
            });
            let kept = std::mem::take(&mut self.kept);
            if single {
                for record in kept {
                    self.out.object(&RESULTS, record)?;
                }
            } else {
                let mut list = self.out.list(&RESULTS)?;
                for record in kept {
                    list.push(record)?;
                }
                list.finish()?;
            }
        }
        self.out.flush()
    }
}

fn outcome(number: u64, open: &Open, outcome: &'static str, ok: bool) -> Record {
    Record::new()
        .with("n", number)
        .with("handle", open.handle.as_str())
        .with("unique", open.unique.as_deref())
        .with("ok", ok)
        .with("outcome", outcome)
}
