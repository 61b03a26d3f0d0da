//! The commands of this tool, beside those of every tool, and what runs them.

use clap::Args;
use ctl_core::context::command::Table;
use ctl_core::error::CliError;
use ctl_core::link::Connect;
use ctl_core::link::diagnosis::Diagnosis;
use ctl_core::program::Program;
use ctl_core::tool::kit;

use crate::commands::{self, server};
use crate::link::Link;
use crate::program;
use crate::repl::session::Session;
use crate::tool::Gearctl;

/// The servers to use.
#[derive(Debug, Args)]
pub struct Servers {
    /// Where the servers listen.
    #[arg(
        help = "Server address: host:port, [::1]:4730, unix:/path; comma-separated or repeated for several [default: 127.0.0.1:4730]"
    )]
    #[arg(
        short = 's',
        long = "server",
        short_alias = 'a',
        alias = "addr",
        global = true,
        value_name = "ADDR",
        help_heading = "Global options"
    )]
    server: Vec<String>,
}

impl Connect for Servers {
    fn addresses(&self) -> Option<String> {
        (!self.server.is_empty()).then(|| self.server.join(","))
    }
}

impl ctl_core::context::Tool for Gearctl {
    const PROGRAM: Program = program::PROGRAM;

    type Connect = Servers;
    const COMMANDS: Table<Self> = commands::COMMANDS;
    const KIT: Table<Self> = kit::commands();
    type Link = Link;
    type Session = Session;

    fn diagnose(link: &mut Link) -> Result<Diagnosis, CliError> {
        server::diagnose(link)
    }
}
