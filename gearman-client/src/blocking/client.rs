//! The blocking client.

use std::{thread, time::Duration};

use super::{
    Stream,
    link::{Link, Mail, decode},
    net::Transport,
};
use crate::{
    Address, ConnectOptions, Error, Fate, JobHandle, Origin, Result, Servers,
    deadline::Limit,
    protocol::{Epoch, Request},
    route::{LEAST_WAIT, may_repeat, no_server},
    servers::Router,
    socket::cannot_connect,
};

/// A client of one or more Gearman servers: submits jobs and asks for their status.
///
/// Calls take `&mut self` and need no runtime and no thread. When a connection is lost, the call that notices fails and
/// says what became of its request ([`Error::fate`]), unless the request certainly did not reach the server: then it
/// goes to the next server, or to the same one over a new connection, within the [retry policy](crate::RetryPolicy).
pub struct Client {
    pub(super) links: Vec<Link>,
    pub(super) router: Router,
    turn: usize,
    tokens: u64,
}

impl Client {
    /// Connects to the first server that can be reached: `"127.0.0.1:4730"`, `"one:4730,two:4730"`, an [`Address`],
    /// [`ConnectOptions`] or [`Servers`].
    ///
    /// # Errors
    ///
    /// When no server can be reached, the error of the last: `Connect`, `Timeout(Connect)` or `Tls`. `InvalidInput` for
    /// a wrong address.
    pub fn connect<S>(servers: S) -> Result<Self>
    where
        S: TryInto<Servers>,
        Error: From<S::Error>,
    {
        let servers = servers.try_into()?;
        servers.check()?;
        let router = Router::new(&servers);
        let links = servers.list.into_iter().map(Link::new).collect();
        let mut client = Client { links, router, turn: 0, tokens: 0 };
        client.connect_any()?;
        Ok(client)
    }

    /// Uses a stream that the caller has connected. Such a client cannot reconnect; the address in `options` is only
    /// shown.
    ///
    /// # Errors
    ///
    /// `Connect` when the stream takes no timeouts; any failure of the first exchange.
    pub fn from_stream(stream: impl Stream + 'static, options: ConnectOptions) -> Result<Self> {
        let transport = Transport::new(Box::new(stream))
            .map_err(|error| cannot_connect(&options.address.to_string(), error))?;
        let router = Router::new(&Servers::from(&options));
        Ok(Client { links: vec![Link::over(transport, options)?], router, turn: 0, tokens: 0 })
    }

    fn connect_any(&mut self) -> Result<()> {
        let mut last = None;
        for index in self.router.order(0, None) {
            let Some(link) = self.links.get_mut(index) else { continue };
            match link.make_ready(Limit::total(&link.options)) {
                Ok(()) => return Ok(()),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(no_server))
    }

    /// Sends any request and waits for its answer.
    ///
    /// The events of a foreground job that is submitted so are dropped; see [`submit`](Self::submit).
    ///
    /// # Errors
    ///
    /// What the server refused, and any failure of the connection; see [`Error::fate`].
    pub fn call<R: Request>(&mut self, request: &R) -> Result<R::Reply> {
        self.call_with(request, false)
    }

    pub(super) fn call_with<R: Request>(
        &mut self,
        request: &R,
        idempotent: bool,
    ) -> Result<R::Reply> {
        self.send_and_wait(request, idempotent).map(|(reply, ..)| reply)
    }

    /// The answer to a request, with the link and the token that events come by.
    pub(super) fn send_and_wait<R: Request>(
        &mut self,
        request: &R,
        idempotent: bool,
    ) -> Result<(R::Reply, usize, u64)> {
        let token = self.token();
        self.on_some_server(request.route(), idempotent, |link, total| {
            link.make_ready(total)?;
            link.send(request, token);
            // A failure to write comes with the fate of this request, as mail.
            let _ = link.flush(total);
            let mail = wait_for(link, token, total)?;
            let reply = decode(request, mail, link.origin());
            if let Err(error) = &reply
                && error.kind() == crate::ErrorKind::Protocol
            {
                link.fail(error.share());
            }
            reply
        })
        .map(|(reply, index)| (reply, index, token))
        .map_err(|error| error.with_command(request.packet_type().name()))
    }

    /// Tries a step on the servers, in the order of their preference, until one does it.
    pub(super) fn on_some_server<T>(
        &mut self,
        route: Option<&[u8]>,
        idempotent: bool,
        mut step: impl FnMut(&mut Link, Limit) -> Result<T>,
    ) -> Result<(T, usize)> {
        let order = self.router.order(self.turn, route);
        self.turn = self.turn.wrapping_add(1);
        let options = self.links.first().map(|link| &link.options);
        let total = options.map_or(Limit::never(), Limit::total);
        let mut rounds = options.map_or(0, |options| options.retry.attempts);
        let mut last = None;
        loop {
            let all_wait = self.links.iter().all(|link| link.quarantine().is_some());
            for &index in &order {
                let Some(link) = self.links.get_mut(index) else { continue };
                // A server that could not be reached a moment ago is not tried while there are others.
                if !all_wait && link.quarantine().is_some() {
                    continue;
                }
                let mut outcome = step(link, total);
                // The same unique id on the same server names the same job.
                if outcome
                    .as_ref()
                    .is_err_and(|e| e.fate() == Fate::Unknown && may_repeat(e, idempotent))
                {
                    outcome = step(link, total);
                }
                match outcome {
                    Ok(done) => return Ok((done, index)),
                    Err(error) if may_repeat(&error, idempotent) => last = Some(error),
                    Err(error) => return Err(error),
                }
                if total.has_passed() {
                    return Err(last.unwrap_or_else(no_server));
                }
            }
            if rounds == 0 || total.has_passed() {
                return Err(last.unwrap_or_else(no_server));
            }
            rounds -= 1;
            self.wait_for_a_server(total);
        }
    }

    /// Waits until a server may be tried again.
    fn wait_for_a_server(&self, total: Limit) {
        let waits = self.links.iter().map(|link| link.quarantine().unwrap_or_default());
        let wait = waits.min().unwrap_or_default().max(LEAST_WAIT);
        thread::sleep(total.remaining().map_or(wait, |left| left.min(wait)));
    }

    /// Connects to the servers again now: the old connections are closed. Foreground jobs that were submitted over
    /// them are lost sight of.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub fn reconnect(&mut self) -> Result<()> {
        for link in &mut self.links {
            link.fail(no_server());
        }
        let mut last = None;
        for index in self.router.order(0, None) {
            let Some(link) = self.links.get_mut(index) else { continue };
            match link.connect(Limit::total(&link.options)) {
                Ok(()) => return Ok(()),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(no_server))
    }

    /// Whether some connection was good when it was last used.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        self.links.iter().any(Link::is_connected)
    }

    /// Looks, without waiting, whether the servers have closed the connections while nobody used them.
    pub fn check_connection(&mut self) -> bool {
        self.links.iter_mut().for_each(Link::check);
        self.is_connected()
    }

    /// The addresses of the servers, in order.
    pub fn addresses(&self) -> impl ExactSizeIterator<Item = &Address> {
        self.links.iter().map(Link::address)
    }

    /// The number of the present connection to each server.
    pub fn epochs(&self) -> impl ExactSizeIterator<Item = Epoch> {
        self.links.iter().map(|link| link.origin().epoch)
    }

    /// Changes the wait for replies from the next call on.
    pub fn set_reply_timeout(&mut self, timeout: Duration) {
        for link in &mut self.links {
            link.options.reply_timeout = timeout;
        }
    }

    /// A number that no other request of this client has.
    pub(super) fn token(&mut self) -> u64 {
        self.tokens += 1;
        self.tokens
    }

    pub(super) fn origin(&self, index: usize) -> Option<&Origin> {
        self.links.get(index).map(Link::origin)
    }

    /// The server that a handle names, if it is one of this client's.
    pub(super) fn server_of(&self, handle: &JobHandle) -> Option<usize> {
        let server = handle.server()?;
        self.links.iter().position(|link| link.address() == server)
    }
}

/// Waits for mail; what is for somebody else is of callers that have gone.
pub(super) fn wait_for(link: &mut Link, token: u64, limit: Limit) -> Result<Mail> {
    loop {
        match link.next(limit) {
            Ok((to, mail)) if to == token => return Ok(mail),
            Ok(_) => {}
            // The total deadline: the answer is still to come, and will be passed over.
            Err(error) => return Err(error.with_fate(Fate::Unknown)),
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("servers", &self.addresses().map(ToString::to_string).collect::<Vec<_>>())
            .field("connected", &self.is_connected())
            .finish_non_exhaustive()
    }
}
