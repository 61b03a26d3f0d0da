//! The end of a connection, and what becomes of its tasks.

use queue_core::{Cause, Io, Loss};

use super::{
    Link,
    ask::Ask,
    link::{Waiter, job_lost},
    task::TaskStage,
};
use crate::{Error, ErrorKind, Fate, protocol::session::Session, trace};

impl Link {
    /// The connection is lost, or could not be made.
    pub(super) fn lose(&mut self, loss: Loss<Error>, io: &Io<Error>) {
        let Loss { error, cause, delay } = loss;
        let is_abandoned = cause == Cause::Abandoned;
        match self.session.take() {
            Some(session) => self.end(session, &error, io),
            None if is_abandoned => {}
            None => self.fail(&error),
        }
        if let Some(time) = delay {
            let address = self.options.address.clone();
            self.later.push(move || trace::backing_off(&address, time));
        }
        if is_abandoned {
            let error = error.with_fate(Fate::NotSent);
            for number in self.all_tasks() {
                self.finish(number, Err(error.share()));
            }
        }
    }

    fn end(&mut self, mut session: Session<Waiter>, error: &Error, io: &Io<Error>) {
        let (address, why) = (self.options.address.clone(), error.share());
        self.later.push(move || trace::connection_lost(&address, Some(&why)));
        self.last_error = Some(error.share());
        self.failure = Some(error.share());
        self.pulls.reset();
        for one in session.end(io) {
            match (one.waiter, one.place) {
                (Waiter::Task(number), None) => self.sent_in_vain(number, one.fate, error),
                // Unsent pushes stay in their batch.
                (Waiter::Task(number), Some(place)) if one.fate != Fate::NotSent => {
                    self.settle_place(number, place, Err(error.share().with_fate(one.fate)));
                }
                _ => {}
            }
        }
        self.not_sent(&error.share().with_fate(Fate::NotSent), session.is_open());
        self.queue_again();
    }

    /// Handles a task whose request was in flight when the connection was lost.
    fn sent_in_vain(&mut self, number: u64, fate: Fate, error: &Error) {
        let Some(task) = self.tasks.get(&number) else { return };
        let reported = error.share().with_fate(fate);
        match fate {
            Fate::NotSent => self.retry(number, &reported, false),
            _ if task.ask.is_repeatable() => self.retry(number, &reported, is_fatal(error)),
            _ => self.finish(number, Err(reported)),
        }
    }

    /// Handles tasks whose requests were not sent. If the server did not upgrade this connection, it would not upgrade
    /// the next, and a pulled message that could not be read would come again.
    fn not_sent(&mut self, error: &Error, is_upgraded: bool) {
        for number in self.all_tasks() {
            let Some(task) = self.tasks.get(&number) else { continue };
            let is_last = is_fatal(error);
            match (&task.stage, &task.ask) {
                (TaskStage::Sent(_) | TaskStage::Checking(_) | TaskStage::Pinging, _) => {}
                (_, Ask::Ready) if is_upgraded => {}
                (TaskStage::Pulling, _) => self.retry(number, error, is_last),
                _ => self.retry(number, error, is_last && !is_upgraded),
            }
        }
    }

    /// Resends the requests of unfinished tasks.
    fn queue_again(&mut self) {
        let again = self.tasks.iter_mut().filter_map(|(number, task)| {
            let name = match &mut task.stage {
                TaskStage::Sent(name) | TaskStage::Checking(name) => Some(*name),
                TaskStage::Pinging => None,
                TaskStage::PushBatch(batch) if batch.is_sent => {
                    batch.is_sent = false;
                    return Some(*number);
                }
                _ => return None,
            };
            self.names.extend(name);
            task.stage = TaskStage::Queued(name);
            Some(*number)
        });
        self.queued.extend(again);
    }

    /// Handles a failed attempt to connect.
    fn fail(&mut self, error: &Error) {
        self.last_error = Some(error.share());
        self.failure = Some(error.share());
        let error = error.share().with_fate(Fate::NotSent);
        for number in self.all_tasks() {
            self.retry(number, &error, is_fatal(&error));
        }
    }

    /// Handles a failed attempt at a task on which the server has not acted. Another one may follow.
    fn retry(&mut self, number: u64, error: &Error, is_last: bool) {
        let attempts = self.options.retry.attempts();
        let Some(task) = self.tasks.get_mut(&number).filter(|task| !task.is_done()) else { return };
        if let Ask::Settle(..) = task.ask {
            return self.finish(number, Err(job_lost()));
        }
        task.tries = task.tries.saturating_add(1);
        if matches!(task.ask, Ask::Ready) || task.tries > attempts || is_last {
            self.finish(number, Err(error.share()));
        }
    }

    /// In the order in which they began.
    pub(super) fn all_tasks(&self) -> Vec<u64> {
        let going_on = self.tasks.iter().filter(|(_, task)| !task.is_done());
        let mut numbers: Vec<u64> = going_on.map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        numbers
    }
}

/// Whether it would happen again on another connection.
fn is_fatal(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Protocol | ErrorKind::MessageTooLarge | ErrorKind::InvalidInput | ErrorKind::Tls
    )
}
