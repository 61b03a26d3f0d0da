//! `serve`: the in-memory server as a program, for tests and development.

use ctl_core::error::{CliError, Exit};
use ctl_core::messages::Level;
pub use ctl_core::serve::ServeArgs;
use ctl_core::serve::{Endpoint, Service};
use fixtures::beanstalkd::{Listen, Server};

use crate::tool::Tool;

/// The end of `serve --help`.
pub const HELP: &str = "\
An in-memory beanstalkd: nothing is stored, and everything is gone when it ends. It listens on this machine only
unless --allow-remote is given, because it has no authentication. Its usual port is 11300. Its limits: 1024
connections, 65,536 tubes, 1,000,000 jobs, 1 GiB of bodies, 65535 bytes per body. Connections that never sent anything
make room for others.
With a command, the server lives as long as the command; BSCTL_ADDR and BEANSTALKD_ADDR tell it the address, and
its exit code becomes this one's.

Examples:
  bsctl serve --port 11300
  bsctl serve --listen 127.0.0.1:0 --print-addr --ready-file /tmp/ready --exit-with-parent
  bsctl serve -- cargo test";

const SERVICE: Service = Service {
    name: "beanstalkd",
    port: 11300,
    schemes: &["tcp://", "beanstalk://"],
    variables: &["BSCTL_ADDR", "BEANSTALKD_ADDR"],
};

/// Messages of requests come from here, for `BSCTL_LOG`.
const PROTOCOL: &str = "bsctl::protocol";

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
