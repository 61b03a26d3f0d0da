//! A foreground job whose events are read, async.

use std::pin::pin;

use bytes::Bytes;
use queue_core::{Limit, now, within};
use tokio::{task::consume_budget, time::sleep};

use crate::{
    Client, ClientEventKind, Deadline, Error, Fate, JobEvent, JobHandle, JobStatus, Outcome,
    Result, SubmitOptions, UniqueId,
    asynchronous::{call::Call, link::Mailbox},
    protocol::{
        GetStatusUnique, Request, Submit, Submitted,
        client::{
            Mail,
            route::{
                Question, Questions, is_worth_another, may_be_passed_over, may_repeat, no_server,
                pauses, unacknowledged,
            },
        },
    },
    submission::event::end_of,
};

/// A foreground job: its events, ending with the one that ends the job.
///
/// Dropping it does not end the job: the server continues to send its events, which are discarded. The server drops a
/// queued job when the connection of its only submitter closes.
#[must_use = "the events of the job are read through it"]
pub struct Job {
    client: Client,
    mailbox: Mailbox,
    submitted: Submitted,
    limit: Limit,
    /// Number of events that arrived before the limit passed and are still to be returned.
    overtime: Option<usize>,
    /// The outcome of the job, once known.
    end: Option<Result<Outcome>>,
    /// The submission, if it may be repeated, and the remaining number of repeats.
    again: Option<(Submit<Bytes>, u32)>,
    /// Whether it was lost and has to be submitted again. A `next` that is dropped meanwhile leaves that to the next one.
    is_lost: bool,
    wants_end_only: bool,
}

impl Job {
    pub(crate) async fn start<W: AsRef<[u8]>>(
        client: &Client,
        submit: Submit<W>,
        options: SubmitOptions,
    ) -> Result<Self> {
        let limit = Limit::of(Deadline::Job, options.timeout);
        Self::begin(client, submit, options.idempotent, limit, false).await
    }

    /// Submits a foreground job and waits for its end in one call, within its limit. It is only woken for the end.
    pub(crate) async fn run<W: AsRef<[u8]>>(
        client: &Client,
        submit: Submit<W>,
        options: SubmitOptions,
    ) -> Result<Outcome> {
        let limit = Limit::of(Deadline::Job, options.timeout).sooner(client.policy().0);
        Self::begin(client, submit, options.idempotent, limit, true).await?.outcome().await
    }

    async fn begin<W: AsRef<[u8]>>(
        client: &Client,
        mut submit: Submit<W>,
        idempotent: bool,
        limit: Limit,
        wants_end_only: bool,
    ) -> Result<Self> {
        let operation = client.asks(&submit);
        let mut attempts = if idempotent { client.policy().1 } else { 0 };
        let whole = limit.sooner(client.policy().0);
        let (submitted, mailbox) = {
            let creation = pin!(client.create(&mut submit, &mut attempts, whole, wants_end_only));
            client.told(operation, creation, |_, (submitted, _)| submitted.handle.server()).await?
        };
        let again = idempotent.then(|| (submit.owned(), attempts));
        let client = client.clone();
        let (overtime, end, is_lost) = (None, None, false);
        Ok(Job { client, mailbox, submitted, limit, overtime, end, again, is_lost, wants_end_only })
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

    /// The next event; `None` after the last one, or after an error.
    ///
    /// # Errors
    ///
    /// `Timeout(Job)`; `Backlog`; a connection failure, after which the outcome is unknown.
    ///
    /// # Cancel safety
    ///
    /// A dropped `next` loses nothing: the next call returns the event.
    pub async fn next(&mut self) -> Option<Result<JobEvent>> {
        if self.end.is_some() {
            return None;
        }
        let event = self.wait().await;
        self.client.count(&event);
        self.end = end_of(&event, &self.submitted);
        Some(event)
    }

    /// Waits for the end of the job, skipping earlier events. If the end, or an error that ended the events, was
    /// already returned, it is returned again.
    ///
    /// # Errors
    ///
    /// As [`next`](Self::next).
    ///
    /// # Cancel safety
    ///
    /// As for the [client](Client#cancel-safety).
    pub async fn outcome(mut self) -> Result<Outcome> {
        loop {
            if let Some(end) = self.end.take() {
                return end;
            }
            if let Some(Err(error)) = self.next().await {
                return Err(error);
            }
        }
    }

    async fn wait(&mut self) -> Result<JobEvent> {
        loop {
            // Lets other tasks run even if events arrive faster than they are read.
            consume_budget().await;
            if self.is_lost {
                self.submit_again().await?;
            }
            let lost = match self.mail().await {
                Ok(Mail::Event(event)) => return Ok(event),
                Ok(Mail::Answer(_)) => continue,
                Ok(Mail::Lost(error)) => error,
                Err(error) => error.with_fate(Fate::Unknown),
            };
            let lost =
                lost.with_handle(self.submitted.handle.clone()).with_unique(self.submitted.unique);
            let lost = lost.with_server(&*self.mailbox.link.address);
            if !may_repeat(&lost, self.again.is_some()) {
                return Err(lost);
            }
            self.lose(lost)?;
        }
    }

    /// The next mail. Once the limit has passed, only mail that arrived before it is returned.
    async fn mail(&mut self) -> Result<Mail> {
        if self.limit.has_passed(now()) {
            let left = self.overtime.get_or_insert_with(|| self.mailbox.len());
            *left = left.checked_sub(1).ok_or_else(|| self.limit.error())?;
        }
        let (_, mail, _) = within(self.limit, self.mailbox.next()).await?;
        Ok(mail)
    }

    /// The job is lost, and is submitted again if that may be repeated once more.
    fn lose(&mut self, lost: Error) -> Result<()> {
        let Some((_, attempts)) = &mut self.again else { return Err(lost) };
        *attempts = attempts.checked_sub(1).ok_or(lost)?;
        self.is_lost = true;
        self.mailbox.link.options.tell(ClientEventKind::Resent);
        Ok(())
    }

    async fn submit_again(&mut self) -> Result<()> {
        let Some((submit, attempts)) = &mut self.again else { return Ok(()) };
        let whole = self.limit.sooner(self.client.policy().0);
        self.client.make_fresh(submit, whole).await;
        let again = self.client.create(submit, attempts, whole, self.wants_end_only).await;
        self.is_lost = false;
        // Whatever the outcome of this submission, the lost one may have been run.
        (self.submitted, self.mailbox) = again.map_err(|error| error.with_fate(Fate::Unknown))?;
        Ok(())
    }
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Job")
            .field("handle", self.handle())
            .field("unique", &self.unique())
            .field("has_ended", &self.end.is_some())
            .finish_non_exhaustive()
    }
}

impl Client {
    /// Submits a foreground job, and resubmits one that may have been lost on the way, at most `attempts` times and
    /// until `limit`.
    async fn create<W: AsRef<[u8]>>(
        &self,
        submit: &mut Submit<W>,
        attempts: &mut u32,
        limit: Limit,
        wants_end_only: bool,
    ) -> Result<(Submitted, Mailbox)> {
        let mut may_exist = false;
        loop {
            let mut call = self.calling(&*submit, false, limit)?;
            call.wants_end_only = wants_end_only;
            match (&mut call).await {
                Ok(submitted) => return Ok((submitted, call.into_mailbox()?)),
                Err(error) if is_worth_another(&error, attempts) => {
                    let failed_at = call.failed_at();
                    drop(call);
                    may_exist = true;
                    if let Some(link) = failed_at.and_then(|index| self.inner.links.get(index)) {
                        link.options.tell(ClientEventKind::Resent);
                    }
                    self.make_fresh(submit, limit).await;
                }
                Err(error) => {
                    let fate = if may_exist { Fate::Unknown } else { error.fate() };
                    let error = unacknowledged(error.with_fate(fate));
                    return Err(error.with_unique(submit.unique()));
                }
            }
        }
    }

    /// Prepares a submission whose connection was lost for being sent again.
    ///
    /// A server may still have the job queued, but will skip it, because its submitter is gone. A submission with the
    /// same unique id joins that job, and is never run (seen on 1.1.20). Until the server notices the loss, the lost
    /// submitter counts as waiting.
    async fn make_fresh<W: AsRef<[u8]>>(&self, submit: &mut Submit<W>, limit: Limit) {
        if submit.renew() {
            return;
        }
        let Some(unique) = submit.unique() else { return };
        for (wait, looks) in pauses().zip(1..) {
            match self.ask_each(&GetStatusUnique(unique), limit).await {
                Ok(status) if may_be_passed_over(&status, looks) && !limit.has_passed(now()) => {
                    sleep(limit.remaining(now()).map_or(wait, |left| left.min(wait))).await;
                }
                _ => return,
            }
        }
    }

    /// Asks the job's own server, if it is named, or each until one knows the job, until `limit` or the limit of a call. Each server gets an
    /// equal share of the remaining time, so that a silent one leaves some for the others.
    pub(crate) async fn ask_each<R>(&self, request: &R, limit: Limit) -> Result<JobStatus>
    where
        R: Request<Reply = JobStatus>,
    {
        let order = self.order(0, request)?;
        let limit = self.policy().0.sooner(limit);
        let mut last = Err(no_server());
        let mut questions = Questions::new(&order, self.policy().1);
        let link = |index: usize| self.inner.links.get(index);
        let is_away = |index| {
            link(index).is_some_and(|link| link.quarantine().is_some() || link.is_doubtful())
        };
        while let Some(question) = questions.next(is_away) {
            let status = pin!(self.ask(question, request, limit.share(question.shares, now())));
            let server = link(question.server).map(|link| &*link.address);
            let status = self.told(self.asks(request), status, |_, _| server).await;
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

    async fn ask<R: Request>(
        &self,
        question: Question,
        request: &R,
        limit: Limit,
    ) -> Result<R::Reply> {
        Call::new(self.route_to(question).until(limit), request).await
    }
}
