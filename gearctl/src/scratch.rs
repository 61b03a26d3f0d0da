//! A temporary function with a random name.

use std::thread;
use std::time::{Duration, Instant};

use ctl_core::error::CliError;
use gearman_client::FunctionName;
use gearman_client::protocol::AdminCommand;

use crate::error::cli_error;
use crate::link::{Answer, Link};

/// Drops a function whose workers have just disconnected, which the server notices a moment later. None if it is still
/// in use after `bound`.
///
/// # Errors
/// The failure of the connection.
pub fn remove(
    link: &mut Link,
    function: &FunctionName,
    bound: Duration,
) -> Result<Option<Answer<()>>, CliError> {
    let start = Instant::now();
    loop {
        let command = AdminCommand::DropFunction(function.clone());
        let reply = link
            .probe(&command)
            .and_then(|answer| answer.and_then(|reply| reply.ok().map_err(cli_error)));
        match reply {
            Err(error) if error.code != "FUNCTION_IN_USE" => return Err(error),
            Ok(answer) => return Ok(Some(answer)),
            Err(_) if start.elapsed() >= bound => return Ok(None),
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    }
}
