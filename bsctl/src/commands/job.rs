//! `job`: everything the server says about one job.

use beanstalk_client::JobId;
use beanstalk_client::protocol::{Peek, StatsJob};
use clap::Args;
use ctl_core::error::{CliError, Exit};
use ctl_core::output::{Column, Shape};

use crate::jobs::no_job;
use crate::tool::Tool;
use crate::tube_stats::record;

/// The end of `job --help`.
pub const HELP: &str = "\
Protocol: stats-job ID, and peek ID for the body.
Works for jobs in any state, even if another connection has them reserved.

Examples:
  bsctl job 42
  bsctl job 42 --with-body -o json";

/// Arguments of `job`.
#[derive(Debug, Args)]
pub struct JobArgs {
    /// Job id
    #[arg(value_name = "ID")]
    id: u64,

    /// Include its body; so does --decode
    #[arg(long)]
    with_body: bool,
}

static JOB: Shape = Shape::blocks(
    "id",
    &[
        Column::new("id", "ID"),
        Column::new("tube", "TUBE"),
        Column::new("state", "STATE"),
        Column::new("pri", "PRI"),
        Column::new("age", "AGE"),
        Column::new("delay", "DELAY"),
        Column::new("ttr", "TTR"),
        Column::new("time-left", "TIME LEFT"),
        Column::new("file", "FILE"),
        Column::new("reserves", "RESERVES"),
        Column::new("timeouts", "TIMEOUTS"),
        Column::new("releases", "RELEASES"),
        Column::new("buries", "BURIES"),
        Column::new("kicks", "KICKS"),
        Column::on_request("body", "BODY"),
    ],
);

/// Runs `job`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: JobArgs) -> Result<Exit, CliError> {
    tool.out.expect(&JOB)?;
    let id = JobId::from(args.id);
    let missing = || no_job(id);
    let stats = tool.link.call(StatsJob(id))?.ok_or_else(missing)?;
    let mut shown = record(&stats)?;
    if args.with_body || tool.out.style.needs_bodies() {
        let job = tool.link.call(Peek(id))?.ok_or_else(missing)?;
        shown = shown.with_body(job.body);
    }
    tool.out.object(&JOB, shown)?;
    Ok(Exit::Done)
}
