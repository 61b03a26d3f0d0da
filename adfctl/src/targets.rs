//! The queues that a command empties or reads, and how many messages they had when it began.

use adf_queue_client::QueueName;
use ctl_core::error::{CliError, Exit};
use ctl_core::output::{Output, Record};
use ctl_core::text::units;

use crate::link::Link;

/// Queues with their ready messages.
pub struct Targets {
    /// Each with its number of messages.
    pub queues: Vec<(QueueName, u64)>,
}

impl Targets {
    /// Counts them.
    ///
    /// # Errors
    /// A queue does not exist, or the failure of the connection.
    pub fn count(link: &mut Link, queues: Vec<QueueName>) -> Result<Self, CliError> {
        let counted = queues.into_iter().map(|queue| {
            let what = format!("count {queue}");
            let ready = link.ask(what, |client| client.count(queue.clone()))?;
            Ok((queue, u64::from(ready)))
        });
        Ok(Self { queues: counted.collect::<Result<_, CliError>>()? })
    }

    /// Number of messages, `limit` at most.
    pub fn total(&self, limit: Option<u64>) -> u64 {
        let total: u64 = self.queues.iter().map(|(_, ready)| ready).sum();
        total.min(limit.unwrap_or(u64::MAX))
    }

    /// "from queue /mail", or "from 3 queues".
    pub fn place(&self) -> String {
        let names: Vec<&QueueName> = self.queues.iter().map(|(queue, _)| queue).collect();
        format!("from {}", units::which("queue", &names))
    }

    /// "12 messages from queue /mail".
    pub fn describe(&self, limit: Option<u64>) -> String {
        format!("{} {}", units::count(self.total(limit), "message"), self.place())
    }

    /// Reports what would be done, with this verb and this ending of the sentence.
    ///
    /// # Errors
    /// Write failures.
    pub fn would(
        &self,
        out: &mut Output,
        verb: &str,
        limit: Option<u64>,
        rest: &str,
    ) -> Result<Exit, CliError> {
        let record = Record::new().with("dry_run", true).with("messages", self.total(limit));
        let sentence = format!("would {verb} {}{rest}", self.describe(limit));
        out.done_with(&record, &["messages"], &sentence)
    }
}
