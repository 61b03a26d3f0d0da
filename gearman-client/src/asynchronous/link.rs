//! One server of an async client: the role that its callers share, and the task that moves its bytes.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Waker, ready},
    time::{Duration, Instant},
};

use queue_core::{Driver, Duplex, Io, Pulse, Serve, Shared, Wire, now};

use crate::{
    Address, ConnectOptions, ConnectionState, Error, ErrorKind, Metrics, Origin, Result,
    protocol::{
        Epoch, Request,
        client::{self, Letters, Mail, answer},
    },
};

/// One server, and the connection to it that is made when it is needed.
pub(crate) struct Link {
    pub(crate) options: ConnectOptions,
    pub(crate) address: Arc<Address>,
    role: Arc<Shared<client::Link>>,
    /// Whether some caller found no connection: only then the server may be in quarantine, which each call asks for.
    has_failed: AtomicBool,
}

/// What the task of a link serves: it brings news to the observer.
struct Station {
    role: Arc<Shared<client::Link>>,
    options: ConnectOptions,
}

impl Serve for Station {
    type Failure = Error;

    fn exchange(&self, task: &Waker, io: &mut Io<Error>, now: Instant) -> Pulse {
        let tell = |events: Vec<_>| events.into_iter().for_each(|what| self.options.tell(what));
        self.role.serve(task, io, now, client::Link::take_events, tell)
    }
}

impl Link {
    pub(crate) fn new(options: ConnectOptions) -> Arc<Self> {
        let role = client::Link::new(options.clone());
        Arc::new(Self::of(role, options))
    }

    fn of(role: client::Link, options: ConnectOptions) -> Self {
        let address = Arc::new(options.address.clone());
        Link { options, address, role: Shared::new(role), has_failed: AtomicBool::new(false) }
    }

    /// A link for one stream, which is connected.
    pub(crate) fn for_stream(
        options: ConnectOptions,
        stream: Box<dyn Duplex>,
    ) -> Result<Arc<Self>> {
        let role = client::Link::for_stream(options.clone());
        let link = Arc::new(Self::of(role, options));
        link.drive(|wire| wire.over(stream))?;
        Ok(link)
    }

    /// Starts the task that moves the bytes.
    fn drive(&self, prepare: impl FnOnce(Wire<Error>) -> Wire<Error>) -> Result<()> {
        let wire = prepare(Wire::to(&self.options));
        let station = Station { role: self.role.clone(), options: self.options.clone() };
        Ok(Driver::new(station, wire).start("client")?)
    }

    /// Does something with the role, and sees to it that its bytes are moved.
    fn with<T>(&self, step: impl FnOnce(&mut client::Link) -> T) -> T {
        self.role.with(|link| {
            let done = step(link);
            (done, link.wakes_pump())
        })
    }

    /// Runs `step` once there is a connection with room. `seen` is how many attempts to connect had ended when the
    /// caller came.
    fn poll_open<T>(
        &self,
        cx: &Context<'_>,
        seen: &mut Option<u64>,
        step: impl FnOnce(&mut client::Link) -> T,
    ) -> Poll<Result<T>> {
        let (outcome, is_lacking) = self.with(|link| {
            let outcome = link.poll_room(seen, cx.waker()).map_ok(|()| step(link));
            (outcome, link.claim())
        });
        if !matches!(outcome, Poll::Ready(Ok(_))) {
            self.has_failed.store(true, Ordering::Relaxed);
        }
        if is_lacking {
            self.drive(|wire| wire)?;
        }
        outcome
    }

    /// Makes sure that there is a connection, with one attempt to make one.
    pub(crate) async fn connect(&self) -> Result<()> {
        let mut seen = None;
        poll_fn(|cx| self.poll_open(cx, &mut seen, |_| ())).await
    }

    /// Queues a request, with one attempt to connect; gives the slot that its mail comes to. The caller is woken by it.
    pub(crate) fn poll_send<R: Request>(
        &self,
        cx: &Context<'_>,
        seen: &mut Option<u64>,
        request: &R,
        wants_end_only: bool,
    ) -> Poll<Result<u32>> {
        self.poll_open(cx, seen, |link| {
            let slot = link.open_slot(wants_end_only);
            link.send(request, slot, 0);
            link.wait(slot, cx.waker());
            slot
        })
    }

    /// A mailbox for many requests, once there is a connection.
    pub(crate) async fn mailbox(self: &Arc<Self>) -> Result<Mailbox> {
        let mut seen = None;
        let opened = poll_fn(|cx| self.poll_open(cx, &mut seen, |link| link.open_slot(false)));
        Ok(Mailbox::new(self.clone(), opened.await?))
    }

    /// The next mail of a slot, and whether it was the last: then the slot is free again.
    pub(crate) fn poll_answer(&self, cx: &Context<'_>, slot: u32) -> Poll<(Mail, Origin, bool)> {
        let (mail, epoch, is_over) = ready!(self.with(|link| {
            link.poll_mail(slot, cx.waker()).map(|(_, mail, epoch)| {
                let is_over = link.is_over(slot);
                if is_over {
                    link.leave(slot);
                }
                (mail, epoch, is_over)
            })
        }));
        Poll::Ready((mail, self.origin(epoch), is_over))
    }

    fn origin(&self, epoch: Epoch) -> Origin {
        Origin { server: self.address.clone(), epoch }
    }

    /// Nobody waits for the mail of a slot any more: what still comes is passed over.
    pub(crate) fn leave_slot(&self, slot: u32) {
        self.with(|link| link.leave(slot));
    }

    /// The answer to a request, read. One that cannot be its answer ends the connection.
    pub(crate) fn decode<R: Request>(
        &self,
        request: &R,
        origin: &Origin,
        mail: Mail,
    ) -> Result<R::Reply> {
        answer(request, origin, mail).inspect_err(|error| {
            if error.kind() == ErrorKind::Protocol {
                self.disconnect(origin.epoch, error);
            }
        })
    }

    /// Ends this connection, as if the server had.
    pub(crate) fn disconnect(&self, epoch: Epoch, error: &Error) {
        self.with(|link| link.disconnect(epoch, error));
    }

    /// No client is left: the task ends.
    pub(crate) fn leave(&self) {
        self.with(client::Link::close);
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.with(|link| link.is_open())
    }

    pub(crate) fn connection_state(&self) -> ConnectionState {
        self.with(|link| link.connection_state(now()))
    }

    pub(crate) fn add_metrics(&self, to: &mut Metrics) {
        self.with(|link| to.add(link.metrics()));
    }

    pub(crate) fn epoch(&self) -> Epoch {
        self.with(|link| link.origin().epoch)
    }

    /// How long the server is not to be tried yet.
    pub(crate) fn quarantine(&self) -> Option<Duration> {
        if !self.has_failed.load(Ordering::Relaxed) {
            return None;
        }
        self.with(|link| {
            self.has_failed.store(!link.is_open(), Ordering::Relaxed);
            link.quarantine(now())
        })
    }
}

/// A caller's side of a slot. Dropping it leaves the connection in step: what still comes is passed over.
pub(crate) struct Mailbox {
    pub(crate) link: Arc<Link>,
    slot: u32,
}

impl Mailbox {
    pub(crate) fn new(link: Arc<Link>, slot: u32) -> Self {
        Mailbox { link, slot }
    }

    /// The next mail, with the tag of its request, and where it came from.
    pub(crate) async fn next(&self) -> (u32, Mail, Origin) {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    fn poll_next(&self, cx: &Context<'_>) -> Poll<(u32, Mail, Origin)> {
        let (tag, mail, epoch) =
            ready!(self.link.with(|link| link.poll_mail(self.slot, cx.waker())));
        Poll::Ready((tag, mail, self.link.origin(epoch)))
    }

    /// How much mail waits to be taken.
    pub(crate) fn len(&self) -> usize {
        self.link.with(|link| link.mail(self.slot))
    }

    /// Queues requests with their tags in one step, as many as the connection takes now; how many.
    pub(crate) fn send<'r, R: Request + 'r>(
        &self,
        requests: impl Iterator<Item = (&'r R, u32)>,
    ) -> usize {
        let mut count = 0;
        self.link.with(|link| {
            for (request, tag) in requests {
                if !link.has_room() {
                    break;
                }
                link.send(request, self.slot, tag);
                count += 1;
            }
        });
        count
    }

    /// All mail, once there is some, into `letters`, which is empty.
    pub(crate) fn poll_all(
        &self,
        letters: &mut Letters<(u32, Epoch)>,
        cx: &Context<'_>,
    ) -> Poll<()> {
        self.link.with(|link| link.poll_all(self.slot, letters, cx.waker()))
    }

    /// The server, and a connection to it.
    pub(crate) fn origin(&self, epoch: Epoch) -> Origin {
        self.link.origin(epoch)
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        self.link.leave_slot(self.slot);
    }
}
