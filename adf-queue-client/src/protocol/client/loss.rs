//! The end of a connection, and what becomes of its tasks.

use std::{mem, time::Instant};

use queue_core::{End, Io};

use super::{
    Link,
    ask::Ask,
    link::{Waiter, job_lost},
    task::Stage,
};
use crate::{Error, ErrorKind, Fate, error::lost, trace};

impl Link {
    /// Checks whether the connection has ended or has to end, or could not be made.
    pub(super) fn end(&mut self, io: &mut Io<Error>, now: Instant) {
        let doom = self.doom.take();
        let end = io.take_end();
        if self.leave_by.is_some() && matches!(end, Some(End::Lost(_))) {
            // The server may close first, which is not a loss here.
            self.session = None;
            return;
        }
        let is_abandoned = matches!(end, Some(End::Abandoned));
        let error = match end {
            Some(End::NotConnected(error)) => return self.fail(&error, now),
            Some(End::Lost(error)) => Some(lost(error)),
            Some(End::Abandoned) => Some(abandoned()),
            None => None,
        };
        if let Some(error) = doom.or(error)
            && self.session.is_some()
        {
            self.lose(&error, io, now);
        }
        if is_abandoned {
            self.is_moved = false;
            self.health.abandoned();
            for number in self.all_tasks() {
                self.finish(number, Err(abandoned().with_fate(Fate::NotSent)));
            }
        }
    }

    /// Gives the connection up.
    pub(super) fn lose(&mut self, error: &Error, io: &Io<Error>, now: Instant) {
        let Some(mut session) = self.session.take() else { return };
        let (address, why) = (self.options.address.clone(), error.share());
        self.later.push(move || trace::connection_lost(&address, Some(&why)));
        self.open_by = None;
        // A single connection may be unlucky: a server that was just restarted needs no delay.
        let is_lucky = self.has_served || !mem::replace(&mut self.is_unproven, true);
        if session.is_open() && is_lucky {
            self.health.lost();
        } else {
            self.back_off(now);
        }
        self.last_error = Some(error.share());
        self.failure = Some(error.share());
        self.pulls.reset();
        let (unanswered, pinging) = session.end(io);
        for one in unanswered {
            match (one.waiter, one.place) {
                (Waiter::Task(number), None) => self.sent_in_vain(number, one.fate, error),
                // Unsent pushes stay in their batch.
                (Waiter::Task(number), Some(place)) if one.fate != Fate::NotSent => {
                    self.settle_place(number, place, Err(error.share().with_fate(one.fate)));
                }
                _ => {}
            }
        }
        let pings = pinging.into_iter().filter_map(|waiter| match waiter {
            Waiter::Task(number) => Some(number),
            Waiter::Pull(_) | Waiter::Check(_) | Waiter::Look(..) => None,
        });
        for number in pings {
            self.sent_in_vain(number, Fate::Unknown, error);
        }
        self.not_sent(&error.share().with_fate(Fate::NotSent), session.is_open());
        self.queue_again();
    }

    /// Handles a task whose request was in flight when the connection was lost.
    pub(super) fn sent_in_vain(&mut self, number: u64, fate: Fate, error: &Error) {
        let Some(task) = self.tasks.get(&number) else { return };
        let told = error.share().with_fate(fate);
        match fate {
            Fate::NotSent => self.retry(number, &told, false),
            _ if task.ask.is_repeatable() => self.retry(number, &told, is_fatal(error)),
            _ => self.finish(number, Err(told)),
        }
    }

    /// Handles tasks whose requests were not sent. If the server did not upgrade this connection, it would not upgrade
    /// the next, and a pulled message that could not be read would come again.
    pub(super) fn not_sent(&mut self, error: &Error, is_upgraded: bool) {
        for number in self.all_tasks() {
            let Some(task) = self.tasks.get(&number) else { continue };
            let is_last = is_fatal(error);
            match (&task.stage, &task.ask) {
                (Stage::Sent(_) | Stage::Checking(_) | Stage::Pinging, _) => {}
                (_, Ask::Ready) if is_upgraded => {}
                (Stage::Pulling, _) => self.retry(number, error, is_last),
                _ => self.retry(number, error, is_last && !is_upgraded),
            }
        }
    }

    /// Resends the requests of unfinished tasks.
    pub(super) fn queue_again(&mut self) {
        let again = self.tasks.iter_mut().filter_map(|(number, task)| {
            task.stage = match mem::replace(&mut task.stage, Stage::Pinging) {
                Stage::Sent(message) | Stage::Checking(message) => {
                    self.names.insert(message.name());
                    Stage::Queued(Some(message))
                }
                Stage::Pinging => Stage::Queued(None),
                Stage::Batch(batch) if batch.is_sent => Stage::Batch(batch.unsent()),
                other => {
                    task.stage = other;
                    return None;
                }
            };
            Some(*number)
        });
        self.queued.extend(again);
    }

    /// Handles a failed attempt to connect.
    pub(super) fn fail(&mut self, error: &Error, now: Instant) {
        self.dialed_at = None;
        self.back_off(now);
        self.last_error = Some(error.share());
        self.failure = Some(error.share());
        let error = error.share().with_fate(Fate::NotSent);
        for number in self.all_tasks() {
            self.retry(number, &error, is_fatal(&error));
        }
    }

    pub(super) fn back_off(&mut self, now: Instant) {
        self.health.failed(now);
        if let Some(until) = self.health.quarantine(now) {
            let (address, time) =
                (self.options.address.clone(), until.saturating_duration_since(now));
            self.later.push(move || trace::backing_off(&address, time));
        }
    }

    /// Handles a failed attempt at a task on which the server has not acted. Another one may follow.
    pub(super) fn retry(&mut self, number: u64, error: &Error, is_last: bool) {
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

fn abandoned() -> Error {
    let why = "the client's runtime has ended";
    Error::new(ErrorKind::ConnectionLost, Fate::Unknown, why)
}
