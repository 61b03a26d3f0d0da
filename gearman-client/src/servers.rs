//! One or more servers, and how a client chooses among them.

pub(crate) mod md5;

use crate::{ConnectOptions, Error, Fate, address::Gearmand};

/// The servers of a client or a worker.
///
/// Created from one [`ConnectOptions`], an [`Address`](crate::Address), a list of them, or comma-separated addresses as
/// in `GEARMAN_SERVERS`:
///
/// ```
/// use std::time::Duration;
/// use gearman_client::{Selection, Servers};
///
/// let servers: Servers = "one:4730,two:4730".parse()?;
/// let servers = servers.selection(Selection::ByKey).each(|server| server.reply_timeout(Duration::from_secs(2)));
/// # Ok::<(), gearman_client::Error>(())
/// ```
///
/// Its methods: [`new`](queue_core::Servers::new), [`selection`](queue_core::Servers::selection),
/// [`selected`](queue_core::Servers::selected), [`each`](queue_core::Servers::each),
/// [`addresses`](queue_core::Servers::addresses), [`options`](queue_core::Servers::options) and
/// [`check`](queue_core::Servers::check).
pub type Servers = queue_core::Servers<ConnectOptions>;

/// How a client selects the server for a submission. Whatever the selection, an unreachable server is skipped for a
/// while, one that takes over a second to connect until it is connected, and one that has let a caller's time pass
/// without an answer until it answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Selection {
    /// The first reachable one, in the order of the list.
    #[default]
    InOrder,
    /// Each in turn.
    RoundRobin,
    /// The same one for the same unique id, so that submissions with one id become one job. Uses rendezvous hashing
    /// over the addresses: when a server is down, only its own ids move. Submissions without an id go to each server in
    /// turn.
    ByKey,
    /// The same with the ring of libgearman 2.2 and later, known as ketama: clients in other languages with the same
    /// list of servers, written the same way, send equal ids to equal servers. If there are no such clients,
    /// [`ByKey`](Self::ByKey) distributes ids more evenly.
    ByKeyOnRing,
}

queue_core::words!(Selection, crate::Error, "way to choose a server":
    "in-order" = InOrder, "round-robin" = RoundRobin, "by-key" = ByKey, "by-key-on-ring" = ByKeyOnRing);

impl queue_core::OneServer for ConnectOptions {
    type System = Gearmand;
    type Selection = Selection;
}

/// The error of the only server, or one that names each, with the kind of the last.
pub(crate) fn no_answer(failures: Vec<Error>) -> Error {
    let all = queue_core::failure_of_all(failures, |last, each| {
        Error::new(last.kind(), Fate::NotSent, format!("no server answers: {each}"))
    });
    all.unwrap_or_else(|| Error::invalid("there is no server"))
}
