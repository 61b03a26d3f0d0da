//! Text: what is safe to show, units, words, and the syntax of lines.

pub mod color;
pub mod encoding;
pub mod escape;
pub mod lexer;
pub mod literal;
pub mod spelling;
pub mod units;
pub(crate) mod wrap;
