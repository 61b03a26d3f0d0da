//! What gearctl adds to a session.

use std::collections::BTreeSet;
use std::time::Instant;

use ctl_core::error::{CliError, Exit};
use ctl_core::link::Link as _;
use ctl_core::repl::Prompt;
use ctl_core::repl::complete::Wanted;
use ctl_core::repl::guest::{Answers, Guest, Interactive, Parts, Words};
use ctl_core::repl::known::{Fetch, KnownNames};
use ctl_core::repl::shell::Leaving;
use ctl_core::rules::filter::{Field, Fields};
use ctl_core::rules::metrics::Measurable;
use ctl_core::text::units;
use gearman_client::FunctionStatus;
use gearman_client::protocol::AdminCommand;

use super::grammar::{self, Verb};
use super::state::{LEAVE, OPEN, OWN, State, WAIT};
use crate::commands::check;
use crate::filters::Candidate;
use crate::link::Link;
use crate::names::show_function;
use crate::tool::{Gearctl, Tool};

impl Interactive for Gearctl {
    const WORDS: Words = grammar::WORDS;
    const CHECKS: &'static [Measurable] = check::METRICS;
    const FILTERS: &'static [Field] = <Candidate<'_> as Fields>::FIELDS;

    type Verb = Verb;
    type Guest<'t> = State<'t>;

    fn guest(tool: &mut Tool, person: bool, names: KnownNames) -> State<'_> {
        State::new(tool, person, names)
    }

    fn live_names(mut link: Link) -> Fetch {
        Box::new(move || {
            let mut names = BTreeSet::new();
            for (_, mut link) in link.each().ok()? {
                let status = link.listing::<FunctionStatus>(&AdminCommand::Status).ok()?;
                names.extend(status.iter().map(|function| show_function(&function.name)));
            }
            Some(names.into_iter().collect())
        })
    }
}

impl Guest for State<'_> {
    type Tool = Gearctl;

    const ANSWERS: Answers = Answers { words: &[WAIT, LEAVE], at_end: LEAVE };
    const UNASKED: &'static str = LEAVE;
    const LAST_WORDS: (&'static str, &'static str) = (OPEN, "foreground jobs left to the server:");

    fn parts(&mut self) -> Parts<'_, Gearctl> {
        Parts { tool: self.tool, names: &self.names, on_exit: &mut self.on_exit }
    }

    fn prompt(&mut self, _: bool) -> Prompt {
        self.keep_in_line();
        self.show_prompt()
    }

    fn tick(&mut self, now: Instant) -> Vec<String> {
        self.look_after(now)
    }

    fn notice_loss(&mut self) -> Option<String> {
        self.note_loss()
    }

    fn tidy(&mut self) {
        self.keep_in_line();
    }

    fn leave_servers(&mut self) {
        self.start_connection();
    }

    fn verb(&mut self, verb: Verb) -> Result<Exit, CliError> {
        match verb {
            Verb::Start(args) => self.start(args),
            Verb::Jobs => self.show_jobs(),
            Verb::Fg { handle } => self.foreground(handle.as_deref()),
        }
    }

    fn after_line(&mut self, _: &str, firsts: &[String], result: &Result<Exit, CliError>) {
        if result.is_ok() && !self.is_connected() {
            // The line had its own connections: a server is there again.
            self.again.lost();
        }
        // A server can be configured with another prefix than H.
        let is_handle = |word: &&String| word.matches(':').count() == 2;
        let handles: Vec<String> = firsts.iter().filter(is_handle).cloned().collect();
        self.names.saw(&handles);
    }

    fn candidates(names: &KnownNames, wanted: &Wanted<'_>) -> Vec<String> {
        match (wanted.value_name, wanted.verb) {
            ("FUNCTION" | "GLOB" | "PATTERN", _) => names.of_server(),
            ("HANDLE", "fg") => names.kept(OWN),
            ("HANDLE", _) => names.kept_and_seen(OWN),
            ("PRIORITY", _) => ["high", "normal", "low"].map(str::to_owned).to_vec(),
            _ => Vec::new(),
        }
    }

    fn is_risky(reason: Leaving) -> bool {
        // Jobs have their own connections, which a script does not use.
        matches!(reason, Leaving::Quit | Leaving::End)
    }

    fn holds(&mut self) -> bool {
        // `wait` also shows the results of jobs that have ended.
        let waits = self.on_exit.word == WAIT && !self.session().runs.is_empty();
        self.count_open() > 0 || waits
    }

    fn show_held(&mut self) -> Result<Exit, CliError> {
        self.show_jobs()
    }

    fn question(&mut self) -> Option<String> {
        let open = self.count_open();
        let jobs = units::count(open as u64, "foreground job");
        (open > 0).then(|| format!("{jobs} running (the server drops queued ones)"))
    }

    fn let_go(&mut self, fate: &'static str) -> Result<bool, CliError> {
        match fate {
            WAIT => self.wait_for_all(),
            _ => Ok(self.leave_all()),
        }
    }
}
