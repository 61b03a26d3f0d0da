//! `jobs`: the server's jobs, as far as it reports them.

use std::iter::repeat;

use clap::Args;
use ctl_core::context::fleet::Fleet;
use ctl_core::error::{CliError, Exit};
use ctl_core::output::{Column, Record, Shape};
use ctl_core::text::{escape, units};
use gearman_client::protocol::AdminCommand;
use gearman_client::{JobHandle, JobInfo, Row, UniqueJob};

use crate::link::Link;
use crate::names::show_handle_at;
use crate::tool::Tool;

/// The end of `jobs --help`.
pub const HELP: &str = "\
Protocol: show jobs, show unique jobs, which only gearmand has; it does not report functions.
IGNORED jobs were cancelled, or their submitter disconnected: they count as queued until a worker asks for work.
QUEUED means that the job is a background job in the server's own queue. RETRIES counts the workers that were lost while
running it. With --unique-ids, servers from 2.2 on also report handles.
With several servers, handles name theirs: SERVER//HANDLE.

Examples:
  gearctl jobs --count 20
  gearctl jobs --unique-ids
  gearctl jobs -o id | gearctl cancel -";

/// Arguments of `jobs`.
#[derive(Debug, Args)]
pub struct JobsArgs {
    /// Show up to N jobs
    #[arg(short, long, alias = "limit", value_name = "N")]
    count: Option<usize>,

    /// List them by their unique ids
    #[arg(long)]
    unique_ids: bool,
}

/// Jobs by their handles.
static JOBS: Shape = Shape::rows(
    "handle",
    &[
        Column::new("handle", "HANDLE").escaped(),
        Column::new("retries", "RETRIES"),
        Column::new("ignored", "IGNORED"),
        Column::new("queued", "QUEUED"),
    ],
);

/// Jobs by their unique ids.
static UNIQUE_JOBS: Shape = Shape::rows(
    "unique",
    &[Column::new("unique", "UNIQUE").escaped(), Column::new("handle", "HANDLE").escaped()],
);

/// Runs `jobs`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: JobsArgs) -> Result<Exit, CliError> {
    if args.unique_ids {
        let unique = |record: Record, job: &UniqueJob| {
            let id = Some(&job.unique).filter(|id| !id.is_empty());
            record.with("unique", id.map(|id| escape::name(id)))
        };
        let what = (&UNIQUE_JOBS, AdminCommand::ShowUniqueJobs);
        return list(tool, &args, what, unique, |job| job.handle.as_ref());
    }
    let what = (&JOBS, AdminCommand::ShowJobs);
    let state = |record: Record, job: &JobInfo| {
        record
            .with("retries", job.retries)
            .with("ignored", job.is_ignored)
            .with("queued", job.is_queued)
    };
    list(tool, &args, what, state, |job| Some(&job.handle))
}

/// Lists the jobs of all servers; `fill` adds to a record what it has beside its handle.
fn list<J: Row + Send>(
    tool: &mut Tool,
    args: &JobsArgs,
    (shape, command): (&'static Shape, AdminCommand),
    fill: impl Fn(Record, &J) -> Record,
    handle: impl Fn(&J) -> Option<&JobHandle>,
) -> Result<Exit, CliError> {
    let most = args.count.unwrap_or(usize::MAX);
    let mut fleet = Fleet::of(tool)?;
    fleet.expect(&mut tool.out, shape)?;
    let all = fleet.ask(&mut tool.link, |link: &mut Link| link.listing::<J>(&command))?;
    let list = fleet.list(&mut tool.out, shape)?;
    // Handles name their servers.
    let list = if args.unique_ids { list } else { list.without("server") };
    let jobs = all.iter().flat_map(|(server, jobs)| jobs.iter().take(most).zip(repeat(server)));
    list.all(jobs.map(|(job, server)| {
        let shown = handle(job).map(|handle| show_handle_at(handle, server.as_deref()));
        fill(Record::new().of_server(server.as_deref()).with("handle", shown), job)
    }))?;
    let left: usize = all.iter().map(|(_, jobs)| jobs.len().saturating_sub(most)).sum();
    if left > 0 {
        tool.messages.note(format!("--count leaves out {}", units::count(left as u64, "job")));
    }
    Ok(fleet.exit())
}
