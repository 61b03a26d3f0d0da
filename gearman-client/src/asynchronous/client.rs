//! The async client.

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Poll, ready},
};

use queue_core::{Duplex, Limit, Opening, Operation, lock, now, sync::Mutex};

use crate::{
    Address, ConnectOptions, Error, Metrics, Result, Servers,
    asynchronous::{call::RoutedCall, link::ServerLink, route::Route},
    observed,
    protocol::{
        Request,
        client::{
            Link,
            route::{Question, RouteAttempts, Router, ServerOrder, no_server},
        },
    },
    trace,
};

/// A client of one or more Gearman servers: submits jobs and asks for their status.
///
/// It is `Clone` and can be shared freely: all clones use the same connections, one for each server, each driven by its
/// own task. Requests of many callers go out together, and any number of jobs can be in flight. The tasks end when the
/// last clone and the last [`Job`](crate::Job) are dropped. A connection keeps no state between calls, so there is
/// nothing to reset, and no pool is needed.
///
/// When a connection is lost, each call waiting on it fails and reports the fate of its request ([`Error::fate`]),
/// unless the request definitely did not reach the server: then it goes to the next server, or to the same one over a
/// new connection, within the [retry policy](crate::RetryPolicy).
///
/// # Cancel safety
///
/// Every call may be dropped at any await point. A call that was never polled has sent nothing. Otherwise the request
/// may or may not be carried out; the connection stays in step, because its driver reads and discards what still
/// arrives.
#[derive(Clone)]
pub struct Client {
    pub(crate) inner: Arc<ClientInner>,
}

pub(crate) struct ClientInner {
    pub(crate) links: Vec<Arc<ServerLink>>,
    pub(crate) router: Router,
    turn: AtomicUsize,
    /// Only its errors are used.
    failures: Mutex<Metrics>,
}

impl Drop for ClientInner {
    fn drop(&mut self) {
        // No client is left, so the tasks end.
        self.links.iter().for_each(|link| link.with(Link::close));
    }
}

impl Client {
    /// Connects to the first reachable server: `"127.0.0.1:4730"`, `"one:4730,two:4730"`, an [`Address`],
    /// [`ConnectOptions`] or [`Servers`]. Each is tried once: startup errors are reported immediately.
    ///
    /// # Errors
    ///
    /// When no server can be reached, the error of the last: `Connect`, `Timeout(Connect)` or `Tls`. `InvalidInput` for
    /// an invalid address, and outside of a tokio runtime.
    ///
    /// # Cancel safety
    ///
    /// Dropping closes the half-made connection.
    pub async fn connect<S>(servers: S) -> Result<Self>
    where
        S: TryInto<Servers>,
        Error: From<S::Error>,
    {
        let client = Self::new(servers)?;
        client.connect_any().await?;
        Ok(client)
    }

    /// Creates a client that connects at its first call, with all attempts of the [retry policy](crate::RetryPolicy):
    /// for a service that may start before its servers.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for an invalid address, `Tls` for unusable TLS options.
    pub fn new<S>(servers: S) -> Result<Self>
    where
        S: TryInto<Servers>,
        Error: From<S::Error>,
    {
        let servers = servers.try_into()?;
        servers.check()?;
        let links = servers.options().iter().cloned().map(ServerLink::new).collect();
        Ok(Self::over(links, servers))
    }

    /// Uses a connected stream. Such a client cannot reconnect; the address in `options` is only displayed.
    ///
    /// # Errors
    ///
    /// Any failure of the first exchange.
    ///
    /// # Cancel safety
    ///
    /// Dropping closes the stream.
    pub async fn from_stream(
        stream: impl Duplex + 'static,
        options: ConnectOptions,
    ) -> Result<Self> {
        let servers = Servers::from(&options);
        let link = ServerLink::for_stream(options, Box::new(stream))?;
        let client = Self::over(vec![link.clone()], servers);
        link.connect(Limit::never()).await?;
        Ok(client)
    }

    fn over(links: Vec<Arc<ServerLink>>, servers: Servers) -> Self {
        let (router, turn) = (Router::new(servers), AtomicUsize::new(0));
        Client { inner: Arc::new(ClientInner { links, router, turn, failures: Mutex::default() }) }
    }

    async fn connect_any(&self) -> Result<()> {
        let mut last = no_server();
        let order = self.inner.router.order(0, None);
        let mut opening = Opening::new(order.iter(), self.policy().0);
        while let Some((server, limit)) = opening.next_server(now()) {
            let Some(link) = self.inner.links.get(server) else { continue };
            match link.connect(limit).await {
                Ok(()) => return Ok(()),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    pub(crate) async fn call_with<R: Request>(
        &self,
        request: &R,
        idempotent: bool,
    ) -> Result<R::Reply> {
        let mut call = self.calling(request, idempotent, Limit::never())?;
        let operation = observed::request(&self.inner.router, request);
        self.observed(operation, &mut call, |call, _| call.server()).await
    }

    /// A request to the first server that accepts it, until `limit` or the limit of a call.
    ///
    /// # Errors
    ///
    /// `InvalidInput` for the handle of a job of another client's server.
    pub(crate) fn calling<'a, R: Request>(
        &'a self,
        request: &'a R,
        idempotent: bool,
        limit: Limit,
    ) -> Result<RoutedCall<'a, R>> {
        let order = self.next_order(request)?;
        Ok(RoutedCall::new(self.route(order, idempotent, limit), request))
    }

    /// Runs a call in its span, and counts its failure. `server` returns the server that has answered.
    pub(crate) async fn observed<C, T>(
        &self,
        mut operation: Operation,
        mut call: C,
        server: impl for<'a> Fn(&'a C, &'a T) -> Option<&'a Address>,
    ) -> Result<T>
    where
        C: Future<Output = Result<T>> + Unpin,
    {
        let span = operation.span().clone();
        let counted = poll_fn(|cx| {
            let outcome = ready!(Pin::new(&mut call).poll(cx));
            self.count(&outcome);
            if self.inner.links.len() > 1
                && operation.is_reported()
                && let Ok(answer) = &outcome
                && let Some(server) = server(&call, answer)
            {
                operation.at(server.endpoint());
            }
            operation.concluded(trace::failure(&outcome));
            Poll::Ready(outcome)
        });
        span.follow(counted).await
    }

    /// The limit of a call that starts now, and the number of retry rounds over the servers.
    pub(crate) fn policy(&self) -> (Limit, u32) {
        self.inner.router.policy(now())
    }

    /// The way over these servers, within the limit of a call that starts now and within `limit`.
    pub(crate) fn route(&self, order: ServerOrder, idempotent: bool, limit: Limit) -> Route<'_> {
        let (total, rounds) = self.policy();
        let attempts = RouteAttempts::new(order, rounds, idempotent);
        Route::new(&self.inner.links, attempts, total.sooner(limit))
    }

    /// The servers for a request, which take turns.
    pub(crate) fn next_order<R: Request>(&self, request: &R) -> Result<ServerOrder> {
        let turn = match self.inner.links.as_slice() {
            [_] => 0,
            _ => self.inner.turn.fetch_add(1, Ordering::Relaxed),
        };
        self.inner.router.order_for(turn, request)
    }

    /// The way to this server alone, for a question about its jobs.
    pub(crate) fn route_to(&self, question: Question) -> Route<'_> {
        let link = self.inner.links.get(question.server);
        let reply_timeout = link.map(|link| link.options.reply_timeout).unwrap_or_default();
        let attempts = RouteAttempts::question(question, reply_timeout, now());
        Route::new(&self.inner.links, attempts, question.limit)
    }

    /// Closes the connections and connects to the servers again now. The events of foreground jobs submitted over the
    /// old connections are lost.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    ///
    /// # Cancel safety
    ///
    /// The old connections are closed; the next call connects again.
    pub async fn reconnect(&self) -> Result<()> {
        for link in &self.inner.links {
            link.disconnect(link.epoch(), &no_server());
        }
        self.connect_any().await
    }

    /// Whether at least one connection is good. A server that goes away is noticed at once.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.inner.links.iter().any(|link| link.is_connected())
    }

    pub(crate) fn count<T>(&self, outcome: &Result<T>) {
        if let Err(error) = outcome {
            lock(&self.inner.failures).failed(error.kind());
            trace::failed(error);
        }
    }

    /// Metrics of this client and its clones, over all their connections.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let mut metrics = lock(&self.inner.failures).clone();
        self.inner.links.iter().for_each(|link| link.with(|link| metrics.add(link.metrics())));
        metrics
    }
}
