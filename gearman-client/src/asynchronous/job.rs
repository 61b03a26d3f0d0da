//! A foreground job whose events are read, async.

use std::pin::pin;

use bytes::Bytes;
use queue_core::{Limit, now, within};
use tokio::{task::consume_budget, time::sleep};

use crate::{
    Client, ClientEventKind, Deadline, Fate, JobEvent, JobHandle, JobStatus, Outcome, Result,
    SubmitOptions, UniqueId,
    asynchronous::{call::RoutedCall, link::CallerInbox},
    observed,
    protocol::{
        Request, Submit, Submitted,
        client::{
            InboxItem,
            creation::{Creation, repeat},
            inquiry::Inquiry,
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
    inbox: CallerInbox,
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
        let operation = observed::request(&client.inner.router, &submit);
        let mut attempts = if idempotent { client.policy().1 } else { 0 };
        let creation = Creation::new(limit.sooner(client.policy().0));
        let (submitted, inbox) = {
            let create = pin!(client.create(creation, &mut submit, &mut attempts, wants_end_only));
            client
                .observed(operation, create, |_, (submitted, _)| submitted.handle.server())
                .await?
        };
        let again = idempotent.then(|| (submit.owned(), attempts));
        let client = client.clone();
        let (overtime, end, is_lost) = (None, None, false);
        Ok(Job { client, inbox, submitted, limit, overtime, end, again, is_lost, wants_end_only })
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
            let lost = match self.item().await {
                Ok(InboxItem::Event(event)) => return Ok(event),
                Ok(InboxItem::Answer(_)) => continue,
                Ok(InboxItem::Lost(error)) => error,
                Err(error) => error.with_fate(Fate::Unknown),
            };
            let lost =
                lost.with_handle(self.submitted.handle.clone()).with_unique(self.submitted.unique);
            let lost = lost.with_server(&*self.inbox.link.address);
            repeat(lost, &mut self.again)?;
            self.is_lost = true;
            self.inbox.link.options.notify(ClientEventKind::Resent);
        }
    }

    /// The next item. Once the limit has passed, only an item that arrived before it is returned.
    async fn item(&mut self) -> Result<InboxItem> {
        if self.limit.has_passed(now()) {
            let left = self.overtime.get_or_insert_with(|| self.inbox.len());
            *left = left.checked_sub(1).ok_or_else(|| self.limit.error())?;
        }
        Ok(within(self.limit, self.inbox.next()).await?)
    }

    async fn submit_again(&mut self) -> Result<()> {
        let Some((submit, attempts)) = &mut self.again else { return Ok(()) };
        let creation = Creation::again(self.limit.sooner(self.client.policy().0), submit);
        let again = self.client.create(creation, submit, attempts, self.wants_end_only).await;
        self.is_lost = false;
        // Whatever the outcome of this submission, the lost one may have been run.
        (self.submitted, self.inbox) = again.map_err(|error| error.with_fate(Fate::Unknown))?;
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
    /// Submits a foreground job, and submits it again if it may have been lost on the way, at most `attempts` times.
    async fn create<W: AsRef<[u8]>>(
        &self,
        mut creation: Creation,
        submit: &mut Submit<W>,
        attempts: &mut u32,
        wants_end_only: bool,
    ) -> Result<(Submitted, CallerInbox)> {
        loop {
            while let Some(question) = creation.question() {
                let status = self.ask_each(&question, creation.limit).await;
                if let Some(wait) = creation.answered(&status, now()) {
                    sleep(wait).await;
                }
            }
            let mut call = self.calling(&*submit, false, creation.limit)?;
            call.wants_end_only = wants_end_only;
            let error = match (&mut call).await {
                Ok(submitted) => return Ok((submitted, call.into_inbox()?)),
                Err(error) => error,
            };
            let failed_at = call.failed_at();
            drop(call);
            creation.failed(error, submit, attempts)?;
            if let Some(link) = failed_at.and_then(|index| self.inner.links.get(index)) {
                link.options.notify(ClientEventKind::Resent);
            }
        }
    }

    /// Asks the job's own server, if it is named, or each until one knows the job, until `limit` or the limit of a
    /// call.
    pub(crate) async fn ask_each<R>(&self, request: &R, limit: Limit) -> Result<JobStatus>
    where
        R: Request<Reply = JobStatus>,
    {
        let (total, rounds) = self.policy();
        let router = &self.inner.router;
        let mut inquiry = Inquiry::new(&router.order_for(0, request)?, rounds, total.sooner(limit));
        let link = |index: usize| self.inner.links.get(index);
        let is_away = |index| {
            link(index).is_some_and(|link| link.quarantine().is_some() || link.is_doubtful())
        };
        while let Some(question) = inquiry.next(is_away, now()) {
            let call = RoutedCall::new(self.route_to(question), request);
            let server = link(question.server).map(|link| &*link.address);
            let operation = observed::request(router, request);
            let status = self.observed(operation, call, |_, _| server).await;
            inquiry.answered(question, status);
        }
        inquiry.outcome()
    }
}
