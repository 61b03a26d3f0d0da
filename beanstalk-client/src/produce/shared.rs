//! A producer's state, behind the lock that its handles and the pumps of its lanes share.

use std::{task::Waker, time::Instant};

use queue_core::{
    Io, Measures, Observer, Operation, Pulse, lock,
    sync::{Mutex, MutexGuard},
};

use crate::{
    Address, Error, ProducerEvent, ProducerEventKind, ProducerOptions, TubeName,
    protocol::{
        Put,
        producer::{Outbox, Probes},
    },
    trace,
};

/// The outbox. Wakers and traces run outside of its lock.
#[derive(Debug)]
pub(crate) struct SharedOutbox {
    outbox: Mutex<Outbox>,
    servers: Vec<Address>,
    observer: Option<Observer<ProducerEvent>>,
    measures: Measures,
}

impl SharedOutbox {
    pub(crate) fn new(options: &ProducerOptions, probes: Probes) -> Self {
        let servers = options.servers.options().iter().map(|server| server.address().clone());
        let first = options.servers.options().first();
        let measures = first.map(|server| server.server.measures.clone()).unwrap_or_default();
        let outbox = Mutex::new(Outbox::new(options, probes));
        let observer = options.observer.clone();
        SharedOutbox { outbox, servers: servers.collect(), observer, measures }
    }

    pub(crate) fn put<B: AsRef<[u8]>>(&self, tube: &TubeName, put: &Put<B>) -> Operation {
        trace::put(&self.measures, &self.servers, tube, put)
    }

    pub(crate) fn puts(&self, tube: &TubeName) -> Operation {
        trace::puts(&self.measures, &self.servers, tube)
    }

    /// Ignores poisoning: a panic leaves nothing in the outbox half done.
    fn lock(&self) -> MutexGuard<'_, Outbox> {
        lock(&self.outbox)
    }

    pub(crate) fn with<T>(&self, step: impl FnOnce(&mut Outbox) -> T) -> T {
        let mut outbox = self.lock();
        let outcome = step(&mut outbox);
        let (one, others) = outbox.take_few_wakers();
        let events = outbox.take_events();
        drop(outbox);
        one.into_iter().chain(others).for_each(Waker::wake);
        self.notify(events);
        outcome
    }

    fn notify(&self, events: Vec<(usize, ProducerEventKind)>) {
        let Some(observer) = &self.observer else { return };
        for (server, what) in events {
            if let Some(server) = self.servers.get(server) {
                observer.notify(&ProducerEvent { server: server.clone(), what });
            }
        }
    }

    /// Runs an exchange of a server's lane, and `step` under the same lock.
    pub(crate) fn exchange<T>(
        &self,
        server: usize,
        io: &mut Io<Error>,
        now: Instant,
        more: impl FnOnce(&mut Outbox) -> T,
    ) -> (Pulse, T) {
        let mut outbox = self.lock();
        let pulse = outbox.exchange(server, io, now);
        let more = more(&mut outbox);
        outbox.take_wakers(&mut io.wake);
        let is_lost = outbox.take_lost(server);
        let events = outbox.take_events();
        drop(outbox);
        if let Some(address) = self.servers.get(server).filter(|_| is_lost) {
            trace::connection_lost(address, None);
        }
        self.notify(events);
        (pulse, more)
    }
}
