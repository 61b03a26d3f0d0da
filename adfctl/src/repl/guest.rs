//! adfctl's part of a session.

use std::time::Instant;

use ctl_core::error::{CliError, Exit};
use ctl_core::output::Record;
use ctl_core::repl::Prompt;
use ctl_core::repl::complete::Wanted;
use ctl_core::repl::guest::{Answers, Guest, Interactive, Parts, Words, say_loss};
use ctl_core::repl::known::{Fetch, KnownNames};
use ctl_core::rules::filter::{Field, Fields};
use ctl_core::rules::metrics::Measurable;
use ctl_core::text::color::Role;
use ctl_core::text::units;

use super::grammar::{self, Verb};
use super::held::PULLED;
use super::prompt::render;
use super::state::{CLOSE, DELETE, HELD, LCANCEL, RCANCEL, State, went_back};
use crate::commands::check;
use crate::link::Link;
use crate::messages::Candidate;
use crate::tool::{Adfctl, Tool};

impl Interactive for Adfctl {
    const WORDS: Words = grammar::WORDS;
    const CHECKS: &'static [Measurable] = check::METRICS;
    const FILTERS: &'static [Field] = <Candidate<'_> as Fields>::FIELDS;

    type Verb = Verb;
    type Guest<'t> = State<'t>;

    fn guest(tool: &mut Tool, person: bool, names: KnownNames) -> State<'_> {
        tool.link.enter_session();
        State::new(tool, person, names)
    }

    fn live_names(mut link: Link) -> Fetch {
        Box::new(move || {
            let stats = link.stats().ok()?;
            Some(stats.queues.into_iter().map(|queue| queue.name).collect())
        })
    }
}

impl Guest for State<'_> {
    type Tool = Adfctl;

    const ANSWERS: Answers = Answers { words: &[LCANCEL, RCANCEL, DELETE], at_end: LCANCEL };
    const UNASKED: &'static str = CLOSE;
    const LAST_WORDS: (&'static str, &'static str) =
        (HELD, "pulled messages went back to their queues: pull");

    fn parts(&mut self) -> Parts<'_, Adfctl> {
        Parts { tool: self.tool, names: &self.names, on_exit: &mut self.on_exit }
    }

    fn prompt(&mut self, _: bool) -> Prompt {
        if !self.is_connected() && self.tool.link.opened().is_some() {
            return Prompt::new().role(Role::Error, "not connected").text("> ");
        }
        let address = self.tool.link.dialer.address().unwrap_or_default();
        render(&address, self.held().len(), &self.waiting)
    }

    /// Maintenance while the prompt is idle: messages of abandoned pulls, loss and return of the connection. Returns
    /// messages for the person.
    fn tick(&mut self, now: Instant) -> Vec<String> {
        let mut said: Vec<String> = self.notice_loss().into_iter().collect();
        if self.is_connected() {
            said.extend(self.collect());
        } else {
            said.extend(self.try_again(now));
        }
        said
    }

    /// Checks whether the connection is still the one that the session knew. On a loss, forgets the messages and
    /// returns a message for the person.
    fn notice_loss(&mut self) -> Option<String> {
        let client = self.tool.link.opened()?;
        let alive = client.check_connection();
        let epoch = if alive { client.epoch() } else { None };
        let before = std::mem::replace(&mut self.epoch, epoch)?;
        if epoch == Some(before) {
            return None;
        }
        self.again.lost();
        let went = went_back(self.held());
        self.forget_all();
        let again = if alive { "; reconnected" } else { "" };
        Some(format!("connection lost{went}{again}"))
    }

    /// Brings the names for completion in line with the messages.
    fn tidy(&mut self) {
        self.names.keep(HELD, self.pulls());
    }

    fn leave_servers(&mut self) {
        self.forget_all();
        self.epoch = None;
    }

    fn verb(&mut self, verb: Verb) -> Result<Exit, CliError> {
        match verb {
            Verb::Pull { queue, wait } => self.pull(&queue, wait.as_ref()),
            Verb::Pulled => self.show_held(),
            Verb::Delete(held) => self.settle_some(DELETE, held.pull.as_deref()),
            Verb::Lcancel(held) => self.settle_some(LCANCEL, held.pull.as_deref()),
            Verb::Rcancel(held) => self.settle_some(RCANCEL, held.pull.as_deref()),
            Verb::Save { pull, file } => self.save(Some(&pull), &file),
            Verb::SaveLast { file } => self.save(None, &file),
        }
    }

    fn after_line(&mut self, _: &str, _: &[String], result: &Result<Exit, CliError>) {
        if result.is_ok() && !self.is_connected() {
            // The line used the status page: the server is there again.
            self.again.lost();
        }
    }

    fn candidates(names: &KnownNames, wanted: &Wanted<'_>) -> Vec<String> {
        match wanted.value_name {
            "QUEUE" | "GLOB" => names.of_server(),
            "PULL" => {
                let mut pulls = names.kept(HELD);
                pulls.push("all".to_owned());
                pulls
            }
            _ => Vec::new(),
        }
    }

    fn holds(&mut self) -> bool {
        // Only messages that have not been lost already can be reported as going back.
        say_loss(self);
        !self.held().is_empty()
    }

    /// `pulled`.
    fn show_held(&mut self) -> Result<Exit, CliError> {
        let records = self.tool.session.iter().flatten().map(|message| {
            Record::new()
                .with("requestid", message.request_id().as_str())
                .with("queue", message.queue().as_str())
                .with("messageid", message.message_id().get())
                .with("duplications", message.duplications())
                .with("size", message.body().len())
        });
        self.tool.out.list(&PULLED)?.all(records)?;
        Ok(Exit::Done)
    }

    fn question(&mut self) -> Option<String> {
        let count = self.held().len();
        (count > 0).then(|| format!("{} pulled", units::count(count as u64, "message")))
    }

    fn let_go(&mut self, fate: &'static str) -> Result<bool, CliError> {
        match fate {
            CLOSE => self.close(),
            fate => self.settle_all(fate)?,
        }
        Ok(true)
    }
}
