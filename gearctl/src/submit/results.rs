//! Results of foreground jobs on their way to stdout.

use std::collections::{HashMap, HashSet};

use clap::Args;
use ctl_core::error::{CliError, Exit};
use ctl_core::output::messages::Messages;
use ctl_core::output::progress::Progress;
use ctl_core::output::{self, Column, Format, Output, Record};
use ctl_core::text::{escape, units};
use gearman_client::{JobEvent, JobHandle, Progress as Share, UniqueId};

use crate::names::{show_handle_of, show_unique};
use crate::submit::pool::{News, What};

static RESULTS: output::Shape = output::Shape::rows(
    "handle",
    &[
        Column::new("n", "N"),
        Column::new("handle", "HANDLE"),
        Column::new("unique", "UNIQUE"),
        Column::new("outcome", "OUTCOME"),
        Column::new("body", "BODY"),
    ],
);

/// How the jobs of a command are shown.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// There is exactly one.
    pub single: bool,
    /// Data goes out as it arrives, because there is one job at a time.
    pub streams: bool,
    /// A NUL follows each result.
    pub null: bool,
    /// There are several servers, so that a handle needs its server.
    pub several: bool,
    /// Memory limits: for one result, and for all that are kept until the end.
    pub most: usize,
}

/// How results are written.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct ResultArgs {
    /// Print results in the order of the jobs
    #[arg(long)]
    pub(crate) ordered: bool,

    /// Memory limit for buffered results: for a single result that is not streamed, and for all results waiting for
    /// their turn or the end
    #[arg(hide_short_help = true, long, value_name = "SIZE", default_value = "256MiB", value_parser = units::size)]
    max_result: u64,
}

impl ResultArgs {
    /// The memory limit in bytes.
    pub(crate) fn most(&self) -> usize {
        usize::try_from(self.max_result).unwrap_or(usize::MAX)
    }

    /// Number of bytes that are kept for their turn, if order matters.
    pub(crate) fn kept_in_order(&self) -> Option<usize> {
        self.ordered.then(|| self.most())
    }
}

/// The error for a result that is not kept.
fn too_large(what: &str, most: usize) -> CliError {
    let most = units::show_size(u64::try_from(most).unwrap_or(u64::MAX));
    let text = format!("{what} --max-result ({most})");
    CliError::new(Exit::BadData, "RESULT_TOO_LARGE", text)
}

/// How a job has ended; none if it goes on.
pub(crate) type End = Option<Result<(), CliError>>;

/// A job that has not ended.
#[derive(Default)]
pub(crate) struct Open {
    pub(crate) handle: String,
    unique: Option<String>,
    pub(crate) data: Vec<u8>,
}

/// The state of incomplete results.
#[derive(Default)]
pub(crate) struct Results {
    jobs: HashMap<u64, Open>,
    /// Jobs whose result is too large: the rest of it is discarded.
    given_up: HashSet<u64>,
    /// Records of documents that are written at the end, and the size of their results in bytes.
    kept: Vec<Record>,
    kept_bytes: usize,
}

impl Results {
    /// Whether this is about a job whose result is discarded.
    pub(crate) fn is_given_up(&mut self, news: &News) -> bool {
        match news.is_last() {
            true => self.given_up.remove(&news.job),
            false => self.given_up.contains(&news.job),
        }
    }

    /// The server has accepted a job.
    pub(crate) fn begin(
        &mut self,
        number: u64,
        handle: &JobHandle,
        unique: Option<&UniqueId>,
        is_several: bool,
    ) {
        let handle = show_handle_of(handle, is_several);
        let unique = unique.map(show_unique);
        self.jobs.insert(number, Open { handle, unique, data: Vec::new() });
    }

    /// A job has ended.
    pub(crate) fn end(&mut self, number: u64) -> Open {
        self.jobs.remove(&number).unwrap_or_default()
    }

    /// A job has ended, or its result is not wanted any more: if it goes on, the rest of that is discarded.
    pub(crate) fn give_up(&mut self, number: u64, has_ended: bool) -> Open {
        if !has_ended {
            self.given_up.insert(number);
        }
        self.end(number)
    }

    /// Adds to a result. Returns the reason if it becomes too large to keep.
    pub(crate) fn add(&mut self, number: u64, bytes: &[u8], most: usize) -> Option<CliError> {
        let open = self.jobs.entry(number).or_default();
        if bytes.len() > most.saturating_sub(open.data.len()) {
            open.data = Vec::new();
            let error = too_large(&format!("the result of the job {} exceeds", open.handle), most);
            let error = error.hint("a larger --max-result");
            return Some(error.hint("gearctl run -o raw without -j, to stream data as it arrives"));
        }
        open.data.extend_from_slice(bytes);
        None
    }

    /// The error for a job that failed, with what its worker said.
    pub(crate) fn failed(&self, number: u64, said: Option<&[u8]>) -> CliError {
        let handle = self.jobs.get(&number).map_or("", |open| &open.handle);
        let (code, why) = match said {
            Some(said) => ("JOB_EXCEPTION", format!(": {}", text(said))),
            None => ("JOB_FAILED", String::new()),
        };
        CliError::new(Exit::Negative, code, format!("the job {handle} failed{why}"))
    }

    /// Counts a result that is kept until the end. Returns the reason if there is no room for it.
    pub(crate) fn count(&mut self, open: &mut Open, most: usize) -> Option<CliError> {
        if open.data.len() > most.saturating_sub(self.kept_bytes) {
            open.data = Vec::new();
            let name = &open.handle;
            let what = format!("with the result of the job {name}, the buffered results exceed");
            let error =
                too_large(&what, most).hint("-o ndjson, to write each result as it arrives");
            return Some(error.hint("a larger --max-result"));
        }
        self.kept_bytes += open.data.len();
        None
    }
}

fn text(said: &[u8]) -> String {
    String::from_utf8_lossy(said).trim_end().to_owned()
}

/// Writes results to stdout.
pub(crate) struct View<'a> {
    out: &'a mut Output,
    messages: Messages,
    /// The state of incomplete results.
    pub(crate) results: Results,
    progress: Option<Progress>,
    shape: Shape,
}

impl<'a> View<'a> {
    /// Results go to `out`, warnings to `messages`.
    pub(crate) fn new(out: &'a mut Output, messages: Messages, shape: Shape) -> Self {
        Self { out, messages, results: Results::default(), progress: None, shape }
    }

    /// Shows an event.
    ///
    /// # Errors
    /// Write failures.
    pub(crate) fn take(&mut self, news: News) -> Result<End, CliError> {
        let number = news.job;
        if self.results.is_given_up(&news) {
            return Ok(None);
        }
        match news.what {
            What::Taken(handle, unique, _) => {
                self.results.begin(number, &handle, unique.as_ref(), self.shape.several);
                self.event(number, "created", |record| record)?;
            }
            What::Error(error) => {
                self.progress = None;
                self.results.jobs.remove(&number);
                return Ok(Some(Err(error)));
            }
            What::Event(event) => return self.job_event(number, event),
        }
        Ok(None)
    }

    fn job_event(&mut self, number: u64, event: JobEvent) -> Result<End, CliError> {
        match event {
            JobEvent::Data(bytes) => return self.data(number, &bytes, false),
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
                self.progress = None;
                return self.data(number, &bytes, true);
            }
            JobEvent::Fail => return self.failed(number, "fail", None),
            JobEvent::Exception(bytes) => return self.failed(number, "exception", Some(&bytes)),
            _ => {}
        }
        Ok(None)
    }

    fn is(&self, format: Format) -> bool {
        self.out.style.format == format
    }

    fn is_document(&self) -> bool {
        self.out.style.format.has_records() && !self.is(Format::Ndjson)
    }

    /// One event as a record, under `-o ndjson`.
    fn event(
        &mut self,
        number: u64,
        name: &'static str,
        fill: impl FnOnce(Record) -> Record,
    ) -> Result<(), CliError> {
        static EVENT: output::Shape =
            output::Shape::rows("event", &[Column::new("event", "EVENT")]);
        if !self.is(Format::Ndjson) {
            return Ok(());
        }
        let mut record = Record::new().with("event", name).with("n", number);
        if let Some(open) = self.results.jobs.get(&number) {
            record = record.with("handle", open.handle.as_str());
            if name == "created" {
                record = record.with("unique", open.unique.as_deref());
            }
        }
        self.out.object(&EVENT, fill(record))
    }

    /// Writes or keeps a piece of a result. A piece that cannot be kept ends the job, as the last one does.
    fn data(&mut self, number: u64, bytes: &[u8], is_last: bool) -> Result<End, CliError> {
        if self.is(Format::Ndjson) {
            let name = if is_last { "complete" } else { "data" };
            self.event(number, name, |record| record.with_body(bytes))?;
        } else if self.shape.streams && !self.is_document() {
            self.write(bytes)?;
        } else if let Some(error) = self.results.add(number, bytes, self.shape.most) {
            self.progress = None;
            self.results.give_up(number, is_last);
            return Ok(Some(Err(error)));
        }
        if is_last { self.complete(number) } else { Ok(None) }
    }

    /// Keeps the record of a job for the end. Returns the reason if it cannot be kept.
    fn keep(&mut self, record: Record, mut open: Open) -> Option<CliError> {
        let refused = self.results.count(&mut open, self.shape.most);
        if refused.is_none() {
            self.results.kept.push(record.with_body(open.data));
        }
        refused
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        let encoded = self.out.style.encoding().text(bytes)?;
        let end = if self.shape.null { "" } else { "\n" };
        let encoded = encoded.map(|text| text + end);
        let bytes = encoded.as_ref().map_or(bytes, |text| text.as_bytes());
        if self.out.style.terminal {
            self.progress = None;
        }
        let style = &self.out.style;
        if style.terminal && style.format != Format::Raw {
            let view = escape::bytes_view(bytes);
            self.out.text(&view)?;
        } else {
            self.out.raw_bytes(bytes)?;
        }
        self.out.flush()
    }

    fn complete(&mut self, number: u64) -> Result<End, CliError> {
        let open = self.results.end(number);
        if self.is(Format::Ndjson) {
            return Ok(Some(Ok(())));
        }
        if self.is_document() {
            let record = outcome(number, &open, "complete", true);
            return Ok(Some(self.keep(record, open).map_or(Ok(()), Err)));
        }
        if !self.shape.streams {
            self.write(&open.data)?;
        }
        if self.shape.null {
            self.out.text("\0")?;
        }
        self.out.flush()?;
        Ok(Some(Ok(())))
    }

    fn failed(
        &mut self,
        number: u64,
        how: &'static str,
        said: Option<&[u8]>,
    ) -> Result<End, CliError> {
        self.progress = None;
        self.event(number, how, |record| match said {
            Some(said) => record.with_body(said.to_vec()),
            None => record,
        })?;
        let error = self.results.failed(number, said);
        let open = self.results.end(number);
        if self.is_document() {
            let record = outcome(number, &open, how, false).with("exception", said.map(text));
            if let Some(error) = self.keep(record, open) {
                return Ok(Some(Err(error)));
            }
        } else if !self.is(Format::Ndjson) && !open.data.is_empty() {
            self.write(&open.data)?;
        }
        Ok(Some(Err(error)))
    }

    fn show(&mut self, share: &Share) {
        let Some(done) = share.numerator() else { return };
        let progress =
            self.progress.get_or_insert_with(|| Progress::start(&self.messages, "job", None));
        progress.set(done, share.denominator().filter(|whole| *whole > 0));
    }

    /// Writes what was kept for the end.
    ///
    /// # Errors
    /// Write failures.
    pub(crate) fn finish(mut self) -> Result<(), CliError> {
        if self.is_document() {
            self.results.kept.sort_by_key(|record| match record.get("n") {
                Some(ctl_core::output::Field::Value(n)) => n.as_u64(),
                _ => None,
            });
            let mut kept = std::mem::take(&mut self.results.kept).into_iter();
            match self.shape.single {
                true => kept.try_for_each(|record| self.out.object(&RESULTS, record))?,
                false => self.out.list(&RESULTS)?.all(kept)?,
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
