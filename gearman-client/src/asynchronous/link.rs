//! One server of an async client: the role shared by its callers, and the task that moves its bytes.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker, ready},
    time::{Duration, Instant},
};

use queue_core::{Driver, Duplex, Io, Limit, Pulse, Serve, Shared, Wire, now, within};

use crate::{
    Address, ConnectOptions, ConnectionState, Epoch, Error, ErrorKind, Fate, Origin, Result,
    protocol::{
        Request,
        client::{self, InboxItem, UnreadItems, answer},
    },
};

/// A server, and the connection to it, which is made on demand.
pub(crate) struct ServerLink {
    pub(crate) options: ConnectOptions,
    pub(crate) address: Arc<Address>,
    role: Arc<Shared<client::Link>>,
    /// Whether any caller found no connection, or a server in doubt. Only then can the server be in quarantine, which
    /// each call checks.
    has_failed: AtomicBool,
}

/// The work of a link's task: it brings news to the observer.
struct LinkService {
    role: Arc<Shared<client::Link>>,
    options: ConnectOptions,
}

impl Serve for LinkService {
    type Failure = Error;

    fn exchange(&self, task: &Waker, io: &mut Io<Error>, now: Instant) -> Pulse {
        let notify = |events: Vec<_>| events.into_iter().for_each(|what| self.options.notify(what));
        self.role.serve(task, io, now, client::Link::take_events, notify)
    }
}

impl ServerLink {
    pub(crate) fn new(options: ConnectOptions) -> Arc<Self> {
        let role = client::Link::new(options.clone());
        Arc::new(Self::of(role, options))
    }

    fn of(role: client::Link, options: ConnectOptions) -> Self {
        let address = Arc::new(options.address.clone());
        ServerLink { options, address, role: Shared::new(role), has_failed: AtomicBool::new(false) }
    }

    /// A link over one connected stream.
    pub(crate) fn for_stream(
        options: ConnectOptions,
        stream: Box<dyn Duplex>,
    ) -> Result<Arc<Self>> {
        let role = client::Link::for_stream(options.clone());
        let link = Arc::new(Self::of(role, options));
        link.drive(|wire| wire.over(stream))?;
        Ok(link)
    }

    fn drive(&self, prepare: impl FnOnce(Wire<Error>) -> Wire<Error>) -> Result<()> {
        let wire = prepare(Wire::to(&self.options));
        let station = LinkService { role: self.role.clone(), options: self.options.clone() };
        Ok(Driver::new(station, wire).start("client")?)
    }

    /// Runs a step on the role, and has its bytes moved.
    pub(crate) fn with<T>(&self, step: impl FnOnce(&mut client::Link) -> T) -> T {
        self.role.with(|link| {
            let done = step(link);
            if link.is_doubtful() {
                self.has_failed.store(true, Ordering::Relaxed);
            }
            (done, link.wakes_pump())
        })
    }

    /// Runs `step` once there is a connection with room. `seen` is the number of attempts that had ended when the
    /// caller came.
    fn poll_open<T>(
        &self,
        cx: &Context<'_>,
        seen: &mut Option<u64>,
        step: impl FnOnce(&mut client::Link) -> T,
    ) -> Poll<Result<T>> {
        let (outcome, is_lacking) = self.with(|link| {
            let outcome = link.poll_room(seen, cx.waker()).map_ok(|()| step(link));
            (outcome, link.life.claim())
        });
        if !matches!(outcome, Poll::Ready(Ok(_))) {
            self.has_failed.store(true, Ordering::Relaxed);
        }
        if is_lacking {
            self.drive(|wire| wire)?;
        }
        outcome
    }

    /// Ensures that there is a connection, with one attempt to connect, which goes on after `limit`.
    pub(crate) async fn connect(&self, limit: Limit) -> Result<()> {
        self.opened(limit, |_| ()).await
    }

    /// Takes a step once there is a connection.
    async fn opened<T>(&self, limit: Limit, step: fn(&mut client::Link) -> T) -> Result<T> {
        let mut seen = None;
        let opened = poll_fn(|cx| self.poll_open(cx, &mut seen, step));
        within(limit, opened).await.unwrap_or_else(|late| Err(self.outwaited(late, Fate::NotSent)))
    }

    /// The error of a caller who does not wait any longer, for a connection or for an answer.
    pub(crate) fn outwaited(&self, late: queue_core::Error, fate: Fate) -> Error {
        self.with(client::Link::outwaited);
        late.with_fate(fate).with_server(&*self.address).into()
    }

    /// Queues a request, with one attempt to connect; returns the slot for its answers. The caller is woken for it.
    pub(crate) fn poll_send<R: Request>(
        &self,
        cx: &Context<'_>,
        seen: &mut Option<u64>,
        request: &R,
        wants_end_only: bool,
    ) -> Poll<Result<u32>> {
        self.poll_open(cx, seen, |link| {
            let slot = link.slots.open(wants_end_only);
            link.send(request, slot, 0);
            link.slots.wait(slot, cx.waker());
            slot
        })
    }

    /// An inbox for many requests, once there is a connection.
    pub(crate) async fn inbox(self: &Arc<Self>, limit: Limit) -> Result<CallerInbox> {
        let slot = self.opened(limit, |link| link.slots.open(false)).await?;
        Ok(CallerInbox { link: self.clone(), slot })
    }

    /// The next item of a slot, and whether it was the last one, which frees the slot.
    pub(crate) fn poll_answer(
        &self,
        cx: &Context<'_>,
        slot: u32,
    ) -> Poll<(InboxItem, Origin, bool)> {
        let (item, epoch, is_over) = ready!(self.with(|link| {
            link.slots.poll(slot, cx.waker()).map(|(_, item, epoch)| {
                let is_over = link.slots.is_over(slot);
                if is_over {
                    link.slots.leave(slot);
                }
                (item, epoch, is_over)
            })
        }));
        Poll::Ready((item, self.origin(epoch), is_over))
    }

    /// The server, and a connection to it.
    pub(crate) fn origin(&self, epoch: Epoch) -> Origin {
        Origin { server: self.address.clone(), epoch }
    }

    /// Abandons a slot: what still arrives for it is discarded.
    pub(crate) fn leave_slot(&self, slot: u32) {
        self.with(|link| link.slots.leave(slot));
    }

    /// Decodes the answer to a request. An answer that cannot belong to the request ends the connection.
    pub(crate) fn decode<R: Request>(
        &self,
        request: &R,
        origin: &Origin,
        item: InboxItem,
    ) -> Result<R::Reply> {
        answer(request, origin, item).inspect_err(|error| {
            if error.kind() == ErrorKind::Protocol {
                self.disconnect(origin.epoch, error);
            }
        })
    }

    /// Ends this connection as if the server had closed it.
    pub(crate) fn disconnect(&self, epoch: Epoch, error: &Error) {
        self.with(|link| link.disconnect(epoch, error));
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.with(|link| link.is_open())
    }

    pub(crate) fn connection_state(&self) -> ConnectionState {
        self.with(|link| link.connection_state(now()))
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.with(|link| link.origin().epoch)
    }

    /// How long the server must not be tried yet.
    pub(crate) fn quarantine(&self) -> Option<Duration> {
        if !self.has_failed.load(Ordering::Relaxed) {
            return None;
        }
        self.with(|link| {
            self.has_failed.store(!link.is_open() || link.is_doubtful(), Ordering::Relaxed);
            link.life.quarantine(now())
        })
    }

    /// Whether there is no connection, and the last attempt to make one has failed.
    pub(crate) fn is_away(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed) && self.with(|link| link.life.is_away())
    }

    /// Whether the last attempt to connect has failed and the next one has not ended, or takes long, as an answer may,
    /// or the last request was left unanswered. The next attempt, or request, is begun here: callers who have another
    /// server do not wait for it.
    pub(crate) fn is_doubtful(&self) -> bool {
        let is_doubtful =
            self.has_failed.load(Ordering::Relaxed) && self.with(|link| link.is_doubtful());
        if is_doubtful {
            // Later callers see its outcome.
            let cx = Context::from_waker(Waker::noop());
            let _ = self.poll_open(&cx, &mut None, client::Link::probe);
        }
        is_doubtful
    }
}

/// A caller's end of a slot. Dropping it leaves the connection in step: what still arrives is discarded.
pub(crate) struct CallerInbox {
    pub(crate) link: Arc<ServerLink>,
    pub(crate) slot: u32,
}

impl CallerInbox {
    pub(crate) async fn next(&self) -> InboxItem {
        let poll = |cx: &Context<'_>| self.link.with(|link| link.slots.poll(self.slot, cx.waker()));
        let (_, item, _) = poll_fn(|cx| poll(cx)).await;
        item
    }

    pub(crate) fn len(&self) -> usize {
        self.link.with(|link| link.slots.waiting(self.slot))
    }

    /// Queues as many tagged requests as the connection has room for, in one step; returns their number.
    pub(crate) fn send<'r, R: Request + 'r>(
        &self,
        requests: impl Iterator<Item = (&'r R, u32)>,
    ) -> usize {
        let mut count = 0;
        self.link.with(|link| {
            for (request, tag) in requests {
                if !link.takes(request) {
                    break;
                }
                link.send(request, self.slot, tag);
                count += 1;
            }
        });
        count
    }

    /// Moves all items into `unread`, which must be empty, once there are some.
    pub(crate) fn poll_all(
        &self,
        unread: &mut UnreadItems<(u32, Epoch)>,
        cx: &Context<'_>,
    ) -> Poll<()> {
        self.link.with(|link| link.slots.poll_all(self.slot, unread, cx.waker()))
    }
}

impl Drop for CallerInbox {
    fn drop(&mut self) {
        self.link.leave_slot(self.slot);
    }
}
