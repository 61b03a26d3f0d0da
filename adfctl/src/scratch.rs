//! A queue that nobody else uses, and that is gone afterwards.

use adf_queue_client::QueueName;
use ctl_core::commands::smoke::scratch_name;
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

/// Removes it with all that is in it. What was pulled from it is given back first: over WebSocket it would come back
/// otherwise, into a queue that is gone.
///
/// # Errors
/// The server does not remove it: it is still there.
pub fn remove(link: &mut Link, queue: &QueueName) -> Result<(), CliError> {
    use ctl_core::link::Link as _;
    link.close();
    let delete = format!("deletequeue {queue}");
    let removed = link.ask(delete, |client| client.delete_queue(queue.clone())).map(drop);
    removed.map_err(|error| error.context(format!("the queue {queue} stays on the server")))
}
