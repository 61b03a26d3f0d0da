//! `repl`: an interactive or scripted session on one WebSocket.

mod grammar;
mod guest;
mod held;
mod prompt;
mod state;
