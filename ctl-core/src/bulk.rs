//! The engine of bulk commands: counting, stopping, progress, the report, the exit code.
//!
//! The command plans, asks, sends its requests, and reports the outcome of each to the engine.

mod gate;
mod manner;
mod rate;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use queue_core::lock;
use serde_json::json;

use crate::error::{CliError, Exit};
use crate::output::messages::Messages;
use crate::output::progress::{Meter, Progress};
use crate::output::{List, Output, Record};
use crate::system::signals::Interrupts;
use crate::text::units;

pub use self::gate::Gate;
pub use self::manner::{BulkArgs, ItemArgs, Manner, OnError};
pub use self::rate::Rate;

/// The action of the command, for sentences: "deleted 3 jobs from tube mail".
#[derive(Debug, Clone)]
pub struct Action {
    /// Past tense, such as `deleted`.
    pub past: &'static str,
    /// A single item, such as `job`.
    pub noun: &'static str,
    /// The rest of the sentence, such as `from tube mail`; may be empty.
    pub place: String,
}

/// Maximum number of failures listed in the report; later ones are only counted.
const LISTED: usize = 10;

/// A running bulk command.
pub struct Bulk {
    action: Action,
    on_error: OnError,
    /// The expected number of items.
    total: Option<u64>,
    gate: Gate,
    progress: Arc<Mutex<Progress>>,
    messages: Messages,
    started: Instant,
    succeeded: u64,
    failed: u64,
    skipped: u64,
    /// Sent, but not answered.
    unknown: u64,
    /// Read, but not sent.
    not_sent: u64,
    failures: Vec<Failure>,
    /// Why nothing more can be sent.
    broken: Option<CliError>,
}

/// A failed item and its error.
struct Failure {
    item: String,
    error: CliError,
    is_shown: bool,
}

impl Bulk {
    /// Starts counting; `total` is the expected number, for the progress.
    #[must_use]
    pub fn start(
        action: Action,
        manner: impl Into<Manner>,
        total: Option<u64>,
        interrupts: Interrupts,
        messages: &Messages,
    ) -> Self {
        let manner = manner.into();
        let label = format!("{} {}s", action.past, action.noun);
        let progress = Progress::start(messages, label, total);
        let progress = Arc::new(Mutex::new(progress));
        Self {
            action,
            on_error: manner.on_error,
            total,
            gate: Gate::new(manner, interrupts, &progress),
            progress,
            messages: messages.clone(),
            started: Instant::now(),
            succeeded: 0,
            failed: 0,
            skipped: 0,
            unknown: 0,
            not_sent: 0,
            failures: Vec::new(),
            broken: None,
        }
    }

    /// Counts the search for the items, which took this long, as part of the work.
    #[must_use]
    pub fn including(self, search: Duration) -> Self {
        let started = self.started.checked_sub(search).unwrap_or(self.started);
        Self { started, ..self }
    }

    /// A gate for lazy pipelines.
    #[must_use]
    pub fn gate(&self) -> Gate {
        self.gate.clone()
    }

    /// The number of successes so far.
    pub fn succeeded(&self) -> u64 {
        self.succeeded
    }

    /// Counts a success.
    pub fn success(&mut self) {
        self.successes(1);
    }

    /// Counts many successes at once; the number may come from a server.
    pub fn successes(&mut self, count: u64) {
        self.succeeded = self.succeeded.saturating_add(count);
        self.show_failures();
        self.progress().advance_by(count);
    }

    /// Takes back successes that the server never confirmed: what became of them is unknown.
    pub fn doubt(&mut self, count: u64) {
        let count = count.min(self.succeeded);
        self.succeeded -= count;
        self.unknown += count;
    }

    /// Counts an item that no longer exists, or must not be changed.
    pub fn skip(&mut self) {
        self.skipped += 1;
        self.progress().advance();
    }

    /// Counts a failure of `item`.
    ///
    /// # Errors
    /// The connection itself failed, so nothing more can be done: [`Bulk::abort`] reports the completed work.
    pub fn failure(&mut self, item: impl Into<String>, error: CliError) -> Result<(), CliError> {
        match error.is_unknown() {
            true => self.unknown += 1,
            false => self.failed += 1,
        }
        self.progress().advance();
        if self.on_error == OnError::Stop {
            self.gate.close();
        }
        if error.ends_everything() {
            self.gate.close();
            return Err(error);
        }
        let item = item.into();
        if self.failures.len() < LISTED {
            self.failures.push(Failure { item, error, is_shown: false });
        }
        self.show_failures();
        Ok(())
    }

    /// Counts the outcome of `item`.
    ///
    /// # Errors
    /// As [`Bulk::failure`].
    pub fn count(
        &mut self,
        item: impl Into<String>,
        outcome: Result<(), CliError>,
    ) -> Result<(), CliError> {
        match outcome {
            Ok(()) => {
                self.success();
                Ok(())
            }
            Err(error) => self.failure(item, error),
        }
    }

    /// Counts a failed item that was sent, or was to be sent. Unlike [`Bulk::failure`] it continues after a connection
    /// failure, so that all items that were read are counted by their possible fate; [`Bulk::finish`] returns the first
    /// error with these numbers.
    pub fn unsent(&mut self, item: impl Into<String>, error: CliError) {
        if !error.ends_everything() {
            // Only a failure that ends everything is an error here.
            let _ = self.failure(item, error);
            return;
        }
        let is_unknown = error.is_unknown();
        match is_unknown {
            true => self.unknown += 1,
            false => self.not_sent += 1,
        }
        self.progress().advance();
        self.gate.close();
        // An unknown outcome is worse than a failure.
        if self.broken.as_ref().is_none_or(|first| is_unknown && !first.is_unknown()) {
            self.broken = Some(error);
        }
    }

    /// Whether nothing more can be sent.
    pub fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// The first failure is shown only after a success: otherwise it is the command's error.
    fn show_failures(&mut self) {
        self.show_failures_from(usize::from(self.succeeded == 0));
    }

    fn show_failures_from(&mut self, first: usize) {
        let unseen = self.failures.iter_mut().skip(first).filter(|failure| !failure.is_shown);
        for Failure { item, error, is_shown } in unseen {
            let CliError { code, message, .. } = error;
            self.messages.warn(format!("{}{code}: {message}", place(item, message)));
            *is_shown = true;
        }
    }

    /// Bases the progress on this file, if its size is known.
    pub fn measure(&mut self, meter: Option<Meter>) {
        self.progress().measure(meter);
    }

    /// Results that arrive one by one on a terminal are their own progress.
    pub fn beside(&mut self, list: &List<'_>) {
        if list.streams() && list.is_on_terminal() {
            self.hide();
        }
    }

    /// Shows the progress even though nothing has happened: the command waits.
    pub fn see(&mut self) {
        self.progress().advance_by(0);
    }

    /// Hides the progress.
    pub fn hide(&mut self) {
        let hidden = Progress::start(&self.messages.without_progress(), "", None);
        *self.progress() = hidden;
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        lock(&self.progress)
    }

    /// Continues to the end, unless the work itself failed.
    ///
    /// # Errors
    /// That failure, reported by [`Bulk::abort`].
    pub fn after(self, work: Result<(), CliError>) -> Result<Self, CliError> {
        match work {
            Ok(()) => Ok(self),
            Err(error) => Err(self.abort(error)),
        }
    }

    /// The command cannot continue: reports the completed work and returns the error. For a single item that was not
    /// done the error is sufficient.
    #[must_use]
    pub fn abort(mut self, mut error: CliError) -> CliError {
        if let Some(broken) = self.broken.take() {
            return self.tell_fates(broken);
        }
        self.progress().finish();
        self.show_failures_from(0);
        let is_done = self.succeeded > 0;
        if is_done || !self.is_single() {
            self.messages.note(format!("before that: {}", self.sentence()));
        }
        if is_done {
            error.counts = self.counts().into();
        }
        error
    }

    /// The error with the fates of all items, in its last line.
    fn tell_fates(mut self, mut error: CliError) -> CliError {
        self.progress().finish();
        self.show_failures_from(0);
        if let Some(total) = self.total {
            self.not_sent = total.saturating_sub(self.attempted());
        }
        if !self.is_single() {
            error.message = format!("{}; before that: {}", error.message, self.sentence());
        }
        error.counts = self.counts().into();
        error
    }

    /// For the error object.
    fn counts(&self) -> [(&'static str, u64); 5] {
        [
            ("succeeded", self.succeeded),
            ("failed", self.failed),
            ("skipped", self.skipped),
            ("unknown", self.unknown),
            ("not_sent", self.not_sent),
        ]
    }

    /// Whether there is at most one item, as far as known.
    fn is_single(&self) -> bool {
        match self.total {
            Some(total) => total <= 1,
            None => self.attempted() + self.not_sent <= 1,
        }
    }

    /// The number of items with an outcome.
    fn attempted(&self) -> u64 {
        self.succeeded.saturating_add(self.failed + self.skipped + self.unknown)
    }

    /// Reports, and returns the exit code: 0, 3 for partial success, 4 for unknown fates, 130 or 143 after a signal. If
    /// everything failed, the first failure is the result.
    ///
    /// # Errors
    /// The first failure if nothing succeeded; a failure passed to [`Bulk::unsent`] that ended everything; failures of
    /// writing the report.
    pub fn finish(self, out: &mut Output) -> Result<Exit, CliError> {
        let messages = self.messages.clone();
        let is_interrupted = self.gate.signal().is_some();
        let (exit, report, sentence) = self.conclude()?;
        let has_records = out.style.format.has_records();
        let is_shown = has_records || out.style.format.is_for_people();
        // The reader of a script's output needs words; so does a user who pressed Ctrl-C, where stdout has figures.
        if !is_shown || (is_interrupted && has_records) {
            messages.note(&sentence);
        }
        if is_shown {
            out.done_with(&report, &[], &sentence)?;
        }
        Ok(exit)
    }

    /// Ends a command whose results went to a file or to stdout: as [`Bulk::finish`] or [`Bulk::finish_quietly`].
    ///
    /// # Errors
    /// As for those.
    pub fn finish_beside(self, file: Option<&Output>, out: &mut Output) -> Result<Exit, CliError> {
        if file.is_some() { self.finish(out) } else { self.finish_quietly() }
    }

    /// Ends a read-only command: its results went to stdout, and it needs no summary.
    ///
    /// # Errors
    /// The first failure when nothing succeeded.
    pub fn finish_silently(self) -> Result<Exit, CliError> {
        self.conclude().map(|(exit, _, _)| exit)
    }

    /// Ends without a report on stdout, for commands whose results went there; the summary is a note.
    ///
    /// # Errors
    /// The first failure when nothing succeeded.
    pub fn finish_quietly(self) -> Result<Exit, CliError> {
        let tell = self.attempted() > 1;
        self.finish_noted(tell)
    }

    fn finish_noted(self, tell: bool) -> Result<Exit, CliError> {
        let messages = self.messages.clone();
        let (exit, _, sentence) = self.conclude()?;
        if tell || !exit.is_done() {
            messages.note(sentence);
        }
        Ok(exit)
    }

    /// As [`Bulk::finish_quietly`], after the work and the list of what it has done, if there is anything in it. Without
    /// any item, the list does not show that this is the end.
    ///
    /// # Errors
    /// The first failure when nothing succeeded; the failure of the work or of writing the list, reported by
    /// [`Bulk::abort`].
    pub fn finish_list(self, work: Result<(), CliError>, list: List<'_>) -> Result<Exit, CliError> {
        let (is_empty, tell) = (self.attempted() == 0 && !self.is_broken(), self.attempted() != 1);
        let is_listed = is_empty || self.succeeded > 0;
        let listed = work.and_then(|()| if is_listed { list.finish() } else { Ok(()) });
        self.after(listed)?.finish_noted(tell)
    }

    fn conclude(mut self) -> Result<(Exit, Record, String), CliError> {
        if let Some(error) = self.broken.take() {
            return Err(self.tell_fates(error));
        }
        self.progress().finish();
        let signal = self.gate.signal();
        let listed = u64::try_from(self.failures.len()).unwrap_or(u64::MAX);
        if self.failed > listed {
            let more = units::count(self.failed - listed, "more failure");
            self.messages.warn(format!("and {more}"));
        }
        if self.succeeded == 0 && signal.is_none() && !self.failures.is_empty() {
            let Failure { item, error, .. } = self.failures.swap_remove(0);
            let more = match self.failed {
                0 | 1 => String::new(),
                failed => format!(" (and {} more)", failed - 1),
            };
            let message = format!("{}{}{more}", place(&item, &error.message), error.message);
            return Err(CliError { message, ..error });
        }
        self.show_failures_from(0);
        let exit = match signal {
            Some(exit) => exit,
            None if self.unknown > 0 => Exit::Unknown,
            None if self.failed > 0 => Exit::Partial,
            None => Exit::Done,
        };
        let report = self.report();
        let mut sentence = self.sentence();
        if signal.is_some() {
            sentence = format!("interrupted: {sentence}");
        }
        Ok((exit, report, sentence))
    }

    fn report(&self) -> Record {
        let failures: Vec<_> = self
            .failures
            .iter()
            .map(
                |Failure { item, error, .. }| json!({"item": item, "code": error.code, "message": error.message}),
            )
            .collect();
        let mut report = Record::new()
            .with("action", self.action.past)
            .with("attempted", self.attempted())
            .with("succeeded", self.succeeded)
            .with("failed", self.failed)
            .with("skipped", self.skipped)
            .with("duration_ms", units::whole_milliseconds(self.started.elapsed()))
            .with("failures", failures);
        if self.unknown > 0 {
            report = report.with("unknown", self.unknown);
        }
        report
    }

    fn sentence(&self) -> String {
        let Action { past, noun, place } = &self.action;
        let mut text = format!("{past} {}", units::count(self.succeeded, noun));
        if !place.is_empty() {
            text.push_str(&format!(" {place}"));
        }
        let not_sent = match self.total {
            Some(_) => "not sent",
            None => "read but not sent",
        };
        for (number, what) in [
            (self.failed, "failed"),
            (self.skipped, "skipped"),
            (self.unknown, "of unknown fate"),
            (self.not_sent, not_sent),
        ] {
            if number > 0 {
                text.push_str(&format!(", {number} {what}"));
            }
        }
        let took = units::whole_milliseconds(self.started.elapsed()).max(1);
        text.push_str(&format!(" in {}", units::show_duration(Duration::from_millis(took))));
        text
    }
}

/// What precedes a message about an item, unless it names the item.
fn place(item: &str, message: &str) -> String {
    if message.contains(item) { String::new() } else { format!("{item}: ") }
}

#[cfg(test)]
mod tests;
