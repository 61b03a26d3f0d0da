//! The task that moves the bytes of one connection of an async producer.

use std::{sync::Arc, task::Waker, time::Instant};

use queue_core::{Driver, Io, Pulse, Serve, Wire};
use tokio::runtime::Handle as Runtime;

use crate::{ConnectOptions, Error, produce::shared::SharedOutbox};

pub(super) fn spawn(
    runtime: &Runtime,
    outbox: &Arc<SharedOutbox>,
    server: usize,
    options: &ConnectOptions,
) {
    outbox.with(|outbox| outbox.claim(server));
    runtime.spawn(Driver::new(DrivenLane { outbox: outbox.clone(), server }, Wire::to(options)));
}

/// A lane as seen by its driver.
struct DrivenLane {
    outbox: Arc<SharedOutbox>,
    server: usize,
}

impl Serve for DrivenLane {
    type Failure = Error;

    fn exchange(&self, task: &Waker, io: &mut Io<Error>, now: Instant) -> Pulse {
        let sleep =
            |outbox: &mut crate::protocol::producer::Outbox| outbox.sleep(self.server, task);
        self.outbox.exchange(self.server, io, now, sleep).0
    }
}
