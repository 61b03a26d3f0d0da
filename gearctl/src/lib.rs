//! `gearctl`, the Gearman tool, as a library: the grammar, the commands, and their shared parts.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod cli;
pub mod commands;
pub mod error;
pub mod filters;
pub mod link;
pub mod names;
pub mod program;
pub mod repl;
pub mod servers;
pub mod submit;
pub mod tool;
pub mod work;

pub use ctl_core::tool::run::main;
pub use tool::Gearctl;
