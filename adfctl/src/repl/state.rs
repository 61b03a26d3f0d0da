//! The state of a session: the tool with its connection, the messages it holds, its settings.

use std::time::{Duration, Instant};

use adf_queue_client::{Delivery, Epoch, QueueName};
use ctl_core::error::CliError;
use ctl_core::repl::guest::{ASK, Guest as _, OnExit};
use ctl_core::repl::known::KnownNames;
use ctl_core::repl::reconnect::Reconnector;

use crate::messages::label;
use crate::tool::{Session, Tool};

/// The fates of pulled messages when a session ends: the values of `on_exit`.
pub(super) const LCANCEL: &str = "lcancel";
pub(super) const RCANCEL: &str = "rcancel";
pub(super) const DELETE: &str = "delete";
/// The connection is closed, which gives messages back where they were.
pub(super) const CLOSE: &str = "close";
const ON_EXIT: &[&str] = &[ASK, LCANCEL, RCANCEL, DELETE, CLOSE];

/// Names for completion: the pulls whose messages are held.
pub(super) const HELD: &str = "held";

/// How long to wait for a message that should already have arrived.
const AT_ONCE: Duration = Duration::from_millis(1);

/// A session.
pub struct State<'t> {
    pub(super) tool: &'t mut Tool,
    pub(super) on_exit: OnExit,
    pub(super) names: KnownNames,
    /// Queues with an abandoned pull: the server still has it, and answers it with the next message.
    pub(super) waiting: Vec<QueueName>,
    /// Whether a person is using the session.
    pub(super) person: bool,
    /// That of the connection; none if it was given up on purpose, so that its replacement is not a loss.
    pub(super) epoch: Option<Epoch>,
    pub(super) again: Reconnector,
}

impl<'t> State<'t> {
    /// A session of this tool, which has been prepared for sessions.
    pub(super) fn new(tool: &'t mut Tool, person: bool, names: KnownNames) -> Self {
        Self {
            tool,
            on_exit: OnExit::ask(ON_EXIT),
            names,
            waiting: Vec::new(),
            person,
            epoch: None,
            again: Reconnector::default(),
        }
    }

    /// The session's memory.
    pub(super) fn session(&mut self) -> &mut Session {
        self.tool.session.get_or_insert_default()
    }

    /// The messages that the session holds, the last one at the end.
    pub(super) fn held(&self) -> &[Delivery] {
        self.tool.session.as_ref().map_or(&[], Vec::as_slice)
    }

    /// The pulls whose messages are held.
    pub(super) fn pulls(&self) -> Vec<String> {
        self.held().iter().map(|message| message.request_id().to_string()).collect()
    }

    /// Records a message that was just pulled.
    pub(super) fn hold(&mut self, message: Delivery) {
        self.session().push(message);
        self.tidy();
    }

    /// Records that the session holds nothing any more, and that none of its pulls waits.
    pub(super) fn forget_all(&mut self) {
        self.session().clear();
        self.waiting.clear();
        self.tidy();
    }

    /// Whether the session is connected, as far as is known.
    pub(super) fn is_connected(&mut self) -> bool {
        self.tool.link.opened().is_some_and(|client| client.is_connected())
    }

    /// Takes the messages of abandoned pulls.
    pub(super) fn collect(&mut self) -> Vec<String> {
        let mut said = Vec::new();
        for queue in self.waiting.clone() {
            let Some(client) = self.tool.link.opened() else { break };
            // The next poll notices and reports a lost connection.
            let Ok(Some(message)) = client.pull_within(queue.clone(), AT_ONCE) else { continue };
            said.push(format!("{} arrived, pull {}", label(&message), message.request_id()));
            self.waiting.retain(|other| *other != queue);
            self.hold(message);
        }
        said
    }

    /// Connects again after a loss.
    pub(super) fn try_again(&mut self, now: Instant) -> Option<String> {
        if !self.person {
            return None;
        }
        let client = self.tool.link.opened()?;
        if !self.again.try_again(now, || client.reconnect().is_ok()) {
            return None;
        }
        self.epoch = client.epoch();
        Some("reconnected".to_owned())
    }

    /// The index of the message that was pulled by this request, or last.
    ///
    /// # Errors
    /// The session holds no such message.
    pub(super) fn place(&self, pull: Option<&str>) -> Result<usize, CliError> {
        let place = match pull {
            None => self.held().len().checked_sub(1),
            Some(id) => self.held().iter().position(|one| one.request_id().as_str() == id),
        };
        place.ok_or_else(|| {
            let why = match pull {
                Some(id) => format!("this session holds no message of pull {id}"),
                None => "this session holds no message".to_owned(),
            };
            CliError::not_found(why).hint("pulled, to list the messages it holds")
        })
    }
}

/// " — pulled messages 1 of /q, 2 of /q went back", or nothing. A server that stopped has lost them.
pub(super) fn went_back(held: &[Delivery]) -> String {
    match held {
        [] => String::new(),
        [message] => {
            format!(" — {} went back to its queue, unless the server stopped", label(message))
        }
        all => format!(
            " — {} pulled messages went back to their queues, unless the server stopped",
            all.len()
        ),
    }
}
