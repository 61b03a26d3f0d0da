//! `repl`: an interactive or scripted session on one lasting connection.

mod grammar;
mod guest;
mod held;
mod jobs;
mod leave;
mod prompt;
mod state;
mod tubes;
