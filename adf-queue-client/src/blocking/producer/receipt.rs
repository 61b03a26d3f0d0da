//! Receipts for accepted pushes.

use std::{fmt, sync::Arc};

use queue_core::Operation;

use super::ProducerShared;
use crate::{MessageId, Result};

/// The answer to a push. Dropping it discards only the answer: the message is still pushed. A failure is then counted
/// in the [report](crate::ProducerReport).
///
/// Returned by [`Producer::enqueue`](super::Producer::enqueue).
#[must_use = "whether the message was pushed is known only from the answer"]
pub struct Receipt {
    shared: Arc<ProducerShared>,
    number: Option<u64>,
    operation: Operation,
}

impl Receipt {
    pub(super) fn new(shared: Arc<ProducerShared>, number: u64, operation: Operation) -> Self {
        Receipt { shared, number: Some(number), operation }
    }

    /// Waits for the answer: the number of the message in the queue of the server that took it.
    ///
    /// # Errors
    ///
    /// See the table of the [producer](super::Producer).
    pub fn wait(mut self) -> Result<MessageId> {
        let number = self.number.take().unwrap_or_default();
        let Receipt { shared, operation, .. } = &mut self;
        let span = operation.span().clone();
        let wait = || shared.pushes.wait(number, |pushing| shared.complete(pushing));
        let (outcome, server) = span.run(wait);
        shared.servers.pushed(operation, server, &outcome);
        outcome
    }
}

impl Drop for Receipt {
    fn drop(&mut self) {
        if self.number.is_some_and(|number| self.shared.pushes.abandon(number)) {
            self.shared.help();
        }
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipt").finish_non_exhaustive()
    }
}
