//! The servers of a producer in either face, and the steps of its pushes.

use std::{sync::Arc, time::Instant};

use queue_core::{Limit, Measures, Operation, Signal, lock, now, sync::Mutex};

use crate::{
    ConnectOptions, ConnectionState, Error, MessageId, ProducerOptions, Push, Result,
    protocol::{
        client::{Ask, AskAnswer},
        producer::{
            ProducerServers,
            attempts::{PushAttempts, PushStep},
        },
    },
    servers::Checking,
    trace,
};

/// A server of a producer, and the connection to it.
pub(crate) trait PushServer {
    fn new(options: ConnectOptions) -> Self;
    /// Makes a request without waiting.
    fn begin(&self, ask: Ask, limit: Limit, now: Instant) -> Result<u64>;
    fn state(&self) -> ConnectionState;
    /// The outcome of a ping for which no push waits, once it has ended. If there is none and `may_try` is set, one is
    /// sent.
    fn try_aside(&self, may_try: bool) -> Option<Result<()>>;
}

/// The event that a push waits for.
pub(crate) enum Awaits {
    /// The answer to this request, or first a connection for it.
    Answer {
        server: usize,
        number: u64,
        connects: bool,
    },
    /// A server that may be tried again.
    Server(Instant, Arc<Signal>),
    Nothing(Result<MessageId>),
}

/// All servers of a producer.
pub(crate) struct PushServers<S> {
    pub(crate) options: ProducerOptions,
    pub(crate) servers: Vec<S>,
    router: Mutex<ProducerServers>,
}

impl<S: PushServer> PushServers<S> {
    pub(crate) fn new(options: ProducerOptions) -> Self {
        let servers = options.servers.options().iter().cloned().map(S::new).collect();
        let router = Mutex::new(ProducerServers::of(&options));
        PushServers { options, servers, router }
    }

    pub(crate) fn server(&self, server: usize) -> Result<&S> {
        self.servers.get(server).ok_or_else(|| Error::invalid("there is no such server"))
    }

    /// The server, if there is only one.
    fn only(&self) -> Option<&ConnectOptions> {
        match self.options.servers.options() {
            [only] => Some(only),
            _ => None,
        }
    }

    /// Starts the operation of a push.
    pub(crate) fn operation(&self, push: &Push) -> Operation {
        let servers = self.options.servers.options();
        let measures = servers.first().map_or(Measures::none(), |server| &server.measures);
        trace::push(measures, self.only().map(ConnectOptions::address), push)
    }

    /// Ends it. `server` is the one that took the message.
    pub(crate) fn pushed(
        &self,
        operation: &mut Operation,
        server: Option<usize>,
        outcome: &Result<MessageId>,
    ) {
        let took = server.filter(|_| self.only().is_none());
        let took = took.and_then(|server| self.options.servers.options().get(server));
        trace::pushed(operation, took.map(ConnectOptions::address), outcome);
    }

    /// The attempts of a push, and what it waits for first.
    pub(crate) fn start(&self, push: Push, key: Option<&[u8]>) -> (PushAttempts, Awaits) {
        let now = now();
        if self.only().is_none() {
            self.try_doubtful(now);
        }
        let mut attempts = PushAttempts::new(push, key, self.options.terms(now));
        let awaits = self.advance(&mut attempts, None, now);
        (attempts, awaits)
    }

    /// Takes the steps of a push that need no waiting.
    pub(crate) fn advance(
        &self,
        push: &mut PushAttempts,
        mut answer: Option<Result<AskAnswer>>,
        now: Instant,
    ) -> Awaits {
        loop {
            let last = answer.take();
            match self.step(|router| push.next(last, router, now)) {
                PushStep::Ask { server, connecting } => {
                    match self.ask(push, server, connecting, now) {
                        Ok(awaits) => return awaits,
                        Err(error) => answer = Some(Err(error)),
                    }
                }
                PushStep::Wait(at, back) => return Awaits::Server(at, back),
                PushStep::Done(outcome) => return Awaits::Nothing(outcome),
            }
        }
    }

    /// Makes the request of a push. Connecting first may have its own limit.
    fn ask(
        &self,
        push: &PushAttempts,
        server: usize,
        connecting: Option<Limit>,
        now: Instant,
    ) -> Result<Awaits> {
        let one = self.server(server)?;
        let connecting = connecting.filter(|_| one.state() != ConnectionState::Ready);
        let number = match connecting {
            Some(limit) => one.begin(Ask::Ready, limit, now)?,
            None => one.begin(push.request(), push.limit(), now)?,
        };
        Ok(Awaits::Answer { server, number, connects: connecting.is_some() })
    }

    /// Pings servers that have failed, while another one has the pushes: a connection alone may be one that is silent.
    /// Later pushes see the outcome.
    fn try_doubtful(&self, now: Instant) {
        let doubtful = lock(&self.router).doubtful(now);
        for (index, may_try) in doubtful {
            let server = self.servers.get(index);
            if let Some(outcome) = server.and_then(|server| server.try_aside(may_try)) {
                self.step(|router| router.tried(index, outcome, now));
            }
        }
    }

    /// Asks the servers in turn whether they answer.
    pub(crate) fn checking(&self) -> Checking<'_> {
        Checking::new(self.options.servers.options())
    }

    /// A server did not answer: the first push goes to another one.
    pub(crate) fn check_failed(&self, server: usize, error: &Error) {
        self.step(|router| router.tried(server, Err(error.share()), now()));
    }

    /// The best state of a connection.
    pub(crate) fn state(&self, is_over: bool) -> ConnectionState {
        if is_over {
            return ConnectionState::Closed;
        }
        let states = self.servers.iter().map(S::state);
        states.max().unwrap_or_default()
    }

    /// Runs a step on the router, and reports the events of its servers.
    fn step<T>(&self, step: impl FnOnce(&mut ProducerServers) -> T) -> T {
        let mut router = lock(&self.router);
        let outcome = step(&mut router);
        let (events, mut later) = (router.take_events(), router.take_later());
        drop(router);
        later.run();
        self.options.notify(events);
        outcome
    }
}
