//! A tool as a program: its grammar, a run from start to exit, and its documents.

pub mod cli;
mod complete;
pub mod docs;
mod early;
pub mod help;
pub mod kit;
pub mod run;
mod serve;
pub mod shells;
