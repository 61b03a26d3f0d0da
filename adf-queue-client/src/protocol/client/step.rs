//! The next step of a call over HTTP, and what all its requests have in common.

use std::time::{Duration, Instant};

use queue_core::Limit;

use super::{Answer, exchange::HttpRequest};
use crate::{ConnectOptions, QueueName, Result, protocol::Encoding};

/// The next step for a face.
#[derive(Debug)]
pub(crate) enum Step<T = Answer> {
    /// Wait for the answer to an abandoned pull of this queue, if there is one.
    Adopt(QueueName, Limit),
    /// Send this request, and wait for the answer.
    Ask(HttpRequest, Limit),
    /// Wait until then.
    Wait(Instant),
    /// Done.
    Over(Result<T>),
}

/// The encoding and the deadlines of requests to one server.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    pub(crate) encoding: Encoding,
    pub(crate) host: Box<str>,
    pub(crate) reply_timeout: Duration,
}

impl Terms {
    pub(crate) fn of(options: &ConnectOptions) -> Self {
        Terms {
            encoding: options.address.transport().encoding(),
            host: crate::address::host(&options.address).into(),
            reply_timeout: options.reply_timeout,
        }
    }
}

impl<T> Step<T> {
    pub(super) fn map<U>(self, over: impl FnOnce(T) -> U) -> Step<U> {
        match self {
            Step::Adopt(queue, limit) => Step::Adopt(queue, limit),
            Step::Ask(request, limit) => Step::Ask(request, limit),
            Step::Wait(at) => Step::Wait(at),
            Step::Over(outcome) => Step::Over(outcome.map(over)),
        }
    }
}
