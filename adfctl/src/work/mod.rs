//! Running a command for a message: what it is told of it.

use adf_queue_client::Delivery;
use ctl_core::child::Place;

/// What arguments may have of the message, and where a line for the shell finds it.
pub const PLACES: &[Place] = &[("{id}", "$ADFCTL_MESSAGE_ID"), ("{queue}", "$ADFCTL_QUEUE")];

/// What the environment of the command says of its message.
#[must_use]
pub fn environment(message: &Delivery) -> [(&'static str, String); 4] {
    [
        ("ADFCTL_MESSAGE_ID", message.message_id().to_string()),
        ("ADFCTL_QUEUE", message.queue().to_string()),
        ("ADFCTL_DUPLICATIONS", message.duplications().to_string()),
        ("ADFCTL_REQUEST_ID", message.request_id().to_string()),
    ]
}
