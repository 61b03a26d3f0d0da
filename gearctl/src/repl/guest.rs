//! gearctl's part of a session.

use std::collections::BTreeSet;
use std::time::Instant;

use ctl_core::error::{CliError, Exit};
use ctl_core::link::Link as _;
use ctl_core::output::Record;
use ctl_core::repl::Prompt;
use ctl_core::repl::complete::Wanted;
use ctl_core::repl::guest::{Answers, Guest, Interactive, Parts, Words};
use ctl_core::repl::known::{Fetch, KnownNames};
use ctl_core::repl::shell::Leaving;
use ctl_core::rules::filter::{Field, Fields};
use ctl_core::rules::metrics::Measurable;
use ctl_core::text::units;
use gearman_client::{Address, Epoch};

use super::grammar::{self, Verb};
use super::jobs::JOBS;
use super::prompt::render;
use super::state::{LEAVE, OPEN, OWN, State, WAIT};
use crate::commands::check;
use crate::error::cli_error;
use crate::filters::Candidate;
use crate::link::{Link, statuses};
use crate::names::{show_function, show_handle, show_handle_of};
use crate::submit::running::{Running, Seen, show_share};
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
                names.extend(statuses(&mut link).ok()?.iter().map(|row| show_function(&row.name)));
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
        self.tidy();
        let address = self.tool.link.dialer.address().unwrap_or_default();
        let servers = self.is_connected().then_some(address.as_str());
        let open = self.count_open();
        let done = self.session().iter().filter(|run| run.is_over()).count();
        render(servers, open, done)
    }

    /// Maintenance while the prompt is idle. Returns messages for the user.
    fn tick(&mut self, now: Instant) -> Vec<String> {
        let mut said: Vec<String> = self.notice_loss().into_iter().collect();
        self.collect(now);
        if !self.person {
            return said;
        }
        said.append(&mut self.unsaid);
        if !self.is_connected() {
            said.extend(self.try_again(now));
        }
        said
    }

    /// Checks whether the connections are still those that the session knew. On a loss, returns a message for the
    /// person.
    fn notice_loss(&mut self) -> Option<String> {
        let client = self.tool.link.opened_mut()?;
        let alive = client.check_connection();
        let epochs: Vec<Epoch> = client.epochs().collect();
        let was_connected = std::mem::replace(&mut self.was_connected, alive);
        let known = self.epochs.replace(epochs.clone());
        // A new connection to one of several servers may also be the first one to it.
        let replaced = known.is_some_and(|known| known.len() == 1 && known != epochs);
        if !was_connected || (alive && !replaced) {
            return None;
        }
        self.again.lost();
        Some(format!("connection lost{}", if alive { "; reconnected" } else { "" }))
    }

    /// Brings the names for completion in line with the jobs.
    fn tidy(&mut self) {
        let open = self.open_jobs().iter().map(show_handle).collect();
        let session = self.session();
        let own = session.iter().rev().flat_map(Running::handles).map(show_handle).collect();
        self.names.keep(OWN, own);
        self.names.keep(OPEN, open);
    }

    fn leave_servers(&mut self) {
        self.start_connection();
    }

    fn verb(&mut self, verb: Verb) -> Result<Exit, CliError> {
        match verb {
            Verb::Start(args) => self.start(args),
            Verb::Jobs => self.show_held(),
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
        let waits = self.on_exit.word == WAIT && !self.session().is_empty();
        self.count_open() > 0 || waits
    }

    /// `:jobs`.
    fn show_held(&mut self) -> Result<Exit, CliError> {
        let is_several = self.tool.link.is_several();
        let servers: Vec<Address> = self.tool.link.client()?.addresses().cloned().collect();
        let mut rows = Vec::new();
        let seen: Vec<Seen> = self.session().iter().flat_map(Running::jobs).cloned().collect();
        for seen in &seen {
            let Some(handle) = &seen.handle else { continue };
            let (is_several, state, progress) = match seen.end {
                Some(end) => (is_several, end, seen.share.as_ref().and_then(show_share)),
                // The session has switched to other servers since.
                None if handle.server().is_some_and(|server| !servers.contains(server)) => {
                    (true, "elsewhere", None)
                }
                None => {
                    let status = self.tool.link.client()?.status(handle).map_err(cli_error)?;
                    let state = match (status.is_known, status.is_running) {
                        (true, true) => "running",
                        (true, false) => "queued",
                        (false, _) => "ended",
                    };
                    let progress =
                        status.is_running.then(|| show_share(&status.progress)).flatten();
                    (is_several, state, progress.filter(|progress| progress != "0"))
                }
            };
            rows.push(
                Record::new()
                    .with("handle", show_handle_of(handle, is_several))
                    .with("function", seen.function.as_str())
                    .with("state", state)
                    .with("progress", progress),
            );
        }
        self.tool.out.list(&JOBS)?.all(rows)?;
        Ok(Exit::Done)
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
