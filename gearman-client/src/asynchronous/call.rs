//! One request of the async client, from its first poll to its answer: a hand-written state machine, so that a call
//! costs little more than its bytes.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use queue_core::{Timer, now};
use tokio::time::{Sleep, sleep};

use crate::{
    Address, Fate, Origin, Result,
    asynchronous::{
        link::{CallerInbox, ServerLink},
        route::Route,
    },
    protocol::{
        Request,
        client::{
            InboxItem,
            route::{RouteStep, Time, no_server},
        },
    },
};

/// A request that goes to the servers of its route in turn until one answers, as a future.
///
/// Dropping it leaves the connections in step: an answer that still arrives is discarded.
pub(crate) struct RoutedCall<'a, R> {
    route: Route<'a>,
    request: &'a R,
    stage: AttemptStage<'a, R>,
    timer: Timer,
    /// Whether the caller need not be woken when its job is created.
    pub(crate) wants_end_only: bool,
}

enum AttemptStage<'a, R> {
    Next,
    /// No server may be tried yet.
    Waiting(Pin<Box<Sleep>>),
    /// Trying this server.
    Trying(usize, ServerAttempt<'a, R>),
}

impl<'a, R: Request> RoutedCall<'a, R> {
    pub(crate) fn new(route: Route<'a>, request: &'a R) -> Self {
        let timer = Timer::default();
        RoutedCall { route, request, stage: AttemptStage::Next, timer, wants_end_only: false }
    }

    /// The inbox for the events of the submitted job, once it is created.
    pub(crate) fn into_inbox(self) -> Result<CallerInbox> {
        match self.stage {
            AttemptStage::Trying(_, attempt) => attempt.into_inbox().ok_or_else(no_server),
            AttemptStage::Next | AttemptStage::Waiting(_) => Err(no_server()),
        }
    }

    /// The server that failed it.
    pub(crate) fn failed_at(&self) -> Option<usize> {
        self.route.attempts.failed_at()
    }

    /// The server being tried, or the one that has answered.
    pub(crate) fn server(&self) -> Option<&Address> {
        match &self.stage {
            AttemptStage::Trying(_, attempt) => Some(&attempt.link.address),
            AttemptStage::Next | AttemptStage::Waiting(_) => None,
        }
    }

    /// Moves on to the next server.
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if let AttemptStage::Waiting(sleep) = &mut self.stage {
            ready!(sleep.as_mut().poll(cx));
        }
        let now = now();
        self.stage = match self.route.step(now) {
            RouteStep::Try(index) => {
                let (request, wants_end_only) = (self.request, self.wants_end_only);
                let link = self.route.link(index)?;
                let (time, at) = (self.route.time(now), AttemptServer::Start(None));
                AttemptStage::Trying(
                    index,
                    ServerAttempt { link, request, wants_end_only, time, at },
                )
            }
            RouteStep::Wait(time) => AttemptStage::Waiting(Box::pin(sleep(time))),
            RouteStep::GiveUp(error) => return Poll::Ready(Err(error)),
        };
        Poll::Ready(Ok(()))
    }
}

impl<R: Request> Future for RoutedCall<'_, R> {
    type Output = Result<R::Reply>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let call = &mut *self;
        loop {
            let AttemptStage::Trying(index, attempt) = &mut call.stage else {
                ready!(call.poll_next(cx))?;
                continue;
            };
            let outcome = ready!(attempt.poll_reply(cx, &mut call.timer));
            match outcome {
                Ok(reply) => return Poll::Ready(Ok(reply)),
                Err(error) => {
                    let error = error.with_command(call.request.packet_type().name());
                    let index = *index;
                    call.stage = AttemptStage::Next;
                    call.route.attempts.failed(index, error, now())?;
                }
            }
        }
    }
}

/// A request to one server, and its slot. It is queued once there is a connection with room, after at most one attempt
/// to connect.
struct ServerAttempt<'a, R> {
    link: &'a Arc<ServerLink>,
    request: &'a R,
    wants_end_only: bool,
    time: Time,
    at: AttemptServer,
}

enum AttemptServer {
    /// Not queued yet. Holds the number of attempts that had ended when the caller came.
    Start(Option<u64>),
    /// Queued; its answers arrives in this slot.
    Slot(u32),
    End,
}

impl<'a, R: Request> ServerAttempt<'a, R> {
    fn poll_reply(&mut self, cx: &mut Context<'_>, timer: &mut Timer) -> Poll<Result<R::Reply>> {
        let (was_queued, is_first) =
            (self.is_queued(), matches!(self.at, AttemptServer::Start(None)));
        if let Poll::Ready(answer) = self.poll_answer(cx) {
            let (item, origin) = answer?;
            return Poll::Ready(self.link.decode(self.request, &origin, item));
        }
        let Time { connecting, total } = self.time;
        // Once queued, it is written whether or not anybody waits for the answer.
        let (limit, fate, is_new) = match self.is_queued() {
            true => (total, Fate::Unknown, !was_queued),
            false => (connecting, Fate::NotSent, is_first),
        };
        if limit.at.is_none() {
            return Poll::Pending;
        }
        let is_set = !is_first && connecting.at == total.at;
        if is_new && !is_set {
            timer.set(limit);
        }
        timer.poll(cx, limit).map_err(|late| self.link.outwaited(late, fate))
    }

    fn is_queued(&self) -> bool {
        !matches!(self.at, AttemptServer::Start(_))
    }

    fn poll_answer(&mut self, cx: &Context<'_>) -> Poll<Result<(InboxItem, Origin)>> {
        match &mut self.at {
            AttemptServer::Start(seen) => {
                let slot =
                    ready!(self.link.poll_send(cx, seen, self.request, self.wants_end_only))?;
                self.at = AttemptServer::Slot(slot);
                Poll::Pending
            }
            AttemptServer::Slot(slot) => {
                let (item, origin, is_last) = ready!(self.link.poll_answer(cx, *slot));
                if is_last {
                    self.at = AttemptServer::End;
                }
                Poll::Ready(Ok((item, origin)))
            }
            AttemptServer::End => Poll::Pending,
        }
    }

    /// `None` when no more items will arrive.
    fn into_inbox(mut self) -> Option<CallerInbox> {
        match std::mem::replace(&mut self.at, AttemptServer::End) {
            AttemptServer::Slot(slot) => Some(CallerInbox { link: self.link.clone(), slot }),
            AttemptServer::Start(_) | AttemptServer::End => None,
        }
    }
}

impl<R> Drop for ServerAttempt<'_, R> {
    fn drop(&mut self) {
        if let AttemptServer::Slot(slot) = self.at {
            self.link.leave_slot(slot);
        }
    }
}
