//! The course of a call over HTTP, from its first request to its outcome.

use std::time::Instant;

use super::{
    Ask, AskAnswer,
    exchange::{HttpRequest, Reply, unasked},
    pulling::{PullWait, PulledMessage, Pulling},
    step::{ClientStep, RequestSettings},
};
use queue_core::Limit;

use crate::{
    Delivery, Error, ErrorKind, Fate, RequestId, Result, Stats,
    protocol::{Action, Request, Success},
};

#[derive(Debug)]
pub(crate) enum CallCourse {
    /// A single request.
    Single(Option<(HttpRequest, Limit)>),
    /// A pull that returns a delivery.
    Pull(Pulling),
    /// A pull that returns the raw message.
    RawPull(Pulling),
}

impl CallCourse {
    /// A call for this request, within this limit. `id` makes ids for requests without one.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for a request that cannot be sent; `JobLost` for a message pulled over a WebSocket.
    pub(crate) fn new(
        ask: Ask,
        limit: Limit,
        terms: &RequestSettings,
        mut id: impl FnMut() -> RequestId,
        now: Instant,
    ) -> Result<Self> {
        let pulling = |pull: Request, patience: PullWait, total: Limit| {
            Pulling::new(pull, terms.clone(), patience, total)
        };
        let request = match ask {
            Ask::Ready => {
                return Ok(Self::single(HttpRequest::page(None, &terms.host)?.once(), limit));
            }
            Ask::Ping => return Ok(Self::single(HttpRequest::page(None, &terms.host)?, limit)),
            Ask::Pull(queue) => {
                let pull = Request::pull(id(), queue);
                return Ok(CallCourse::Pull(match limit.at {
                    Some(at) => {
                        pulling(pull, PullWait::Until(at), Limit::never()).connecting_in_time()
                    }
                    None => pulling(pull, PullWait::Endless, limit),
                }));
            }
            Ask::TryPull(queue) => {
                let pull = Request::pull(id(), queue);
                return Ok(CallCourse::Pull(pulling(pull, PullWait::Until(now), limit)));
            }
            Ask::Settle(Action::Pull, queue, id, _) => {
                let pull = Request::pull(id, queue);
                return Ok(CallCourse::Pull(pulling(pull, PullWait::ByItself, limit)));
            }
            Ask::Raw(request) if request.action() == Action::Pull => {
                return Ok(CallCourse::RawPull(pulling(request, PullWait::ByItself, limit)));
            }
            Ask::Settle(action, _, id, Some(_)) => return Err(of_websocket(action, &id)),
            Ask::Settle(action, queue, id, None) => {
                Request::new(action, id, queue, bytes::Bytes::new())
            }
            Ask::Plain(action, queue, body) => Request::new(action, id(), queue, body),
            Ask::Raw(request) => request,
            Ask::Pushes(_) => {
                let what = "HTTP carries one request at a time: wait for each push before the next";
                return Err(Error::new(ErrorKind::Unsupported, Fate::NotSent, what));
            }
        };
        Ok(Self::single(HttpRequest::action(terms.encoding, request, &terms.host)?, limit))
    }

    fn single(request: HttpRequest, limit: Limit) -> Self {
        CallCourse::Single(Some((request, limit)))
    }

    /// The next step. `last` is the outcome of the previous one; `None` if it was a wait, or if there was nothing to
    /// adopt.
    pub(crate) fn next(&mut self, last: Option<Result<Reply>>, now: Instant) -> ClientStep {
        match self {
            CallCourse::Single(request) => match request.take() {
                Some((request, limit)) => ClientStep::Ask(request, limit),
                None => ClientStep::Over(last.unwrap_or_else(|| Err(unasked())).and_then(answer)),
            },
            CallCourse::Pull(pulling) => pulling.next(last, now).map(|message| {
                message.map_or(AskAnswer::Nothing, |(pull, message)| {
                    let (queue, id) = (pull.queue().clone(), *pull.id());
                    AskAnswer::Delivery(Delivery::new(queue, id, message, None))
                })
            }),
            CallCourse::RawPull(pulling) => pulling.next(last, now).map(raw),
        }
    }
}

fn answer(reply: Reply) -> Result<AskAnswer> {
    match reply {
        Reply::Success(_, success) => Ok(AskAnswer::Success(success)),
        // Any other page does not show that the server is alive.
        Reply::Page(page) => Stats::parse(&page).map(|_| AskAnswer::Yes),
    }
}

fn raw(message: Option<PulledMessage>) -> AskAnswer {
    message
        .map_or(AskAnswer::Nothing, |(_, message)| AskAnswer::Success(Success::Delivered(message)))
}

fn of_websocket(action: Action, id: &RequestId) -> Error {
    let message = "the message was pulled over WebSocket, and only its connection can act on it";
    Error::new(ErrorKind::JobLost, Fate::NotSent, message).with_request(action, id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ConnectOptions;

    /// A JSON pull needs a count before it, with any id.
    #[test]
    fn a_pull_by_an_id_of_the_caller_takes_several_requests() {
        let options: ConnectOptions = "http://server:1".parse().unwrap();
        let (terms, now) = (RequestSettings::of(&options), queue_core::now());
        let id = || "h1".parse::<RequestId>().unwrap();
        let course = |ask| CallCourse::new(ask, Limit::never(), &terms, id, now).unwrap();
        let [pull, count] =
            [Request::pull, Request::count].map(|of| of(id(), "/q".parse().unwrap()));
        assert!(matches!(course(Ask::Raw(pull)), CallCourse::RawPull(_)));
        assert!(matches!(course(Ask::Raw(count)), CallCourse::Single(_)));
    }
}
