//! What happens to a producer, as it tells an observer.

use std::time::Duration;

use crate::{Address, Error, QueueName};

/// Something that happened to a producer. See [`ProducerOptions::on_event`](crate::ProducerOptions::on_event).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ProducerEvent {
    /// The server that it is about.
    pub server: Address,
    /// What happened.
    pub what: ProducerEventKind,
}

/// What happened. A producer learns of its servers by its pushes; what became of one is told to its caller.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ProducerEventKind {
    /// The server has answered, for the first time, or for the first time since it failed.
    Connected,
    /// The server could not be reached, or was lost: pushes pass over it. Until it answers again, each kind of error is told
    /// once.
    Disconnected(Error),
    /// The server is passed over for this time; told for each failure.
    BackingOff(Duration),
    /// A push goes to another server, for this one has failed it.
    Moved,
    /// A push of unknown fate is sent again; see
    /// [`at_least_once`](crate::ProducerOptions::at_least_once).
    Resent,
    /// A queue that the server did not have was created.
    Created(QueueName),
}
