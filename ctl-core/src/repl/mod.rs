//! The interactive shell of the tools, without any queue in it.

pub mod lexer;
