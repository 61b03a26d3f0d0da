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

    /// Run this command; may be given several times
    #[arg(short = 'e', long, value_name = "CMD")]
    pub(super) execute: Vec<String>,

    /// Go on after errors in a script; the exit code is 3 then
    #[arg(long)]
    pub(super) keep_going: bool,

    /// Show each command of a script on stderr before it runs
    #[arg(long)]
    pub(super) echo: bool,

    /// What ${NAME} stands for in the commands; shell commands (!) have it in their environment; may be given several times
    #[arg(long = "var", value_name = "NAME=VALUE", value_parser = assignment)]
    pub(super) vars: Vec<(String, String)>,

    /// Run no shell commands (!)
    #[arg(long)]
    pub(super) no_shell: bool,

    /// Do not run the commands of the rc file first
    #[arg(long)]
    pub(super) no_replrc: bool,

    /// Never send results to a pager
    #[arg(long)]
    pub(super) no_pager: bool,

    /// Exit 1 when a script ends while it holds something
    #[arg(long)]
    pub(super) strict: bool,
}
