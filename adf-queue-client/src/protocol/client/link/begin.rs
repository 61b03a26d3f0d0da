//! The start of a task: what is refused, what is already here, and what has to be sent.

use std::{mem, time::Instant};

use queue_core::{Epoch, Limit};

use super::{Link, Waiter, job_lost, note_failure, only_one_stream};
use crate::{
    Error, ErrorKind, Fate, QueueName, RequestId, Result,
    protocol::{
        Action, RequestFields,
        client::{
            ask::{Ask, AskAnswer},
            batch::PushBatch,
            task::{RequestName, Task, TaskStage},
        },
    },
};

impl Link {
    /// Starts a task, which has to finish within its limit. A late pull returns [`AskAnswer::Nothing`]; anything else
    /// fails with the error of the limit.
    ///
    /// # Errors
    ///
    /// When it cannot be sent.
    pub(crate) fn begin(&mut self, mut ask: Ask, limit: Limit, now: Instant) -> Result<u64> {
        let number = self.last_task + 1;
        let begun = self.stage(&mut ask, number).inspect_err(|error| {
            self.metrics.failed(error.kind().counted());
        });
        let action = ask.action();
        let stage = begun.map_err(|error| match action {
            Some(action) => error.with_action(action),
            None => error,
        })?;
        self.last_task = number;
        let task = Task { ask, stage, limit, tries: 0, epoch: None, waker: None };
        if !task.is_done() {
            self.unfinished += 1;
            self.is_urgent = true;
            if self.session.is_none() {
                self.life.want();
            }
            limit.at.into_iter().for_each(|at| self.limits.insert((at, number)));
        }
        match (&task.stage, &task.ask) {
            (TaskStage::Queued(name), _) => {
                self.queued.insert(number);
                self.names.extend(*name);
            }
            (TaskStage::PushBatch(_), _) => self.queued.insert(number),
            (TaskStage::Pulling, Ask::Pull(queue)) => self.pulls.join_and_look(queue, number),
            _ => {}
        }
        self.tasks.insert(number, task);
        if self.session.is_none() && !self.is_patient {
            self.life.hurry(now);
        }
        Ok(number)
    }

    fn stage(&mut self, ask: &mut Ask, number: u64) -> Result<TaskStage> {
        let is_over = !self.can_dial && self.epoch.is_some() && self.session.is_none();
        if is_over && !matches!(ask, Ask::Settle(..)) {
            return Err(only_one_stream());
        }
        if let Ask::Pull(queue) | Ask::TryPull(queue) = ask
            && let Some(kept) = self.pulls.take_kept(queue)
        {
            // The message was pulled for a former caller.
            return Ok(TaskStage::Done(Ok(AskAnswer::Delivery(self.delivery(queue, kept)))));
        }
        Ok(match ask {
            Ask::Ready if self.is_open() => TaskStage::Done(Ok(AskAnswer::Yes)),
            Ask::Ready | Ask::Ping => TaskStage::Queued(None),
            Ask::Plain(action, queue, body) => {
                let name = (*action, self.ids.next());
                TaskStage::Queued(Some(self.checked(name, queue, body)?))
            }
            Ask::Pushes(pushes) => {
                let Link { encoding, ids, metrics, later, .. } = self;
                let mut batch = PushBatch::new(mem::take(pushes), *encoding, ids, |error| {
                    note_failure(metrics, later, Some(error));
                });
                match batch.undone {
                    0 => TaskStage::Done(Ok(AskAnswer::Pushed(batch.take_outcomes()))),
                    _ => TaskStage::PushBatch(batch),
                }
            }
            Ask::Raw(request) => {
                self.ids.note(request)?;
                self.check_unused(request.action(), request.id())?;
                let name = (request.action(), *request.id());
                TaskStage::Queued(Some(self.checked(name, request.queue(), request.body())?))
            }
            Ask::Settle(action, queue, id, epoch) => {
                self.check_held(*epoch)?;
                let name = self.checked((*action, *id), queue, b"")?;
                if self.take_over(&name, number) {
                    TaskStage::Sent(name)
                } else {
                    self.check_unused(*action, id)?;
                    TaskStage::Queued(Some(name))
                }
            }
            Ask::Pull(queue) => {
                // Its id is chosen when it is sent.
                let (action, id, queue) = (Action::Pull, "", queue.as_str());
                self.encoding.check(&RequestFields { action, id, queue, body: b"" })?;
                TaskStage::Pulling
            }
            Ask::TryPull(queue) => {
                let name = (Action::Count, self.ids.next());
                TaskStage::Queued(Some(self.checked(name, queue, b"")?))
            }
        })
    }

    /// The name of a request that can be sent.
    fn checked(&self, name: RequestName, queue: &QueueName, body: &[u8]) -> Result<RequestName> {
        let (action, id) = (name.0, name.1.as_str());
        self.encoding.check(&RequestFields { action, id, queue: queue.as_str(), body })?;
        Ok(name)
    }

    /// Whether the same request is in flight for a former caller: this task then takes over its answer.
    fn take_over(&mut self, (action, id): &RequestName, number: u64) -> bool {
        let Some(session) = &mut self.session else { return false };
        let is_gone = match session.waiter(*action, id) {
            Some(Waiter::Task(caller)) => !self.tasks.contains_key(caller),
            _ => false,
        };
        is_gone && session.hand_on(*action, id, Waiter::Task(number)).is_some()
    }

    /// Two identical requests would get indistinguishable answers.
    fn check_unused(&self, action: Action, id: &RequestId) -> Result<()> {
        let is_sent = self.session.as_ref().is_some_and(|session| session.has(action, id));
        let is_queued = self.names.contains(&(action, *id))
            || (action.is_push() && self.ids.may_be_given(id) && self.is_in_batch(id));
        if !is_sent && !is_queued {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "a {action} with the request id {id} is already in flight: wait for its reply"
        )))
    }

    fn is_in_batch(&self, id: &RequestId) -> bool {
        self.tasks.values().any(|task| match &task.stage {
            TaskStage::PushBatch(batch) => batch.has(id),
            _ => false,
        })
    }

    /// The server knows a pulled message only on the connection that pulled it.
    fn check_held(&self, epoch: Option<Epoch>) -> Result<()> {
        match epoch {
            None => Err(Error::new(
                ErrorKind::JobLost,
                Fate::NotSent,
                "the message was pulled over HTTP: act on it there",
            )),
            epoch if epoch == self.epoch && self.is_open() => Ok(()),
            _ => Err(job_lost()),
        }
    }
}
