//! `move`: puts jobs into another tube or server, or into their own tube as new jobs; with `--keep`, copies them.

use beanstalk_client::{JobState, TubeName};
use clap::Args;
use ctl_core::bulk::BulkArgs;
use ctl_core::context::fleet::on_each;
use ctl_core::error::{CliError, Exit};
use ctl_core::link::Link as _;

use crate::jobs::mover::{Changes, Mover};
use crate::jobs::sweep::{Ask, Plan, SweepArgs};
use crate::names;
use crate::producer::after_refusals;
use crate::tool::Tool;

/// The end of `move --help`.
pub const MOVE_HELP: &str = "\
Protocol: as drain, then use TUBE and put at the target; pause-tube, reserve-job and bury for buried jobs (server 1.12
or later).
A job is put at the target first and deleted at the source once the server confirms it, so none is lost. If this process
or a connection ends in between, up to --batch jobs may exist twice; the error names those it knows of. Ready jobs are
reserved in the meantime; if another client takes a delayed or buried one, its copy is deleted again. Jobs get new ids,
and their counters start at 0. Delayed jobs keep the rest of their delay, and buried jobs are buried again; -d 0 makes
them all ready. Reserved jobs belong to their workers and stay.
To the same tube, jobs are put again as new ones, ready or with the delay of -d. To keep ids and counters, use kick. With
several servers, each is processed in turn, and jobs stay on their server.
Moves as many jobs as there were at the start; --until-empty continues until there are none. Asks for confirmation;
--yes skips it.
With --keep, or as copy, the jobs themselves are only read (stats-job and peek for every id) and stay unchanged. Jobs
that come and go in the meantime may be missed. After an interruption, what was copied stays.
Filters: see `bsctl help filters`.

Examples:
  bsctl move --from mail --to mail-old --state buried
  bsctl move --from mail --to-server other:11300 --rate 100/s
  bsctl requeue mail --filter 'pri<100' --pri 1024
  bsctl move --from mail --to slow --filter 'body~=newsletter' --pri 5000
  bsctl copy --from mail --to mail-test -c 100";

/// Arguments of `move`.
#[derive(Debug, Args)]
pub struct MoveArgs {
    /// Source tube
    #[arg(long, value_name = "TUBE")]
    from: String,

    /// Target tube [default with --to-server: the same name]
    #[arg(long, value_name = "TUBE", required_unless_present = "to_server")]
    to: Option<String>,

    /// Target server
    #[arg(long, value_name = "ADDR")]
    to_server: Option<String>,

    #[command(flatten)]
    changes: Changes,

    /// Copy: leave the jobs where they are
    #[arg(long, conflicts_with = "until_empty")]
    keep: bool,

    #[command(flatten)]
    sweep: SweepArgs,

    #[command(flatten)]
    bulk: BulkArgs,
}

impl MoveArgs {
    /// Whether it changes no job that exists.
    pub fn keeps(&self) -> bool {
        self.keep
    }
}

/// Runs `move`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run_move(tool: &mut Tool, args: MoveArgs) -> Result<Exit, CliError> {
    args.sweep.select.read()?;
    let from = names::tube(&args.from)?;
    let to = args.to.as_deref().map(names::tube).transpose()?.unwrap_or_else(|| from.clone());
    if from == to && args.to_server.is_none() && !args.keep {
        return on_each(tool, |tool| requeue(tool, &from, &args));
    }
    let (server, elsewhere) = tool.link.side().elsewhere(args.to_server.as_deref())?;
    if from == to && elsewhere.is_none() {
        return Err(CliError::usage(format!("source and target are the same tube: {from}"))
            .hint("another tube, or --to-server for another server"));
    }
    let buries = args.changes.delay.is_none() && args.sweep.state.contains(&JobState::Buried);
    let mut mover = Mover::new(server, to.clone(), args.changes.clone(), buries)?;
    mover.keeps = args.keep;
    let mut place = format!(" to tube {to}");
    if let Some(address) = &elsewhere {
        place.push_str(&format!(" on {address}"));
    }
    let plan = Plan::make(tool, vec![from], &args.sweep, &args.bulk, args.keep)?;
    let words = if args.keep { ("copy", "copied") } else { ("move", "moved") };
    relocate(tool, words, (mover, &place, elsewhere), &plan, &args.bulk)
}

/// Puts the jobs of a tube into it again.
fn requeue(tool: &mut Tool, tube: &TubeName, args: &MoveArgs) -> Result<Exit, CliError> {
    if args.sweep.until_empty {
        let why = format!("jobs put into tube {tube} again never leave it empty");
        return Err(CliError::usage(why).hint("without --until-empty"));
    }
    let mut changes = args.changes.clone();
    changes.delay.get_or_insert_default();
    let mover = Mover::new(tool.link.side().sibling(), tube.clone(), changes, false)?;
    // No buried job returns to the list that it is taken from. Jobs in other states would, so they are listed first.
    let by_id = args.sweep.state != [JobState::Buried];
    let plan = Plan::make(tool, vec![tube.clone()], &args.sweep, &args.bulk, by_id)?;
    relocate(tool, ("requeue", "requeued"), (mover, " as new jobs", None), &plan, &args.bulk)
}

/// Moves the jobs of a plan to this place, on this server if it is a different one.
fn relocate(
    tool: &mut Tool,
    words: (&str, &'static str),
    (mut mover, place, elsewhere): (Mover, &str, Option<String>),
    plan: &Plan,
    args: &BulkArgs,
) -> Result<Exit, CliError> {
    if plan.is_of_nothing() && tool.out.style.format.is_for_people() {
        return Ok(plan.exit(Exit::Done));
    }
    let ask = if mover.keeps { Ask::Never } else { Ask::Jobs };
    if let (Some(elsewhere), Ask::Jobs, false) = (&elsewhere, ask, tool.globals.dry_run) {
        tool.unlock_at(elsewhere)?;
    }
    let started = plan.start(tool, words, (place, ask), args)?;
    let Some(mut bulk) = started else { return Ok(plan.exit(Exit::Done)) };
    let swept = plan.run(tool.link.side(), &mut bulk, &mut mover);
    let bulk = bulk.after(mover.ends(swept))?;
    let exit = bulk.finish(&mut tool.out).map(|exit| plan.exit(exit))?;
    Ok(after_refusals(&tool.messages, mover.refused, exit))
}
