//! A foreground job whose events are read.

use super::{Client, client::AnswerSlot};
use queue_core::{Limit, now};

use crate::{
    ClientEventKind, Deadline, JobEvent, JobHandle, JobStatus, Outcome, Result, SubmitOptions,
    UniqueId, observed,
    protocol::{
        Request, Submit, Submitted,
        client::{
            InboxItem,
            creation::{Creation, repeat},
            inquiry::Inquiry,
            route::{Question, RouteAttempts, no_server},
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
    place: AnswerSlot,
    limit: Limit,
    /// Whether the events that arrived before the limit passed were already checked for.
    is_late: bool,
    /// The outcome of the job, once known.
    end: Option<Result<Outcome>>,
    /// The submission, if it may be repeated, and the remaining number of repeats.
    again: Option<(Submit<bytes::Bytes>, u32)>,
}

impl<'a> Job<'a> {
    pub(crate) fn start<W: AsRef<[u8]>>(
        client: &'a mut Client,
        submit: Submit<W>,
        options: SubmitOptions,
    ) -> Result<Self> {
        let limit = Limit::of(Deadline::Job, options.timeout);
        Self::begin(client, submit, options.idempotent, limit)
    }

    /// Submits a foreground job and waits for its end in one call, within its limit.
    pub(crate) fn run<W: AsRef<[u8]>>(
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
        let operation = observed::request(&client.router, &submit);
        let mut attempts = if idempotent { client.policy().1 } else { 0 };
        let creation = Creation::new(limit.sooner(client.policy().0));
        let (submitted, place) = client.observed(operation, |client| {
            let (submitted, place) = client.create(creation, &mut submit, &mut attempts)?;
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
                Ok((_, InboxItem::Event(event))) => return Ok(event),
                Ok((_, InboxItem::Answer(_))) => continue,
                Ok((_, InboxItem::Lost(error))) | Err(error) => error,
            };
            let lost =
                lost.with_handle(self.submitted.handle.clone()).with_unique(self.submitted.unique);
            repeat(lost, &mut self.again)?;
            self.submit_again()?;
        }
    }

    fn submit_again(&mut self) -> Result<()> {
        let Some((submit, attempts)) = &mut self.again else { return Ok(()) };
        if let Some(link) = self.client.links.get(self.place.link) {
            link.options.notify(ClientEventKind::Resent);
        }
        let creation = Creation::again(self.limit.sooner(self.client.policy().0), submit);
        let (submitted, place) = self.client.create(creation, submit, attempts)?;
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
    /// Submits a foreground job, and submits it again if it may have been lost on the way, at most `attempts` times.
    fn create<W: AsRef<[u8]>>(
        &mut self,
        mut creation: Creation,
        submit: &mut Submit<W>,
        attempts: &mut u32,
    ) -> Result<(Submitted, AnswerSlot)> {
        loop {
            while let Some(question) = creation.question() {
                let status = self.ask_each(&question, creation.limit);
                if let Some(wait) = creation.answered(&status, now()) {
                    std::thread::sleep(wait);
                }
            }
            match self.send_to_some(submit, false, creation.limit) {
                Err(error) => creation.failed(error, submit, attempts)?,
                done => return done,
            }
            self.resends();
        }
    }

    /// Asks the job's own server, if it is named, or each until one knows the job, until `limit` or the limit of a
    /// call.
    pub(crate) fn ask_each<R>(&mut self, request: &R, limit: Limit) -> Result<JobStatus>
    where
        R: Request<Reply = JobStatus>,
    {
        let (total, rounds) = self.policy();
        let order = self.router.order_for(0, request)?;
        let mut inquiry = Inquiry::new(&order, rounds, total.sooner(limit));
        let is_away = |client: &Self, index: usize| {
            let link = client.links.get(index);
            link.is_some_and(|link| {
                link.role.life.quarantine(now()).is_some() || link.role.is_doubtful()
            })
        };
        while let Some(question) = inquiry.next(|index| is_away(self, index), now()) {
            let operation = observed::request(&self.router, request);
            let ask = |client: &mut Self| Ok((client.ask(question, request)?, question.server));
            let status = self.observed(operation, ask);
            inquiry.answered(question, status);
        }
        inquiry.outcome()
    }

    fn ask<R: Request>(&mut self, question: Question, request: &R) -> Result<R::Reply> {
        let link = self.links.get(question.server).ok_or_else(no_server)?;
        let attempts = RouteAttempts::question(question, link.options.reply_timeout, now());
        let ((reply, slot), link) =
            self.walk(attempts, question.limit, |_, link, time| link.call(request, time))?;
        self.leave(AnswerSlot { link, slot });
        Ok(reply)
    }
}
