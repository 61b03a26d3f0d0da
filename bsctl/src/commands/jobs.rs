//! `jobs`: list the jobs of a server.

use beanstalk_client::JobState;
use clap::Args;
use ctl_core::bulk::{Action, OnError};
use ctl_core::context::fleet::on_each;
use ctl_core::error::{CliError, Exit};
use ctl_core::input::named::{self, Several};

use crate::jobs::scan::{Wanted, fetch, select, tell_absent};
use crate::jobs::select::SelectArgs;
use crate::jobs::state::{ALL, one_of};
use crate::jobs::{self, JOBS, JOBS_WITH_BODY};
use crate::names::Tube;
use crate::tool::Tool;

/// The end of `jobs --help`.
pub const HELP: &str = "\
Protocol: stats-job ID for every id, pipelined; peek ID for bodies.
beanstalkd has no command to list jobs. Ids grow by one with every put, so ids are queried one by one, newest first,
until as many jobs are found as the server counts. Read-only.
On a server restarted with its log (-b), ids above the number of puts are tried too; the number of jobs not found is
reported. --filter 'id>=N' and 'id<=N' limit the search.
Filters: see `bsctl help filters`.

Examples:
  bsctl jobs -t mail --state buried --with-body
  bsctl jobs -t mail --filter 'body~=timeout' --filter 'age>1h'
  bsctl jobs -c 10 -o ndjson";

/// Arguments of `jobs`.
#[derive(Debug, Args)]
#[command(mut_args(named::described("Only these tubes [default: all]")))]
pub struct JobsArgs {
    #[command(flatten)]
    tubes: Several<Tube>,

    /// Only jobs in these states (comma-separated)
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = one_of(ALL))]
    state: Vec<JobState>,

    /// Show up to N jobs
    #[arg(short, long, alias = "limit", value_name = "N")]
    count: Option<u64>,

    #[command(flatten)]
    select: SelectArgs,

    /// Include bodies; so do --decode and --columns body
    #[arg(long)]
    with_body: bool,
}

/// Jobs fetched in one pipeline.
const CHUNK: usize = 100;

/// Runs `jobs`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: JobsArgs) -> Result<Exit, CliError> {
    let with_body = args.with_body;
    let wanted = Wanted::of(args.tubes.given()?, args.state, args.select.read()?);
    let wanted = Wanted { limit: args.count, ..wanted };
    on_each(tool, |tool| list(tool, &wanted, with_body))
}

fn list(tool: &mut Tool, wanted: &Wanted, with_body: bool) -> Result<Exit, CliError> {
    let interrupts = tool.interrupts()?;
    let action = Action { past: "listed", noun: "job", place: String::new() };
    let mut bulk = tool.bulk(action, OnError::Stop, None)?;
    let gate = bulk.gate();
    let with_body = with_body || tool.out.style.needs_bodies();
    let shape = if with_body { &JOBS_WITH_BODY } else { &JOBS };
    tool.out.expect(shape)?;
    tell_absent(tool, wanted.jobs.tubes())?;
    let found = select(tool, wanted, &gate)?;
    let mut list = tool.out.list(shape)?;
    bulk.beside(&list);
    for ids in found.ids.chunks(CHUNK) {
        if !gate.is_open() {
            break;
        }
        for (stats, body) in fetch(&mut tool.link, ids, wanted, with_body)? {
            bulk.success();
            let record = jobs::record(&stats);
            list.push(match body {
                Some(Ok(body)) => record.with_body(body),
                Some(Err(error)) => {
                    tool.messages.warn(format!("{}: {}", error.code, error.message));
                    record
                }
                None => record,
            })?;
        }
    }
    drop(bulk);
    list.finish()?;
    if found.missing > 0 {
        tool.messages.warn(format!(
            "the server counts {} more that were not found: try --filter 'id>=N' --filter 'id<=M' with higher ids",
            ctl_core::text::units::count(found.missing, "job")
        ));
    }
    Ok(interrupts.requested().unwrap_or(Exit::Done))
}
