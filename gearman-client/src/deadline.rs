//! Deadlines with names, so that an error can say which one passed.

use std::time::{Duration, Instant};

use crate::{ConnectOptions, Deadline, Error, ErrorKind, Fate};

/// A point in time by which one step has to be done; `at: None` waits for ever.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    pub(crate) at: Option<Instant>,
    which: Deadline,
}

impl Limit {
    /// The limit of the whole call that starts now.
    pub(crate) fn total(options: &ConnectOptions) -> Self {
        Limit { at: options.total_timeout.and_then(in_future), which: Deadline::Total }
    }

    /// No limit.
    pub(crate) fn never() -> Self {
        Limit { at: None, which: Deadline::Total }
    }

    /// A limit of its own that starts now; `None` waits for ever.
    pub(crate) fn of(which: Deadline, wait: Option<Duration>) -> Self {
        Limit { at: wait.and_then(in_future), which }
    }

    /// A step within this one.
    pub(crate) fn step(self, which: Deadline, wait: Option<Duration>) -> Self {
        self.sooner(Limit::of(which, wait))
    }

    /// The one of the two that passes first.
    pub(crate) fn sooner(self, other: Limit) -> Self {
        match (self.at, other.at) {
            (Some(mine), Some(theirs)) if mine <= theirs => self,
            (Some(_), None) => self,
            _ => other,
        }
    }

    /// The connect step.
    pub(crate) fn connect(self, options: &ConnectOptions) -> Self {
        self.step(Deadline::Connect, Some(options.connect_timeout))
    }

    /// The write step.
    pub(crate) fn write(self, options: &ConnectOptions) -> Self {
        self.step(Deadline::Write, Some(options.write_timeout))
    }

    /// The reply step.
    pub(crate) fn reply(self, options: &ConnectOptions) -> Self {
        self.step(Deadline::Reply, Some(options.reply_timeout))
    }

    /// The same step, but no longer than `wait` from now.
    pub(crate) fn shorter(self, wait: Duration) -> Self {
        self.step(self.which, Some(wait))
    }

    /// What is left; zero when the limit has passed, `None` when there is no limit.
    pub(crate) fn remaining(self) -> Option<Duration> {
        self.at.map(|at| at.saturating_duration_since(Instant::now()))
    }

    pub(crate) fn has_passed(self) -> bool {
        self.remaining().is_some_and(|left| left.is_zero())
    }

    /// The error that names this limit.
    pub(crate) fn error(self) -> Error {
        timed_out(self.which)
    }
}

/// The error of a deadline that passed.
pub(crate) fn timed_out(which: Deadline) -> Error {
    let message = match which {
        Deadline::Connect => "no connection within the connect timeout",
        Deadline::Write => "the request could not be written within the write timeout",
        Deadline::Reply => "no reply within the reply timeout",
        Deadline::Total => "not done within the total timeout",
        Deadline::Job => "the job did not end within its timeout",
    };
    Error::new(ErrorKind::Timeout(which), Fate::NotSent, message)
}

/// A duration too long for the clock is no limit.
fn in_future(wait: Duration) -> Option<Instant> {
    Instant::now().checked_add(wait)
}
