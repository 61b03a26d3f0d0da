//! A temporary queue with a random name.

use adf_queue_client::QueueName;
use ctl_core::commands::roundtrip::scratch_name;
use ctl_core::error::CliError;

use crate::link::Link;
use crate::names;

/// The name of such a queue.
///
/// # Errors
/// Never: the name is valid.
pub fn queue(purpose: &str) -> Result<QueueName, CliError> {
    names::queue(&scratch_name("adfctl", purpose))
}

/// Removes it with everything in it. Messages pulled from it are given back first: over WebSocket, they would otherwise
/// return later, to a queue that no longer exists.
///
/// # Errors
/// The server does not remove it, so it still exists.
pub fn remove(link: &mut Link, queue: &QueueName) -> Result<(), CliError> {
    use ctl_core::link::Link as _;
    link.close();
    let delete = format!("deletequeue {queue}");
    let removed = link.ask(delete, |client| client.delete_queue(queue.clone())).map(drop);
    removed.map_err(|error| error.context(format!("the queue {queue} stays on the server")))
}
