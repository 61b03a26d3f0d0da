//! The interactive shell of the tools, without any queue in it.
//!
//! A tool implements [`shell::Shell`] and hands it to a [`session::Session`], which reads statements
//! from a script ([`source`]) or from a person ([`editor`], [`plain`]), splits them into words
//! ([`lexer`]), reads them by the tool's own clap grammar ([`grammar`]) and runs them.

pub mod builtin;
pub mod complete;
pub mod editor;
pub mod ending;
pub mod expect;
pub mod grammar;
pub mod help;
pub mod hint;
pub mod history;
pub mod lexer;
pub mod literal;
pub mod names;
mod place;
pub mod plain;
mod prompt;
pub mod session;
pub mod shell;
pub mod source;
pub mod terminal;

pub use prompt::Prompt;
