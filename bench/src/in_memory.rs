//! The in-memory servers as their own processes, like the real servers.

use std::{
    io::{self, BufRead, BufReader, Read},
    net::SocketAddr,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use fixtures::{adf_queue, gearmand};

/// The queue that the in-memory Adf.QueueServer has.
pub const QUEUE: &str = "/bench";

/// Which server.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Protocol {
    Adf,
    Gearmand,
}

/// A server in memory, which ends when this is dropped.
pub struct InMemory {
    child: Child,
    pub address: SocketAddr,
}

impl InMemory {
    pub fn start(protocol: Protocol) -> Result<Self> {
        let name = protocol.to_possible_value().context("every protocol has a name")?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(["in-memory-server", name.get_name()])
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
        // It may have ended on its own.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Which server to run.
#[derive(Args, Clone, Debug)]
pub struct ServerOptions {
    protocol: Protocol,
}

/// Serves until the other end of its input is closed.
pub fn run_server(options: &ServerOptions) -> Result<()> {
    match options.protocol {
        Protocol::Adf => {
            let server = adf_queue::Server::builder().queue(QUEUE).log_capacity(0).start()?;
            serve(server.address())
        }
        Protocol::Gearmand => {
            let server = gearmand::Server::builder().log_capacity(0).start()?;
            serve(server.address())
        }
    }
}

fn serve(address: &str) -> Result<()> {
    println!("{address}");
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
