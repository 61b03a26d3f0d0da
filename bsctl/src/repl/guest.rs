//! bsctl's part of a session.

use std::time::Instant;

use beanstalk_client::JobId;
use beanstalk_client::protocol::ListTubes;
use clap::{ArgMatches, Command};
use ctl_core::error::{CliError, Exit};
use ctl_core::output::Record;
use ctl_core::repl::Prompt;
use ctl_core::repl::complete::Wanted;
use ctl_core::repl::guest::{Answers, Guest, Interactive, Parts, Words, say_loss};
use ctl_core::repl::known::{Fetch, KnownNames};
use ctl_core::repl::shell::{ON_OFF, Setting};
use ctl_core::rules::filter::{Field, Fields};
use ctl_core::rules::metrics::Measurable;
use ctl_core::text::units;

use super::grammar::{self, ON_LAST_JOB, Verb};
use super::held::list;
use super::jobs::RESERVED;
use super::prompt::{Facts, render};
use super::state::{BURY, CLOSE, DELETE, HELD, RELEASE, State, USED, WATCHED};
use crate::commands::check;
use crate::jobs::WENT_BACK;
use crate::jobs::select::Candidate;
use crate::link::{Link, Place};
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
        let now = Instant::now();
        let place = self.tool.link.place().filter(|_| self.is_connected());
        let address = self.tool.link.dialer.address().unwrap_or_default();
        let session = self.session();
        let (held, left) = (session.held.len(), session.shortest(now));
        let draining = self.draining;
        render(&Facts { address: &address, place, held, left, draining, rich })
    }

    /// Maintenance while the prompt is idle: touches, warnings, loss and return of the connection. Returns messages
    /// for the person.
    fn tick(&mut self, now: Instant) -> Vec<String> {
        let mut said: Vec<String> = self.notice_loss().into_iter().collect();
        if self.is_connected() {
            for due in self.session().due(now) {
                said.extend(self.act(due));
            }
        } else {
            said.extend(self.try_again(now));
        }
        said
    }

    /// Checks whether the connection is still the one that the session knew. On a loss, forgets the reserved jobs and
    /// returns a message for the person.
    fn notice_loss(&mut self) -> Option<String> {
        // Without a place there has never been a connection, and asking for the client would open one.
        self.tool.link.place()?;
        let client = self.tool.link.client().ok()?;
        let alive = client.check_connection();
        let epoch = alive.then(|| client.epoch());
        let before = std::mem::replace(&mut self.epoch, epoch)?;
        if epoch == Some(before) {
            return None;
        }
        self.draining = false;
        self.again.lost();
        let ids = self.held_ids();
        self.forget_all();
        let again = if alive { "; reconnected" } else { "" };
        let went = match ids.as_slice() {
            [] => String::new(),
            [id] => format!(" — reserved job {id} {WENT_BACK}"),
            ids => format!(" — reserved jobs {} {WENT_BACK}", list(ids)),
        };
        Some(format!("connection lost{went}{again}"))
    }

    /// Brings the names for completion in line with the reserved jobs.
    fn tidy(&mut self) {
        let held = self.session().held.keys().map(ToString::to_string).collect();
        self.names.keep(HELD, held);
        if let Some(Place { used, watched }) = self.tool.link.place() {
            self.names.keep(USED, vec![used.to_string()]);
            self.names.keep(WATCHED, watched.iter().map(ToString::to_string).collect());
        }
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
            Verb::Reserved => self.show_held(),
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
        let is_on = self.tool.session.as_ref().is_some_and(|session| session.autotouch);
        let autotouch = if is_on { "on" } else { "off" };
        vec![Setting {
            name: "autotouch",
            value: autotouch.to_owned(),
            allowed: ON_OFF,
            about: "touch reserved jobs at every third of their time to run",
        }]
    }

    fn set(&mut self, _: &str, value: &str) {
        self.session().autotouch = value == "on";
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

    /// `reserved`.
    fn show_held(&mut self) -> Result<Exit, CliError> {
        let now = Instant::now();
        let session = self.tool.session.get_or_insert_default();
        let mut list = self.tool.out.list(&RESERVED)?;
        for (id, held) in &session.held {
            let record = Record::new()
                .with("id", id.get())
                .with("tube", held.tube.as_ref().map(ToString::to_string))
                .with("left", held.left(now).as_secs())
                .with("ttr", held.ttr.as_secs())
                .with("size", held.body.len())
                .with("hold", session.autotouch || held.hold);
            list.push(record)?;
        }
        list.finish()?;
        Ok(Exit::Done)
    }

    fn question(&mut self) -> Option<String> {
        let count = self.held_ids().len();
        (count > 0).then(|| format!("{} reserved", units::count(count as u64, "job")))
    }

    /// Settles every reserved job this way.
    ///
    /// # Errors
    /// A job could not be settled: it and those after it are still held.
    fn let_go(&mut self, fate: &'static str) -> Result<bool, CliError> {
        let ids = self.held_ids();
        if fate == CLOSE {
            self.close(&ids);
            return Ok(true);
        }
        for id in &ids {
            self.settle_one(*id, fate)?;
        }
        let past = match fate {
            RELEASE => "released",
            BURY => "buried",
            _ => "deleted",
        };
        let jobs = units::count(ids.len() as u64, "job");
        self.tool.messages.note(format!("{jobs} {past}: {}", list(&ids)));
        Ok(true)
    }
}
