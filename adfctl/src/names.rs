//! Queue names and request ids from arguments. An illegal one is exit 65, wherever it came from.

use adf_queue_client::{QueueName, RequestId};
use clap::Args;
use ctl_core::error::CliError;

use crate::error::cli_error;

/// A queue's name.
///
/// # Errors
/// The name is illegal: exit 65.
pub fn queue(text: &str) -> Result<QueueName, CliError> {
    QueueName::new(text).map_err(cli_error)
}

/// Queue names.
///
/// # Errors
/// A name is illegal: exit 65.
pub fn queues(texts: &[String]) -> Result<Vec<QueueName>, CliError> {
    texts.iter().map(|text| queue(text)).collect()
}

/// The id of a pull.
///
/// # Errors
/// It cannot be one: exit 65.
pub fn request_id(text: &str) -> Result<RequestId, CliError> {
    RequestId::new(text).map_err(cli_error)
}

/// One queue, by place or by flag.
#[derive(Debug, Clone, Args)]
pub struct QueueArg {
    /// The queue
    #[arg(value_name = "QUEUE")]
    queue: Option<String>,

    /// The queue, by flag
    #[arg(short = 'Q', long = "queue", value_name = "QUEUE", id = "queue_flag")]
    flag: Option<String>,
}

impl QueueArg {
    /// Its name, if it is given.
    ///
    /// # Errors
    /// Two different names: exit 2. The name is illegal: exit 65.
    pub fn given(&self) -> Result<Option<QueueName>, CliError> {
        if let (Some(one), Some(two)) = (&self.queue, &self.flag)
            && one != two
        {
            let why = format!("two queues are named, {one} and {two}, where there can be one");
            return Err(CliError::usage(why).hint("QUEUE or -Q QUEUE"));
        }
        self.queue.as_ref().or(self.flag.as_ref()).map(|text| queue(text)).transpose()
    }

    /// Its name.
    ///
    /// # Errors
    /// None is given, or two different ones: exit 2. The name is illegal: exit 65.
    pub fn name(&self) -> Result<QueueName, CliError> {
        self.given()?.ok_or_else(no_queue)
    }
}

/// Several queues, by place or by flag.
#[derive(Debug, Clone, Args)]
pub struct QueuesArg {
    /// The queues
    #[arg(value_name = "QUEUE")]
    queues: Vec<String>,

    /// A queue, by flag; may be given several times
    #[arg(short = 'Q', long = "queue", value_name = "QUEUE", id = "queue_flags")]
    flags: Vec<String>,
}

impl QueuesArg {
    /// Their names; none when none is given.
    ///
    /// # Errors
    /// A name is illegal: exit 65.
    pub fn given(&self) -> Result<Vec<QueueName>, CliError> {
        self.queues.iter().chain(&self.flags).map(|text| queue(text)).collect()
    }

    /// Their names.
    ///
    /// # Errors
    /// None is given: exit 2. A name is illegal: exit 65.
    pub fn names(&self) -> Result<Vec<QueueName>, CliError> {
        let names = self.given()?;
        if names.is_empty() { Err(no_queue()) } else { Ok(names) }
    }
}

/// The error for a command line without a queue.
#[must_use]
pub fn no_queue() -> CliError {
    CliError::usage("no queue is named").hint("QUEUE or -Q QUEUE")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(queue: Option<&str>, flag: Option<&str>) -> Result<String, u8> {
        let text = |text: Option<&str>| text.map(str::to_owned);
        let arg = QueueArg { queue: text(queue), flag: text(flag) };
        arg.name().map(|name| name.to_string()).map_err(|error| error.exit.code())
    }

    #[test]
    fn a_queue_is_named_by_place_or_by_flag() {
        assert_eq!(named(Some("/q"), None), Ok("/q".into()));
        assert_eq!(named(None, Some("/q")), Ok("/q".into()));
        assert_eq!(named(Some("/q"), Some("/q")), Ok("/q".into()));
        assert_eq!(named(Some("/q"), Some("/r")), Err(2));
        assert_eq!(named(None, None), Err(2));
        assert_eq!(named(Some(""), None), Err(65));
    }

    #[test]
    fn an_illegal_id_is_65() {
        assert_eq!(request_id("a b").unwrap_err().exit.code(), 65);
        assert_eq!(request_id("7").unwrap().as_str(), "7");
    }
}
