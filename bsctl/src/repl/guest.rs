//! What bsctl adds to a session.

use std::time::Instant;

use beanstalk_client::JobId;
use beanstalk_client::protocol::ListTubes;
use clap::{ArgMatches, Command};
use ctl_core::error::{CliError, Exit};
use ctl_core::repl::Prompt;
use ctl_core::repl::complete::Wanted;
use ctl_core::repl::guest::{Answers, Guest, Interactive, Parts, Words, say_loss};
use ctl_core::repl::known::{Fetch, KnownNames};
use ctl_core::repl::shell::{ON_OFF, Setting};
use ctl_core::rules::filter::{Field, Fields};
use ctl_core::rules::metrics::Measurable;
use ctl_core::text::units;

use super::grammar::{self, ON_LAST_JOB, Verb};
use super::state::{BURY, CLOSE, DELETE, HELD, RELEASE, State, USED, WATCHED};
use crate::commands::check;
use crate::jobs::select::Candidate;
use crate::link::Link;
use crate::tool::{Bsctl, Tool};

impl Interactive for Bsctl {
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
            let tubes = link.call(ListTubes).ok()?;
            Some(tubes.iter().map(ToString::to_string).collect())
        })
    }

    fn here(command: Command) -> Command {
        match ON_LAST_JOB.contains(&command.get_name()) {
            true => command.mut_arg("ids", |ids| ids.required(false)),
            false => command,
        }
    }
}

impl Guest for State<'_> {
    type Tool = Bsctl;

    const ANSWERS: Answers = Answers { words: &[RELEASE, BURY, DELETE], at_end: RELEASE };
    const UNASKED: &'static str = CLOSE;
    const LAST_WORDS: (&'static str, &'static str) = (HELD, "reserved jobs went back to ready:");

    fn parts(&mut self) -> Parts<'_, Bsctl> {
        Parts { tool: self.tool, names: &self.names, on_exit: &mut self.on_exit }
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

    fn tidy(&mut self) {
        self.keep_in_line();
    }

    fn leave_servers(&mut self) {
        self.forget_all();
        self.start_connection();
    }

    fn missing_word(&self, verb: &str, line: &ArgMatches) -> Result<Option<String>, CliError> {
        let has_ids = line.try_contains_id("ids").unwrap_or(true);
        let is_of_all = matches!(line.try_get_one("all"), Ok(Some(true)));
        if has_ids || is_of_all || !ON_LAST_JOB.contains(&verb) {
            return Ok(None);
        }
        self.last_held().map(|id| Some(id.to_string()))
    }

    fn verb(&mut self, verb: Verb) -> Result<Exit, CliError> {
        match verb {
            Verb::Use { tube } => self.use_tube(&tube),
            Verb::Watch { tubes } => self.watch(&tubes),
            Verb::Ignore { tubes } => self.ignore(&tubes),
            Verb::Reserve { tubes, .. } if !tubes.is_empty() => {
                let text = "a session reserves from the tubes that it watches";
                let watch = format!("watch {}, and then reserve", tubes.join(" "));
                Err(CliError::usage(text).hint(watch).hint("ignore TUBE, for those to leave out"))
            }
            Verb::Reserve { wait, job, wait_for, .. } => self.reserve(wait.or(wait_for), job),
            Verb::Reserved => self.show_reserved(),
            Verb::Touch { job } => self.touch_some(job.as_deref()),
            Verb::Hold { job } => self.hold_some(job.as_deref(), true),
            Verb::Unhold { job } => self.hold_some(job.as_deref().or(Some("all")), false),
            Verb::Save { id, file } => self.save(id.into(), &file),
            Verb::SaveLast { file } => self.save_last(&file),
        }
    }

    fn after_line(&mut self, verb: &str, firsts: &[String], result: &Result<Exit, CliError>) {
        let ids: Vec<JobId> = firsts.iter().filter_map(|word| word.parse().ok()).collect();
        if let (Some(last), "peek" | "job") = (ids.last(), verb) {
            self.last_shown = Some(*last);
        }
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        self.names.saw(&ids);
        match result {
            Err(error) if error.code == "DRAINING" => self.draining = true,
            Ok(_) if verb == "put" => self.draining = false,
            _ => {}
        }
    }

    fn settings(&self) -> Vec<Setting> {
        let autotouch = if self.notebook.autotouch { "on" } else { "off" };
        vec![Setting {
            name: "autotouch",
            value: autotouch.to_owned(),
            allowed: ON_OFF,
            about: "touch reserved jobs at every third of their time to run",
        }]
    }

    fn set(&mut self, _: &str, value: &str) {
        self.notebook.autotouch = value == "on";
    }

    fn candidates(names: &KnownNames, wanted: &Wanted<'_>) -> Vec<String> {
        match (wanted.value_name, wanted.verb) {
            ("TUBE", "ignore") => names.kept(WATCHED),
            ("TUBE" | "PATTERN" | "GLOB", _) => {
                let mut tubes = names.of_server();
                tubes.extend(names.kept(USED));
                tubes.extend(names.kept(WATCHED));
                tubes.sort();
                tubes.dedup();
                tubes
            }
            ("ID", "touch" | "hold" | "unhold") => {
                let mut ids = names.kept(HELD);
                ids.push("all".to_owned());
                ids
            }
            ("ID", _) => names.kept_and_seen(HELD),
            _ => Vec::new(),
        }
    }

    fn holds(&mut self) -> bool {
        // Only jobs that have not been lost already can be reported as going back.
        say_loss(self);
        !self.held_ids().is_empty()
    }

    fn show_held(&mut self) -> Result<Exit, CliError> {
        self.show_reserved()
    }

    fn question(&mut self) -> Option<String> {
        let count = self.held_ids().len();
        (count > 0).then(|| format!("{} reserved", units::count(count as u64, "job")))
    }

    fn let_go(&mut self, fate: &'static str) -> Result<bool, CliError> {
        self.apply(fate).map(|()| true)
    }
}
