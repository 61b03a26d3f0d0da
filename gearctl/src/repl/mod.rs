//! `repl`: an interactive or scripted session.

mod grammar;
mod guest;
mod jobs;
mod leave;
mod prompt;
mod serve;
pub mod serving;
pub mod session;
mod state;
