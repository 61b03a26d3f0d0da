//! Jobs that leave a queue through the output. Each may be deleted only after its record is delivered.
//!
//! A file counts as delivered once it is synced to disk, so many jobs share one sync. Other destinations get one job at
//! a time: if the reader goes away, at most the last job it read is lost. Where the system does not report what a
//! reader has read (anything but a pipe on Linux), a job counts as read once it is written and the reader still exists.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use super::destination::Arrival;
use super::{List, Record};
use crate::error::CliError;
use crate::output::messages::Messages;
use crate::system::signals::Interrupts;
use crate::text::units;

/// Receives the jobs to delete, whose records are delivered. It is also called a few times a second without any, to
/// keep the other jobs from exceeding their time to run.
pub type Leave<'a, J> = &'a mut dyn FnMut(Vec<J>) -> Result<(), CliError>;

/// A list of jobs that are deleted once they are handed over. Only [`Handover::finish`] completes it.
pub struct Handover<'a, J> {
    list: List<'a>,
    interrupts: Interrupts,
    messages: Messages,
    /// Written, but not yet known to be delivered.
    under_way: Vec<(String, J)>,
    /// To be deleted.
    arrived: Vec<J>,
    /// Jobs whose use by the reader is uncertain, and where each ends in the output.
    unsure: VecDeque<(String, u64)>,
    /// The reader had to be waited for since the last batch.
    was_slow: bool,
    window: usize,
    /// When jobs were last passed on.
    given: Instant,
    patience: Duration,
    /// Whether the wait for a reader was reported to the user.
    has_told: bool,
}

/// A reader that takes longer than this is slow.
const SLOW: Duration = Duration::from_millis(50);
/// How long an existing reader may leave a job unread before a message is printed, and before the last job counts as
/// read: the reader may be waiting for this process to exit.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often to poll a reader before pausing longer between polls.
const EAGER_LOOKS: u32 = 100;
/// Maximum pause between polls.
const MAX_REST: Duration = Duration::from_millis(20);
/// Maximum number of jobs to delete together, and the maximum delay.
const TOGETHER: usize = 100;
const BETWEEN_LEAVES: Duration = Duration::from_millis(100);
/// The unread buffer of a terminal or socket: bytes, and names to remember.
const UNSEEN: (u64, usize) = (256 * 1024, 1000);
/// Maximum number of names in an error.
const NAMED: usize = 10;

impl<'a, J> Handover<'a, J> {
    /// Hands jobs over through this list.
    ///
    /// # Errors
    /// A format without the bodies: exit 2.
    pub fn new(
        list: List<'a>,
        interrupts: Interrupts,
        messages: &Messages,
    ) -> Result<Self, CliError> {
        let list = list.eager().whole()?;
        Ok(Self {
            list,
            interrupts,
            messages: messages.clone(),
            under_way: Vec::new(),
            arrived: Vec::new(),
            unsure: VecDeque::new(),
            was_slow: false,
            window: 1,
            given: Instant::now(),
            patience: PATIENCE,
            has_told: false,
        })
    }

    /// How many jobs to take from the queue at once, at most `most`: few for a slow reader, so that the others stay in
    /// the queue for other consumers.
    pub fn window(&mut self, most: usize) -> usize {
        if self.list.output().destination.is_disk() {
            return most;
        }
        let window = self.window.min(most);
        self.window = window.saturating_mul(2);
        window
    }

    /// Writes the record of the job that messages call `name`. Passes delivered jobs to `leave`, even on failure.
    ///
    /// # Errors
    /// Write failures, with the names of jobs that may not have been used; a signal; the error of `leave`.
    pub fn push(
        &mut self,
        record: Record,
        name: String,
        job: J,
        leave: Leave<'_, J>,
    ) -> Result<(), CliError> {
        let pushed = self.try_push(record, name, job, leave);
        self.end(pushed, self.arrived.len() >= TOGETHER, leave)
    }

    /// Waits until every job is delivered, and passes it to `leave`. For use before a longer wait for the next jobs.
    ///
    /// # Errors
    /// As [`Handover::push`].
    pub fn settle(&mut self, leave: Leave<'_, J>) -> Result<(), CliError> {
        let arrived = self.arrive(false, leave);
        if std::mem::take(&mut self.was_slow) {
            self.window = 1;
        }
        self.end(arrived, true, leave)
    }

    /// Ends the list, after passing all jobs to `leave`. The wait for a reader that does not read is bounded; then only
    /// the last job is unread.
    ///
    /// # Errors
    /// As [`Handover::push`].
    pub fn finish(&mut self, leave: Leave<'_, J>) -> Result<(), CliError> {
        let arrived = self.arrive(true, leave);
        self.end(arrived, true, leave)?;
        let finished = self.list.end().and_then(|()| match self.is_on_disk() {
            true => self.look().map(|_| ()),
            false => Ok(()),
        });
        self.end(finished, true, leave)
    }

    /// Writes the records of jobs, each with its name for messages, and waits until every job is delivered; ends the
    /// list after the last ones.
    ///
    /// # Errors
    /// As [`Handover::push`].
    pub fn take(
        &mut self,
        jobs: impl IntoIterator<Item = (Record, String, J)>,
        are_last: bool,
        leave: Leave<'_, J>,
    ) -> Result<(), CliError> {
        for (record, name, job) in jobs {
            self.push(record, name, job, leave)?;
        }
        if are_last { self.finish(leave) } else { self.settle(leave) }
    }

    fn try_push(
        &mut self,
        record: Record,
        name: String,
        job: J,
        leave: Leave<'_, J>,
    ) -> Result<(), CliError> {
        if !self.is_on_disk() {
            // The previous job must be delivered first.
            self.arrive(false, leave)?;
        }
        self.list.push(record)?;
        self.under_way.push((name, job));
        if self.is_on_disk() {
            return Ok(());
        }
        self.list.flush()?;
        if self.list.output().destination.shows_reading() {
            return Ok(());
        }
        self.arrive(false, leave)?;
        self.give(leave)
    }

    fn give(&mut self, leave: Leave<'_, J>) -> Result<(), CliError> {
        self.given = Instant::now();
        leave(std::mem::take(&mut self.arrived))
    }

    /// Whether jobs could exceed their time to run because nothing was passed on for too long.
    fn is_due(&self) -> bool {
        self.given.elapsed() >= BETWEEN_LEAVES
    }

    /// Passes on what is delivered, if it is time or this is the end, and completes an error.
    fn end(
        &mut self,
        outcome: Result<(), CliError>,
        now: bool,
        leave: Leave<'_, J>,
    ) -> Result<(), CliError> {
        let has_arrived = !self.arrived.is_empty() && (now || outcome.is_err());
        let is_due = outcome.is_ok() && self.is_due();
        let left = if has_arrived || is_due { self.give(leave) } else { Ok(()) };
        outcome.map_err(|error| self.with_names(error)).and(left)
    }

    /// Waits until all written records are delivered; the wait for the last jobs is bounded.
    fn arrive(&mut self, are_last: bool, leave: Leave<'_, J>) -> Result<(), CliError> {
        if self.under_way.is_empty() {
            return Ok(());
        }
        self.list.flush()?;
        let start = Instant::now();
        let mut looks = 0;
        while !self.look()? {
            if start.elapsed() >= self.patience {
                if are_last {
                    let unread = self.unread();
                    self.messages.warn(format!("{unread}; it is deleted"));
                    break;
                }
                self.tell_of_waiting();
            }
            self.interrupts.check()?;
            looks += 1;
            self.rest(looks, leave)?;
        }
        self.was_slow |= start.elapsed() >= SLOW && !self.is_on_disk();
        self.account();
        Ok(())
    }

    /// Whether everything written is delivered.
    fn look(&mut self) -> Result<bool, CliError> {
        let destination = &self.list.output().destination;
        let failed = |error: std::io::Error| CliError::writing(destination.name(), &error);
        match destination.arrival().map_err(failed)? {
            Arrival::Arrived => Ok(true),
            Arrival::Unread => Ok(false),
            Arrival::Deserted => Err(failed(std::io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// The first polls are frequent, for a reader that keeps up; then the pauses grow.
    fn rest(&mut self, looks: u32, leave: Leave<'_, J>) -> Result<(), CliError> {
        if self.is_due() {
            self.give(leave)?;
        }
        let Some(slow_looks) = looks.checked_sub(EAGER_LOOKS) else {
            thread::yield_now();
            return Ok(());
        };
        let rest = Duration::from_micros(20).saturating_mul(1 << slow_looks.min(10)).min(MAX_REST);
        self.list.output().destination.rest(rest);
        Ok(())
    }

    /// Moves the written jobs to the delivered ones.
    fn account(&mut self) {
        let (end, unseen) = (self.list.output().written, !self.is_seen());
        for (name, job) in self.under_way.drain(..) {
            self.unsure.push_back((name, end));
            self.arrived.push(job);
        }
        let (bytes, names) = if unseen { UNSEEN } else { (0, 1) };
        let may_go = |at: u64| !unseen || end - at > bytes;
        while self.unsure.len() > names
            || (self.unsure.len() > 1 && self.unsure.front().is_some_and(|(_, at)| may_go(*at)))
        {
            self.unsure.pop_front();
        }
    }

    fn is_on_disk(&mut self) -> bool {
        self.list.output().destination.is_disk()
    }

    fn is_seen(&mut self) -> bool {
        self.list.output().destination.shows_reading()
    }

    /// Without this message, a caller that reads only after this process exits would deadlock with it.
    fn tell_of_waiting(&mut self) {
        if std::mem::replace(&mut self.has_told, true) {
            return;
        }
        let unread = self.unread();
        self.messages.note(format!(
            "{unread}; the next job is taken once this one is read: \
             a reader that waits for this command to end before reading waits forever"
        ));
    }

    fn unread(&mut self) -> String {
        let name = self.list.output().destination.name().to_owned();
        let jobs: Vec<&str> = self.under_way.iter().map(|(name, _)| name.as_str()).collect();
        let waited = units::show_duration(self.patience);
        format!("{} is in {name}, but its reader has not read it for {waited}", jobs.join(", "))
    }

    /// Adds the names of jobs whose use by the reader is uncertain.
    fn with_names(&mut self, error: CliError) -> CliError {
        if self.is_on_disk() || self.unsure.is_empty() || error.exit != crate::error::Exit::Io {
            return error;
        }
        let count = self.unsure.len();
        let mut names: Vec<&str> =
            self.unsure.iter().rev().take(NAMED).map(|(name, _)| name.as_str()).collect();
        names.reverse();
        let names = names.join(", ");
        let what = if self.is_seen() {
            format!("deleted, but perhaps not processed: {names}, which it read last")
        } else if count > NAMED {
            format!("deleted, but perhaps not read: {names} and {} before them", count - NAMED)
        } else {
            format!("deleted, but perhaps not read: {names}")
        };
        let message = format!("{}; {what}", error.message);
        CliError { message, ..error }
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests;
