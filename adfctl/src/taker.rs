//! Pulling messages without waiting forever: a pull has no time limit in the server.

use std::time::Duration;

use adf_queue_client::{Delivery, QueueName};
use ctl_core::error::{CliError, Exit};
use ctl_core::output::messages::Messages;
use ctl_core::output::progress::Wait;
use ctl_core::system::signals::Interrupts;
use ctl_core::text::units;

use crate::link::Link;

/// The longest wait in one call: signals are noticed in between.
pub const SLICE: Duration = Duration::from_millis(500);

/// Pulls messages of one queue.
pub struct Taker {
    queue: QueueName,
    interrupts: Interrupts,
    /// Zero takes only what is ready now.
    wait: Wait,
}

impl Taker {
    /// Takes what is ready now, or waits up to `wait` in total.
    pub fn new(
        queue: QueueName,
        wait: Option<Duration>,
        interrupts: Interrupts,
        messages: &Messages,
    ) -> Self {
        let wait = Wait::new(messages, "waiting for a message", Some(wait.unwrap_or_default()));
        Self { queue, interrupts, wait }
    }

    /// Shows how long it has waited.
    pub fn showing(self, messages: &Messages) -> Self {
        Self { wait: self.wait.showing(messages), ..self }
    }

    /// The next messages, at most `most`; none if none arrived in time, or on a signal.
    ///
    /// # Errors
    /// The queue does not exist, or the failure of the connection.
    pub fn next(&self, link: &mut Link, most: usize) -> Result<Vec<Delivery>, CliError> {
        let mut shown = self.wait.shown();
        loop {
            let taken = self.ready(link, most)?;
            let rest = self.wait.rest();
            if !taken.is_empty() || rest.is_zero() || self.interrupts.requested().is_some() {
                return Ok(taken);
            }
            shown.see("");
            if let Some(message) = pull(link, &self.queue, rest.min(SLICE))? {
                return Ok(vec![message]);
            }
        }
    }

    /// The ready messages.
    fn ready(&self, link: &mut Link, most: usize) -> Result<Vec<Delivery>, CliError> {
        let queue = &self.queue;
        let ready = link.ask(format!("count {queue}"), |client| client.count(queue.clone()))?;
        let most = usize::try_from(ready).unwrap_or(most).min(most);
        let mut taken = Vec::new();
        while taken.len() < most {
            match pull_ready(link, queue) {
                Ok(Some(message)) => taken.push(message),
                Ok(None) => break,
                Err(error) => return Err(link.give_back_after(&taken, error)),
            }
        }
        Ok(taken)
    }

    /// The error for getting no message.
    pub fn nothing(&self) -> CliError {
        let queue = &self.queue;
        let bound = self.wait.bound().unwrap_or_default();
        if bound.is_zero() {
            let why = format!("no message is ready in {queue}");
            return CliError::new(Exit::Negative, "NOTHING_PULLED", why)
                .hint("--wait 30s, to wait for one");
        }
        let within = units::show_duration(bound);
        CliError::timeout(format!("no message arrived in {queue} within {within}"))
    }
}

/// A message that is ready. If another client takes it first, the pull waits for a moment, and the client keeps it for
/// the next one.
///
/// A server that is late is not one without messages: an answer to a later question shows that it has seen the pull.
///
/// # Errors
/// The queue does not exist, or the failure of the connection.
pub fn pull_ready(link: &mut Link, queue: &QueueName) -> Result<Option<Delivery>, CliError> {
    let pulled = pull(link, queue, SLICE)?;
    if pulled.is_some() {
        return Ok(pulled);
    }
    let ready = link.ask(format!("count {queue}"), |client| client.count(queue.clone()))?;
    if ready > 0 {
        // A returned message wakes no pull that waits already.
        return link.ask(format!("pull {queue}"), |client| client.try_pull(queue.clone()));
    }
    pull(link, queue, SLICE)
}

fn pull(link: &mut Link, queue: &QueueName, wait: Duration) -> Result<Option<Delivery>, CliError> {
    link.ask(format!("pull {queue}"), |client| client.pull_within(queue.clone(), wait))
}
