//! The next step of a call over HTTP, and what all its requests have in common.

use std::time::{Duration, Instant};

use queue_core::Limit;

use super::{AskAnswer, exchange::HttpRequest};
use crate::{ConnectOptions, QueueName, Result, protocol::Encoding};

/// The next step for a face.
#[derive(Debug)]
pub(crate) enum ClientStep {
    /// Wait for the answer to an abandoned pull of this queue, if there is one.
    Adopt(QueueName, Limit),
    /// Send this request, and wait for the answer.
    Ask(HttpRequest, Limit),
    /// Wait until then.
    Wait(Instant),
    /// Done.
    Over(Result<AskAnswer>),
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
