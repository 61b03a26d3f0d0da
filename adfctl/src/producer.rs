//! Pushing many messages: many are under way at once, and each is confirmed by the server.

use adf_queue_client::{MessageId, Push, QueueName};
use ctl_core::error::CliError;

use crate::link::Link;

/// A message to be pushed.
#[derive(Debug, Clone)]
pub struct NewMessage {
    /// The message, and where to.
    pub push: Push,
    /// What messages to people call it, such as `stdin record 7`.
    pub label: String,
}

impl NewMessage {
    /// The bytes of its body.
    #[must_use]
    pub fn size(&self) -> usize {
        self.push.body().len()
    }
}

/// Pushes a batch of messages, and gives each one's outcome with its name and queue to `report`, in order.
///
/// # Errors
/// The server cannot be reached; what `report` gives.
pub fn push_batch(
    link: &mut Link,
    messages: Vec<NewMessage>,
    mut report: impl FnMut(String, &QueueName, Result<MessageId, CliError>) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let tracer = link.tracer();
    let asked = tracer.clone();
    let (mut told, mut pushes) = (Vec::new(), Vec::new());
    for NewMessage { push, label } in messages {
        told.push((label, push.queue().clone(), what(&push)));
        pushes.push(push);
    }
    let pushes = pushes.into_iter().inspect(|push| asked.asked(&what(push)));
    let mut outcomes = link.client()?.push_many(pushes);
    for (label, queue, what) in told {
        let ended = || CliError::unavailable("the connection ended before the others were pushed");
        let outcome = outcomes.next().ok_or_else(ended)?;
        report(label, &queue, tracer.answered(outcome, what))?;
    }
    Ok(())
}

/// The request, as it is shown.
fn what(push: &Push) -> String {
    format!("{} {} {}", push.action(), push.queue(), push.body().len())
}
