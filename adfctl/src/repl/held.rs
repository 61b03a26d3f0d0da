//! The verbs on pulled messages: pull and keep them, list, settle, save.

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use adf_queue_client::{Delivery, QueueName};
use ctl_core::error::{CliError, Exit};
use ctl_core::input::named::Leading;
use ctl_core::link::Link as _;
use ctl_core::output::{Column, Record, Shape};
use ctl_core::repl::body;
use ctl_core::repl::guest::Guest as _;
use ctl_core::repl::patience::Patience;
use ctl_core::text::units;

use super::state::{DELETE, LCANCEL, State};
use crate::commands::pull::put_back;
use crate::messages::{BODIES, label};
use crate::names::Queue;
use crate::taker::SLICE;

pub(super) static PULLED: Shape = Shape::rows(
    "requestid",
    &[
        Column::new("requestid", "PULL"),
        Column::new("queue", "QUEUE"),
        Column::new("messageid", "ID"),
        Column::new("duplications", "DELIVERY"),
        Column::new("size", "SIZE"),
    ],
);

impl State<'_> {
    /// `pull QUEUE [DUR]`.
    pub(super) fn pull(
        &mut self,
        queue: &Leading<Queue>,
        wait: Option<&OsString>,
    ) -> Result<Exit, CliError> {
        let (queue, wait) = queue.split_one(wait)?;
        let wait = wait.map(|text| units::duration(&text.to_string_lossy())).transpose();
        let wait = wait.map_err(CliError::usage)?;
        let message = self.next(&queue, wait)?;
        self.waiting.retain(|other| *other != queue);
        let body = message.body().clone();
        let record = Record::new()
            .with("requestid", message.request_id().as_str())
            .with("messageid", message.message_id().get())
            .with("queue", message.queue().as_str())
            .with("duplications", message.duplications());
        // The session holds it before showing it, which may fail.
        self.hold(message);
        body::show(self.tool, &BODIES, &body, |shown| record.with_body(shown))
    }

    /// Waits in slices, as long as [`Patience`] says.
    fn next(&mut self, queue: &QueueName, wait: Option<Duration>) -> Result<Delivery, CliError> {
        let interrupts = self.tool.interrupts()?;
        let patience = Patience::new(wait, self.tool.link.dialer.timeout(), self.person);
        let what = format!("pull {queue}");
        if patience.looks_once() && !self.waiting.contains(queue) {
            let message = self.tool.link.ask(what, |client| client.try_pull(queue.clone()))?;
            return message.ok_or_else(|| nothing(queue));
        }
        loop {
            let slice = patience.slice(SLICE);
            let pull = |client: &mut adf_queue_client::blocking::Client| {
                client.pull_within(queue.clone(), slice)
            };
            if let Some(message) = self.tool.link.ask(&what, pull)? {
                return Ok(message);
            }
            if !self.waiting.contains(queue) {
                self.waiting.push(queue.clone());
            }
            interrupts.check()?;
            if patience.is_over() {
                let within = patience.shown();
                return Err(CliError::timeout(format!(
                    "no message arrived in {queue} within {within}; the pull keeps waiting in the server, and its message is reported when it arrives"
                )));
            }
            for said in self.tick(Instant::now()) {
                self.tool.messages.note(said);
            }
        }
    }

    /// `delete`, `lcancel` and `rcancel`.
    pub(super) fn settle_some(&mut self, fate: &str, pull: Option<&str>) -> Result<Exit, CliError> {
        if pull == Some("all") {
            self.settle_all(fate)?;
            return Ok(Exit::Done);
        }
        let place = self.place(pull)?;
        let said = self.settle_at(place, fate)?;
        let done = Record::new().with("settled", said.as_str()).with("fate", fate);
        self.tool.out.done(&done, &said)
    }

    /// Settles everything that is held. At the left end, the last one goes first, so that their order is kept.
    ///
    /// # Errors
    /// A message could not be settled: it and those after it are still held.
    pub(super) fn settle_all(&mut self, fate: &str) -> Result<(), CliError> {
        let mut count = 0;
        while !self.held().is_empty() {
            let place = if fate == LCANCEL { self.held().len() - 1 } else { 0 };
            self.settle_at(place, fate)?;
            count += 1;
        }
        let messages = units::count(count, "message");
        self.tool.messages.note(format!("{messages} {}", past(fate)));
        Ok(())
    }

    fn settle_at(&mut self, place: usize, fate: &str) -> Result<String, CliError> {
        let held = self.session();
        if place >= held.len() {
            return self.place(None).map(|_| String::new());
        }
        let message = held.remove(place);
        let link = &mut self.tool.link;
        let settled = match fate {
            DELETE => link.delete(&message),
            fate => put_back(link, &message, fate == LCANCEL),
        };
        let said = format!("{} is {}", label(&message), past(fate));
        // What the server no longer knows is not held; anything else may be tried again.
        if let Err(error) = settled {
            if error.exit != Exit::Negative {
                self.session().insert(place, message);
            }
            self.tidy();
            return Err(error);
        }
        self.tidy();
        Ok(said)
    }

    /// Closing the connection gives the messages back where they were.
    pub(super) fn close(&mut self) {
        let pulls = self.pulls();
        // A lost connection may have gone unnoticed.
        if let Some(lost) = self.notice_loss() {
            self.tool.messages.warn(lost);
            return;
        }
        self.tool.link.close();
        self.epoch = None;
        self.forget_all();
        let messages = units::count(pulls.len() as u64, "pulled message");
        let pulls = pulls.join(", ");
        self.tool.messages.warn(format!("{messages} went back to their queues: pull {pulls}"));
    }

    /// `save PULL FILE` and `:save FILE`.
    pub(super) fn save(&mut self, pull: Option<&str>, file: &Path) -> Result<Exit, CliError> {
        let place = self.place(pull)?;
        let Some(message) = self.held().get(place) else { return Ok(Exit::Done) };
        let (body, label) = (message.body().clone(), label(message));
        let record = Record::new().with("requestid", message.request_id().as_str());
        body::save(&mut self.tool.out, file, &body, (record, &label))
    }
}

fn past(fate: &str) -> &'static str {
    match fate {
        DELETE => "deleted",
        LCANCEL => "put back at the left end",
        _ => "put back at the right end",
    }
}

fn nothing(queue: &QueueName) -> CliError {
    let why = format!("no message is ready in {queue}");
    CliError::new(Exit::Negative, "NOTHING_PULLED", why)
        .hint(format!("pull {queue} 30s, to wait for one"))
}
