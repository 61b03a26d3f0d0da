//! The servers of a producer, and the way of its pushes through them.

pub(crate) mod attempts;

use std::{mem, sync::Arc, time::Instant};

use queue_core::{Chooser, Health, Later, Signal, stable_hash};

use crate::{
    ConnectOptions, Error, ErrorKind, ProducerEventKind, ProducerOptions, Result, RetryPolicy,
    Servers,
};

/// The servers of a producer.
#[derive(Debug)]
pub(crate) struct ProducerServers {
    chooser: Chooser,
    servers: Vec<ServerHealth>,
    /// Signals that a failed server has answered.
    back: Arc<Signal>,
    /// Events by server that were not reported yet, if there is an observer. They are reported after each step.
    events: Option<Vec<(usize, ProducerEventKind)>>,
    /// Wakes pushes after each step.
    later: Later,
}

#[derive(Debug)]
struct ServerHealth {
    /// After a failure, the server is skipped for a while.
    health: Health,
    /// Whether it was reported that it has answered since its last failure.
    answers: bool,
    /// The last failure that was reported, until it answers.
    failure: Option<ErrorKind>,
    /// Whether it could be reached since its last failure.
    is_reached: bool,
}

impl ServerHealth {
    fn is_away(&self, now: Instant) -> bool {
        self.health.quarantine(now).is_some()
    }

    /// Whether it has failed and could not be reached since.
    fn is_doubtful(&self) -> bool {
        !self.is_reached && self.health.failures() > 0
    }
}

impl ProducerServers {
    pub(crate) fn of(options: &ProducerOptions) -> Self {
        let events = options.observer.is_some().then(Vec::new);
        ProducerServers { events, ..Self::new(&options.servers) }
    }

    pub(crate) fn new(servers: &Servers) -> Self {
        let hash = |address: &crate::Address| stable_hash(address.to_string().as_bytes());
        // Each producer draws its own sequence, unless a server's seed makes it repeatable.
        let retry = servers.options().first().map_or_else(RetryPolicy::default, |one| one.retry);
        let seed = retry.random().next_u64();
        let hashes = servers.addresses().map(hash).collect();
        let unknown = |server: &ConnectOptions| {
            let health = Health::new(server.retry, None);
            ServerHealth { health, answers: false, failure: None, is_reached: false }
        };
        ProducerServers {
            chooser: Chooser::new(servers.selected(), hashes, seed),
            servers: servers.options().iter().map(unknown).collect(),
            back: Arc::default(),
            events: None,
            later: Later::default(),
        }
    }

    /// The servers that have failed and not answered since, if another one is well, and whether they may be tried again:
    /// behind the backs of callers, who use the other one.
    pub(crate) fn doubtful(&self, now: Instant) -> Vec<(usize, bool)> {
        if self.servers.iter().all(ServerHealth::is_doubtful) {
            return Vec::new();
        }
        let doubtful = self.servers.iter().enumerate().filter(|(_, server)| server.is_doubtful());
        doubtful.map(|(server, known)| (server, !known.is_away(now))).collect()
    }

    /// Handles the outcome of such an attempt to connect.
    pub(crate) fn tried(&mut self, server: usize, outcome: Result<()>, now: Instant) {
        match (outcome, self.servers.get_mut(server)) {
            // Whether it takes pushes is not known yet.
            (Ok(()), Some(server)) => server.is_reached = true,
            (Ok(()), None) => {}
            (Err(error), _) => self.fails(server, &error, now),
        }
    }

    fn note(&mut self, server: usize, what: ProducerEventKind) {
        if let Some(events) = &mut self.events {
            events.push((server, what));
        }
    }

    /// Takes what has to be done once no lock is held.
    pub(crate) fn take_later(&mut self) -> Later {
        mem::take(&mut self.later)
    }

    /// Takes the events to report outside of any lock.
    pub(crate) fn take_events(&mut self) -> Vec<(usize, ProducerEventKind)> {
        self.events.as_mut().map(mem::take).unwrap_or_default()
    }

    /// A server could not be reached, or was lost. For many pushes at once that is one failure.
    fn fails(&mut self, index: usize, error: &Error, now: Instant) {
        let Some(server) = self.servers.get_mut(index).filter(|one| !one.is_away(now)) else {
            return;
        };
        server.health.failed(now);
        let pause = server.health.not_before().map(|at| at.saturating_duration_since(now));
        (server.answers, server.is_reached) = (false, false);
        if server.failure.as_ref() != Some(error.kind()) {
            server.failure = Some(error.kind().clone());
            self.note(index, ProducerEventKind::Disconnected(error.share()));
        }
        if let Some(pause) = pause {
            self.note(index, ProducerEventKind::BackingOff(pause));
        }
    }

    /// A server has answered.
    fn answers(&mut self, index: usize) {
        let Some(server) = self.servers.get_mut(index) else { return };
        let had_failed = server.health.failures() > 0;
        if had_failed {
            server.health.proven();
        }
        if !mem::replace(&mut server.answers, true) {
            server.failure = None;
            self.note(index, ProducerEventKind::Connected);
        }
        if had_failed {
            // Pushes that wait for a server try again.
            self.later.set(mem::take(&mut self.back));
        }
    }

    /// A push has arrived while every server is away.
    fn hurry(&mut self, now: Instant) {
        self.servers.iter_mut().for_each(|server| server.health.hurry(now));
    }

    /// When the first of the failed servers may be retried.
    fn back_at(&self) -> Option<Instant> {
        self.servers.iter().filter_map(|server| server.health.not_before()).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Selection;

    #[test]
    fn random_selection_differs_between_producers_unless_they_have_a_seed() {
        let drawn = |retry: RetryPolicy| {
            let servers: Servers = "one,two".parse().unwrap();
            let servers = servers.selection(Selection::Random).each(|server| server.retry(retry));
            let mut router = ProducerServers::new(&servers);
            let chosen = (0..64).filter_map(|_| router.chooser.choose(None, |_| true));
            chosen.collect::<Vec<_>>()
        };
        let seeded = RetryPolicy::default().seed(7);
        assert_eq!(drawn(seeded), drawn(seeded));
        assert_ne!(drawn(seeded), drawn(seeded.seed(8)));
        assert_ne!(drawn(RetryPolicy::default()), drawn(RetryPolicy::default()));
    }
}
