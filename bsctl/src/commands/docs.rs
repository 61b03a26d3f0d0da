//! `completions`, `man` and the generated sections of the README.

use ctl_core::docs::commands;
pub use ctl_core::docs::commands::{CompletionsArgs, DocsArgs, ManArgs};
use ctl_core::error::{CliError, Exit};

use crate::cli::PROGRAM;
use crate::tool::Tool;

/// The end of `completions --help`.
pub const COMPLETIONS_HELP: &str = "\
Examples:
  bsctl completions bash > ~/.local/share/bash-completion/completions/bsctl
  bsctl completions zsh > ~/.zfunc/_bsctl
  bsctl completions fish > ~/.config/fish/completions/bsctl.fish";

/// The end of `man --help`.
pub const MAN_HELP: &str = "\
Without --out the page of bsctl itself goes to stdout; with it, one file per command is written.

Examples:
  bsctl man | man -l -
  bsctl man --out ~/.local/share/man/man1";

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
