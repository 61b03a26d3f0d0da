//! The interactive shell of the tools, independent of any queue.
//!
//! A tool adds its vocabulary and its state ([`guest`]) and starts a session with them ([`start`]). The session
//! ([`session`]) reads statements from a script ([`source`]) or from a person ([`editor`], [`plain`]), splits them into
//! words ([`lexer`](crate::text::lexer)), parses them by the tool's own clap grammar ([`tree`], [`grammar`]) and runs them.

pub mod args;
pub mod body;
pub mod builtin;
pub mod complete;
mod connect;
pub mod contexts;
pub mod editor;
pub mod grammar;
pub mod guest;
pub mod help;
pub mod hint;
pub mod history;
mod host;
pub mod known;
pub mod names;
mod on_exit;
pub mod outside;
pub mod patience;
pub(crate) mod place;
pub mod plain;
mod prompt;
pub mod reconnect;
mod redirect;
pub mod session;
pub mod shell;
mod sink;
pub mod source;
pub mod start;
pub mod terminal;
pub mod tree;
pub(crate) mod values;
mod watcher;

pub(crate) use host::unreadable;
pub use prompt::Prompt;
