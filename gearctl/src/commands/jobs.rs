//! `jobs` and `unique-jobs`: the server's jobs, as far as it reports them.

use clap::Args;
use ctl_core::context::fleet::Fleet;
use ctl_core::error::{CliError, Exit};
use ctl_core::output::{Column, Record, Shape};
use ctl_core::text::units;
use gearman_client::protocol::AdminCommand;
use gearman_client::{JobInfo, UniqueJob};

use crate::link::Link;
use crate::names::show_handle_at;
use crate::tool::Tool;

/// The end of `jobs --help`.
pub const HELP: &str = "\
Protocol: show jobs, which only gearmand has; it does not report functions.
IGNORED jobs were cancelled, or their submitter disconnected: they count as queued until a worker asks for work.
QUEUED means that the job is a background job in the server's own queue. RETRIES counts the workers that were lost while
running it.
With several servers, handles name theirs: SERVER//HANDLE.

Examples:
  gearctl jobs --limit 20
  gearctl jobs -o id | gearctl cancel -";

/// The end of `unique-jobs --help`.
pub const UNIQUE_HELP: &str = "\
Protocol: show unique jobs, which only gearmand has. Servers from 2.2 on also report handles.
With several servers, SERVER shows where each row is from.

Example:
  gearctl unique-jobs -o json";

/// Arguments of `jobs`.
#[derive(Debug, Args)]
pub struct JobsArgs {
    /// At most N jobs of each server
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
}

/// Arguments of `unique-jobs`.
#[derive(Debug, Args)]
pub struct UniqueJobsArgs {}

/// Jobs by their handles.
static JOBS: Shape = Shape::rows(
    "handle",
    &[
        Column::new("handle", "HANDLE"),
        Column::new("retries", "RETRIES"),
        Column::new("ignored", "IGNORED"),
        Column::new("queued", "QUEUED"),
    ],
);

/// Jobs by their unique ids.
static UNIQUE_JOBS: Shape =
    Shape::rows("unique", &[Column::new("unique", "UNIQUE"), Column::new("handle", "HANDLE")]);

/// Runs `jobs`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: JobsArgs) -> Result<Exit, CliError> {
    let most = args.limit.unwrap_or(usize::MAX);
    let mut fleet = Fleet::of(tool)?;
    fleet.expect(&mut tool.out, &JOBS)?;
    let ask = |link: &mut Link| link.listing::<JobInfo>(&AdminCommand::ShowJobs);
    let all = fleet.ask(&mut tool.link, ask)?;
    let mut list = fleet.list(&mut tool.out, &JOBS)?.without("server");
    for (server, jobs) in &all {
        for job in jobs.iter().take(most) {
            let record = Record::new()
                .of_server(server.as_deref())
                .with("handle", show_handle_at(&job.handle, server.as_deref()))
                .with("retries", job.retries)
                .with("ignored", job.is_ignored)
                .with("queued", job.is_queued);
            list.push(record)?;
        }
    }
    list.finish()?;
    let left: usize = all.iter().map(|(_, jobs)| jobs.len().saturating_sub(most)).sum();
    if left > 0 {
        tool.messages.note(format!("--limit leaves out {}", units::count(left as u64, "job")));
    }
    Ok(fleet.exit())
}

/// Runs `unique-jobs`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run_unique(tool: &mut Tool, _: UniqueJobsArgs) -> Result<Exit, CliError> {
    let mut fleet = Fleet::of(tool)?;
    fleet.expect(&mut tool.out, &UNIQUE_JOBS)?;
    let ask = |link: &mut Link| link.listing::<UniqueJob>(&AdminCommand::ShowUniqueJobs);
    let all = fleet.ask(&mut tool.link, ask)?;
    let mut list = fleet.list(&mut tool.out, &UNIQUE_JOBS)?;
    for (server, jobs) in &all {
        let server = server.as_deref();
        for job in jobs {
            let record = Record::new()
                .of_server(server)
                .with("unique", job.unique.as_deref())
                .with("handle", job.handle.as_ref().map(|handle| show_handle_at(handle, server)));
            list.push(record)?;
        }
    }
    list.finish()?;
    Ok(fleet.exit())
}
