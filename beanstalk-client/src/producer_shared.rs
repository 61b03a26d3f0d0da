//! A producer's state under the lock that its handles and the pumps of its lanes share.

use std::{
    sync::{Mutex, MutexGuard},
    task::Waker,
    time::Instant,
};

use queue_core::{Io, Pulse, lock};

use crate::{
    Address, Error, ProducerOptions,
    protocol::producer::{Outbox, Probes},
    trace,
};

/// The outbox. Whom something concerns is woken outside of the lock, and what is traced is traced there, too.
#[derive(Debug)]
pub(crate) struct SharedOutbox {
    outbox: Mutex<Outbox>,
    servers: Vec<Address>,
}

impl SharedOutbox {
    pub(crate) fn new(options: &ProducerOptions, probes: Probes) -> Self {
        let servers = options.servers.options().iter().map(|server| server.address().clone());
        let outbox = Mutex::new(Outbox::new(options, probes));
        SharedOutbox { outbox, servers: servers.collect() }
    }

    /// Nothing in the outbox is left half done by a panic.
    fn lock(&self) -> MutexGuard<'_, Outbox> {
        lock(&self.outbox)
    }

    /// Does something under the lock.
    pub(crate) fn with<T>(&self, step: impl FnOnce(&mut Outbox) -> T) -> T {
        let mut outbox = self.lock();
        let outcome = step(&mut outbox);
        let (one, others) = outbox.take_few_wakers();
        drop(outbox);
        one.into_iter().chain(others).for_each(Waker::wake);
        outcome
    }

    /// Asks the lane of a server, and does something more under the same lock.
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
        drop(outbox);
        if let Some(address) = self.servers.get(server).filter(|_| is_lost) {
            trace::connection_lost(address, None);
        }
        (pulse, more)
    }
}
