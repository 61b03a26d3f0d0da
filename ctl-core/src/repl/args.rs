//! The command line of `repl`.

use std::path::PathBuf;

use clap::Args;

use super::vars::assignment;

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

    /// Show each command of a script on stderr before it runs
    #[arg(long)]
    pub(super) echo: bool,

    /// Set a variable: ${NAME} in commands, an environment variable in shell commands (!); repeatable
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = assignment)]
    pub(super) vars: Vec<(String, String)>,

    /// Disable shell commands (!)
    #[arg(long)]
    pub(super) no_shell: bool,

    /// Do not run the rc file first
    #[arg(long)]
    pub(super) no_replrc: bool,

    /// Never use a pager
    #[arg(long)]
    pub(super) no_pager: bool,

    /// Exit 1 if a script ends while it holds something
    #[arg(long)]
    pub(super) strict: bool,
}
