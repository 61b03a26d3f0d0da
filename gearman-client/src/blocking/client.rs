//! The blocking client.

use std::time::Duration;

use queue_core::{Limit, Opening, Operation, blocking::TimedStream, now, sync::thread};

use super::{Duplex, link::ServerLink};
use crate::{
    ClientEventKind, ConnectOptions, Error, Metrics, Result, Servers, observed,
    protocol::Request,
    protocol::client::route::{RouteAttempts, RouteStep, Router, Time, no_server},
    trace,
};

/// A client of one or more Gearman servers: submits jobs and asks for their status.
///
/// Calls take `&mut self` and need no runtime. A client of several servers connects to each in its own thread, so that
/// a call does not wait for one that takes long while another is there. A connection keeps no state between calls, so a
/// pool may reuse a client as it is. When a connection is lost, the call that notices fails and reports the fate of its
/// request ([`Error::fate`]), unless the request definitely did not reach the server: then it goes to the next server,
/// or to the same one over a new connection, within the [retry policy](crate::RetryPolicy).
pub struct Client {
    pub(crate) links: Vec<ServerLink>,
    pub(crate) router: Router,
    turn: usize,
    /// The server that last failed a request.
    failed_at: usize,
    /// Only its errors are used.
    failures: Metrics,
}

/// Where a caller's answers arrive.
#[derive(Clone, Copy, Debug)]
pub(super) struct AnswerSlot {
    pub(super) link: usize,
    pub(super) slot: u32,
}

impl Client {
    /// Connects to the first reachable server: `"127.0.0.1:4730"`, `"one:4730,two:4730"`, an
    /// [`Address`](crate::Address), [`ConnectOptions`] or [`Servers`]. Each is tried once: startup errors are reported
    /// immediately.
    ///
    /// # Errors
    ///
    /// When no server can be reached, the error of the last: `Connect`, `Timeout(Connect)` or `Tls`. `InvalidInput` for
    /// an invalid address.
    pub fn connect<S>(servers: S) -> Result<Self>
    where
        S: TryInto<Servers>,
        Error: From<S::Error>,
    {
        let mut client = Self::new(servers)?;
        client.connect_any()?;
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
        let has_others = servers.options().len() > 1;
        let link = if has_others { ServerLink::aside } else { ServerLink::new };
        Ok(Self::over(servers.options().iter().cloned().map(link).collect(), servers))
    }

    /// Uses a connected stream. Such a client cannot reconnect; the address in `options` is only displayed.
    ///
    /// # Errors
    ///
    /// `Connect` when the stream does not support timeouts; any failure of the first exchange.
    pub fn from_stream(stream: impl Duplex + 'static, options: ConnectOptions) -> Result<Self> {
        let transport = TimedStream::new(Box::new(stream))
            .map_err(|error| queue_core::Error::cannot_connect(&options.address, error))?;
        let servers = Servers::from(&options);
        Ok(Self::over(vec![ServerLink::over(transport, options)], servers))
    }

    fn over(links: Vec<ServerLink>, servers: Servers) -> Self {
        let (router, failures) = (Router::new(servers), Metrics::default());
        Client { links, router, turn: 0, failed_at: 0, failures }
    }

    fn connect_any(&mut self) -> Result<()> {
        let mut last = no_server();
        let order = self.router.order(0, None);
        let mut opening = Opening::new(order.iter(), self.policy().0);
        while let Some((server, limit)) = opening.next_server(now()) {
            let Some(link) = self.links.get_mut(server) else { continue };
            match link.make_ready(limit) {
                Ok(()) => return Ok(()),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    pub(crate) fn call_with<R: Request>(
        &mut self,
        request: &R,
        idempotent: bool,
    ) -> Result<R::Reply> {
        self.observed(observed::request(&self.router, request), |client| {
            let (reply, place) = client.send_to_some(request, idempotent, Limit::never())?;
            let link = place.link;
            client.leave(place);
            Ok((reply, link))
        })
    }

    /// Runs a call in its span, and counts its failure. The call also returns the link that answered it.
    pub(super) fn observed<T>(
        &mut self,
        mut operation: Operation,
        call: impl FnOnce(&mut Self) -> Result<(T, usize)>,
    ) -> Result<T> {
        let span = operation.span().clone();
        span.run(|| {
            let outcome = call(self);
            self.count(&outcome);
            if self.links.len() > 1
                && let Ok((_, link)) = &outcome
                && let Some(link) = self.links.get(*link)
            {
                operation.at(link.options.address.endpoint());
            }
            operation.concluded(trace::failure(&outcome));
            outcome.map(|(answer, _)| answer)
        })
    }

    /// The answer to a request, and where its events will arrive, until `limit` or the limit of a call.
    pub(super) fn send_to_some<R: Request>(
        &mut self,
        request: &R,
        idempotent: bool,
        limit: Limit,
    ) -> Result<(R::Reply, AnswerSlot)> {
        let ((reply, slot), link) =
            self.on_some_server(request, idempotent, limit, |_, link, time| {
                link.call(request, time)
            })?;
        Ok((reply, AnswerSlot { link, slot }))
    }

    /// Abandons a caller's slot.
    pub(super) fn leave(&mut self, AnswerSlot { link, slot }: AnswerSlot) {
        if let Some(link) = self.links.get_mut(link) {
            link.role.slots.leave(slot);
        }
    }

    /// Tries a step on the servers, in order of preference, until one succeeds.
    pub(super) fn on_some_server<R: Request, T>(
        &mut self,
        request: &R,
        idempotent: bool,
        limit: Limit,
        step: impl FnMut(usize, &mut ServerLink, Time) -> Result<T>,
    ) -> Result<(T, usize)> {
        let order = self.router.order_for(self.turn, request)?;
        self.turn = self.turn.wrapping_add(1);
        let (total, rounds) = self.policy();
        self.walk(RouteAttempts::new(order, rounds, idempotent), total.sooner(limit), step)
    }

    /// Tries a step on the servers given by the attempts until one succeeds; returns which.
    pub(super) fn walk<T>(
        &mut self,
        mut attempts: RouteAttempts,
        total: Limit,
        mut step: impl FnMut(usize, &mut ServerLink, Time) -> Result<T>,
    ) -> Result<(T, usize)> {
        loop {
            let role = |index: usize| self.links.get(index).map(|link| &link.role);
            let is_away = |index| role(index).is_some_and(|role| role.life.is_away());
            if attempts.wants_haste(is_away) {
                self.links.iter_mut().for_each(|link| link.role.life.hurry(now()));
            }
            self.try_doubtful();
            let role = |index: usize| self.links.get(index).map(|link| &link.role);
            let quarantine = |index| role(index)?.life.quarantine(now());
            let is_doubtful = |index| role(index).is_some_and(|role| role.is_doubtful());
            let start = now();
            match attempts.step(quarantine, is_doubtful, total, start) {
                RouteStep::Try(index) => {
                    if let Some((failed, news)) = attempts.news(index)
                        && let Some(link) = self.links.get(failed)
                    {
                        news.notify(&link.options);
                    }
                    let time = attempts.time(total, start);
                    let link = self.links.get_mut(index).ok_or_else(no_server)?;
                    match step(index, link, time) {
                        Ok(done) => return Ok((done, index)),
                        Err(error) => {
                            self.failed_at = index;
                            attempts.failed(index, error, now())?;
                        }
                    }
                }
                RouteStep::Wait(time) => thread::sleep(time),
                RouteStep::GiveUp(error) => return Err(error),
            }
        }
    }

    /// Connects to servers that have failed or take long, while another one has the requests. Later calls see the
    /// outcome.
    fn try_doubtful(&mut self) {
        if self.links.len() > 1 {
            self.links
                .iter_mut()
                .filter(|link| link.role.is_doubtful())
                .for_each(ServerLink::try_aside);
        }
    }

    /// Reports that a request is resent after its answer was lost with the server that failed last.
    pub(super) fn resends(&self) {
        if let Some(link) = self.links.get(self.failed_at) {
            link.options.notify(ClientEventKind::Resent);
        }
    }

    /// The limit of a call that starts now, and the number of retry rounds over the servers.
    pub(super) fn policy(&self) -> (Limit, u32) {
        self.router.policy(now())
    }

    /// Closes the connections and connects to the servers again now. The events of foreground jobs submitted over the
    /// old connections are lost.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub fn reconnect(&mut self) -> Result<()> {
        self.links.iter_mut().for_each(|link| link.fail(&no_server()));
        self.connect_any()
    }

    /// Whether at least one connection was good when it was last used.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.links.iter().any(|link| link.role.is_open())
    }

    /// Checks, without waiting, whether the servers have closed idle connections.
    pub fn check_connection(&mut self) -> bool {
        self.links.iter_mut().for_each(ServerLink::look);
        self.is_connected()
    }

    pub(super) fn count<T>(&mut self, outcome: &Result<T>) {
        if let Err(error) = outcome {
            self.failures.failed(error.kind());
            trace::failed(error);
        }
    }

    /// Metrics of this client, over all its connections.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        let mut metrics = self.failures.clone();
        self.links.iter().for_each(|link| metrics.add(link.role.metrics()));
        metrics
    }

    /// Sets the reply timeout for all later calls.
    pub fn set_reply_timeout(&mut self, timeout: Duration) {
        self.links.iter_mut().for_each(|link| link.set_reply_timeout(timeout));
    }

    /// Sets the total timeout of all later calls; see [`ConnectOptions::total_timeout`].
    pub fn set_total_timeout(&mut self, timeout: Option<Duration>) {
        self.router.set_total_timeout(timeout);
    }

    pub(super) fn queued(&self) -> usize {
        self.links.iter().map(|link| link.role.queued()).sum()
    }

    /// Writes queued bytes. A failure reaches the waiting callers as items.
    pub(super) fn flush_all(&mut self) {
        self.links.iter_mut().filter(|link| link.role.queued() > 0).for_each(ServerLink::flush);
    }
}
