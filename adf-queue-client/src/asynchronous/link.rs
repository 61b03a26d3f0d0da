//! One server of an async client: the role shared by its callers, and the task that moves its bytes.

use std::{
    future::poll_fn,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Instant,
};

use queue_core::{ConnectionState, Driver, Duplex, Epoch, Limit, Shared, Wire, now};

use crate::{
    ConnectOptions, Error, Metrics, Result,
    protocol::client::{self, Ask, AskAnswer},
};

/// A server, and the connection to it, which is made on demand.
pub(crate) struct ServerLink {
    /// How it connects.
    pub(crate) options: ConnectOptions,
    role: Arc<Shared<client::Link>>,
}

impl ServerLink {
    pub(crate) fn new(options: ConnectOptions) -> Self {
        ServerLink { role: Shared::new(client::Link::new(options.clone())), options }
    }

    /// A link over one connected stream.
    pub(crate) fn for_stream(options: ConnectOptions, stream: Box<dyn Duplex>) -> Result<Self> {
        let role = client::Link::for_stream(options.clone());
        let link = ServerLink { role: Shared::new(role), options };
        link.drive(|wire| wire.over(stream))?;
        Ok(link)
    }

    fn drive(&self, prepare: impl FnOnce(Wire<Error>) -> Wire<Error>) -> Result<()> {
        let wire = prepare(Wire::to(&self.options));
        Ok(Driver::new(self.role.clone(), wire).start("client")?)
    }

    /// Runs a step on the role, and has its bytes moved.
    fn with<T>(&self, step: impl FnOnce(&mut client::Link) -> T) -> T {
        let (done, mut later) = self.role.with(|link| {
            let done = step(link);
            ((done, mem::take(&mut link.later)), link.is_urgent)
        });
        later.run();
        done
    }

    /// Makes a request, and waits for its outcome. Dropping it withdraws the request as far as possible.
    pub(crate) async fn run(&self, ask: Ask, limit: Limit) -> Result<AskAnswer> {
        self.wait(self.begin(ask, limit, now())?).await
    }

    /// Waits for the outcome of this task. Dropping the call withdraws the request as far as possible.
    pub(crate) fn wait(&self, number: u64) -> TaskCall<'_> {
        TaskCall { link: self, number: Some(number) }
    }

    /// Makes a request without waiting.
    pub(crate) fn begin(&self, ask: Ask, limit: Limit, now: Instant) -> Result<u64> {
        let (begun, is_lacking) =
            self.with(|link| (link.begin(ask, limit, now), link.life.claim()));
        let number = begun?;
        if is_lacking {
            self.drive(|wire| wire).inspect_err(|_| self.leave(number))?;
        }
        Ok(number)
    }

    /// The outcome of this task, if it has one.
    pub(crate) fn try_outcome(&self, number: u64) -> Poll<Result<AskAnswer>> {
        self.with(|link| link.poll(number, Waker::noop()))
    }

    /// Waits for the outcome of this task. It can be awaited again after being dropped.
    pub(crate) async fn outcome(&self, number: u64) -> Result<AskAnswer> {
        poll_fn(|cx| self.with(|link| link.poll(number, cx.waker()))).await
    }

    /// Abandons this task.
    pub(crate) fn leave(&self, number: u64) {
        self.with(|link| link.leave(number));
    }

    /// Ends this connection as if the server had closed it.
    pub(crate) fn disconnect(&self) {
        self.with(client::Link::disconnect);
    }

    pub(crate) fn connection_state(&self) -> ConnectionState {
        self.with(|link| link.connection_state(now()))
    }

    pub(crate) fn metrics(&self) -> Metrics {
        self.with(|link| link.metrics.clone())
    }

    pub(crate) fn epoch(&self) -> Option<Epoch> {
        self.with(|link| link.epoch)
    }

    /// No client is left, so the task ends.
    pub(crate) fn close(&self) {
        self.with(client::Link::close);
    }
}

impl Drop for ServerLink {
    fn drop(&mut self) {
        self.close();
    }
}

/// A caller's end of a task.
pub(crate) struct TaskCall<'a> {
    link: &'a ServerLink,
    /// `None` once it has passed.
    number: Option<u64>,
}

impl Future for TaskCall<'_> {
    type Output = Result<AskAnswer>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<AskAnswer>> {
        let Some(number) = self.number else { return Poll::Pending };
        let polled = self.link.with(|link| link.poll(number, cx.waker()));
        if polled.is_ready() {
            self.number = None;
        }
        polled
    }
}

impl Drop for TaskCall<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.link.leave(number);
        }
    }
}
