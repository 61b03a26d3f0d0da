//! `adfctl`, the Adf.QueueServer tool, as a library: the grammar, the commands, and their shared parts.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod cli;
pub mod commands;
pub mod error;
pub mod leaving;
pub mod link;
pub mod messages;
pub mod names;
pub mod producer;
pub mod program;
pub mod repl;
pub mod scratch;
pub mod servers;
pub mod taker;
pub mod targets;
pub mod tool;
pub mod work;

pub use ctl_core::tool::run::main;
pub use tool::Adfctl;
