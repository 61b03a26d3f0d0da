//! One or more servers.

use crate::{ConnectOptions, Selection, address::AdfQueue};

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
