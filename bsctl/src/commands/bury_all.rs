//! `bury-all`: set the ready jobs of a tube aside.

use beanstalk_client::protocol::ReserveJob;
use beanstalk_client::{Job, TubeName};
use clap::Args;
use ctl_core::bulk::{Action, Bulk, BulkArgs};
use ctl_core::context::fleet::on_each;
use ctl_core::error::{CliError, Exit};
use ctl_core::input::named::Several;

use crate::jobs::select::{SelectArgs, filter_help};
use crate::jobs::state::State;
use crate::jobs::sweep::{Plan, SweepArgs, Way};
use crate::jobs::taker::{bury_all, stats_of};
use crate::link::Link;
use crate::names::Tube;
use crate::tool::Tool;

/// The end of `bury-all --help`.
pub const HELP: &str = concat!(
    "\
Protocol: reserve-with-timeout 0, stats-job and bury; with filters, stats-job for every id and reserve-job (server 1.12
or later).
Only a reserved job can be buried, so each is reserved first: the counters `reserves` and `buries` grow by one. Jobs
keep their priorities. Buries as many jobs as there were at the start; retry or kick makes them ready again. Asks for
confirmation; --yes skips it.
With several servers, each is processed in turn and named in the output; the exit code is the most severe one.
",
    filter_help!(),
    "

Examples:
  bsctl bury-all mail
  bsctl bury-all mail --filter 'reserves>=3' --dry-run"
);

/// Arguments of `bury-all`.
#[derive(Debug, Args)]
pub struct BuryAllArgs {
    #[command(flatten)]
    tubes: Several<Tube>,

    #[command(flatten)]
    select: SelectArgs,

    #[command(flatten)]
    bulk: BulkArgs,
}

/// Runs `bury-all`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: BuryAllArgs) -> Result<Exit, CliError> {
    let tubes = args.tubes.names()?;
    let sweep = SweepArgs { state: vec![State::Ready], until_empty: false, select: args.select };
    on_each(tool, |tool| bury(tool, tubes.clone(), &sweep, &args.bulk))
}

fn bury(
    tool: &mut Tool,
    tubes: Vec<TubeName>,
    sweep: &SweepArgs,
    args: &BulkArgs,
) -> Result<Exit, CliError> {
    let plan = Plan::make(tool, tubes, sweep, args, false)?;
    if tool.globals.dry_run {
        return plan.would(tool, "bury", "");
    }
    if !plan.is_empty() {
        let address = tool.link.dialer.address()?;
        let question = format!("bury {} on {address}", plan.describe());
        tool.confirm().many(&question, &tool.messages)?;
    }
    let action = Action { past: "buried", noun: "job", place: plan.place() };
    let mut bulk = plan.start(tool, action, args)?;
    let swept = plan.run(tool.link.side(), &mut bulk, &mut Aside);
    bulk.after(swept)?.finish(&mut tool.out).map(|exit| plan.exit(exit))
}

/// Buries jobs in their own tube.
struct Aside;

impl Way for Aside {
    fn take(&mut self, link: &mut Link, jobs: &[Job], bulk: &mut Bulk) -> Result<(), CliError> {
        let stats = stats_of(link, jobs)?;
        bury_all(link, jobs, &stats, bulk)
    }

    /// A job in a paused tube can still be reserved by its id.
    fn keep(
        &mut self,
        link: &mut Link,
        jobs: &[Job],
        bulk: &mut Bulk,
    ) -> Result<Vec<bool>, CliError> {
        for job in jobs {
            match link.call(ReserveJob(job.id))? {
                Some(job) => self.take(link, &[job], bulk)?,
                None => bulk.skip(),
            }
        }
        Ok(vec![false; jobs.len()])
    }
}
