//! `export`: the jobs of a server as NDJSON records.

use beanstalk_client::JobState;
use bytes::Bytes;
use clap::Args;
use ctl_core::bulk::{Action, BulkArgs, Gate};
use ctl_core::context::fleet::on_each;
use ctl_core::error::{CliError, Exit};
use ctl_core::input::named::{self, Several};
use ctl_core::output::records;

use crate::jobs::scan::{Wanted, fetch, select, tell_absent, tell_missing};
use crate::jobs::select::SelectArgs;
use crate::jobs::state::{ALL, one_of};
use crate::jobs::{self, JOBS_WITH_BODY};
use crate::names::Tube;
use crate::tool::Tool;

/// The end of `export --help`.
pub const HELP: &str = "\
Protocol: stats-job and peek for every id, both read-only. `drain` also takes the jobs out of the queue.
One record per line:
  {\"v\":1,\"id\":7,\"tube\":\"mail\",\"state\":\"ready\",\"pri\":1024,\"delay\":0,\"ttr\":60,
   \"age\":12,\"reserves\":0,\"timeouts\":0,\"releases\":0,\"buries\":0,
   \"kicks\":0,\"body\":\"...\"}
`body_base64` replaces `body` if the bytes are not UTF-8. `import` reads this format.
Jobs are written in the order of their ids. The server does not tell in which order jobs were buried: drain and move keep
that order. A scan is not a snapshot: jobs that come and go in the meantime may be missing, or exist twice after an import.
Filters: see `bsctl help filters`.

Examples:
  bsctl export > all.ndjson
  bsctl export mail --state buried --filter 'age>1d'
  bsctl export mail | bsctl -s other:11300 import - --keep-state";

/// Arguments of `export`.
#[derive(Debug, Args)]
#[command(mut_args(named::described("The tubes [default: all]")))]
pub struct ExportArgs {
    #[command(flatten)]
    tubes: Several<Tube>,

    /// States of jobs, comma-separated [default: all]
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = one_of(ALL))]
    state: Vec<JobState>,

    #[command(flatten)]
    select: SelectArgs,

    #[command(flatten)]
    bulk: BulkArgs,
}

/// Runs `export`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: ExportArgs) -> Result<Exit, CliError> {
    let (tubes, filters) = (args.tubes.given()?, args.select.read()?);
    let wanted = Wanted::of(tubes, args.state, filters);
    on_each(tool, |tool| scan(tool, &wanted, &args.bulk))
}

fn scan(tool: &mut Tool, wanted: &Wanted, args: &BulkArgs) -> Result<Exit, CliError> {
    records::prepare(
        &mut tool.out,
        tool.globals.output,
        records::STDOUT.as_ref(),
        &JOBS_WITH_BODY,
    )?;
    let interrupts = tool.interrupts()?;
    tell_absent(tool, wanted.jobs.tubes())?;
    let found = select(tool, wanted, &Gate::of(&interrupts))?;
    if let Some(exit) = interrupts.requested() {
        return Ok(exit);
    }
    let (mut ids, missing) = (found.ids, found.missing);
    if let Some(limit) = args.items.count {
        ids.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    }
    let action = Action { past: "exported", noun: "job", place: String::new() };
    let total = Some(ids.len() as u64);
    let mut bulk = tool.bulk(action, &args.items, total)?.including(found.took);
    let mut list = tool.out.list(&JOBS_WITH_BODY)?.eager();
    bulk.beside(&list);
    for chunk in ids.chunks(args.window()) {
        if !bulk.gate().turn(chunk.len()) {
            break;
        }
        for (stats, body) in fetch(&mut tool.link, chunk, wanted, true)? {
            match body.unwrap_or_else(|| Ok(Bytes::new())) {
                Ok(body) => {
                    bulk.success();
                    list.push(jobs::record(&stats).with_body(body))?;
                }
                Err(error) => bulk.failure(format!("job {}", stats.id), error)?,
            }
        }
    }
    list.finish()?;
    tell_missing(&tool.messages, missing);
    let exit = bulk.finish_quietly()?;
    Ok(if exit.is_done() && missing > 0 { Exit::Partial } else { exit })
}
