//! `clear`: delete the jobs of a tube.

use beanstalk_client::TubeName;
use beanstalk_client::protocol::ListTubes;
use clap::Args;
use ctl_core::bulk::{Action, BulkArgs};
use ctl_core::error::{CliError, Exit};
use ctl_core::named::{self, Several};
use ctl_core::output::Record;
use ctl_core::units;

use crate::names::Tube;
use crate::sweep::{State, Target, Targets, describe, sweep, targets};
use crate::tool::Tool;

/// The end of `clear --help`.
pub const HELP: &str = "\
Protocol: reserve-with-timeout 0 and delete for ready jobs, pipelined; peek-delayed or peek-buried and delete
for the others. beanstalkd has no command that clears a tube.
As many jobs are deleted as there were at the start, so a busy producer does not keep it going for ever;
--until-empty goes on until there are none. Reserved jobs belong to their workers and stay.
It asks first; --yes answers. All tubes need --confirm=ADDRESS.
Tubes that the server cannot be asked about (names over 195 bytes, before 1.11) are named and stay as they are; the exit
code is 3 then.

Examples:
  bsctl clear mail --yes
  bsctl clear mail --state buried --dry-run";

/// Arguments of `clear`.
#[derive(Debug, Args)]
pub struct ClearArgs {
    #[command(flatten)]
    tubes: Several<Tube>,

    #[command(flatten)]
    sweep: SweepArgs,

    /// Every tube of the server
    #[arg(long, conflicts_with = named::NAMES)]
    all_tubes: bool,

    #[command(flatten)]
    bulk: BulkArgs,
}

/// What `clear`, `drain` and `export --drain` share.
#[derive(Debug, Clone, Args)]
pub struct SweepArgs {
    /// Only jobs in these states, separated by commas
    #[arg(
        long,
        value_name = "STATE",
        value_delimiter = ',',
        default_value = "ready,delayed,buried"
    )]
    pub state: Vec<State>,

    /// Go on until there are no more, also with those that are put meanwhile
    #[arg(long)]
    pub until_empty: bool,
}

/// Runs `clear`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: ClearArgs) -> Result<Exit, CliError> {
    let tubes = if args.all_tubes { tool.link.call(ListTubes)? } else { args.tubes.names()? };
    let targets = plan(tool, &tubes, &args.sweep)?;
    let total = limited_total(&targets.found, &args.bulk);
    if tool.globals.dry_run {
        return dry_run(tool, "delete", &targets, total);
    }
    let address = tool.link.dialer.address()?;
    let question = format!("delete {} on {address}", describe(&targets.found));
    if args.all_tubes {
        tool.confirm().everything(&question, &address, &tool.messages)?;
    } else if total > 0 || args.sweep.until_empty {
        tool.confirm().many(&question, &tool.messages)?;
    }
    let action = Action { past: "deleted", noun: "job", place: place(&tubes) };
    let mut bulk = tool.bulk(action, &args.bulk, Some(total))?;
    let mut left = args.bulk.limit.unwrap_or(u64::MAX);
    for target in &targets.found {
        let done = bulk.succeeded();
        let most = if args.sweep.until_empty { left } else { target.count.min(left) };
        let window = args.bulk.window();
        let link = tool.link.side();
        let swept = sweep(link, target, most, window, &mut bulk, None);
        bulk = bulk.after(swept)?;
        left = left.saturating_sub(bulk.succeeded() - done);
    }
    bulk.finish(&mut tool.out).map(|exit| targets.exit(exit))
}

/// Counts what there is. A tube that does not exist has no jobs, which is said, and so is which tubes stay as they are.
///
/// # Errors
/// The failure of the connection.
pub fn plan(tool: &mut Tool, tubes: &[TubeName], args: &SweepArgs) -> Result<Targets, CliError> {
    let targets = targets(&mut tool.link, tubes, &args.state)?;
    for tube in &targets.missing {
        tool.messages.note(format!("tube {tube} does not exist, so it has no jobs"));
    }
    for error in &targets.left {
        tool.messages.warn(&error.message);
    }
    Ok(targets)
}

/// How many jobs the command is going to act on.
#[must_use]
pub fn limited_total(targets: &[Target], args: &BulkArgs) -> u64 {
    let total: u64 = targets.iter().map(|target| target.count).sum();
    total.min(args.limit.unwrap_or(u64::MAX))
}

/// "from tube mail", for one tube or several.
#[must_use]
pub fn place(tubes: &[TubeName]) -> String {
    format!("from {}", units::which("tube", tubes))
}

/// What a dry run says.
///
/// # Errors
/// Failures of writing.
pub fn dry_run(
    tool: &mut Tool,
    verb: &str,
    targets: &Targets,
    total: u64,
) -> Result<Exit, CliError> {
    let record = Record::new().with("dry_run", true).with("jobs", total);
    let sentence = format!("would {verb} {}", describe(&targets.found));
    tool.out.done_with(&record, &["jobs"], &sentence)?;
    Ok(targets.exit(Exit::Done))
}
