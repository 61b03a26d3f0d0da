//! Deadlines with names, so that an error can say which one passed.

use std::time::Instant;

use queue_core::{Scheme, Sdk};

use crate::{ConnectOptions, Deadline, Error, ErrorKind, Fate, address::SCHEME};

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
        let error = timed_out(which);
        match detail {
            Some(detail) => error.with_source(detail),
            None => error,
        }
    }

    fn failed(error: queue_core::Error) -> Error {
        Error::of(error)
    }
}

/// Connecting, until this moment.
pub(crate) fn connecting(until: Option<Instant>) -> Limit {
    Limit::until(Deadline::Connect, until)
}

impl ConnectOptions {
    /// The limit of a whole call that starts now.
    pub(crate) fn total_limit(&self) -> Limit {
        Limit::of(Deadline::Total, self.total_timeout)
    }
}

/// The error of a deadline that passed.
pub(crate) fn timed_out(which: Deadline) -> Error {
    let message = match which {
        Deadline::Connect => "no connection within the connect timeout",
        Deadline::Write => "the request could not be written within the write timeout",
        Deadline::Reply => "no answer within the reply timeout",
        Deadline::Total => "not done within the total timeout",
    };
    Error::new(ErrorKind::Timeout(which), Fate::NotSent, message)
}
