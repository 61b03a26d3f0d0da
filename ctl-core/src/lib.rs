//! What the queue tools share. It knows no queue.
pub mod repl;
