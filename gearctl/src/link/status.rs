//! The counts of functions, as the server knows them.

use ctl_core::error::CliError;
use gearman_client::protocol::AdminCommand;
use gearman_client::{FunctionName, FunctionStatus};

use super::Link;

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
