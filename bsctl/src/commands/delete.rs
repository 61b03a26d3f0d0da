//! `delete`: remove jobs by id.

use std::collections::HashSet;
use std::ffi::OsString;

use beanstalk_client::protocol::{Command, Delete};
use beanstalk_client::{JobId, JobRef};
use clap::Args;
use ctl_core::bulk::{Action, Bulk, BulkArgs};
use ctl_core::error::{CliError, Exit};
use ctl_core::output::records;
use ctl_core::text::units;

use super::drain::save;
use crate::error::NOT_FOUND;
use crate::jobs::JOBS_WITH_BODY;
use crate::jobs::scan::{Wanted, existing};
use crate::jobs::sweep::sweep_ids;
use crate::link::Link;
use crate::tool::{Tool, forget_held, held};
use crate::{jobs, names};

/// The end of `delete --help`.
pub const HELP: &str = "\
Protocol: delete ID.
Deletes ready, delayed and buried jobs of any tube, regardless of who put them. A job reserved by another connection
cannot be deleted: the server answers NOT_FOUND for that too, and the message says which case it is.

With --backup, ready jobs are reserved meanwhile (server 1.12 or later), and each is deleted only once its record is on
disk.

Examples:
  bsctl delete 42 43 --backup deleted.ndjson
  bsctl jobs -t mail --state buried -o id | bsctl delete -";

/// Arguments of `delete`.
#[derive(Debug, Args)]
pub struct DeleteArgs {
    /// Job ids, or - to read ids from stdin, one per line
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,

    /// Write the jobs into this new file first, as records for import
    #[arg(long, value_name = "FILE")]
    backup: Option<OsString>,

    #[command(flatten)]
    bulk: BulkArgs,
}

/// Runs `delete`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: DeleteArgs) -> Result<Exit, CliError> {
    let ids = limited(
        names::job_ids(&args.ids, (&mut tool.input, &tool.messages))?,
        args.bulk.items.count,
    );
    if tool.globals.dry_run {
        return would(tool, "delete", &ids);
    }
    let action = Action { past: "deleted", noun: "job", place: String::new() };
    if let Some(to) = &args.backup {
        records::prepare(&mut tool.out, tool.globals.output, to, &JOBS_WITH_BODY)?;
        let bulk = tool.bulk(action, &args.bulk.items, Some(ids.len() as u64))?;
        let window = args.bulk.window();
        return save(tool, (to, &mut None), bulk, |link, bulk, way| {
            let ids = free(link, &ids, bulk)?;
            sweep_ids(link, &ids, &Wanted::default(), window, bulk, way)
        });
    }
    let bulk = tool.bulk(action, &args.bulk.items, Some(ids.len() as u64))?;
    each(tool, bulk, &args.bulk, &ids, Delete::new)
}

/// The jobs that exist and are not reserved; the others are failures.
fn free(link: &mut Link, ids: &[JobId], bulk: &mut Bulk) -> Result<Vec<JobId>, CliError> {
    let there = existing(link, ids.iter().copied())?;
    let there = there.into_iter().filter(|stats| stats.state.as_str() != "reserved");
    let free: HashSet<JobId> = there.map(|stats| stats.id).collect();
    for id in ids.iter().filter(|id| !free.contains(id)) {
        let why = jobs::explain_not_found(link, *id);
        bulk.failure(format!("job {id}"), why)?;
    }
    Ok(ids.iter().copied().filter(|id| free.contains(id)).collect())
}

/// The first `limit` ids.
pub fn limited(mut ids: Vec<JobId>, limit: Option<u64>) -> Vec<JobId> {
    ids.truncate(limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX)));
    ids
}

/// Reports what a command would do to these jobs.
///
/// # Errors
/// Write failures.
pub fn would(tool: &mut Tool, verb: &str, ids: &[JobId]) -> Result<Exit, CliError> {
    let numbers: Vec<u64> = ids.iter().map(|id| id.get()).collect();
    let record = ctl_core::output::Record::new()
        .with("dry_run", true)
        .with("jobs", ids.len())
        .with("ids", numbers);
    let sentence = format!("would {verb} {}", units::count(ids.len() as u64, "job"));
    tool.out.done_with(&record, &["jobs"], &sentence)
}

/// One command per job, pipelined and counted. Jobs that the session holds are addressed through their reservation.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn each<C: Command>(
    tool: &mut Tool,
    mut bulk: Bulk,
    args: &BulkArgs,
    ids: &[JobId],
    command: impl Fn(JobRef) -> C,
) -> Result<Exit, CliError> {
    let gate = bulk.gate();
    for chunk in ids.chunks(args.window()) {
        if !gate.turn(chunk.len()) {
            break;
        }
        let references: Vec<JobRef> = chunk
            .iter()
            .map(|id| held(tool, *id).map_or_else(|| (*id).into(), |held| held.job))
            .collect();
        let replies: Vec<_> = tool.link.pipeline(references.into_iter().map(&command))?.collect();
        for (id, reply) in chunk.iter().zip(replies) {
            let outcome = match reply {
                Ok(_) => {
                    forget_held(tool, *id);
                    Ok(())
                }
                Err(error) if error.code == NOT_FOUND => {
                    Err(jobs::explain_not_found(&mut tool.link, *id))
                }
                Err(error) => Err(error.about("ID", id)),
            };
            let counted = bulk.count(format!("job {id}"), outcome);
            bulk = bulk.after(counted)?;
        }
    }
    bulk.finish(&mut tool.out)
}
