//! The task that moves the bytes of one connection of an async producer.

use std::{sync::Arc, task::Waker, time::Instant};

use queue_core::{Dialing, Driver, Io, Pulse, Serve, Wire};
use tokio::runtime::Handle as Runtime;

use crate::{ConnectOptions, Error, deadline::Limit, producer_shared::SharedOutbox};

/// Starts the driver of a server.
pub(super) fn spawn(
    runtime: &Runtime,
    outbox: &Arc<SharedOutbox>,
    server: usize,
    options: &ConnectOptions,
) {
    outbox.with(|outbox| outbox.claim(server));
    let options = options.clone();
    let wire = Wire::new(move |_, _| -> Dialing<Error> {
        let options = options.clone();
        Box::pin(async move { options.connect(options.connect_limit(Limit::never())).await })
    });
    runtime.spawn(Driver::new(Lane { outbox: outbox.clone(), server }, wire));
}

/// A lane as its driver sees it.
struct Lane {
    outbox: Arc<SharedOutbox>,
    server: usize,
}

impl Serve for Lane {
    type Failure = Error;

    fn exchange(&self, task: &Waker, io: &mut Io<Error>, now: Instant) -> Pulse {
        let sleep =
            |outbox: &mut crate::protocol::producer::Outbox| outbox.sleep(self.server, task);
        self.outbox.exchange(self.server, io, now, sleep).0
    }
}
