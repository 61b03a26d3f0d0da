//! `bsctl`, the beanstalkd tool, as a library: the grammar, the commands, and their shared parts.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod attendance;
pub mod cli;
pub mod commands;
pub mod error;
pub mod jobs;
pub mod link;
pub mod names;
pub mod producer;
pub mod program;
pub mod repl;
pub mod seen;
pub mod servers;
pub mod tool;
pub mod tube_stats;
pub mod work;

pub use ctl_core::tool::run::main;
pub use tool::Bsctl;
