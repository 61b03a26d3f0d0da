//! The course of a call over HTTP, from its first request to its outcome.

use std::time::Instant;

use queue_core::Limit;

use super::{
    Ask, AskAnswer,
    exchange::{HttpRequest, Reply, unasked},
    pulling::{PullWait, Pulling},
    step::{ClientStep, RequestSettings},
};
use crate::{
    Error, ErrorKind, Fate, RequestId, Result, Stats,
    protocol::{Action, Request},
};

#[derive(Debug)]
pub(crate) enum CallCourse {
    /// A single request.
    Single(Option<(HttpRequest, Limit)>),
    Pull(Pulling),
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
        let pulling = |pull, patience, total| Pulling::new(pull, terms.clone(), patience, total);
        let page = || HttpRequest::page(None, &terms.host);
        let encode = |request| HttpRequest::action(terms.encoding, request, &terms.host);
        let request = match ask {
            Ask::Ready => page()?.once(),
            Ask::Ping => page()?,
            Ask::Pull(queue) => {
                let (patience, total) = match limit.at {
                    Some(at) => (PullWait::Until(at), Limit::never()),
                    None => (PullWait::Endless, limit),
                };
                let pull = pulling(Request::pull(id(), queue), patience, total);
                return Ok(CallCourse::Pull(pull.connecting_in_time()));
            }
            Ask::TryPull(queue) => {
                let pull = Request::pull(id(), queue);
                return Ok(CallCourse::Pull(pulling(pull, PullWait::Until(now), limit)));
            }
            Ask::Settle(Action::Pull, queue, id, _) => {
                let pull = Request::pull(id, queue);
                return Ok(CallCourse::Pull(pulling(pull, PullWait::ByItself, limit)));
            }
            Ask::Raw(pull) if pull.action() == Action::Pull => {
                return Ok(CallCourse::Pull(pulling(pull, PullWait::ByItself, limit).raw()));
            }
            Ask::Settle(action, _, id, Some(_)) => {
                let why =
                    "the message was pulled over WebSocket, and only its connection can act on it";
                let error = Error::new(ErrorKind::JobLost, Fate::NotSent, why);
                return Err(error.with_request(action, &id));
            }
            Ask::Settle(action, queue, id, None) => {
                encode(Request::new(action, id, queue, bytes::Bytes::new()))?
            }
            Ask::Plain(action, queue, body) => encode(Request::new(action, id(), queue, body))?,
            Ask::Raw(request) => encode(request)?,
            Ask::Pushes(_) => {
                let what = "HTTP carries one request at a time: wait for each push before the next";
                return Err(Error::new(ErrorKind::Unsupported, Fate::NotSent, what));
            }
        };
        Ok(CallCourse::Single(Some((request, limit))))
    }

    /// The next step. `last` is the outcome of the previous one; `None` if it was a wait, or if there was nothing to
    /// adopt.
    pub(crate) fn next(&mut self, last: Option<Result<Reply>>, now: Instant) -> ClientStep {
        match self {
            CallCourse::Single(request) => match request.take() {
                Some((request, limit)) => ClientStep::Ask(request, limit),
                None => ClientStep::Over(last.unwrap_or_else(|| Err(unasked())).and_then(answer)),
            },
            CallCourse::Pull(pulling) => pulling.next(last, now),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        ConnectOptions,
        protocol::{Delivered, Success},
    };

    /// A JSON pull needs a count before it, with any id. Its caller gets the server's answer.
    #[test]
    fn a_pull_by_an_id_of_the_caller_takes_several_requests() {
        let options: ConnectOptions = "http://server:1".parse().unwrap();
        let (terms, now) = (RequestSettings::of(&options), queue_core::now());
        let id = || "h1".parse::<RequestId>().unwrap();
        let course = |ask| CallCourse::new(ask, Limit::never(), &terms, id, now).unwrap();
        let [pull, count] =
            [Request::pull, Request::count].map(|of| of(id(), "/q".parse().unwrap()));
        assert!(matches!(course(Ask::Raw(count)), CallCourse::Single(_)));
        let mut pulling = course(Ask::Raw(pull.clone()));
        assert!(matches!(pulling.next(None, now), ClientStep::Ask(..)));
        let message = Delivered { message_id: 1.into(), duplications: 1, body: "x".into() };
        let reply = Reply::Success(pull, Success::Delivered(message.clone()));
        let ClientStep::Over(Ok(answer)) = pulling.next(Some(Ok(reply)), now) else {
            panic!("it goes on")
        };
        assert_eq!(answer.success().unwrap(), Success::Delivered(message));
    }
}
