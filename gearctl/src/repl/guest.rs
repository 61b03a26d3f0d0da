//! What the Gearman tool brings to a session.

use std::sync::Mutex;
use std::time::Instant;

use clap::{ArgMatches, FromArgMatches};
use ctl_core::error::{CliError, Exit};
use ctl_core::output::Record;
use ctl_core::repl::complete::Values;
use ctl_core::repl::guest::{Guest, Kit, Parts};
use ctl_core::repl::shell::{Leaving, Setting, Terminal};
use ctl_core::repl::{Prompt, unreadable};

use super::grammar::{self, GROUPS, Verb};
use super::leave;
use super::state::{OnExit, State};
use crate::cli::{self, Cli};
use crate::commands;
use crate::error::cli_error;
use crate::tool::PREFIX;

/// Commands after which functions may have come or gone.
const MAKES_FUNCTIONS: &[&str] = &[
    "run", "start", "submit", "map", "function", "work", "smoke", "drain", "raw", "import", "move",
];

/// What the tool is in a session.
pub(super) fn kit() -> Kit {
    Kit {
        name: "gearctl",
        prefix: PREFIX,
        grammar: grammar::grammar(&cli::command_tree()),
        groups: GROUPS,
        reads: &[
            "job",
            "jobs",
            "unique-jobs",
            "functions",
            "workers",
            "ping",
            "server",
            "version",
            "pid",
            "verbose",
            ":jobs",
            "attach",
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
        match self.tool.link.client() {
            Ok(_) => messages.note(format!("connected to {address}; help explains, Ctrl-D leaves")),
            Err(error) => messages.failure(&error, false),
        }
        self.note_loss();
        self.names.refresh();
    }

    fn prompt(&mut self, _: bool) -> Prompt {
        self.tidy();
        self.show_prompt()
    }

    fn tick(&mut self, now: Instant) -> Vec<String> {
        self.look_after(now)
    }

    fn notice_loss(&mut self) -> Option<String> {
        self.note_loss()
    }

    fn missing_word(&self, _: &str, _: &ArgMatches) -> Result<Option<String>, CliError> {
        Ok(None)
    }

    fn command(&mut self, matches: &ArgMatches) -> Result<Exit, CliError> {
        let plan = self.tool.link.plan(self.tool.globals.timeout);
        let result = self.line(matches);
        self.tool.link.set_plan(plan);
        result
    }

    fn after_line(&mut self, verb: &str, firsts: &[String], _: &Result<Exit, CliError>) {
        self.tidy();
        // A server can be told another beginning than H.
        let is_handle = |word: &&String| word.matches(':').count() == 2;
        let handles = firsts.iter().filter(is_handle);
        self.names.saw(handles.cloned().collect());
        if let Some(said) = self.note_loss() {
            self.tool.messages.note(said);
        }
        if MAKES_FUNCTIONS.contains(&verb) {
            self.names.refresh();
        }
    }

    fn settings(&self) -> Vec<Setting> {
        vec![Setting {
            name: "on_exit",
            value: self.on_exit.word().to_owned(),
            allowed: OnExit::WORDS,
            about: "what becomes of foreground jobs at the end",
        }]
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), CliError> {
        match name {
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
            let open = names.open();
            (!open.is_empty())
                .then(|| format!("foreground jobs left to the server: {}", open.join(", ")))
        })
    }

    fn left_behind(&self) -> bool {
        self.left_behind
    }

    fn settle(
        shared: &Mutex<Self>,
        reason: Leaving,
        person: Option<&mut dyn Terminal>,
    ) -> Result<bool, CliError> {
        match reason {
            // Jobs have connections of their own, and a script has nothing to do with them.
            Leaving::Connect | Leaving::Source => Ok(true),
            Leaving::Quit | Leaving::End => leave::settle(shared, person),
        }
    }
}

impl State<'_> {
    fn line(&mut self, matches: &ArgMatches) -> Result<Exit, CliError> {
        if let Some(verb) = grammar::verb(matches) {
            let exit = self.verb(verb)?;
            return self.tool.out.flush().map(|()| exit);
        }
        let line = Cli::from_arg_matches(matches).map_err(unreadable)?;
        let Some(command) = line.command else {
            return Err(CliError::usage("no command").hint("help"));
        };
        commands::dispatch(self.tool, command)
    }

    fn verb(&mut self, verb: Verb) -> Result<Exit, CliError> {
        match verb {
            Verb::Start(args) => self.start(args),
            Verb::Jobs => self.show_jobs(),
            Verb::Fg { handle } => self.foreground(handle.as_deref()),
            Verb::Attach { handle } => self.attach(&handle),
            Verb::Connect { servers } => self.connect(&servers),
        }
    }

    /// `connect`: goes to other servers. What the session holds has been settled before.
    fn connect(&mut self, servers: &str) -> Result<Exit, CliError> {
        // Checked before the old connections are given up.
        let _: gearman_client::Servers = servers.parse().map_err(cli_error)?;
        self.tool.link.retarget(servers.to_owned());
        // The new servers know nothing of them.
        self.session().submitted.clear();
        self.start_connection();
        self.names.connect_to(self.tool.link.sibling());
        self.tool.link.client()?;
        self.note_loss();
        let address = self.tool.link.address()?;
        let done = Record::new().with("address", address.as_str());
        self.tool.out.done(&done, &format!("connected to {address}"))?;
        Ok(Exit::Done)
    }
}
