//! What beanstalkd's tool brings to a session.

use std::sync::Mutex;
use std::time::Instant;

use beanstalk_client::{JobId, TubeName};
use clap::{ArgMatches, FromArgMatches};
use ctl_core::error::{CliError, Exit};
use ctl_core::repl::complete::Values;
use ctl_core::repl::guest::{Guest, Kit, Parts};
use ctl_core::repl::shell::{Leaving, ON_OFF, Setting, Terminal};
use ctl_core::repl::{Prompt, unreadable};

use super::grammar::{self, GROUPS, ON_LAST_JOB, Verb};
use super::leave;
use super::state::{OnExit, State};
use crate::cli::{self, Cli};
use crate::commands;
use crate::tool::PREFIX;

/// Commands after which tubes may have come or gone.
const MAKES_TUBES: &[&str] =
    &["put", "use", "watch", "ignore", "delete", "pop", "clear", "drain", "import", "move", "copy"];

/// What the tool is in a session.
pub(super) fn kit() -> Kit {
    Kit {
        name: "bsctl",
        prefix: PREFIX,
        grammar: grammar::grammar(&cli::command_tree()),
        groups: GROUPS,
        reads: &[
            "peek",
            "jobs",
            "job",
            "tubes",
            "stats",
            "stats-tube",
            "server",
            "ping",
            "reserved",
        ],
        secrets: &["raw"],
        start_flags: grammar::START_FLAGS,
        lost: "CONNECTION_LOST",
    }
}

impl Guest for State<'_> {
    fn parts(&mut self) -> Parts<'_> {
        let tool = &mut *self.tool;
        Parts { globals: &mut tool.globals, out: &mut tool.out, messages: &tool.messages }
    }

    fn greet(&mut self) {
        let messages = self.tool.messages.clone();
        let address = self.tool.link.address().unwrap_or_default();
        match self.tool.client() {
            Ok(_) => messages.note(format!("connected to {address}; help explains, Ctrl-D leaves")),
            Err(error) => messages.failure(&error, false),
        }
        self.note_loss();
        self.tidy();
        self.names.refresh();
    }

    fn prompt(&mut self, rich: bool) -> Prompt {
        self.show_prompt(rich)
    }

    fn tick(&mut self, now: Instant) -> Vec<String> {
        self.look_after(now)
    }

    fn notice_loss(&mut self) -> Option<String> {
        self.note_loss()
    }

    fn missing_word(&self, verb: &str, line: &ArgMatches) -> Result<Option<String>, CliError> {
        let has_ids = line.try_contains_id("ids").unwrap_or(true);
        if has_ids || !ON_LAST_JOB.contains(&verb) {
            return Ok(None);
        }
        self.last_held().map(|id| Some(id.to_string()))
    }

    fn command(&mut self, matches: &ArgMatches) -> Result<Exit, CliError> {
        if let Some(verb) = grammar::verb(matches) {
            let exit = self.verb(verb)?;
            return self.tool.out.flush().map(|()| exit);
        }
        let line = Cli::from_arg_matches(matches).map_err(unreadable)?;
        let Some(command) = line.command else {
            return Err(CliError::usage("no command").hint("help"));
        };
        let is_first = self.tool.link.place().is_none();
        // Some commands are less patient than others.
        let plan = self.tool.link.plan();
        let result = commands::dispatch(self.tool, command);
        self.tool.link.set_plan(plan);
        if is_first && self.is_connected() {
            // There was no place to come back to: a session begins with the server's own.
            let tube = TubeName::default();
            let link = &mut self.tool.link;
            // A lost connection is told by the next command.
            let _ = link.use_tube(&tube).and_then(|()| link.watch_only(&[tube]));
        }
        result
    }

    fn after_line(&mut self, verb: &str, firsts: &[String], result: &Result<Exit, CliError>) {
        let ids: Vec<JobId> = firsts.iter().filter_map(|word| word.parse().ok()).collect();
        if let (Some(last), "peek" | "job") = (ids.last(), verb) {
            self.last_shown = Some(*last);
        }
        self.names.saw(&ids);
        match result {
            Err(error) if error.code == "DRAINING" => self.draining = true,
            Ok(_) if verb == "put" => self.draining = false,
            _ => {}
        }
        if let Some(said) = self.note_loss() {
            self.tool.messages.note(said);
        }
        self.tidy();
        if MAKES_TUBES.contains(&verb) {
            self.names.refresh();
        }
    }

    fn settings(&self) -> Vec<Setting> {
        let autotouch = if self.notebook.autotouch { "on" } else { "off" };
        vec![
            Setting {
                name: "autotouch",
                value: autotouch.to_owned(),
                allowed: ON_OFF,
                about: "touch reserved jobs each third of their time to run",
            },
            Setting {
                name: "on_exit",
                value: self.on_exit.word().to_owned(),
                allowed: OnExit::WORDS,
                about: "what becomes of reserved jobs at the end",
            },
        ]
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), CliError> {
        match name {
            "autotouch" => self.notebook.autotouch = value == "on",
            "on_exit" => self.on_exit = OnExit::of(value).unwrap_or(self.on_exit),
            _ => return Err(CliError::usage(format!("there is no setting `{name}`"))),
        }
        Ok(())
    }

    fn values(&self) -> Box<dyn Values> {
        Box::new(self.names.clone())
    }

    fn last_words(&self) -> Box<dyn Fn() -> Option<String> + Send + Sync> {
        let names = self.names.clone();
        Box::new(move || {
            let held = names.held_ids();
            let jobs = format!("reserved jobs went back to ready: {}", held.join(", "));
            (!held.is_empty()).then_some(jobs)
        })
    }

    fn left_behind(&self) -> bool {
        !self.left_behind.is_empty()
    }

    fn settle(
        shared: &Mutex<Self>,
        _: Leaving,
        person: Option<&mut dyn Terminal>,
    ) -> Result<bool, CliError> {
        leave::settle(shared, person)
    }
}

impl State<'_> {
    fn verb(&mut self, verb: Verb) -> Result<Exit, CliError> {
        match verb {
            Verb::Use { tube } => self.use_tube(&tube),
            Verb::Watch { tubes } => self.watch(&tubes),
            Verb::Ignore { tubes } => self.ignore(&tubes),
            Verb::Reserve { wait, job } => self.reserve(wait, job),
            Verb::Reserved => self.show_reserved(),
            Verb::Touch { job } => self.touch_some(job.as_deref()),
            Verb::Hold { job } => self.hold_some(job.as_deref(), true),
            Verb::Unhold { job } => self.hold_some(job.as_deref().or(Some("all")), false),
            Verb::Save { id, file } => self.save(id.into(), &file),
            Verb::SaveLast { file } => self.save_last(&file),
            Verb::Connect { server } => self.connect(&server),
        }
    }
}
