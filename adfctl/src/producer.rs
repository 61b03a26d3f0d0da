//! Pushing many messages: many are in flight at once, and the server confirms each.

use std::collections::BTreeSet;
use std::iter;

use adf_queue_client::{MessageId, Push, QueueName};
use ctl_core::error::CliError;
use ctl_core::input::intake::settle;
use ctl_core::text::units;

use crate::link::{Link, answered};

/// A message to push.
#[derive(Debug, Clone)]
pub struct NewMessage {
    /// The message and its queue.
    pub push: Push,
    /// How messages to people refer to it, such as `stdin record 7`.
    pub label: String,
}

impl NewMessage {
    /// The bytes of its body.
    pub fn size(&self) -> usize {
        self.push.body().len()
    }
}

/// Pushes a batch of messages, and passes the outcome of each with its name and queue to `report`, in order.
///
/// # Errors
/// The failure of `report`.
pub fn push_batch(
    link: &mut Link,
    messages: Vec<NewMessage>,
    mut report: impl FnMut(String, &QueueName, Result<MessageId, CliError>) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let trace = link.dialer.trace();
    let asked = trace.clone();
    let (mut told, mut whats, mut pushes) = (Vec::new(), Vec::new(), Vec::new());
    for NewMessage { push, label } in messages {
        told.push((label, push.queue().clone()));
        whats.push(what(&push));
        pushes.push(push);
    }
    let pushes = pushes.into_iter().inspect(|push| asked.sent(what(push)));
    let outcomes: Box<dyn Iterator<Item = Result<MessageId, CliError>> + '_> = match link.client() {
        Ok(client) => {
            let outcomes = client.push_many(pushes).zip(whats);
            Box::new(outcomes.map(|(outcome, what)| answered(&trace, outcome, what)))
        }
        Err(error) => Box::new(iter::once(Err(error))),
    };
    settle(told, outcomes, |(label, queue), outcome| report(label, &queue, outcome))
}

/// Creates the queues of these messages that are not `known` to exist.
///
/// # Errors
/// The server's refusal, or the failure of the connection.
pub fn create_queues(
    link: &mut Link,
    messages: &[NewMessage],
    known: &mut BTreeSet<QueueName>,
) -> Result<(), CliError> {
    for queue in messages.iter().map(|message| message.push.queue()) {
        if !known.contains(queue) {
            create_queue(link, queue)?;
            known.insert(queue.clone());
        }
    }
    Ok(())
}

/// Creates a queue unless it exists.
///
/// # Errors
/// As [`create_queues`].
pub fn create_queue(link: &mut Link, queue: &QueueName) -> Result<(), CliError> {
    let what = format!("createqueue {queue}");
    link.ask(what, |client| client.ensure_queue(queue.clone())).map(drop)
}

/// The request, as shown.
fn what(push: &Push) -> String {
    format!(
        "{} {} ({})",
        push.action(),
        push.queue(),
        units::count(push.body().len() as u64, "byte")
    )
}
