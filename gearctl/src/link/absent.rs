//! Servers of a list that are away when another one answers.

use std::time::Duration;

use ctl_core::error::CliError;
use ctl_core::output::messages::Messages;
use ctl_core::system::at_once::soon_after_first;
use gearman_client::blocking::Client;
use gearman_client::{Address, ConnectOptions, RetryPolicy};

use super::round_trip;
use crate::error::cli_error;

/// Which of several servers were away when another one answered.
#[derive(Default)]
pub(super) struct Absent {
    /// Those that took the connection, or may yet, and did not answer: no job goes there.
    pub(super) useless: Vec<Address>,
    /// Those that the user knows of.
    named: Vec<Address>,
}

/// How much longer than for the first of several servers to wait for the others, before their jobs go to that one.
const LONGER: Duration = Duration::from_secs(1);

impl Absent {
    /// Whether no job goes to the server at this address.
    pub(super) fn is_useless(&self, address: &str) -> bool {
        self.useless.iter().any(|useless| useless.to_string() == address)
    }

    /// Makes a round trip to each of several servers, because a job sent to a frozen one is queued there later. Names
    /// those that are away.
    ///
    /// # Errors
    /// None has answered: the worst error.
    pub(super) fn ask_each(
        &mut self,
        servers: &[ConnectOptions],
        messages: &Messages,
    ) -> Result<(), CliError> {
        let asked = soon_after_first(servers.to_vec(), LONGER, |server| {
            let alone = server.retry(RetryPolicy::never());
            round_trip(&mut Client::connect(alone).map_err(cli_error)?)
        });
        if !asked.iter().any(|result| matches!(result, Some(Ok(())))) {
            let failures = asked.into_iter().flatten().filter_map(Result::err);
            let worst = failures.max_by_key(|error| error.exit.code());
            return Err(worst.unwrap_or_else(|| CliError::usage("no server given")));
        }
        self.useless.clear();
        for (server, result) in servers.iter().zip(asked) {
            let address = server.address();
            let why = match result {
                Some(Ok(())) => continue,
                // Nothing can be sent there, and a session may find it again.
                Some(Err(error)) if error.code == "UNAVAILABLE" => error.at(&address.to_string()),
                Some(Err(error)) if !error.is_late() => {
                    self.useless.push(address.clone());
                    format!("{}: no job goes there", error.at(&address.to_string()))
                }
                _ => {
                    self.useless.push(address.clone());
                    format!("{address} does not answer: no job goes there")
                }
            };
            if !self.named.contains(address) {
                self.named.push(address.clone());
                messages.warn(why);
            }
        }
        Ok(())
    }
}
