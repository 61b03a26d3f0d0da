//! This tool's own commands, and the functions that run them.

use ctl_core::context::command::Table;
use ctl_core::error::CliError;
use ctl_core::link::diagnosis::Diagnosis;
use ctl_core::program::Program;
use ctl_core::tool::kit;

use crate::commands::{self, server};
use crate::link::Link;
use crate::program;
use crate::submit::running::Running;
use crate::tool::Gearctl;

impl ctl_core::context::Tool for Gearctl {
    const PROGRAM: Program = program::PROGRAM;

    const COMMANDS: Table<Self> = commands::COMMANDS;
    const KIT: Table<Self> = kit::commands();
    type Link = Link;
    /// The foreground jobs of a session, which have not ended or not shown their results.
    type Session = Vec<Running>;

    fn diagnose(link: &mut Link) -> Result<Diagnosis, CliError> {
        server::diagnose(link)
    }
}
