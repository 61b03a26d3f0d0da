//! `serve`: an in-memory server as a program, for tests and development, standalone or around a command.

mod child;

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fixtures::fault::{Fault, Faults};

use crate::commands::address;
use crate::error::{CliError, Exit};
use crate::output::Output;
use crate::output::messages::Messages;
use crate::program::Servers;
use crate::system::files::Notice;
use crate::system::listen;
use crate::system::signals::Interrupts;
use crate::system::socket;

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Address to listen on; port 0 picks a free port, unix:PATH is a Unix socket [default: the standard port on
    /// 127.0.0.1, or a free port with a command]
    #[arg(long, value_name = "ADDR")]
    listen: Option<String>,

    /// Write the address to this file once connections are accepted
    #[arg(hide_short_help = true, long, value_name = "FILE")]
    ready_file: Option<PathBuf>,

    /// Stop when the parent process exits
    #[arg(hide_short_help = true, long)]
    exit_with_parent: bool,

    /// Allow addresses that other machines can reach
    #[arg(long)]
    allow_remote: bool,

    /// Scripted fault, e.g. 'every=10:hang' or always:delay=5ms; repeatable
    #[arg(long, value_name = "FAULT")]
    fail: Vec<Fault>,

    /// Load records from this file first, or - for stdin, in the format that `import` reads
    #[arg(long, value_name = "FILE|-")]
    seed_file: Option<OsString>,

    /// Command to run; the server stops when it exits
    #[arg(value_name = "CMD", last = true)]
    command: Vec<OsString>,
}

/// Serves until a signal arrives, the parent ends or the command ends, which gets the address in these variables.
/// `start` starts the server, which runs until it is dropped, and returns the bound address; `seed` puts a file of
/// records into the server at an address; `faults` are those of the server.
///
/// # Errors
/// An invalid address or one that requires `--allow-remote`, a fault on a request that the server does not know (2), an
/// address that cannot be bound (69), a command that cannot be run (126, 127), a file that cannot be written (74).
pub fn serve<S>(
    servers: &Servers,
    args: &ServeArgs,
    interrupts: &Interrupts,
    out: &mut Output,
    messages: &Messages,
    start: impl FnOnce(&str) -> io::Result<(S, String)>,
    (seed, faults): (impl FnOnce(&OsStr, &str) -> Result<(), CliError>, impl FnOnce(&S) -> Faults),
) -> Result<Exit, CliError> {
    let gone = if args.exit_with_parent { is_orphan()? } else { Box::new(|| false) };
    let wanted = wanted(servers, args);
    let endpoint = endpoint(servers, &wanted, args.allow_remote)?;
    let (server, address) = start(&endpoint).map_err(|error| {
        let hint = match wanted.starts_with("unix:") {
            true => "another path",
            false => "--listen 127.0.0.1:0 takes a free port",
        };
        CliError::unavailable(format!("cannot listen on {wanted}: {error}")).hint(hint)
    })?;
    if let Some(file) = &args.seed_file {
        seed(file, &address)?;
    }
    let faults = faults(&server);
    for fault in &args.fail {
        faults.try_add(fault.clone()).map_err(|error| CliError::usage(error.to_string()))?;
    }
    let is_alone = args.command.is_empty();
    let messages = if is_alone { &messages.stamped() } else { messages };
    messages.note(format!("in-memory {} on {address}", servers.kind));
    // With a command, stdout is the command's.
    if is_alone {
        address::print(out, &address)?;
    }
    let ready = match &args.ready_file {
        Some(path) => Some(Notice::write(path, &address)?),
        None => None,
    };
    let exit = if is_alone {
        while !gone() && interrupts.sleep(Duration::from_millis(200)).is_ok() {}
        interrupts.requested().unwrap_or(Exit::Done)
    } else {
        child::run(&args.command, (servers.variables, &address), interrupts, gone)?
    };
    drop(ready);
    drop(server);
    Ok(exit)
}

/// The address to listen on, as a person writes it.
fn wanted(servers: &Servers, args: &ServeArgs) -> String {
    match &args.listen {
        Some(address) => address.clone(),
        None if args.command.is_empty() => format!("127.0.0.1:{}", servers.port),
        None => "127.0.0.1:0".to_owned(),
    }
}

fn endpoint(servers: &Servers, wanted: &str, allow_remote: bool) -> Result<String, CliError> {
    if let Some(path) = socket::unix_path(wanted) {
        return match cfg!(unix) {
            true => Ok(format!("unix:{path}")),
            false => Err(socket::unsupported(path)),
        };
    }
    let bare = servers.schemes.iter().find_map(|scheme| wanted.strip_prefix(scheme));
    let address = listen::address(bare.unwrap_or(wanted), allow_remote, "in-memory server")
        .map_err(|error| error.hint("--listen 127.0.0.1:0 or unix:/path/to/socket"))?;
    Ok(address.to_string())
}

/// Whether the process that started this one has ended: an orphan gets another parent.
#[cfg(unix)]
fn is_orphan() -> Result<Box<dyn Fn() -> bool>, CliError> {
    use std::os::unix::process::parent_id;
    let parent = parent_id();
    Ok(Box::new(move || parent_id() != parent))
}

#[cfg(not(unix))]
fn is_orphan() -> Result<Box<dyn Fn() -> bool>, CliError> {
    Err(CliError::usage("--exit-with-parent is not supported on this system")
        .hint("serve -- CMD ends with the command"))
}
