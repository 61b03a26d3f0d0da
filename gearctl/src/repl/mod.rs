//! `repl`: an interactive or scripted session.

mod grammar;
mod guest;
mod jobs;
mod leave;
mod prompt;
mod state;
