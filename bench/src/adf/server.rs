//! The in-memory server as a process of its own, as the servers of the others are.

use std::{
    io::{self, BufRead, BufReader, Read},
    net::SocketAddr,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result};
use clap::Args;
use fixtures::adf_queue::Server;

/// The queue that it has.
pub const QUEUE: &str = "/bench";

/// A server in memory, which ends when this is dropped.
pub struct InMemory {
    child: Child,
    pub address: SocketAddr,
}

impl InMemory {
    pub fn start() -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("adf-server")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("the in-memory server cannot be started")?;
        let mut address = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut address)?;
        }
        let address = address.trim().parse().context("the in-memory server has not started")?;
        Ok(InMemory { child, address })
    }
}

impl Drop for InMemory {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The server is told nothing.
#[derive(Args, Clone, Debug)]
pub struct ServerOptions {}

/// Serves until nobody holds the other end of its input.
pub fn run_server(_: &ServerOptions) -> Result<()> {
    let server = Server::builder().queue(QUEUE).log_capacity(0).start()?;
    println!("{}", server.address());
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
