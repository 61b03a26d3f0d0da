//! One server of a blocking client: its role, and the wire that moves its bytes in the caller's thread.

use std::{
    task::{Poll, Waker, ready},
    time::Duration,
};

use queue_core::{
    ConnectionError, Limit,
    blocking::{Drive, TimedStream, Wire},
    now,
};

use crate::{
    ConnectOptions, ConnectionState, Deadline, Epoch, Error, ErrorKind, Fate, Result,
    error::closed,
    protocol::{
        Request,
        client::{
            self, InboxItem, answer,
            route::{Time, no_server},
        },
    },
};

/// A server, and the connection to it, which is made on demand.
#[derive(Debug)]
pub(crate) struct ServerLink {
    pub(super) options: ConnectOptions,
    pub(super) role: client::Link,
    wire: Wire<Error>,
}

impl ServerLink {
    pub(super) fn new(options: ConnectOptions) -> Self {
        let role = client::Link::new(options.clone());
        ServerLink { wire: Wire::to(&options), role, options }
    }

    /// A link of a client with other servers, which need not wait for an attempt to connect to this one.
    pub(super) fn aside(options: ConnectOptions) -> Self {
        ServerLink { wire: Wire::aside(&options), ..Self::new(options) }
    }

    /// A link over one connected stream only.
    pub(super) fn over(transport: TimedStream, options: ConnectOptions) -> Self {
        let role = client::Link::for_stream(options.clone());
        let mut link = ServerLink { wire: Wire::to(&options).over(transport), role, options };
        link.settle();
        link
    }

    /// Moves bytes until `step` returns something, at most until `limit`.
    fn drive<T>(
        &mut self,
        limit: Limit,
        mut step: impl FnMut(&mut client::Link) -> Poll<Result<T>>,
    ) -> Result<T> {
        if let Poll::Ready(outcome) = step(&mut self.role) {
            return outcome;
        }
        loop {
            let driven = self.wire.drive(&mut self.role, limit.at, |role| match step(role) {
                Poll::Ready(outcome) => Some(outcome),
                Poll::Pending => None,
            });
            self.notify();
            match driven {
                Drive::Done(outcome) => return outcome.map_err(|error| named(error, limit)),
                Drive::Late => {
                    if !self.wire.connects_aside() {
                        self.role.life.unwant();
                    }
                    self.role.outwaited();
                    return Err(limit.error().with_server(&self.options.address).into());
                }
                // The step has made a request after the role was asked.
                Drive::Rest(_) if self.role.has_news() => {}
                Drive::Rest(_) | Drive::Over => {
                    return Err(Error::lost(closed()).with_server(&self.options.address));
                }
            }
        }
    }

    /// Passes pending news to the role, and closes what it wants closed.
    fn settle(&mut self) {
        self.wire.drive(&mut self.role, Some(now()), |_| Some(()));
        self.notify();
    }

    /// Brings news to the observer.
    fn notify(&mut self) {
        for what in self.role.take_events().into_iter().flatten() {
            self.options.notify(what);
        }
    }

    /// Ensures that there is a connection, with one attempt to connect.
    pub(super) fn make_ready(&mut self, limit: Limit) -> Result<()> {
        let mut seen = None;
        self.drive(limit, |role| role.poll_room(&mut seen, Waker::noop()))
    }

    /// Starts an attempt to connect that is allowed by now, without waiting for its outcome. Where there is a connection,
    /// what has arrived is read.
    pub(super) fn try_aside(&mut self) {
        if self.role.is_open() {
            self.look();
            // A server that has left a request unanswered is asked again, without waiting for its answer.
            self.role.probe();
        } else if self.role.life.quarantine(now()).is_none() {
            let _ = self.role.poll_room(&mut None, Waker::noop());
        }
        self.flush();
    }

    /// Connects, unless there is a connection. It may have no room.
    fn connect(&mut self, time: Time) -> Result<()> {
        if self.role.is_open() { Ok(()) } else { self.make_ready(time.connecting) }
    }

    /// Sends a request and waits for its answer, with one attempt to connect. Also returns the slot for events.
    pub(super) fn call<R: Request>(&mut self, request: &R, time: Time) -> Result<(R::Reply, u32)> {
        let name = request.packet_type().name();
        self.connect(time).map_err(|error| error.with_command(name))?;
        let (mut seen, mut slot) = (None, None);
        let item = self.drive(time.total, |role| {
            let slot = match slot {
                Some(slot) => slot,
                None => {
                    ready!(role.poll_room(&mut seen, Waker::noop()))?;
                    let opened = *slot.insert(role.slots.open(false));
                    role.send(request, opened, 0);
                    opened
                }
            };
            role.slots.poll(slot, Waker::noop()).map(|(_, item, _)| Ok(item))
        });
        let fate = if slot.is_some() { Fate::Unknown } else { Fate::NotSent };
        let outcome = item
            .map_err(|late| late.with_fate(fate).with_command(name))
            .and_then(|item| self.decode(request, item));
        let Some(slot) = slot else { return outcome.and(Err(no_server())) };
        outcome.map(|reply| (reply, slot)).inspect_err(|_| self.role.slots.leave(slot))
    }

    /// Queues a tagged request in the caller's slot, or in a new one, once there is a connection. It is written while
    /// waiting for items, or by [`flush`](Self::flush).
    pub(super) fn queue<R: Request>(
        &mut self,
        request: &R,
        slot: Option<u32>,
        tag: u32,
        time: Time,
    ) -> Result<u32> {
        self.connect(time)?;
        let mut seen = None;
        self.drive(time.total, |role| {
            ready!(role.poll_room(&mut seen, Waker::noop()))?;
            let slot = slot.unwrap_or_else(|| role.slots.open(false));
            role.send(request, slot, tag);
            Poll::Ready(Ok(slot))
        })
    }

    /// Queues a request of a slot if there is a connection with room; returns whether it did.
    pub(super) fn queue_now<R: Request>(&mut self, request: &R, slot: u32, tag: u32) -> bool {
        let is_taken = self.role.takes(request);
        if is_taken {
            self.role.send(request, slot, tag);
        }
        is_taken
    }

    /// Writes queued bytes. A failure reaches the waiting callers as items.
    pub(super) fn flush(&mut self) {
        self.wire.push(&mut self.role);
        self.notify();
    }

    /// The next item of a slot, with the tag of its request.
    ///
    /// # Errors
    ///
    /// When `limit` has passed, or no item can arrive.
    pub(super) fn next(&mut self, slot: u32, limit: Limit) -> Result<(u32, InboxItem)> {
        let item = self.drive(limit, |role| {
            role.slots.poll(slot, Waker::noop()).map(|(tag, item, _)| Ok((tag, item)))
        });
        item.map_err(|error| error.with_fate(Fate::Unknown))
    }

    /// Decodes the answer to a request. An answer that cannot belong to the request ends the connection.
    pub(super) fn decode<R: Request>(&mut self, request: &R, item: InboxItem) -> Result<R::Reply> {
        let origin = self.role.origin();
        answer(request, origin, item).inspect_err(|error| {
            if error.kind() == ErrorKind::Protocol {
                self.fail(error);
            }
        })
    }

    /// Ends this connection as if the server had closed it.
    pub(super) fn fail(&mut self, error: &Error) {
        self.role.disconnect(self.role.origin().epoch, error);
        self.settle();
    }

    /// Checks, without waiting, whether the server has closed the idle connection. Buffered data is read once.
    pub(super) fn look(&mut self) {
        self.role.look(now());
        self.wire.drive(&mut self.role, None, |role| (!role.is_looking()).then_some(()));
        self.notify();
    }

    pub(super) fn set_reply_timeout(&mut self, timeout: Duration) {
        self.options.server.reply_timeout = timeout;
        self.role.set_reply_timeout(timeout);
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.role.origin().epoch
    }

    pub(crate) fn connection_state(&self) -> ConnectionState {
        self.role.connection_state(now())
    }
}

/// Blames the total deadline if it cut an attempt to connect short.
fn named(error: Error, limit: Limit) -> Error {
    let is_cut = error.kind() == ErrorKind::Timeout(Deadline::Connect) && limit.has_passed(now());
    match (is_cut, error.server()) {
        (true, Some(server)) => limit.error().with_fate(error.fate()).with_server(server).into(),
        (true, None) => limit.error().with_fate(error.fate()).into(),
        (false, _) => error,
    }
}
