//! The start of a task: what is refused, what is already here, and what has to be sent.

use std::{mem, time::Instant};

use queue_core::{Epoch, Limit};

use super::{Link, Waiter, job_lost, note_failure, only_one_stream};
use crate::{
    Delivery, Error, ErrorKind, Fate, QueueName, RequestId, Result,
    protocol::{
        Action, Request, RequestFields,
        client::{
            ask::{Ask, AskAnswer},
            batch::PushBatch,
            task::{EncodedRequest, Task, TaskStage},
        },
        session::encoded,
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
            self.limits.extend(limit.at.map(|at| (at, number)));
        }
        match (&task.stage, &task.ask) {
            (TaskStage::Queued(message), _) => {
                self.queued.insert(number);
                self.names.extend(message.as_ref().map(EncodedRequest::name));
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
        Ok(match ask {
            Ask::Ready if self.is_open() => TaskStage::Done(Ok(AskAnswer::Yes)),
            Ask::Ready | Ask::Ping => TaskStage::Queued(None),
            Ask::Plain(action, queue, body) => {
                let id = self.ids.next();
                self.queued(&Request::new(*action, id, queue.clone(), body.clone()))?
            }
            Ask::Pushes(pushes) => {
                let Link { encoding, ids, metrics, later, .. } = self;
                let mut batch = PushBatch::new(mem::take(pushes), *encoding, ids, |error| {
                    note_failure(metrics, later, Some(error));
                });
                match batch.undone() {
                    0 => TaskStage::Done(Ok(AskAnswer::Pushed(batch.take_outcomes()))),
                    _ => TaskStage::PushBatch(batch),
                }
            }
            Ask::Raw(request) => {
                self.ids.note(request)?;
                self.check_unused(request.action(), request.id())?;
                self.queued(request)?
            }
            Ask::Settle(action, queue, id, epoch) => {
                self.check_held(*epoch)?;
                let request = Request::new(*action, *id, queue.clone(), bytes::Bytes::new());
                match self.queued(&request)? {
                    TaskStage::Queued(Some(message)) if self.take_over(&message, number) => {
                        TaskStage::Sent(message)
                    }
                    stage => {
                        self.check_unused(*action, id)?;
                        stage
                    }
                }
            }
            Ask::Pull(queue) => match self.take_kept(queue) {
                Some(delivery) => TaskStage::Done(Ok(AskAnswer::Delivery(delivery))),
                None => {
                    // A request that cannot be encoded fails now, not when it is sent.
                    let queue = queue.as_str();
                    self.encoding.check(&RequestFields {
                        action: Action::Pull,
                        id: "",
                        queue,
                        body: b"",
                    })?;
                    TaskStage::Pulling
                }
            },
            Ask::TryPull(queue) => match self.take_kept(queue) {
                Some(delivery) => TaskStage::Done(Ok(AskAnswer::Delivery(delivery))),
                None => {
                    let id = self.ids.next();
                    self.queued(&Request::count(id, queue.clone()))?
                }
            },
        })
    }

    fn queued(&self, request: &Request) -> Result<TaskStage> {
        let frame = encoded(self.encoding, request)?;
        let (action, id) = (request.action(), *request.id());
        Ok(TaskStage::Queued(Some(EncodedRequest { action, id, frame })))
    }

    /// Whether the same request is in flight for a former caller: this task then takes over its answer.
    fn take_over(&mut self, message: &EncodedRequest, number: u64) -> bool {
        let Some(session) = &mut self.session else { return false };
        let is_gone = match session.waiter(message.action, &message.id) {
            Some(Waiter::Task(caller)) => !self.tasks.contains_key(caller),
            _ => false,
        };
        is_gone && session.hand_on(message.action, &message.id, Waiter::Task(number)).is_some()
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

    /// A message that was pulled for a former caller.
    fn take_kept(&mut self, queue: &QueueName) -> Option<Delivery> {
        let kept = self.pulls.take_kept(queue)?;
        Some(self.delivery(queue, kept))
    }
}
