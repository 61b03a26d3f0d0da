//! Messages about lost servers: one for each loss, not for every slot and attempt, and one for each return.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use queue_core::lock;

use super::counts::Account;
use crate::error::CliError;
use crate::output::messages::Messages;

/// The lost servers of a worker that were reported.
pub struct Outages {
    messages: Messages,
    /// Whether servers that cannot be reached are given up.
    pub(super) is_finite: bool,
    /// Has those that are lost now.
    account: Arc<Account>,
    /// Whether a server was reached.
    is_connected: AtomicBool,
    given_up: Mutex<BTreeSet<String>>,
}

impl Outages {
    /// None so far; reports to `messages`.
    pub(super) fn new(messages: Messages, account: Arc<Account>) -> Self {
        let (is_connected, given_up) = (AtomicBool::new(false), Mutex::default());
        Self { messages, is_finite: false, account, is_connected, given_up }
    }

    /// A slot has reached the server.
    pub fn connected(&self, server: impl Display) {
        // Messages are written under the lock, so that losses and returns alternate as they happened.
        let mut down = lock(&self.account.lost);
        self.is_connected.store(true, Ordering::SeqCst);
        if down.remove(&server.to_string()) {
            self.messages.note(format!("reconnected to {server}"));
        }
    }

    /// A slot has lost the server.
    pub fn disconnected(&self, server: impl Display, error: impl Display) {
        let (server, mut error) = (server.to_string(), error.to_string());
        if !error.contains(&server) {
            error = format!("{server}: {error}");
        }
        let mut down = lock(&self.account.lost);
        if down.insert(server) {
            let until = if self.is_finite { "" } else { " until it works" };
            self.messages.warn(format!("{error}; retrying{until}"));
        }
    }

    /// Whether a slot has reached a server.
    pub(super) fn has_connected(&self) -> bool {
        self.is_connected.load(Ordering::SeqCst)
    }

    /// A slot has given up the server.
    pub fn given_up(&self, server: impl Display) {
        lock(&self.given_up).insert(server.to_string());
    }

    /// Whether all servers could be reached, at the end of a worker.
    ///
    /// # Errors
    /// Some were given up, and may have more jobs: exit 69.
    pub fn check(&self) -> Result<(), CliError> {
        let given_up = lock(&self.given_up);
        if given_up.is_empty() {
            return Ok(());
        }
        let servers = given_up.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        let why = format!("{servers} could not be reached, and may have more work");
        Err(CliError::unavailable(why).hint("the same command again, once they answer"))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::output::Memory;

    #[test]
    fn losses_and_returns_alternate_across_slots() {
        let memory = Memory::default();
        let messages = Messages::to(Box::new(memory.clone()), "tool", false, false);
        let outages = Outages::new(messages, Arc::default());
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        outages.disconnected("one", "refused");
                        outages.connected("one");
                    }
                });
            }
        });
        let text = memory.text();
        assert!(text.lines().count() >= 2, "{text}");
        for (n, line) in text.lines().enumerate() {
            assert_eq!(line.contains("retrying"), n % 2 == 0, "line {n}: {line}");
        }
    }
}
