//! The state of a session: the tool with its connections.

use std::time::{Duration, Instant};

use gearman_client::protocol::Epoch;

use super::values::Names;
use crate::tool::Tool;

/// A session.
pub(super) struct State<'t> {
    pub(super) tool: &'t mut Tool,
    pub(super) names: Names,
    /// Whether a person is there.
    person: bool,
    /// The connections that the session knew, one for each server; none before the first.
    epochs: Option<Vec<Epoch>>,
    was_connected: bool,
    retry: Retry,
}

/// When a lost connection is tried again while nothing else happens.
struct Retry {
    at: Instant,
    pause: Duration,
}

const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

impl<'t> State<'t> {
    /// A session of this tool, which has been prepared for it.
    pub(super) fn new(tool: &'t mut Tool, person: bool, names: Names) -> Self {
        let retry = Retry { at: Instant::now(), pause: FIRST_PAUSE };
        Self { tool, names, person, epochs: None, was_connected: false, retry }
    }

    /// Whether the session is connected, as far as is known.
    pub(super) fn is_connected(&self) -> bool {
        self.tool.link.opened().is_some_and(|client| client.is_connected())
    }

    /// Looks whether the connections are still those that the session knew. Gives a sentence for the person on a loss.
    pub(super) fn note_loss(&mut self) -> Option<String> {
        let client = self.tool.link.opened_mut()?;
        let alive = client.check_connection();
        let epochs: Vec<Epoch> = client.epochs().collect();
        let was_connected = std::mem::replace(&mut self.was_connected, alive);
        let known = self.epochs.replace(epochs.clone());
        // A new connection to one of several servers may as well be the first one to it.
        let replaced = known.is_some_and(|known| known.len() == 1 && known != epochs);
        if !was_connected || (alive && !replaced) {
            return None;
        }
        self.retry = Retry { at: Instant::now(), pause: FIRST_PAUSE };
        Some(format!("connection lost{}", if alive { "; connected again" } else { "" }))
    }

    /// The connections were given up on purpose: that the next ones are others is no loss.
    pub(super) fn start_connection(&mut self) {
        self.epochs = None;
        self.was_connected = false;
    }

    /// What has to be done although nobody typed anything. Gives sentences for the person.
    pub(super) fn look_after(&mut self, now: Instant) -> Vec<String> {
        let mut said: Vec<String> = self.note_loss().into_iter().collect();
        if !self.is_connected() {
            said.extend(self.try_again(now));
        }
        said
    }

    /// Connects again after a loss, with growing pauses.
    fn try_again(&mut self, now: Instant) -> Option<String> {
        if !self.person || now < self.retry.at {
            return None;
        }
        let client = self.tool.link.opened_mut()?;
        if client.reconnect().is_ok() {
            self.start_connection();
            self.note_loss();
            return Some("connected again".to_owned());
        }
        self.retry = Retry {
            at: Instant::now() + self.retry.pause,
            pause: (self.retry.pause * 2).min(LONGEST_PAUSE),
        };
        None
    }
}
