//! `serve`: the in-memory server as a program, for tests and development.

mod child;

use std::ffi::OsString;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use ctl_core::error::{CliError, Exit};
use ctl_core::messages::{Level, Messages};
use ctl_core::output::Record;
use fixtures::beanstalkd::{Listen, Server};

use crate::tool::Tool;

/// The end of `serve --help`.
pub const HELP: &str = "\
An in-memory beanstalkd: nothing is stored, and everything is gone when it ends. It listens on this machine only
unless --allow-remote is given, because it has no authentication. Its limits: 1024 connections, 1,000,000
jobs, 1 GiB of bodies, 65535 bytes per body.
With a command, the server lives as long as the command; BSCTL_ADDR and BEANSTALKD_ADDR tell it the address, and
its exit code becomes this one's.

Examples:
  bsctl serve --port 11300
  bsctl serve --listen 127.0.0.1:0 --print-addr --ready-file /tmp/ready --exit-with-parent
  bsctl serve -- cargo test";

/// Arguments of `serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Address to listen on; port 0 is a free one; unix:PATH is a unix socket [default: 127.0.0.1:11300, with a
    /// command 127.0.0.1:0]
    #[arg(long, value_name = "ADDR", conflicts_with = "port")]
    listen: Option<String>,

    /// Short for --listen 127.0.0.1:N
    #[arg(long, value_name = "N")]
    port: Option<u16>,

    /// Print the address as one line on stdout
    #[arg(long)]
    print_addr: bool,

    /// Write the address to this file when connections are accepted
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,

    /// Stop when the parent process ends
    #[arg(long)]
    exit_with_parent: bool,

    /// Listen on addresses that other machines can reach
    #[arg(long)]
    allow_remote: bool,

    /// Run this command and stop when it ends
    #[arg(value_name = "CMD", last = true)]
    command: Vec<OsString>,
}

/// Runs `serve`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: ServeArgs) -> Result<Exit, CliError> {
    let parent = if args.exit_with_parent { Some(Parent::now()?) } else { None };
    let wanted = match (&args.listen, args.port) {
        (Some(address), _) => address.clone(),
        (None, Some(port)) => format!("127.0.0.1:{port}"),
        (None, None) if args.command.is_empty() => "127.0.0.1:11300".to_owned(),
        (None, None) => "127.0.0.1:0".to_owned(),
    };
    // Signals are caught before anything has to be cleaned up.
    let interrupts = tool.interrupts()?;
    let server = start(&wanted, args.allow_remote, &tool.messages)?;
    let address = server.address().to_owned();
    tool.messages.note(format!("in-memory beanstalkd on {address}"));
    if args.print_addr {
        tool.out.done(&Record::new().with("addr", address.as_str()), &address)?;
    }
    let ready = match &args.ready_file {
        Some(path) => Some(ReadyFile::write(path, &address)?),
        None => None,
    };
    let exit = if args.command.is_empty() {
        loop {
            if interrupts.sleep(Duration::from_millis(200)).is_err() {
                break interrupts.requested().unwrap_or(Exit::Interrupted);
            }
            if parent.as_ref().is_some_and(Parent::is_gone) {
                break Exit::Done;
            }
        }
    } else {
        let gone = || parent.as_ref().is_some_and(Parent::is_gone);
        child::run(&args.command, &address, &interrupts, gone)?
    };
    drop(ready);
    drop(server);
    Ok(exit)
}

fn start(wanted: &str, allow_remote: bool, messages: &Messages) -> Result<Server, CliError> {
    let listen = listen(wanted, allow_remote)?;
    let mut builder = Server::builder().listen(listen).log_capacity(0);
    if messages.shows(Level::Trace, "bsctl::protocol") {
        let messages = messages.clone();
        builder = builder.on_request(move |request| {
            let line = format!("{} > {}", request.connection, request.text());
            messages.log(Level::Trace, "bsctl::protocol", &line);
        });
    }
    builder.start().map_err(|error| {
        CliError::unavailable(format!("cannot listen on {wanted}: {error}"))
            .hint("--port 0 takes a free port")
    })
}

fn listen(wanted: &str, allow_remote: bool) -> Result<Listen, CliError> {
    if let Some(path) = wanted.strip_prefix("unix:") {
        return unix_socket(path.strip_prefix("//").unwrap_or(path));
    }
    let bare =
        wanted.strip_prefix("tcp://").or(wanted.strip_prefix("beanstalk://")).unwrap_or(wanted);
    let full = match bare.strip_prefix(':') {
        Some(port) => format!("127.0.0.1:{port}"),
        None => bare.to_owned(),
    };
    let wrong = |why: &str| {
        CliError::usage(format!("cannot listen on `{wanted}`: {why}"))
            .hint("--listen 127.0.0.1:0 or unix:/path/to/socket")
    };
    let addresses: Vec<SocketAddr> =
        full.to_socket_addrs().map_err(|error| wrong(&error.to_string()))?.collect();
    let address = *addresses.first().ok_or_else(|| wrong("the name has no address"))?;
    if !address.ip().is_loopback() && !allow_remote {
        return Err(CliError::usage(format!(
            "refusing to listen on {} without --allow-remote (the mock has no authentication)",
            address.ip()
        )));
    }
    Ok(Listen::Tcp(address))
}

#[cfg(unix)]
fn unix_socket(path: &str) -> Result<Listen, CliError> {
    Ok(Listen::Unix(path.into()))
}

#[cfg(not(unix))]
fn unix_socket(path: &str) -> Result<Listen, CliError> {
    Err(CliError::usage(format!("cannot listen on {path}: this system has no unix sockets")))
}

/// A file that exists while connections are accepted.
struct ReadyFile(PathBuf);

impl ReadyFile {
    /// Written beside and renamed, so that nobody reads half of it.
    fn write(path: &PathBuf, address: &str) -> Result<Self, CliError> {
        let name = path.to_string_lossy().into_owned();
        let mut beside = path.clone().into_os_string();
        beside.push(".new");
        let failed = |error: std::io::Error| CliError::writing(&name, &error);
        std::fs::write(&beside, format!("{address}\n")).map_err(failed)?;
        std::fs::rename(&beside, path).map_err(failed)?;
        Ok(Self(path.clone()))
    }
}

impl Drop for ReadyFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The process that started this one.
struct Parent(u32);

impl Parent {
    #[cfg(unix)]
    fn now() -> Result<Self, CliError> {
        Ok(Self(std::os::unix::process::parent_id()))
    }

    #[cfg(not(unix))]
    fn now() -> Result<Self, CliError> {
        Err(CliError::usage("--exit-with-parent is not supported on this system")
            .hint("serve -- CMD ends with the command"))
    }

    /// An orphan gets another parent.
    #[cfg(unix)]
    fn is_gone(&self) -> bool {
        std::os::unix::process::parent_id() != self.0
    }

    #[cfg(not(unix))]
    fn is_gone(&self) -> bool {
        false
    }
}
