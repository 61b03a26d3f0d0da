//! The command line of `repl`.

use std::path::PathBuf;

use clap::Args;

/// The flags of `repl` in every tool.
#[derive(Debug, Clone, Default, Args)]
pub struct SessionArgs {
    /// Run the commands in FILE
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with = "execute")]
    pub(super) file: Option<PathBuf>,

    /// Run this command; repeatable
    #[arg(short = 'e', long, value_name = "CMD")]
    pub(super) execute: Vec<String>,

    /// Continue after errors in a script; the exit code is then 3
    #[arg(long)]
    pub(super) keep_going: bool,

    /// Exit 1 if a script ends while it holds something
    #[arg(long)]
    pub(super) strict: bool,
}
