//! One server of an async client: the role that its callers share, and the task that moves its bytes.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll},
};

use queue_core::{ConnectionState, Driver, Duplex, Epoch, Limit, Shared, Wire, now};

use crate::{
    ConnectOptions, Error, Metrics, Result,
    protocol::client::{self, Answer, Ask},
};

/// One server, and the connection to it that is made when it is needed.
pub(crate) struct Link {
    options: ConnectOptions,
    role: Arc<Shared<client::Link>>,
}

impl Link {
    pub(crate) fn new(options: ConnectOptions) -> Self {
        Link { role: Shared::new(client::Link::new(options.clone())), options }
    }

    /// A link for one stream, which is connected.
    pub(crate) fn for_stream(options: ConnectOptions, stream: Box<dyn Duplex>) -> Result<Self> {
        let role = client::Link::for_stream(options.clone());
        let link = Link { role: Shared::new(role), options };
        link.drive(|wire| wire.over(stream))?;
        Ok(link)
    }

    /// Starts the task that moves the bytes.
    fn drive(&self, prepare: impl FnOnce(Wire<Error>) -> Wire<Error>) -> Result<()> {
        let wire = prepare(Wire::to(&self.options));
        Ok(Driver::new(self.role.clone(), wire).start("client")?)
    }

    /// Does something with the role, and sees to it that its bytes are moved.
    fn with<T>(&self, step: impl FnOnce(&mut client::Link) -> T) -> T {
        self.role.with(|link| {
            let done = step(link);
            (done, link.wakes_pump())
        })
    }

    /// Asks, and waits for what comes of it. Dropped before that, it takes the question back as far as that goes.
    pub(crate) async fn run(&self, ask: Ask, limit: Limit) -> Result<Answer> {
        let mut call = Call { link: self, number: Some(self.begin(ask, limit)?) };
        poll_fn(|cx| call.poll(cx)).await
    }

    /// Asks, and does not wait.
    pub(crate) fn begin(&self, ask: Ask, limit: Limit) -> Result<u64> {
        let (begun, is_lacking) = self.with(|link| (link.begin(ask, limit, now()), link.claim()));
        let number = begun?;
        if is_lacking {
            self.drive(|wire| wire).inspect_err(|_| self.leave(number))?;
        }
        Ok(number)
    }

    /// Waits for what comes of this task. Dropped before that, it can be waited for again.
    pub(crate) async fn outcome(&self, number: u64) -> Result<Answer> {
        poll_fn(|cx| self.with(|link| link.poll(number, cx.waker()))).await
    }

    /// Waits no more for what comes of this task.
    pub(crate) fn leave(&self, number: u64) {
        self.with(|link| link.leave(number));
    }

    /// Ends this connection, as if the server had.
    pub(crate) fn disconnect(&self) {
        self.with(client::Link::disconnect);
    }

    pub(crate) fn connection_state(&self) -> ConnectionState {
        self.with(|link| link.connection_state(now()))
    }

    pub(crate) fn metrics(&self) -> Metrics {
        self.with(|link| link.metrics().clone())
    }

    pub(crate) fn epoch(&self) -> Option<Epoch> {
        self.with(|link| link.epoch())
    }
}

impl Drop for Link {
    /// No client is left: the task ends.
    fn drop(&mut self) {
        self.with(client::Link::close);
    }
}

/// A caller's side of a task.
struct Call<'a> {
    link: &'a Link,
    /// Until it is over.
    number: Option<u64>,
}

impl Call<'_> {
    fn poll(&mut self, cx: &Context<'_>) -> Poll<Result<Answer>> {
        let Some(number) = self.number else { return Poll::Pending };
        let polled = self.link.with(|link| link.poll(number, cx.waker()));
        if polled.is_ready() {
            self.number = None;
        }
        polled
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.link.leave(number);
        }
    }
}
