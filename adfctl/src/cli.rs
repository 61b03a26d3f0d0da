//! This tool's own commands, and the functions that run them.

use ctl_core::context::command::{Ready, Table};
use ctl_core::error::{CliError, Exit};
use ctl_core::link::diagnosis::Diagnosis;
use ctl_core::program::Program;
use ctl_core::tool::kit;

use crate::commands::{self, queues};
use crate::link::{self, Link};
use crate::program;
use crate::tool::{Adfctl, Session, Tool};

impl ctl_core::context::Tool for Adfctl {
    const PROGRAM: Program = program::PROGRAM;

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
