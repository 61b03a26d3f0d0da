//! `jobs` and `unique-jobs`: what is on the server, as far as it tells.

use clap::Args;
use ctl_core::error::{CliError, Exit};
use ctl_core::fleet::{self, Fleet};
use ctl_core::output::{Column, Shape};
use gearman_client::protocol::AdminCommand;
use gearman_client::{JobInfo, UniqueJob};

use crate::link::Link;
use crate::names::show_handle;
use crate::tool::Tool;

/// The end of `jobs --help`.
pub const HELP: &str = "\
Protocol: show jobs, which only gearmand has; it does not tell the functions.
IGNORED jobs were cancelled, or their submitter went away: they count as queued until a worker asks for work.
QUEUED says that the job is a background job in the server's own queue. RETRIES counts the workers that were lost with it.
Of several servers each has its rows, and SERVER says which.

Examples:
  gearctl jobs
  gearctl jobs -o id | gearctl cancel -";

/// The end of `unique-jobs --help`.
pub const UNIQUE_HELP: &str = "\
Protocol: show unique jobs, which only gearmand has. Servers from 2.2 on tell the handle of each, too.
Of several servers each has its rows, and SERVER says which.

Example:
  gearctl unique-jobs -o json";

/// Arguments of `jobs`.
#[derive(Debug, Args)]
pub struct JobsArgs {}

/// Arguments of `unique-jobs`.
#[derive(Debug, Args)]
pub struct UniqueJobsArgs {}

/// Which server, where there are several; then the job.
const COLUMNS: [Column; 5] = [
    Column::new("server", "SERVER"),
    Column::new("handle", "HANDLE"),
    Column::new("retries", "RETRIES"),
    Column::new("ignored", "IGNORED"),
    Column::new("queued", "QUEUED"),
];
static OF_ALL: Shape = Shape::rows("handle", &COLUMNS);
static OF_ONE: Shape = Shape::rows("handle", COLUMNS.split_at(1).1);

/// Which server, where there are several; then the id.
const UNIQUE_COLUMNS: [Column; 3] = [
    Column::new("server", "SERVER"),
    Column::new("unique", "UNIQUE"),
    Column::new("handle", "HANDLE"),
];
static UNIQUE_OF_ALL: Shape = Shape::rows("unique", &UNIQUE_COLUMNS);
static UNIQUE_OF_ONE: Shape = Shape::rows("unique", UNIQUE_COLUMNS.split_at(1).1);

/// Runs `jobs`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, _: JobsArgs) -> Result<Exit, CliError> {
    let mut fleet = Fleet::of(tool)?;
    let shape = if fleet.is_several() { &OF_ALL } else { &OF_ONE };
    tool.out.expect(shape)?;
    let ask = |link: &mut Link| link.listing::<JobInfo>(&AdminCommand::ShowJobs);
    let all = fleet.ask(&mut tool.link, ask)?;
    let mut list = tool.out.list(shape)?;
    for (server, jobs) in &all {
        for job in jobs {
            let record = fleet::record(server.as_deref())
                .with("handle", show_handle(&job.handle))
                .with("retries", job.retries)
                .with("ignored", job.is_ignored)
                .with("queued", job.is_queued);
            list.push(record)?;
        }
    }
    list.finish()?;
    Ok(fleet.exit())
}

/// Runs `unique-jobs`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run_unique(tool: &mut Tool, _: UniqueJobsArgs) -> Result<Exit, CliError> {
    let mut fleet = Fleet::of(tool)?;
    let shape = if fleet.is_several() { &UNIQUE_OF_ALL } else { &UNIQUE_OF_ONE };
    tool.out.expect(shape)?;
    let ask = |link: &mut Link| link.listing::<UniqueJob>(&AdminCommand::ShowUniqueJobs);
    let all = fleet.ask(&mut tool.link, ask)?;
    let mut list = tool.out.list(shape)?;
    for (server, jobs) in &all {
        for job in jobs {
            let record = fleet::record(server.as_deref())
                .with("unique", job.unique.as_deref())
                .with("handle", job.handle.as_ref().map(show_handle));
            list.push(record)?;
        }
    }
    list.finish()?;
    Ok(fleet.exit())
}
