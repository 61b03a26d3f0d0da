//! The context of every command.

use ctl_core::context::Context;

/// This tool.
#[derive(Debug)]
pub enum Gearctl {}

/// The context of every command.
pub type Tool = Context<Gearctl>;
