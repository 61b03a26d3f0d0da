//! `repl`: an interactive or scripted session.

mod grammar;
mod guest;
mod jobs;
mod leave;
mod prompt;
pub mod session;
mod state;
