//! The engine of commands that act on many things: counting, stopping, progress, the report, the exit code.
//!
//! The command plans, asks, and sends its requests; the engine is told how each one went.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use serde_json::json;

use crate::args::ProgressWhen;
use crate::error::{CliError, Exit};
use crate::input::Meter;
use crate::messages::Messages;
use crate::output::{Format, List, Output, Record};
use crate::progress::Progress;
use crate::signals::Interrupts;
use crate::units;

/// Flags of bulk commands.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Bulk options")]
pub struct BulkArgs {
    /// Process at most N items
    #[arg(long, value_name = "N")]
    pub limit: Option<u64>,

    /// What to do when an item fails
    #[arg(long, value_name = "WHAT", default_value = "continue")]
    pub on_error: OnError,

    /// Requests under way at once
    #[arg(long, value_name = "N", default_value_t = 100,
          value_parser = clap::value_parser!(u16).range(1..=500))]
    pub batch: u16,
}

impl BulkArgs {
    /// `--batch` as a count.
    #[must_use]
    pub fn window(&self) -> usize {
        usize::from(self.batch)
    }
}

/// The value of `--on-error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnError {
    /// Take no new work after the first failure.
    Stop,
    /// Go on, and report at the end.
    Continue,
}

/// What the command does, for sentences: "deleted 3 jobs from tube mail".
#[derive(Debug, Clone)]
pub struct Action {
    /// Past tense, such as `deleted`.
    pub past: &'static str,
    /// One of what, such as `job`.
    pub noun: &'static str,
    /// The rest of the sentence, such as `from tube mail`; may be empty.
    pub place: String,
}

/// Failures that the report lists; later ones are only counted.
const LISTED: usize = 10;

/// A running bulk command.
pub struct Bulk {
    action: Action,
    on_error: OnError,
    /// What a look at the start said.
    total: Option<u64>,
    gate: Gate,
    progress: Progress,
    messages: Messages,
    started: Instant,
    succeeded: u64,
    failed: u64,
    skipped: u64,
    /// Sent, and never answered.
    unknown: u64,
    /// Read, and not sent.
    not_sent: u64,
    failures: Vec<Failure>,
    /// Why nothing more can be sent.
    broken: Option<CliError>,
}

/// What did not succeed, and why.
struct Failure {
    item: String,
    error: CliError,
    is_shown: bool,
}

/// Whether new work may be taken; closes with a signal or, under `--on-error stop`, with a failure.
#[derive(Clone)]
pub struct Gate {
    closed: Arc<AtomicBool>,
    /// A failure closes it.
    stops: bool,
    interrupts: Interrupts,
}

impl Gate {
    /// Whether new work may be taken.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.closed.load(Ordering::SeqCst) && self.interrupts.requested().is_none()
    }

    /// Takes no new work from now on, when a failure is to stop the command: for those who see it first.
    pub fn failed(&self) {
        if self.stops {
            self.close();
        }
    }

    /// Takes no new work from now on.
    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
    }
}

impl Bulk {
    /// Starts counting; `total` is what a look at the start says, for the progress.
    #[must_use]
    pub fn start(
        action: Action,
        on_error: OnError,
        total: Option<u64>,
        progress: ProgressWhen,
        interrupts: Interrupts,
        messages: &Messages,
    ) -> Self {
        let label = format!("{} {}s", action.past, action.noun);
        Self {
            action,
            on_error,
            total,
            gate: Gate { closed: Arc::default(), stops: on_error == OnError::Stop, interrupts },
            progress: Progress::start(progress, messages, label, total),
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

    /// Whether new work may be taken, for lazy pipelines.
    #[must_use]
    pub fn gate(&self) -> Gate {
        self.gate.clone()
    }

    /// How many succeeded so far.
    #[must_use]
    pub fn succeeded(&self) -> u64 {
        self.succeeded
    }

    /// One was done.
    pub fn success(&mut self) {
        self.successes(1);
    }

    /// So many were done at once; a server may name any number.
    pub fn successes(&mut self, count: u64) {
        self.succeeded = self.succeeded.saturating_add(count);
        self.show_failures();
        self.progress.advance_by(count);
    }

    /// One was not there any more, or not to be touched.
    pub fn skip(&mut self) {
        self.skipped += 1;
        self.progress.advance();
    }

    /// One failed; `item` names it.
    ///
    /// # Errors
    /// The connection itself failed, so nothing more can be done: [`Bulk::abort`] reports what was done.
    pub fn failure(&mut self, item: impl Into<String>, error: CliError) -> Result<(), CliError> {
        self.failed += 1;
        self.progress.advance();
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

    /// One was tried: it was done, or it failed; `item` names it.
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

    /// One that was sent, or was to be, failed. Unlike [`Bulk::failure`] this goes on when the connection itself has failed, so
    /// that all that were read are told of: they are counted by what may have become of them, and [`Bulk::finish`] gives the
    /// first error with these numbers.
    pub fn unsent(&mut self, item: impl Into<String>, error: CliError) {
        if !error.ends_everything() {
            // Only what ends everything is an error here.
            let _ = self.failure(item, error);
            return;
        }
        match error.is_unknown {
            true => self.unknown += 1,
            false => self.not_sent += 1,
        }
        self.progress.advance();
        self.gate.close();
        self.broken.get_or_insert(error);
    }

    /// Whether nothing more can be sent.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.broken.is_some()
    }

    /// The first failure waits for a success: without one it is the command's error.
    fn show_failures(&mut self) {
        self.show_failures_from(usize::from(self.succeeded == 0));
    }

    fn show_failures_from(&mut self, first: usize) {
        let unseen = self.failures.iter_mut().skip(first).filter(|failure| !failure.is_shown);
        for Failure { item, error, is_shown } in unseen {
            let CliError { code, message, .. } = error;
            let item = if message.contains(&*item) { String::new() } else { format!("{item}: ") };
            self.messages.warn(format!("{item}{code}: {message}"));
            *is_shown = true;
        }
    }

    /// It goes through this file, if it is one whose size is known.
    pub fn measure(&mut self, meter: Option<Meter>) {
        self.progress.measure(meter);
    }

    /// Where the results come one by one on a terminal, they are the progress.
    pub fn beside(&mut self, list: &List<'_>) {
        if list.streams() && list.is_on_terminal() {
            self.hide();
        }
    }

    /// Shows no progress any more: nobody is looking.
    pub fn hide(&mut self) {
        self.progress = Progress::start(ProgressWhen::Never, &self.messages, "", None);
    }

    /// Goes on to the end, unless the work itself failed.
    ///
    /// # Errors
    /// That failure, told by [`Bulk::abort`].
    pub fn after(self, work: Result<(), CliError>) -> Result<Self, CliError> {
        match work {
            Ok(()) => Ok(self),
            Err(error) => Err(self.abort(error)),
        }
    }

    /// The command cannot go on: says what was done until then and gives the error back. Of a single one, the error
    /// says it all.
    #[must_use]
    pub fn abort(mut self, error: CliError) -> CliError {
        if let Some(broken) = self.broken.take() {
            return self.tell_fates(broken);
        }
        self.progress.finish();
        self.show_failures_from(0);
        if !self.is_single() {
            self.messages.note(format!("before that: {}", self.sentence()));
        }
        error
    }

    /// The error, which says itself what became of all of them: it is the last line.
    fn tell_fates(mut self, mut error: CliError) -> CliError {
        self.progress.finish();
        self.show_failures_from(0);
        if let Some(total) = self.total {
            self.not_sent = total.saturating_sub(self.attempted() + self.unknown);
        }
        if !self.is_single() {
            error.message = format!("{}; before that: {}", error.message, self.sentence());
        }
        error.counts = vec![
            ("succeeded", self.succeeded),
            ("failed", self.failed),
            ("skipped", self.skipped),
            ("unknown", self.unknown),
            ("not_sent", self.not_sent),
        ];
        error
    }

    /// Whether there is one item at most, as far as is known.
    fn is_single(&self) -> bool {
        match self.total {
            Some(total) => total <= 1,
            None => self.attempted() + self.unknown + self.not_sent <= 1,
        }
    }

    /// How many have an outcome.
    fn attempted(&self) -> u64 {
        self.succeeded.saturating_add(self.failed + self.skipped)
    }

    /// Reports, and gives the exit code: 0, 3 for partial success, 130 or 143 after a signal. When everything
    /// failed, the first failure is the result.
    ///
    /// # Errors
    /// The first failure when nothing succeeded; what [`Bulk::unsent`] was told that ended everything; failures of writing
    /// the report.
    pub fn finish(self, out: &mut Output) -> Result<Exit, CliError> {
        self.finish_with(out, |_| {})
    }

    /// As [`Bulk::finish`], with more fields in the report; `extend` adds them.
    ///
    /// # Errors
    /// As [`Bulk::finish`].
    pub fn finish_with(
        self,
        out: &mut Output,
        extend: impl FnOnce(&mut Record),
    ) -> Result<Exit, CliError> {
        let messages = self.messages.clone();
        let is_interrupted = self.gate.interrupts.requested().is_some();
        let (exit, report, sentence) = self.conclude(extend)?;
        // Where stdout has figures, a person who pressed Ctrl-C has words.
        if is_interrupted && !matches!(out.style.format, Format::Table | Format::Wide) {
            messages.note(&sentence);
        }
        out.done_with(&report, &["attempted", "succeeded", "failed", "skipped"], &sentence)?;
        Ok(exit)
    }

    /// Ends a command whose results went to a file, or to stdout: as [`Bulk::finish`] or [`Bulk::finish_quietly`].
    ///
    /// # Errors
    /// As these.
    pub fn finish_beside(self, file: Option<&Output>, out: &mut Output) -> Result<Exit, CliError> {
        if file.is_some() { self.finish(out) } else { self.finish_quietly() }
    }

    /// Ends a command that only looked: its results went to stdout, and what it did needs no words.
    ///
    /// # Errors
    /// The first failure when nothing succeeded.
    pub fn finish_silently(self) -> Result<Exit, CliError> {
        self.conclude(|_| {}).map(|(exit, _, _)| exit)
    }

    /// Ends without a report on stdout, for commands whose results went there; the summary is a note.
    ///
    /// # Errors
    /// The first failure when nothing succeeded.
    pub fn finish_quietly(self) -> Result<Exit, CliError> {
        let messages = self.messages.clone();
        let tell = self.attempted() > 1;
        let (exit, _, sentence) = self.conclude(|_| {})?;
        if tell || !exit.is_done() {
            messages.note(sentence);
        }
        Ok(exit)
    }

    fn conclude(
        mut self,
        extend: impl FnOnce(&mut Record),
    ) -> Result<(Exit, Record, String), CliError> {
        if let Some(error) = self.broken.take() {
            return Err(self.tell_fates(error));
        }
        self.progress.finish();
        let signal = self.gate.interrupts.requested();
        let listed = u64::try_from(self.failures.len()).unwrap_or(u64::MAX);
        if self.failed > listed {
            self.messages.warn(format!("and {} more failures", self.failed - listed));
        }
        if self.succeeded == 0 && signal.is_none() && !self.failures.is_empty() {
            let Failure { item, error, .. } = self.failures.swap_remove(0);
            let more = if self.failed > 1 {
                format!(" (and {} more)", self.failed - 1)
            } else {
                String::new()
            };
            let message = if error.message.contains(&item) {
                format!("{}{more}", error.message)
            } else {
                format!("{item}: {}{more}", error.message)
            };
            return Err(CliError { message, ..error });
        }
        self.show_failures_from(0);
        let exit = match signal {
            Some(exit) => exit,
            None if self.failed > 0 => Exit::Partial,
            None => Exit::Done,
        };
        let mut report = self.report();
        extend(&mut report);
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
        Record::new()
            .with("action", self.action.past)
            .with("attempted", self.attempted())
            .with("succeeded", self.succeeded)
            .with("failed", self.failed)
            .with("skipped", self.skipped)
            .with(
                "duration_ms",
                u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX),
            )
            .with("failures", failures)
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
        text.push_str(&format!(" in {}", units::show_duration(round(self.started.elapsed()))));
        text
    }
}

fn round(duration: Duration) -> Duration {
    Duration::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Style;
    use std::io::{self, Write};
    use std::sync::Mutex;

    #[derive(Clone, Default)]
    struct Sink(Arc<Mutex<Vec<u8>>>);

    impl Write for Sink {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn bulk(on_error: OnError, interrupts: Interrupts) -> Bulk {
        bulk_into(Sink::default(), on_error, interrupts)
    }

    fn bulk_into(sink: Sink, on_error: OnError, interrupts: Interrupts) -> Bulk {
        let action = Action { past: "deleted", noun: "job", place: String::new() };
        let messages = Messages::to(Box::new(sink), "tool", false, false);
        Bulk::start(action, on_error, None, ProgressWhen::Never, interrupts, &messages)
    }

    fn report(bulk: Bulk) -> (Result<Exit, CliError>, String) {
        let sink = Sink::default();
        let style = Style { format: Format::Json, ..Style::default() };
        let exit = bulk.finish(&mut Output::to(Box::new(sink.clone()), style));
        let bytes = sink.0.lock().unwrap().clone();
        (exit, String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn partial_success_is_3_and_lists_failures() {
        let mut bulk = bulk(OnError::Continue, Interrupts::none());
        bulk.success();
        bulk.failure("job 7", CliError::not_found("gone")).unwrap();
        bulk.skip();
        assert!(bulk.gate().is_open());
        let (exit, json) = report(bulk);
        assert_eq!(exit.unwrap().code(), 3);
        let value: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(value["attempted"], 3);
        assert_eq!(value["failures"][0]["item"], "job 7");
        assert_eq!(value["failures"][0]["code"], "NOT_FOUND");
    }

    #[test]
    fn when_everything_failed_the_first_failure_is_the_result() {
        let mut bulk = bulk(OnError::Continue, Interrupts::none());
        bulk.failure("job 7", CliError::not_found("gone")).unwrap();
        bulk.failure("job 8", CliError::not_found("gone")).unwrap();
        let (exit, json) = report(bulk);
        let error = exit.unwrap_err();
        assert_eq!((error.exit.code(), error.message.as_str()), (1, "job 7: gone (and 1 more)"));
        assert_eq!(json, "");
    }

    /// Three failures, then a success or none: what went to stderr, and the error.
    fn said(succeeds: bool) -> (String, Option<CliError>) {
        let sink = Sink::default();
        let mut bulk = bulk_into(sink.clone(), OnError::Continue, Interrupts::none());
        for n in 1..=3 {
            bulk.failure(format!("job {n}"), CliError::not_found("gone")).unwrap();
        }
        if succeeds {
            bulk.success();
        }
        let error = bulk.finish_quietly().err();
        let bytes = sink.0.lock().unwrap().clone();
        (String::from_utf8(bytes).unwrap(), error)
    }

    #[test]
    fn each_failure_is_told_once() {
        let (text, error) = said(true);
        assert!(error.is_none());
        for n in 1..=3 {
            assert_eq!(text.matches(&format!("job {n}:")).count(), 1, "{text}");
        }
        let (text, error) = said(false);
        assert_eq!(error.unwrap().message, "job 1: gone (and 2 more)");
        assert_eq!(text.matches("job 1:").count(), 0, "{text}");
        assert_eq!(text.matches("job 2:").count(), 1, "{text}");
    }

    #[test]
    fn on_error_stop_closes_the_gate() {
        let mut bulk = bulk(OnError::Stop, Interrupts::none());
        bulk.failure("job 7", CliError::not_found("gone")).unwrap();
        assert!(!bulk.gate().is_open());
    }

    #[test]
    fn a_lost_connection_ends_everything() {
        let mut bulk = bulk(OnError::Continue, Interrupts::none());
        assert!(bulk.failure("job 7", CliError::unavailable("lost")).is_err());
        assert!(!bulk.gate().is_open());
    }

    #[test]
    fn what_a_lost_connection_leaves_is_counted_by_its_fate() {
        for (total, left) in [(None, 3), (Some(9), 5)] {
            let mut bulk = bulk(OnError::Continue, Interrupts::none());
            bulk.total = total;
            bulk.success();
            bulk.unsent("job 2", CliError::not_found("gone"));
            assert!(bulk.gate().is_open());
            let lost = |is_unknown| CliError::unavailable("lost").unknown(is_unknown);
            bulk.unsent("job 3", lost(true));
            assert!(!bulk.gate().is_open());
            // What certainly was not sent went over the next connection.
            bulk.success();
            for job in 5..8 {
                bulk.unsent(format!("job {job}"), lost(false));
            }
            assert!(bulk.is_broken());
            let sentence = bulk.sentence();
            assert!(
                sentence.contains("deleted 2 jobs, 1 failed, 1 of unknown fate, 3 "),
                "{sentence}"
            );
            let (error, report) = report(bulk);
            let error: serde_json::Value =
                serde_json::from_str(&error.unwrap_err().to_json()).unwrap();
            let counts =
                json!({"succeeded": 2, "failed": 1, "skipped": 0, "unknown": 1, "not_sent": left});
            assert_eq!((&error["error"]["counts"], &error["error"]["exit"]), (&counts, &json!(69)));
            assert_eq!(report, "", "stdout is for those that did what they were to do");
        }
    }

    #[test]
    fn what_was_done_before_is_told_of_several_and_not_of_one() {
        for (total, succeeded, told) in
            [(Some(1), 0, None), (None, 0, None), (Some(2), 0, Some(0)), (None, 1, Some(1))]
        {
            let sink = Sink::default();
            let messages = Messages::to(Box::new(sink.clone()), "tool", false, false);
            let action = Action { past: "put", noun: "job", place: String::new() };
            let never = ProgressWhen::Never;
            let interrupts = Interrupts::none();
            let mut bulk =
                Bulk::start(action, OnError::Continue, total, never, interrupts, &messages);
            (0..succeeded).for_each(|_| bulk.success());
            let error = bulk.failure("job", CliError::unavailable("lost")).unwrap_err();
            let _ = bulk.abort(error);
            let said = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
            match told {
                None => assert_eq!(said, ""),
                Some(1) => assert!(said.contains("before that: put 1 job, 1 failed"), "{said}"),
                Some(_) => assert!(said.contains("before that: put 0 jobs, 1 failed"), "{said}"),
            }
        }
    }

    #[test]
    fn what_was_done_before_a_signal_is_told_where_stdout_has_figures() {
        for (format, told) in [(Format::Plain, true), (Format::Json, true), (Format::Table, false)]
        {
            let (sink, interrupts) = (Sink::default(), Interrupts::none());
            let mut bulk = bulk_into(sink.clone(), OnError::Continue, interrupts.clone());
            bulk.success();
            interrupts.raise();
            let style = Style { format, ..Style::default() };
            let exit = bulk.finish(&mut Output::to(Box::new(io::sink()), style)).unwrap();
            assert_eq!(exit.code(), 130);
            let said = String::from_utf8(sink.0.lock().unwrap().clone()).unwrap();
            assert_eq!(
                said.starts_with("interrupted: deleted 1 job in "),
                told,
                "{format:?}: {said}"
            );
        }
    }

    #[test]
    fn a_signal_closes_the_gate_and_decides_the_exit() {
        let interrupts = Interrupts::none();
        let mut bulk = bulk(OnError::Continue, interrupts.clone());
        bulk.success();
        interrupts.raise();
        assert!(!bulk.gate().is_open());
        let (exit, json) = report(bulk);
        assert_eq!(exit.unwrap().code(), 130);
        assert!(json.contains("\"succeeded\": 1"), "{json}");
    }
}
