//! The jobs that a command is about to take out of tubes, as counted at the start.

use beanstalk_client::{JobId, JobState, TubeName};
use clap::{ArgAction, Args};
use ctl_core::bulk::{Action, Bulk, BulkArgs, Gate};
use ctl_core::error::{CliError, Exit};
use ctl_core::output::Record;
use ctl_core::output::progress::Progress;
use ctl_core::rules::filter::Filters;
use ctl_core::text::units;

use super::{Target, Targets, Way, describe, sweep, sweep_ids, targets};
use crate::jobs;
use crate::jobs::scan::{Found, Wanted, find, no_jobs, select, tell_missing};
use crate::jobs::select::SelectArgs;
use crate::jobs::state::{FREE, one_of};
use crate::link::Link;
use crate::tool::Tool;

/// Arguments shared by the commands that take jobs out of tubes.
#[derive(Debug, Clone, Args)]
pub struct SweepArgs {
    /// Only jobs in these states (comma-separated)
    #[arg(
        long,
        value_name = "STATE",
        value_delimiter = ',',
        action = ArgAction::Set,
        default_value = "ready,delayed,buried",
        value_parser = one_of(FREE)
    )]
    pub state: Vec<JobState>,

    /// Continue until empty, including jobs put in the meantime
    #[arg(long, conflicts_with = "filters")]
    pub until_empty: bool,

    /// The filters on them.
    #[command(flatten)]
    pub select: SelectArgs,
}

/// How a command asks before it takes jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ask {
    /// Not at all: the jobs stay.
    Never,
    /// If there are any.
    Jobs,
    /// For the address of the server.
    Address,
}

/// The jobs to take.
pub struct Plan {
    tubes: Vec<TubeName>,
    targets: Targets,
    /// The matching jobs, if there are filters.
    chosen: Option<(Found, Wanted)>,
    until_empty: bool,
    limit: u64,
    window: usize,
}

impl Plan {
    /// Counts the jobs. Reports tubes that do not exist, tubes that are left as they are, and the number of reserved
    /// jobs. With `by_id`, the jobs are listed even without filters.
    ///
    /// # Errors
    /// A filter is not valid: exit 2. The failure of the connection.
    pub fn make(
        tool: &mut Tool,
        tubes: Vec<TubeName>,
        args: &SweepArgs,
        bulk: &BulkArgs,
        by_id: bool,
    ) -> Result<Self, CliError> {
        let filters = args.select.read()?;
        let targets = targets(&mut tool.link, &tubes, &args.state)?;
        for tube in &targets.missing {
            let meant = jobs::near(&mut tool.link, tube);
            tool.messages.note(no_jobs(tube, meant.as_deref()));
        }
        for error in &targets.left {
            tool.messages.warn(&error.message);
        }
        if targets.reserved > 0 {
            let (jobs, they) = (units::count(targets.reserved, "reserved job"), targets.reserved);
            let stay = if they == 1 { "stays with its worker" } else { "stay with their workers" };
            tool.messages.note(format!("{jobs} {stay}"));
        }
        let chosen = if filters.is_empty() && !by_id {
            None
        } else {
            let mut there: Vec<TubeName> =
                targets.found.iter().map(|target| target.tube.clone()).collect();
            there.dedup();
            let is_none = there.is_empty();
            let wanted = Wanted::of(there, args.state.iter().cloned(), filters);
            // No tube at all would mean every tube.
            let found = if is_none { Found::default() } else { chosen(tool, &wanted)? };
            Some((found, wanted))
        };
        let (until_empty, limit) = (args.until_empty, bulk.items.count.unwrap_or(u64::MAX));
        Ok(Self { tubes, targets, chosen, until_empty, limit, window: bulk.window() })
    }

    /// Number of jobs that the command is about to act on.
    fn total(&self) -> u64 {
        let total = match &self.chosen {
            Some((found, _)) => found.ids.len() as u64,
            None => self.targets.found.iter().map(|target| target.count).sum(),
        };
        total.min(self.limit)
    }

    /// Whether none of the tubes exists. That has been reported, and a person needs no further message.
    pub fn is_of_nothing(&self) -> bool {
        self.targets.found.is_empty() && self.targets.left.is_empty()
    }

    /// Whether there is nothing to confirm.
    fn is_empty(&self) -> bool {
        self.total() == 0 && (!self.until_empty || self.targets.found.is_empty())
    }

    /// "12 jobs (10 ready, 2 buried) from tube mail", or "3 jobs from tube mail that fit 'age>1h'".
    fn describe(&self) -> String {
        match &self.chosen {
            Some((_, wanted)) => {
                let jobs = units::count(self.total(), "job");
                format!("{jobs} {}{}", self.place(), wanted.filters.matching())
            }
            None => {
                let all = describe(&self.targets.found);
                let there: u64 = self.targets.found.iter().map(|target| target.count).sum();
                if self.limit < there { format!("{} of {all}", self.limit) } else { all }
            }
        }
    }

    /// "from tube mail", for one tube or several.
    fn place(&self) -> String {
        format!("from {}", units::which("tube", &self.tubes))
    }

    /// The missing jobs, if nothing else is to be reported.
    fn lack(&self) -> Option<String> {
        if !self.is_empty() || self.limit == 0 || self.targets.found.is_empty() {
            return None;
        }
        let mut states: Vec<&str> = Vec::new();
        for target in &self.targets.found {
            if !states.contains(&target.state.as_str()) {
                states.push(target.state.as_str());
            }
        }
        if states.len() == FREE.len() {
            return None;
        }
        let that_fits = match &self.chosen {
            Some((_, wanted)) if !wanted.filters.is_empty() => {
                format!(" match {}", wanted.filters)
            }
            _ => String::new(),
        };
        let (states, tubes) = (states.join(" or "), units::which("tube", &self.tubes));
        Some(format!("no {states} jobs in {tubes}{that_fits} (see --state)"))
    }

    /// Asks, and starts counting; prints a note if there is nothing to count. `rest` is where the jobs go, if anywhere.
    /// A dry run reports what was found instead, and starts nothing.
    ///
    /// # Errors
    /// The person declines. The system denies the signal handlers. Write failures.
    pub fn start(
        &self,
        tool: &mut Tool,
        (verb, past): (&str, &'static str),
        (rest, ask): (&str, Ask),
        args: &BulkArgs,
    ) -> Result<Option<Bulk>, CliError> {
        let (total, what) = (self.total(), format!("{verb} {}", self.describe()));
        if tool.globals.dry_run {
            let record = Record::new().with("dry_run", true).with("jobs", total);
            tool.out.done_with(&record, &["jobs"], &format!("would {what}{rest}"))?;
            return Ok(None);
        }
        let address = tool.link.dialer.address()?;
        let question = format!("{what} on {address}{rest}");
        match ask {
            Ask::Address => tool.confirm().everything(&question, &address, &tool.messages)?,
            Ask::Jobs if !self.is_empty() => tool.confirm().many(&question, &tool.messages)?,
            Ask::Jobs | Ask::Never => {}
        }
        if let Some(lack) = self.lack() {
            tool.messages.note(lack);
        }
        let action = Action { past, noun: "job", place: format!("{}{rest}", self.place()) };
        let search = self.chosen.as_ref().map(|(found, _)| found.took);
        Ok(Some(tool.bulk(action, &args.items, Some(total))?.including(search.unwrap_or_default())))
    }

    /// Takes them.
    ///
    /// # Errors
    /// The failure of the connection, or of `way`.
    pub fn run(&self, link: &mut Link, bulk: &mut Bulk, way: &mut dyn Way) -> Result<(), CliError> {
        if let Some((found, wanted)) = &self.chosen {
            let most = usize::try_from(self.limit).unwrap_or(usize::MAX).min(found.ids.len());
            let ids = found.ids.get(..most).unwrap_or_default();
            return sweep_ids(link, ids, wanted, self.window, bulk, way);
        }
        let mut left = self.limit;
        for target in &self.targets.found {
            let done = bulk.succeeded();
            let most = if self.until_empty { left } else { target.count.min(left) };
            if let Some(head) = sweep(link, target, most, self.window, bulk, way)? {
                let most = most.saturating_sub(bulk.succeeded() - done);
                self.sweep_behind(head, link, (target, most), bulk, way)?;
            }
            left = left.saturating_sub(bulk.succeeded() - done);
        }
        Ok(())
    }

    /// Takes the jobs behind one that stays at the head of its list. They are found by their ids.
    fn sweep_behind(
        &self,
        head: JobId,
        link: &mut Link,
        (target, most): (&Target, u64),
        bulk: &mut Bulk,
        way: &mut dyn Way,
    ) -> Result<(), CliError> {
        let gate = bulk.gate();
        if most == 0 || !gate.is_open() {
            return Ok(());
        }
        let wanted =
            Wanted::of(vec![target.tube.clone()], [target.state.clone()], Filters::default());
        let messages = link.dialer.messages().without_progress();
        let mut progress = Progress::start(&messages, "", None);
        let mut ids = find(link, &wanted, &gate, &mut progress)?.ids;
        ids.retain(|id| *id != head);
        ids.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        sweep_ids(link, &ids, &wanted, self.window, bulk, way)
    }

    /// The final exit of a command that reached `exit`: 3 if tubes were left as they are.
    pub fn exit(&self, exit: Exit) -> Exit {
        if exit.is_done() && !self.targets.left.is_empty() { Exit::Partial } else { exit }
    }
}

/// The matching jobs.
///
/// # Errors
/// The failure of the connection; a signal.
pub fn chosen(tool: &mut Tool, wanted: &Wanted) -> Result<Found, CliError> {
    let interrupts = tool.interrupts()?;
    let gate = Gate::of(&interrupts);
    let found = select(tool, wanted, &gate)?;
    interrupts.check()?;
    tell_missing(&tool.messages, found.missing);
    Ok(found)
}
