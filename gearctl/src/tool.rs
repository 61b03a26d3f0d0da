//! What every command works with.

use ctl_core::tool::Context;

/// This tool.
#[derive(Debug)]
pub enum Gearctl {}

/// What every command works with.
pub type Tool = Context<Gearctl>;
