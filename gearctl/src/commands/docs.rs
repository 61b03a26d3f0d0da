//! `completions`, `man` and the generated sections of the README.

use ctl_core::docs::commands;
pub use ctl_core::docs::commands::{CompletionsArgs, DocsArgs, ManArgs};
use ctl_core::error::{CliError, Exit};

use crate::cli::PROGRAM;
use crate::tool::Tool;

/// The end of `completions --help`.
pub const COMPLETIONS_HELP: &str = "\
Examples:
  gearctl completions bash > ~/.local/share/bash-completion/completions/gearctl
  gearctl completions zsh > ~/.zfunc/_gearctl
  gearctl completions fish > ~/.config/fish/completions/gearctl.fish";

/// The end of `man --help`.
pub const MAN_HELP: &str = "\
Without --out the page of gearctl itself goes to stdout; with it, one file per command is written.

Examples:
  gearctl man | man -l -
  gearctl man --out ~/.local/share/man/man1";

/// Runs `completions`.
///
/// # Errors
/// Failures of writing.
pub fn completions(tool: &mut Tool, args: CompletionsArgs) -> Result<Exit, CliError> {
    commands::completions(&mut tool.out, &PROGRAM, &args)
}

/// Runs `man`.
///
/// # Errors
/// Failures of writing.
pub fn man(tool: &mut Tool, args: ManArgs) -> Result<Exit, CliError> {
    commands::man(&mut tool.out, &PROGRAM, &args)
}

/// Runs `docs`: the sections of the README that are made from the grammar.
///
/// # Errors
/// Failures of writing.
pub fn readme(tool: &mut Tool, args: DocsArgs) -> Result<Exit, CliError> {
    commands::readme(&mut tool.out, &PROGRAM, &args)
}
