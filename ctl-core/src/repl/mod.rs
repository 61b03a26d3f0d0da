//! The interactive shell of the tools, without any queue in it.

pub mod complete;
pub mod editor;
pub mod expect;
pub mod hint;
pub mod history;
pub mod lexer;
pub mod names;
mod place;
mod prompt;
pub mod source;

pub use prompt::Prompt;
