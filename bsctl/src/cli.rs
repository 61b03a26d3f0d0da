//! This tool's own commands, and the functions that run them.

use ctl_core::context::command::{Ready, Table};
use ctl_core::error::{CliError, Exit};
use ctl_core::link::diagnosis::Diagnosis;
use ctl_core::program::Program;
use ctl_core::tool::kit;

use crate::commands::{self, server};
use crate::link::Link;
use crate::program;
use crate::tool::{Bsctl, Session, Tool};

impl ctl_core::context::Tool for Bsctl {
    const PROGRAM: Program = program::PROGRAM;

    const COMMANDS: Table<Self> = commands::COMMANDS;
    const KIT: Table<Self> = kit::commands();
    type Link = Link;
    type Session = Session;

    fn run(tool: &mut Tool, command: Ready<Self>) -> Result<Exit, CliError> {
        let in_session = tool.session.is_some();
        let place = if in_session { tool.link.place() } else { None };
        let result = command.run(tool);
        if in_session && tool.link.is_connected() {
            // A lost connection is reported by the next command that needs it.
            let _ = tool.link.restore(&place.unwrap_or_default());
        }
        result
    }

    fn diagnose(link: &mut Link) -> Result<Diagnosis, CliError> {
        server::diagnose(link)
    }
}
