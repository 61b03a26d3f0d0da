//! The command line of `repl`.

use std::path::PathBuf;

use clap::Args;

/// The end of `repl --help`, with the tool's words.
pub(crate) const HELP: &str = "\
{repl}

A script (stdin, FILE, -e) stops at the first error and exits with its code. # starts a comment, and <<END takes the
lines up to END as a body. CMD | SHELL COMMAND pipes results, CMD > FILE and CMD >> FILE write them to a file, CMD \\G
prints one value per line, and !CMD runs a shell command.

On a terminal, Tab completes, and \\e opens $VISUAL or $EDITOR. Before the first prompt, the commands in
~/.config/{name}/replrc are run.

Examples:
{sessions}";

/// The flags of `repl` in every tool.
#[derive(Debug, Clone, Default, Args)]
pub struct SessionArgs {
    /// Run the commands in FILE
    #[arg(value_name = "FILE", conflicts_with = "execute")]
    pub(super) file: Option<PathBuf>,

    /// Run this command; repeatable
    #[arg(short = 'e', long, value_name = "CMD")]
    pub(super) execute: Vec<String>,

    /// Continue after errors in a script, and exit with 3
    #[arg(long)]
    pub(super) keep_going: bool,

    /// Exit 1 if a script ends while it holds something
    #[arg(long)]
    pub(super) strict: bool,
}
