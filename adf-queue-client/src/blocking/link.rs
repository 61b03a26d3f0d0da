//! One server of a blocking client: its role, and the wire that moves its bytes in the caller's thread.

use std::{
    io,
    task::{Poll, Waker},
};

use queue_core::{
    ConnectionState, Epoch, Limit,
    blocking::{Drive, Transport, Wire},
    now,
    sync::thread,
};

use crate::{
    ConnectOptions, Error, Metrics, Result,
    error::lost,
    protocol::client::{self, Answer, Ask},
};

/// One server, and the connection to it that is made when it is needed.
#[derive(Debug)]
pub(super) struct Link {
    role: client::Link,
    wire: Wire<Error>,
}

impl Link {
    pub(super) fn new(options: ConnectOptions) -> Self {
        let role = client::Link::new(options.clone());
        Link { role, wire: Wire::to(&options) }
    }

    /// Uses a stream that is connected, and no other.
    pub(super) fn over(transport: Transport, options: ConnectOptions) -> Self {
        let role = client::Link::for_stream(options.clone());
        Link { role, wire: Wire::to(&options).over(transport) }
    }

    /// Asks, and waits for what comes of it.
    pub(super) fn run(&mut self, ask: Ask, limit: Limit) -> Result<Answer> {
        let number = self.begin(ask, limit)?;
        self.outcome(number)
    }

    /// Asks, and does not wait. Nothing is sent before [`push`](Self::push), or before an outcome is waited for.
    pub(super) fn begin(&mut self, ask: Ask, limit: Limit) -> Result<u64> {
        self.role.begin(ask, limit, now())
    }

    /// Sends what was asked, as far as there is a connection, and waits for no answer.
    pub(super) fn push(&mut self) {
        self.wire.push(&mut self.role);
    }

    /// Waits for what comes of this task.
    pub(super) fn outcome(&mut self, number: u64) -> Result<Answer> {
        if let Poll::Ready(outcome) = self.role.poll(number, Waker::noop()) {
            return outcome;
        }
        loop {
            // An attempt to connect cannot be left but by its own limit.
            let limit = self.role.limit(number);
            let driven = self.wire.drive(&mut self.role, limit, |role| {
                match role.poll(number, Waker::noop()) {
                    Poll::Ready(outcome) => Some(outcome),
                    Poll::Pending => None,
                }
            });
            match driven {
                Drive::Done(outcome) => return outcome,
                Drive::Late => {}
                Drive::Rest(Some(at)) => thread::sleep(at.saturating_duration_since(now())),
                Drive::Rest(None) | Drive::Over => {
                    self.role.leave(number);
                    return Err(lost(io::ErrorKind::NotConnected.into()));
                }
            }
        }
    }

    /// Waits no more for what comes of this task.
    pub(super) fn leave(&mut self, number: u64) {
        self.role.leave(number);
    }

    /// Ends this connection, as if the server had.
    pub(super) fn disconnect(&mut self) {
        self.role.disconnect();
    }

    /// Checks, without waiting, whether the server has closed the idle connection.
    pub(super) fn look(&mut self) {
        self.role.look(now());
        self.wire.drive(&mut self.role, None, |role| (!role.is_looking()).then_some(()));
    }

    pub(super) fn is_connected(&self) -> bool {
        self.role.is_open()
    }

    pub(super) fn connection_state(&self) -> ConnectionState {
        self.role.connection_state(now())
    }

    pub(super) fn metrics(&self) -> &Metrics {
        self.role.metrics()
    }

    pub(super) fn epoch(&self) -> Option<Epoch> {
        self.role.epoch()
    }
}

impl Drop for Link {
    /// The server is told, as far as that goes without waiting.
    fn drop(&mut self) {
        self.role.close();
        self.wire.push(&mut self.role);
    }
}
