//! What a person is told about lost servers: each loss once, not for every slot and attempt, and each return.

use std::collections::HashSet;
use std::fmt::Display;
use std::sync::{Mutex, PoisonError};

use crate::output::messages::Messages;

/// The lost servers of a worker that were reported.
pub struct Outages {
    messages: Messages,
    down: Mutex<HashSet<String>>,
}

impl Outages {
    /// None so far; reports to `messages`.
    #[must_use]
    pub fn new(messages: Messages) -> Self {
        Self { messages, down: Mutex::default() }
    }

    /// A slot has reached the server.
    pub fn connected(&self, server: impl Display) {
        let mut down = self.down.lock().unwrap_or_else(PoisonError::into_inner);
        if down.remove(&server.to_string()) {
            self.messages.note(format!("connected to {server} again"));
        }
    }

    /// A slot has lost the server.
    pub fn disconnected(&self, server: impl Display, error: impl Display) {
        let mut down = self.down.lock().unwrap_or_else(PoisonError::into_inner);
        let (server, mut error) = (server.to_string(), error.to_string());
        if !error.contains(&server) {
            error = format!("{server}: {error}");
        }
        if down.insert(server) {
            self.messages.warn(format!("{error}; retrying until it works"));
        }
    }
}
