//! `serve`: the in-memory server as a program, for tests and development.

use ctl_core::error::{CliError, Exit};
use ctl_core::messages::Level;
pub use ctl_core::serve::ServeArgs;
use ctl_core::serve::{Endpoint, Service};
use fixtures::gearmand::{Listen, Server};

use crate::link::PROTOCOL;
use crate::tool::Tool;

/// The end of `serve --help`.
pub const HELP: &str = "\
An in-memory gearmand: nothing is stored, and everything is gone when it ends. It listens on this machine only
unless --allow-remote is given, because it has no authentication. Its usual port is 4730. Its limits: 1024
connections, 65,536 functions, 1,000,000 jobs, 1 GiB of workloads, 64 MiB per packet. Connections that never sent
anything make room for others.
With a command, the server lives as long as the command; GEARCTL_SERVER, GEARMAN_SERVER and GEARMAN_SERVERS tell it
the address, and its exit code becomes this one's.

Examples:
  gearctl serve --port 4730
  gearctl serve --listen 127.0.0.1:0 --print-addr --ready-file /tmp/ready --exit-with-parent
  gearctl serve -- cargo test";

const SERVICE: Service = Service {
    name: "gearmand",
    port: 4730,
    schemes: &["tcp://", "gearman://"],
    variables: &["GEARCTL_SERVER", "GEARMAN_SERVER", "GEARMAN_SERVERS"],
};

/// Runs `serve`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: ServeArgs) -> Result<Exit, CliError> {
    // Signals are caught before anything has to be cleaned up.
    let interrupts = tool.interrupts()?;
    let mut builder = Server::builder().log_capacity(0);
    if tool.messages.shows(Level::Trace, PROTOCOL) {
        let messages = tool.messages.clone();
        builder = builder.on_request(move |request| {
            let line = format!("{} > {}", request.connection, request.text());
            messages.log(Level::Trace, PROTOCOL, &line);
        });
    }
    SERVICE.serve(&args, &interrupts, &mut tool.out, &tool.messages, |endpoint| {
        let server = builder.listen(listen(endpoint)?).start()?;
        let address = server.address().to_owned();
        Ok((server, address))
    })
}

fn listen(endpoint: Endpoint) -> std::io::Result<Listen> {
    match endpoint {
        Endpoint::Tcp(address) => Ok(Listen::Tcp(address)),
        #[cfg(unix)]
        Endpoint::Unix(path) => Ok(Listen::Unix(path)),
        #[cfg(not(unix))]
        Endpoint::Unix(_) => Err(std::io::ErrorKind::Unsupported.into()),
    }
}
