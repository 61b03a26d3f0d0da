//! The servers for a call of the async client, in turn.

use std::{sync::Arc, time::Instant};

use queue_core::{Limit, now};
use tokio::time::sleep;

use crate::{
    Result,
    asynchronous::link::ServerLink,
    protocol::client::route::{RouteAttempts, RouteStep, Time, no_server},
};

/// The servers for a call, in turn.
pub(crate) struct Route<'a> {
    links: &'a [Arc<ServerLink>],
    pub(crate) attempts: RouteAttempts,
    pub(crate) total: Limit,
}

impl<'a> Route<'a> {
    pub(crate) fn new(links: &'a [Arc<ServerLink>], attempts: RouteAttempts, total: Limit) -> Self {
        Route { links, attempts, total }
    }

    pub(crate) fn step(&mut self, now: Instant) -> RouteStep {
        let links = self.links;
        let is_away = |index: usize| links.get(index).is_some_and(|link| link.is_away());
        if self.attempts.wants_haste(is_away) {
            links.iter().for_each(|link| link.with(|role| role.life.hurry(now)));
        }
        let quarantine = |index: usize| links.get(index)?.quarantine();
        let is_doubtful = |index: usize| links.get(index).is_some_and(|link| link.is_doubtful());
        let step = self.attempts.step(quarantine, is_doubtful, self.total, now);
        if let RouteStep::Try(next) = step
            && let Some((failed, news)) = self.attempts.news(next)
            && let Some(link) = links.get(failed)
        {
            news.notify(&link.options);
        }
        step
    }

    /// The limits of an attempt at the server of the last step.
    pub(crate) fn time(&self, now: Instant) -> Time {
        self.attempts.time(self.total, now)
    }

    pub(crate) fn link(&self, index: usize) -> Result<&'a Arc<ServerLink>> {
        self.links.get(index).ok_or_else(no_server)
    }

    /// The next server to try; waits while none may be tried yet.
    pub(crate) async fn next(&mut self) -> Result<(usize, &'a Arc<ServerLink>)> {
        loop {
            match self.step(now()) {
                RouteStep::Try(index) => return self.link(index).map(|link| (index, link)),
                RouteStep::Wait(time) => sleep(time).await,
                RouteStep::GiveUp(error) => return Err(error),
            }
        }
    }
}
