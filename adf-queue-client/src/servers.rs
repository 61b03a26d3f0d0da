//! One or more servers.

use std::{collections::BTreeMap, time::Instant};

use queue_core::{Limit, Opening};

use crate::{ConnectOptions, Error, Fate, Selection, address::AdfQueue};

/// The servers of a producer or a worker.
///
/// The server has no clustering: each one is a separate queue server, and clients choose. A producer pushes each
/// message to one of them; a worker serves all. Created from one [`ConnectOptions`], an [`Address`](crate::Address), a
/// list of them, or comma-separated addresses:
///
/// ```
/// use std::time::Duration;
/// use adf_queue_client::{Selection, Servers};
///
/// let servers: Servers = "one:6230,two:6230".parse()?;
/// let servers = servers.selection(Selection::ByKey).each(|server| server.reply_timeout(Duration::from_secs(2)));
/// # Ok::<(), adf_queue_client::Error>(())
/// ```
///
/// Its methods: [`new`](queue_core::Servers::new), [`selection`](queue_core::Servers::selection),
/// [`selected`](queue_core::Servers::selected), [`each`](queue_core::Servers::each),
/// [`addresses`](queue_core::Servers::addresses), [`options`](queue_core::Servers::options) and
/// [`check`](queue_core::Servers::check).
pub type Servers = queue_core::Servers<ConnectOptions>;

impl queue_core::OneServer for ConnectOptions {
    type System = AdfQueue;
    type Selection = Selection;
}

/// The question to each server in turn whether it answers.
#[derive(Debug)]
pub(crate) struct Checking<'a> {
    servers: &'a [ConnectOptions],
    opening: Opening,
    /// Why each server did not answer.
    failures: BTreeMap<usize, Error>,
    last: usize,
}

impl<'a> Checking<'a> {
    pub(crate) fn new(servers: &'a [ConnectOptions]) -> Self {
        let opening = Opening::new(0..servers.len(), Limit::never());
        Checking { servers, opening, failures: BTreeMap::new(), last: 0 }
    }

    /// The server to ask next, and the limit of that; the last one did not answer. `None` once none has.
    pub(crate) fn next_server(&mut self, now: Instant) -> Option<(usize, Limit)> {
        let (server, limit) = self.opening.next_server(now)?;
        self.last = server;
        Some((server, limit.sooner(self.servers.get(server)?.connecting_limit())))
    }

    /// Why it did not answer.
    pub(crate) fn failed(&mut self, error: Error) {
        self.failures.insert(self.last, error);
    }

    /// Why no server answers: the error of the only one, or one that names each.
    pub(crate) fn error(self) -> Error {
        let kind = self.failures.get(&self.last).map(|last| last.kind().clone());
        let all =
            queue_core::failure_of_all(self.failures.into_values().collect(), |last, each| {
                let kind = kind.unwrap_or_else(|| last.kind().clone());
                Error::new(kind, Fate::NotSent, format!("no server answers: {each}"))
            });
        all.unwrap_or_else(|| Error::invalid("there is no server"))
    }
}
