//! `bury --all`: sets the ready jobs of tubes aside.

use beanstalk_client::protocol::ReserveJob;
use beanstalk_client::{Job, JobState, TubeName};
use ctl_core::bulk::{Bulk, BulkArgs};
use ctl_core::context::fleet::on_each;
use ctl_core::error::{CliError, Exit};

use crate::jobs::select::SelectArgs;
use crate::jobs::sweep::{Ask, Plan, SweepArgs, Way};
use crate::jobs::taker::{bury_all, stats_of};
use crate::link::Link;
use crate::tool::Tool;

/// Buries the ready jobs of these tubes that match.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(
    tool: &mut Tool,
    tubes: &[TubeName],
    select: SelectArgs,
    args: &BulkArgs,
) -> Result<Exit, CliError> {
    let sweep = SweepArgs { state: vec![JobState::Ready], until_empty: false, select };
    on_each(tool, |tool| bury(tool, tubes.to_vec(), &sweep, args))
}

fn bury(
    tool: &mut Tool,
    tubes: Vec<TubeName>,
    sweep: &SweepArgs,
    args: &BulkArgs,
) -> Result<Exit, CliError> {
    let plan = Plan::make(tool, tubes, sweep, args, false)?;
    let Some(mut bulk) = plan.start(tool, ("bury", "buried"), ("", Ask::Jobs), args)? else {
        return Ok(plan.exit(Exit::Done));
    };
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
