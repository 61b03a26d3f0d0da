//! `edit`: replaces the body of a job, as a new job.

use std::ffi::OsString;

use beanstalk_client::protocol::{Peek, StatsJob};
use beanstalk_client::{JobId, JobStats};
use bytes::Bytes;
use clap::Args;
use ctl_core::bulk::{Action, OnError};
use ctl_core::error::{CliError, Exit};
use ctl_core::input::Argument;
use ctl_core::link::Link as _;
use ctl_core::output::Record;
use ctl_core::repl::outside;

use crate::jobs::mover::{Changes, Mover};
use crate::jobs::no_job;
use crate::jobs::scan::Wanted;
use crate::jobs::sweep::sweep_ids;
use crate::producer::{after_refusals, max_job_size};
use crate::tool::Tool;

/// The end of `edit --help`.
pub const HELP: &str = "\
Protocol: stats-job and peek, then use TUBE and put, then delete; reserve-job for a ready job; pause-tube, reserve-job
and bury for a buried one (server 1.12 or later).
beanstalkd cannot change a job. A new one with the new body is put first, with the tube, state, priority, remaining
delay and time to run of the old one, which is deleted once the server has confirmed the new one. Prints the new id; the
counters start at 0. If another client takes the old job in the meantime, it stays as it was, and the new one is deleted
again. A reserved job belongs to its worker.
Without BODY, $VISUAL or $EDITOR edits the body. If the editor fails, or the body is unchanged or empty, nothing happens.
If the job cannot be replaced, a file keeps what was edited. A line end that an editor adds to the last line is removed.

Examples:
  bsctl edit 42
  bsctl edit 42 @letter.json
  bsctl job 42 -o raw | sed s/joe/jim/ | bsctl edit 42 -";

/// Arguments of `edit`.
#[derive(Debug, Args)]
pub struct EditArgs {
    /// Job id
    #[arg(value_name = "ID")]
    id: u64,

    /// New body: text, @FILE, or - for stdin [default: ask $VISUAL or $EDITOR]
    #[arg(value_name = "BODY|@FILE|-")]
    body: Option<OsString>,
}

/// Runs `edit`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: EditArgs) -> Result<Exit, CliError> {
    let id = JobId::from(args.id);
    let stats = tool.link.call(StatsJob(id))?.ok_or_else(|| no_job(id))?;
    let state = stats.state.as_str();
    if state == "reserved" {
        let why = format!("job {id} is reserved: until its worker is done, it cannot be replaced");
        return Err(CliError::not_found(why).hint(format!("bsctl job {id}")));
    }
    let dry = Record::new().with("dry_run", true).with("jobs", 1).with("id", id.get());
    if tool.globals.dry_run {
        let sentence = format!("would replace job {id} in tube {}", stats.tube);
        return tool.out.done_with(&dry, &["jobs"], &sentence);
    }
    let before = match args.body {
        Some(_) => None,
        None => Some(tool.link.call(Peek(id))?.ok_or_else(|| no_job(id))?.body),
    };
    let Some(body) = new_body(tool, id, (args.body, before.as_deref()))? else {
        let same = Record::new().with("id", id.get()).with("replaced", false);
        return tool.out.done_with(&same, &["id"], &format!("job {id} is unchanged"));
    };
    let (is_edited, body) = (before.is_some(), Bytes::from(body));
    let replaced = replace(tool, &stats, before, body.clone());
    if is_edited && !matches!(replaced, Ok((true, _))) {
        match outside::keep(&body) {
            Ok(kept) => tool.messages.note(format!("the edited body is in {}", kept.display())),
            Err(error) => {
                tool.messages.warn(CliError::writing("the edited body", &error).message);
            }
        }
    }
    replaced.map(|(_, exit)| exit)
}

/// Replaces the body of a job, and returns whether that was done. `before` is the body that was edited, if it was.
fn replace(
    tool: &mut Tool,
    stats: &JobStats,
    before: Option<Bytes>,
    body: Bytes,
) -> Result<(bool, Exit), CliError> {
    let id = stats.id;
    let (to, tube) = (tool.link.side().sibling(), stats.tube.clone());
    let is_buried = stats.state.as_str() == "buried";
    let mut mover = Mover::new(to, tube.clone(), Changes::default(), is_buried)?;
    (mover.before, mover.body) = (before, Some(body));
    let action = Action { past: "replaced", noun: "job", place: format!("in tube {tube}") };
    let mut bulk = tool.bulk(action, OnError::Stop, Some(1))?;
    let swept = sweep_ids(tool.link.side(), &[id], &Wanted::default(), 1, &mut bulk, &mut mover);
    let exit = bulk.after(mover.ends(swept))?.finish_silently()?;
    let Some(new) = mover.replaced else {
        let why = match tool.link.call(StatsJob(id))? {
            Some(_) => format!("another client took job {id} in the meantime: it stays as it was"),
            None => format!("job {id} was deleted in the meantime: there is no new one"),
        };
        let taken = CliError::not_found(why).hint(format!("bsctl job {id}"));
        return if exit.is_done() { Err(taken) } else { Ok((false, exit)) };
    };
    let done = Record::new().with("id", new.get()).with("replaced", id.get());
    let done = done.with("tube", tube.as_str());
    tool.out.done_with(&done, &["id"], &format!("job {id} in tube {tube} is now job {new}"))?;
    Ok((true, after_refusals(&tool.messages, mover.refused, exit)))
}

/// The new body: the given one, or this one after it was edited; `None` if it is the same then.
fn new_body(
    tool: &mut Tool,
    id: JobId,
    (given, before): (Option<OsString>, Option<&[u8]>),
) -> Result<Option<Vec<u8>>, CliError> {
    if let Some(given) = given {
        let limit = max_job_size(&mut tool.link)?;
        return Argument::parse(&given).load(&mut tool.input, limit).map(Some);
    }
    let before = before.unwrap_or_default();
    let mut after = outside::edit(before, &tool.settings().environment)?;
    if !before.ends_with(b"\n") && after.ends_with(b"\n") {
        after.pop();
    }
    if after.is_empty() && !before.is_empty() {
        let why = "nothing was done: the edited body is empty";
        return Err(CliError::new(Exit::Negative, "CANCELLED", why)
            .hint(format!("bsctl edit {id} '', for an empty body")));
    }
    Ok(Some(after).filter(|after| *after != before))
}
