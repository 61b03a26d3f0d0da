//! Deadlines with names, so that an error can say which one passed.

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
    /// The limit of an attempt to connect that starts now.
    pub(crate) fn connecting_limit(&self) -> Limit {
        let timeout = self
            .total_timeout
            .map_or(self.connect_timeout, |total| total.min(self.connect_timeout));
        Limit::of(Deadline::Connect, Some(timeout))
    }
}
