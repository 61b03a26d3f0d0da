//! The next step of a call over HTTP, and what all its requests have in common.

use std::time::{Duration, Instant};

use queue_core::Limit;

use super::{AskAnswer, exchange::HttpRequest};
use crate::{ConnectOptions, QueueName, Result, protocol::Encoding};

/// The next step for a face.
#[derive(Debug)]
pub(crate) enum ClientStep<T = AskAnswer> {
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
pub(crate) struct RequestSettings {
    pub(crate) encoding: Encoding,
    pub(crate) host: Box<str>,
    pub(crate) reply_timeout: Duration,
}

impl RequestSettings {
    pub(crate) fn of(options: &ConnectOptions) -> Self {
        RequestSettings {
            encoding: options.address.transport().encoding(),
            host: crate::address::host(&options.address).into(),
            reply_timeout: options.reply_timeout,
        }
    }
}

impl<T> ClientStep<T> {
    pub(super) fn map<U>(self, over: impl FnOnce(T) -> U) -> ClientStep<U> {
        match self {
            ClientStep::Adopt(queue, limit) => ClientStep::Adopt(queue, limit),
            ClientStep::Ask(request, limit) => ClientStep::Ask(request, limit),
            ClientStep::Wait(at) => ClientStep::Wait(at),
            ClientStep::Over(outcome) => ClientStep::Over(outcome.map(over)),
        }
    }
}
