//! The commands of this tool, beside those of every tool, and what runs them.

use clap::Args;
use ctl_core::context::command::{Ready, Table};
use ctl_core::error::{CliError, Exit};
use ctl_core::link::Connect;
use ctl_core::link::diagnosis::Diagnosis;
use ctl_core::program::Program;
use ctl_core::tool::kit;

use crate::commands::{self, queues};
use crate::link::{self, Link};
use crate::program;
use crate::tool::{Adfctl, Session, Tool};

/// The server to use.
#[derive(Debug, Args)]
pub struct Server {
    /// Where the server listens.
    #[arg(short = 's', long, short_alias = 'a', alias = "addr", global = true)]
    #[arg(value_name = "ADDR", help_heading = "Global options")]
    #[arg(
        help = "Server address: host:port, adf://, adf+json://, http://, http+json://, unix:/path; comma-separated or repeated for several [default: 127.0.0.1:6230]"
    )]
    server: Vec<String>,
}

impl Connect for Server {
    fn addresses(&self) -> Option<String> {
        (!self.server.is_empty()).then(|| self.server.join(","))
    }
}

impl ctl_core::context::Tool for Adfctl {
    const PROGRAM: Program = program::PROGRAM;

    type Connect = Server;
    const COMMANDS: Table<Self> = commands::COMMANDS;
    const KIT: Table<Self> = kit::commands();
    type Link = Link;
    type Session = Session;

    fn run(tool: &mut Tool, command: Ready<Self>) -> Result<Exit, CliError> {
        command.run(tool).map_err(|error| link::with_near_queue(&mut tool.link, error))
    }

    fn diagnose(link: &mut Link) -> Result<Diagnosis, CliError> {
        queues::diagnose(link)
    }
}
