//! Deadlines with names, so that an error can say which one passed.

use std::time::{Duration, Instant};

use crate::{ConnectOptions, Deadline, Error, ErrorKind, Fate, protocol::ServerWait};

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

    /// A step within this one.
    pub(crate) fn step(self, which: Deadline, wait: Option<Duration>) -> Self {
        match (self.at, wait.and_then(in_future)) {
            (Some(total), Some(step)) if total <= step => self,
            (Some(_), None) => self,
            (_, at) => Limit { at, which },
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

    /// The reply step: a timed reserve is given the server's timeout plus the grace, so that the server's clock always
    /// decides first.
    pub(crate) fn reply(self, options: &ConnectOptions, wait: ServerWait) -> Self {
        let wait = match wait {
            ServerWait::None => Some(options.reply_timeout),
            ServerWait::AtMost(time) => {
                Some(time.saturating_add(options.reserve_grace.max(options.reply_timeout)))
            }
            ServerWait::Forever => None,
        };
        self.step(Deadline::Reply, wait)
    }

    /// The reply step of a command that has been the oldest in flight since then.
    pub(crate) fn reply_since(
        self,
        options: &ConnectOptions,
        wait: ServerWait,
        since: Instant,
    ) -> Self {
        let mut limit = self.reply(options, wait);
        limit.at = limit.at.and_then(|at| at.checked_sub(since.elapsed()));
        limit
    }

    /// Writing and the reply together, where both go on at once.
    pub(crate) fn write_and_reply(self, options: &ConnectOptions, wait: ServerWait) -> Self {
        let reply = self.reply(options, wait);
        Limit { at: reply.at.and_then(|at| at.checked_add(options.write_timeout)), ..reply }
    }

    /// The same step, but no longer than `wait` from now.
    pub(crate) fn shorter(self, wait: Duration) -> Self {
        self.step(self.which, Some(wait))
    }

    /// Whichever of the two passes first.
    #[cfg(feature = "blocking")]
    pub(crate) fn sooner(self, other: Limit) -> Self {
        match (self.at, other.at) {
            (Some(a), Some(b)) if b < a => other,
            (None, Some(_)) => other,
            _ => self,
        }
    }

    /// The same limit as the one for writing.
    pub(crate) fn for_write(self) -> Self {
        Limit { which: Deadline::Write, ..self }
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
        let message = match self.which {
            Deadline::Connect => "no connection within the connect timeout",
            Deadline::Write => "the command could not be written within the write timeout",
            Deadline::Reply => "no reply within the reply timeout",
            Deadline::Total => "not done within the total timeout",
        };
        Error::new(ErrorKind::Timeout(self.which), Fate::NotSent, message)
    }
}

/// How long a reserve may wait for the outcome of an earlier one: its own time, unless the server answers at once.
pub(crate) fn patience(wait: ServerWait, earlier: ServerWait) -> Limit {
    match (wait, earlier) {
        (_, ServerWait::AtMost(Duration::ZERO)) | (ServerWait::Forever, _) => Limit::never(),
        (ServerWait::AtMost(time), _) => Limit::never().shorter(time),
        (ServerWait::None, _) => Limit::never().shorter(Duration::ZERO),
    }
}

/// A duration too long for the clock is no limit.
fn in_future(wait: Duration) -> Option<Instant> {
    Instant::now().checked_add(wait)
}
