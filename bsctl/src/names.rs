//! Tube names and job ids from arguments. An illegal name is exit 65, whatever its source.

use beanstalk_client::{JobId, TubeName};
use ctl_core::error::CliError;
use ctl_core::input::Input;
use ctl_core::input::named::{Named, Words};
use ctl_core::input::names::list;
use ctl_core::output::messages::Messages;

use crate::error::cli_error;

/// Tubes, as commands name them.
#[derive(Debug, Clone)]
pub enum Tube {}

impl Named for Tube {
    type Name = TubeName;
    const WORDS: Words = Words { one: "tube", several: "tubes", short: 't', value: "TUBE" };

    fn read(text: &str) -> Result<TubeName, CliError> {
        tube(text)
    }
}

/// A tube's name.
///
/// # Errors
/// The name is illegal: exit 65.
pub fn tube(text: &str) -> Result<TubeName, CliError> {
    TubeName::try_from(text).map_err(cli_error)
}

/// The longest line that can be an id, with room for blanks.
const ID_LINE: u64 = 64;

/// Job ids from arguments; `-` stands for the ids on stdin, one per line.
///
/// # Errors
/// An argument is not an id: exit 2; a line of stdin is not an id: exit 65.
pub fn job_ids(texts: &[String], input: (&mut Input, &Messages)) -> Result<Vec<JobId>, CliError> {
    list(texts, input, ID_LINE, |text| {
        text.parse().map_err(|_| {
            CliError::usage(format!("`{text}` is not a job id"))
                .hint("ids are whole numbers, such as 42")
        })
    })
}
