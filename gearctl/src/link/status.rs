//! The counts of functions, as the server knows them.

use ctl_core::error::CliError;
use ctl_core::text::spelling::or_else;
use gearman_client::protocol::AdminCommand;
use gearman_client::{FunctionName, FunctionStatus};

use super::Link;
use crate::names::show_function;

/// The counts of a function by name, as records, conditions and metrics have them; all 0 for one that does not exist.
pub fn counts(status: Option<&FunctionStatus>) -> [(&'static str, i64); 4] {
    let of = |count: fn(&FunctionStatus) -> i64| status.map_or(0, count);
    [
        ("total", of(|status| status.total)),
        ("queued", of(FunctionStatus::queued)),
        ("running", of(|status| status.running)),
        ("workers", of(|status| status.workers)),
    ]
}

/// The counts of every function.
///
/// # Errors
/// The failure of the connection.
pub fn statuses(link: &mut Link) -> Result<Vec<FunctionStatus>, CliError> {
    Ok(link.listing::<FunctionStatus>(&AdminCommand::Status)?.into_rows())
}

/// What completes a message about a function that the server does not know: the one that is probably meant. Asks the
/// server; whether it answers is no reason for another error.
pub fn or_near(link: &mut Link, function: &FunctionName) -> String {
    let known = statuses(link).unwrap_or_default();
    let others = known.iter().filter(|row| row.name != *function);
    let known: Vec<String> = others.map(|row| show_function(&row.name)).collect();
    or_else(&show_function(function), known.iter().map(String::as_str))
}

/// The counts of one function; none if the server does not know it.
///
/// # Errors
/// The failure of the connection.
pub fn status_of(
    link: &mut Link,
    function: &FunctionName,
) -> Result<Option<FunctionStatus>, CliError> {
    Ok(statuses(link)?.into_iter().find(|row| row.name == *function))
}
