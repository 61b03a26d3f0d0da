//! Deadlines with names, so that an error can say which one passed.

use std::time::{Duration, Instant};

use queue_core::{Scheme, Sdk, now};

use crate::{
    ConnectOptions, Deadline, Error, ErrorKind, Fate,
    address::SCHEME,
    protocol::{Epoch, ServerWait, Ticket},
};

/// A point in time by which one step has to be done.
pub(crate) type Limit = queue_core::Limit<Named>;

/// What this crate calls its deadlines.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Named;

impl Sdk for Named {
    type Deadline = Deadline;
    type Error = Error;
    const TOTAL: Deadline = Deadline::Total;
    const SCHEME: Scheme = SCHEME;

    fn timed_out(which: Deadline, detail: Option<String>) -> Error {
        let message = match which {
            Deadline::Connect => "no connection within the connect timeout",
            Deadline::Write => "the command could not be written within the write timeout",
            Deadline::Reply => "no reply within the reply timeout",
            Deadline::Total => "not done within the total timeout",
        };
        let error = Error::new(ErrorKind::Timeout(which), Fate::NotSent, message);
        match detail {
            Some(detail) => error.with_source(detail),
            None => error,
        }
    }

    fn failed(error: queue_core::Error) -> Error {
        Error::of(error)
    }
}

impl ConnectOptions {
    /// The limit of a whole call that starts now.
    pub(crate) fn total_limit(&self) -> Limit {
        Limit::of(Deadline::Total, self.total_timeout)
    }

    /// The connect step of a call.
    pub(crate) fn connect_limit(&self, total: Limit) -> Limit {
        total.step(Deadline::Connect, Some(self.connect_timeout))
    }

    /// Connecting by itself, for no call.
    pub(crate) fn connecting_limit(&self) -> Limit {
        self.connect_limit(self.total_limit().named(Deadline::Connect))
    }

    /// The write step.
    pub(crate) fn write_limit(&self, total: Limit) -> Limit {
        total.step(Deadline::Write, Some(self.write_timeout))
    }

    /// The reply step: a timed reserve is given its own time besides, so that the server's clock always decides first.
    pub(crate) fn reply_limit(&self, total: Limit, wait: ServerWait) -> Limit {
        let wait = match wait {
            ServerWait::None => Some(self.reply_timeout),
            ServerWait::AtMost(time) => Some(time.saturating_add(self.reply_timeout)),
            ServerWait::Forever => None,
        };
        total.step(Deadline::Reply, wait)
    }

    /// The reply step of a command that has been the oldest in flight since then.
    pub(crate) fn reply_limit_since(&self, wait: ServerWait, since: Instant) -> Limit {
        let mut limit = self.reply_limit(Limit::never(), wait);
        limit.at = limit.at.and_then(|at| at.checked_sub(now().saturating_duration_since(since)));
        limit
    }

    /// Writing and the reply together, where both go on at once.
    pub(crate) fn write_and_reply_limit(&self, wait: ServerWait) -> Limit {
        let mut limit = self.reply_limit(Limit::never(), wait);
        limit.at = limit.at.and_then(|at| at.checked_add(self.write_timeout));
        limit
    }
}

/// A reserve whose caller went away, for whose reply later reserves wait, each for its own time.
#[derive(Debug, Default)]
pub(crate) struct Leftover(Option<(Epoch, Ticket, Instant)>);

impl Leftover {
    /// Since when this one is waited for. Each wait is too short to tell a slow reply from a dead connection; all of
    /// them together are not, with the time between them: the server has that, too.
    pub(crate) fn since(&mut self, epoch: Epoch, ticket: Ticket) -> Instant {
        match self.0 {
            Some((of, known, since)) if (of, known) == (epoch, ticket) => since,
            _ => {
                let since = now();
                self.0 = Some((epoch, ticket, since));
                since
            }
        }
    }

    /// Something of the reply has come while nobody read: a long one comes no further than the sockets hold, so its rest
    /// has the whole time.
    pub(crate) fn is_coming(&mut self) {
        if let Some((.., since)) = &mut self.0 {
            *since = now();
        }
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

/// What is left of a reserve's own time after so much went by in waiting for an earlier one; `None` when that makes no
/// difference to the server, which knows whole seconds.
pub(crate) fn left_over(wait: ServerWait, spent: Duration) -> Option<Duration> {
    match wait {
        ServerWait::AtMost(time) if spent >= Duration::from_secs(1) => {
            Some(time.saturating_sub(spent))
        }
        _ => None,
    }
}
