//! Queue names and request ids from arguments. An illegal one is exit 65, whatever its source.

use adf_queue_client::{QueueName, RequestId};
use ctl_core::error::CliError;
use ctl_core::input::named::{Named, Words};

use crate::error::cli_error;

/// Queues, as commands name them.
#[derive(Debug, Clone)]
pub enum Queue {}

impl Named for Queue {
    type Name = QueueName;
    const WORDS: Words = Words { one: "queue", several: "queues", short: 'Q', value: "QUEUE" };

    fn read(text: &str) -> Result<QueueName, CliError> {
        queue(text)
    }
}

/// A queue's name.
///
/// # Errors
/// The name is illegal: exit 65.
pub fn queue(text: &str) -> Result<QueueName, CliError> {
    QueueName::new(text).map_err(cli_error)
}

/// The id of a pull.
///
/// # Errors
/// It cannot be one: exit 65.
pub fn request_id(text: &str) -> Result<RequestId, CliError> {
    RequestId::new(text).map_err(cli_error)
}
