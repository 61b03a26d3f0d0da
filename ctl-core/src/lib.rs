//! Shared code of the queue tools: arguments, settings, output formats, messages, exit codes, confirmation, progress,
//! bulk operations, and the REPL. Independent of any particular queue.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod args;
pub mod bulk;
pub mod commands;
pub mod config;
pub mod context;
pub mod envelope;
pub mod error;
pub mod help;
pub mod input;
pub mod link;
pub mod live;
pub mod output;
pub mod program;
pub mod repl;
pub mod rules;
pub mod system;
pub mod text;
pub mod tool;
