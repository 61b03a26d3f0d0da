//! A foreground job whose events are read.

use super::{Client, client::Place};
use queue_core::{Limit, now};

use crate::{
    ClientEventKind, Deadline, Error, Fate, JobEvent, JobHandle, JobStatus, Outcome, Result,
    SubmitOptions, UniqueId,
    protocol::{
        GetStatusUnique, Request, Submit, Submitted,
        client::{
            Mail,
            route::{
                Attempts, Question, Questions, is_worth_another, may_be_passed_over, may_repeat,
                no_server, pauses, unacknowledged,
            },
        },
    },
    submission::event::end_of,
};

/// A foreground job: an iterator over its events, ending with the one that ends the job.
///
/// Dropping it does not end the job: the server continues to send its events, which are discarded. The server drops a
/// queued job when the connection of its only submitter closes.
#[must_use = "the events of the job are read through it"]
#[derive(Debug)]
pub struct Job<'a> {
    client: &'a mut Client,
    submitted: Submitted,
    place: Place,
    limit: Limit,
    /// Whether the events that arrived before the limit passed were already checked for.
    is_late: bool,
    /// The outcome of the job, once known.
    end: Option<Result<Outcome>>,
    /// The submission, if it may be repeated, and the remaining number of repeats.
    again: Option<(Submit<bytes::Bytes>, u32)>,
}

impl<'a> Job<'a> {
    pub(super) fn start<W: AsRef<[u8]>>(
        client: &'a mut Client,
        submit: Submit<W>,
        options: SubmitOptions,
    ) -> Result<Self> {
        let limit = Limit::of(Deadline::Job, options.timeout);
        Self::begin(client, submit, options.idempotent, limit)
    }

    /// Submits a foreground job and waits for its end in one call, within its limit.
    pub(super) fn run<W: AsRef<[u8]>>(
        client: &'a mut Client,
        submit: Submit<W>,
        options: SubmitOptions,
    ) -> Result<Outcome> {
        let limit = Limit::of(Deadline::Job, options.timeout).sooner(client.policy().0);
        Self::begin(client, submit, options.idempotent, limit)?.outcome()
    }

    fn begin<W: AsRef<[u8]>>(
        client: &'a mut Client,
        mut submit: Submit<W>,
        idempotent: bool,
        limit: Limit,
    ) -> Result<Self> {
        let operation = client.asks(&submit);
        let mut attempts = if idempotent { client.policy().1 } else { 0 };
        let whole = limit.sooner(client.policy().0);
        let (submitted, place) = client.told(operation, |client| {
            let (submitted, place) = client.create(&mut submit, &mut attempts, whole)?;
            let link = place.link;
            Ok(((submitted, place), link))
        })?;
        let again = idempotent.then(|| (submit.owned(), attempts));
        Ok(Job { client, submitted, place, limit, is_late: false, end: None, again })
    }

    /// The server's name for the job.
    #[must_use]
    pub fn handle(&self) -> &JobHandle {
        &self.submitted.handle
    }

    /// The unique id that it was submitted with, if any.
    #[must_use]
    pub fn unique(&self) -> Option<&UniqueId> {
        self.submitted.unique.as_ref()
    }

    /// Waits for the end of the job, skipping earlier events. If the end, or an error that ended the events, was
    /// already returned, it is returned again.
    ///
    /// # Errors
    ///
    /// `Timeout(Job)`; a connection failure, after which the outcome is unknown.
    pub fn outcome(mut self) -> Result<Outcome> {
        loop {
            if let Some(end) = self.end.take() {
                return end;
            }
            if let Some(Err(error)) = self.next() {
                return Err(error);
            }
        }
    }

    fn wait(&mut self) -> Result<JobEvent> {
        loop {
            let link = self.client.links.get_mut(self.place.link).ok_or_else(no_server)?;
            if !self.is_late && self.limit.has_passed(now()) {
                self.is_late = true;
                link.look();
            }
            let lost = match link.next(self.place.slot, self.limit) {
                Ok((_, Mail::Event(event))) => return Ok(event),
                Ok((_, Mail::Answer(_))) => continue,
                Ok((_, Mail::Lost(error))) | Err(error) => error,
            };
            let lost =
                lost.with_handle(self.submitted.handle.clone()).with_unique(self.submitted.unique);
            if !may_repeat(&lost, self.again.is_some()) {
                return Err(lost);
            }
            self.submit_again(lost)?;
        }
    }

    fn submit_again(&mut self, lost: Error) -> Result<()> {
        let Some((submit, attempts)) = &mut self.again else { return Err(lost) };
        *attempts = attempts.checked_sub(1).ok_or(lost)?;
        if let Some(link) = self.client.links.get(self.place.link) {
            link.options.tell(ClientEventKind::Resent);
        }
        let whole = self.limit.sooner(self.client.policy().0);
        self.client.make_fresh(submit, whole);
        let again = self.client.create(submit, attempts, whole);
        // Whatever the outcome of this submission, the lost one may have been run.
        let (submitted, place) = again.map_err(|error| error.with_fate(Fate::Unknown))?;
        self.client.leave(self.place);
        (self.submitted, self.place) = (submitted, place);
        Ok(())
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        self.client.leave(self.place);
    }
}

impl Iterator for Job<'_> {
    type Item = Result<JobEvent>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.end.is_some() {
            return None;
        }
        let event = self.wait();
        self.client.count(&event);
        self.end = end_of(&event, &self.submitted);
        Some(event)
    }
}

impl Client {
    /// Submits a foreground job, and resubmits one that may have been lost on the way, at most `attempts` times and
    /// until `limit`.
    fn create<W: AsRef<[u8]>>(
        &mut self,
        submit: &mut Submit<W>,
        attempts: &mut u32,
        limit: Limit,
    ) -> Result<(Submitted, Place)> {
        let mut may_exist = false;
        loop {
            match self.send_to_some(submit, false, limit) {
                Err(error) if is_worth_another(&error, attempts) => {
                    may_exist = true;
                    self.resends();
                    self.make_fresh(submit, limit);
                }
                Err(error) => {
                    let fate = if may_exist { Fate::Unknown } else { error.fate() };
                    let error = unacknowledged(error.with_fate(fate));
                    return Err(error.with_unique(submit.unique()));
                }
                done => return done,
            }
        }
    }

    /// Prepares a submission whose connection was lost for being sent again.
    ///
    /// A server may still have the job queued, but will skip it, because its submitter is gone. A submission with the
    /// same unique id joins that job, and is never run (seen on 1.1.20). Until the server notices the loss, the lost
    /// submitter counts as waiting.
    fn make_fresh<W: AsRef<[u8]>>(&mut self, submit: &mut Submit<W>, limit: Limit) {
        if submit.renew() {
            return;
        }
        let Some(unique) = submit.unique() else { return };
        for (wait, looks) in pauses().zip(1..) {
            match self.ask_each(&GetStatusUnique(unique), limit) {
                Ok(status) if may_be_passed_over(&status, looks) && !limit.has_passed(now()) => {
                    std::thread::sleep(limit.remaining(now()).map_or(wait, |left| left.min(wait)));
                }
                _ => return,
            }
        }
    }

    /// Asks the job's own server, if it is named, or each until one knows the job, until `limit` or the limit of a call. Each server gets an
    /// equal share of the remaining time, so that a silent one leaves some for the others.
    pub(super) fn ask_each<R>(&mut self, request: &R, limit: Limit) -> Result<JobStatus>
    where
        R: Request<Reply = JobStatus>,
    {
        let order = self.order(0, request)?;
        let limit = self.policy().0.sooner(limit);
        let mut last = Err(no_server());
        let mut questions = Questions::new(&order, self.policy().1);
        let is_away = |client: &Self, index: usize| {
            let link = client.links.get(index);
            link.is_some_and(|link| link.quarantine().is_some() || link.is_doubtful())
        };
        while let Some(question) = questions.next(|index| is_away(self, index)) {
            let operation = self.asks(request);
            let share = limit.share(question.shares, now());
            let status = self.told(operation, |client| {
                Ok((client.ask(question, request, share)?, question.server))
            });
            match &status {
                Ok(known) if known.is_known => return status,
                Ok(_) => {}
                Err(error) => questions.failed(question, error),
            }
            // An answer is more informative than an error.
            if last.is_err() || status.is_ok() {
                last = status;
            }
        }
        last
    }

    fn ask<R: Request>(
        &mut self,
        question: Question,
        request: &R,
        limit: Limit,
    ) -> Result<R::Reply> {
        let link = self.links.get(question.server).ok_or_else(no_server)?;
        let attempts = Attempts::question(question, link.options.reply_timeout, now());
        let ((reply, slot), link) =
            self.walk(attempts, limit, |_, link, time| link.call(request, time))?;
        self.leave(Place { link, slot });
        Ok(reply)
    }
}
