//! The address of a command that runs a server.

use std::fmt::Display;

use crate::error::CliError;
use crate::output::{Output, Record};

/// Prints the address on one line for programs; people read it in a message.
///
/// # Errors
/// Stdout fails: exit 74.
pub(crate) fn print(out: &mut Output, address: impl Display) -> Result<(), CliError> {
    if out.style.terminal {
        return Ok(());
    }
    let address = address.to_string();
    out.done(&Record::new().with("addr", address.as_str()), &address)?;
    out.flush()
}
