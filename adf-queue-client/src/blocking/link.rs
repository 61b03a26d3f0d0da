//! One server of a blocking client: its role, and the wire that moves its bytes in the caller's thread.

use std::{
    io, mem,
    task::{Poll, Waker},
};

use queue_core::{
    ConnectionError, ConnectionState, Epoch, Limit,
    blocking::{Drive, TimedStream, Wire},
    now,
    sync::thread,
};

use crate::{
    ConnectOptions, Error, Metrics, Result,
    protocol::client::{self, Ask, AskAnswer},
};

/// A server, and the connection to it, which is made on demand.
#[derive(Debug)]
pub(super) struct ServerLink {
    role: client::Link,
    wire: Wire<Error>,
}

impl ServerLink {
    pub(super) fn new(options: ConnectOptions) -> Self {
        let role = client::Link::new(options.clone());
        ServerLink { role, wire: Wire::to(&options) }
    }

    /// A link over one connected stream only.
    pub(super) fn over(transport: TimedStream, options: ConnectOptions) -> Self {
        let role = client::Link::for_stream(options.clone());
        ServerLink { role, wire: Wire::to(&options).over(transport) }
    }

    /// Makes a request, and waits for its outcome.
    pub(super) fn run(&mut self, ask: Ask, limit: Limit) -> Result<AskAnswer> {
        let number = self.begin(ask, limit)?;
        self.outcome(number)
    }

    /// Makes a request without waiting. Nothing is sent before [`push`](Self::push) or a wait for an outcome.
    pub(super) fn begin(&mut self, ask: Ask, limit: Limit) -> Result<u64> {
        let begun = self.role.begin(ask, limit, now());
        mem::take(&mut self.role.later).run();
        begun
    }

    /// Sends what was requested, as far as there is a connection, without waiting for answers.
    pub(super) fn push(&mut self) {
        self.wire.push(&mut self.role);
    }

    /// Waits for the outcome of this task.
    pub(super) fn outcome(&mut self, number: u64) -> Result<AskAnswer> {
        if let Poll::Ready(outcome) = self.role.poll(number, Waker::noop()) {
            return outcome;
        }
        loop {
            // Only its own limit can end an attempt to connect. Once that has passed, the role ends the task.
            let limit = self.role.limit(number).filter(|at| *at > now());
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
                    return Err(Error::lost(io::ErrorKind::NotConnected.into()));
                }
            }
        }
    }

    /// Abandons this task.
    pub(super) fn leave(&mut self, number: u64) {
        self.role.leave(number);
    }

    /// Ends this connection as if the server had closed it.
    pub(super) fn disconnect(&mut self) {
        self.role.disconnect();
    }

    /// Checks, without waiting, whether the server has closed the idle connection.
    pub(super) fn look(&mut self) {
        self.role.idle_check.look(now());
        self.wire.drive(&mut self.role, None, |role| (!role.is_looking()).then_some(()));
    }

    pub(super) fn is_connected(&self) -> bool {
        self.role.is_open()
    }

    pub(super) fn connection_state(&self) -> ConnectionState {
        self.role.connection_state(now())
    }

    pub(super) fn metrics(&self) -> &Metrics {
        &self.role.metrics
    }

    pub(super) fn epoch(&self) -> Option<Epoch> {
        self.role.epoch
    }
}

impl Drop for ServerLink {
    /// Notifies the server, as far as possible without waiting.
    fn drop(&mut self) {
        self.role.close();
        self.wire.push(&mut self.role);
    }
}
