//! `stats` and `stats-tube`: the server's own figures.

use beanstalk_client::{TubeName, TubeStats};
use clap::Args;
use ctl_core::bulk::{Action, Bulk, OnError};
use ctl_core::context::fleet::{Fleet, on_each};
use ctl_core::error::{CliError, Exit};
use ctl_core::input::named::Several;
use ctl_core::output::{Column, Shape};

use crate::jobs;
use crate::names::Tube;
use crate::tool::Tool;
use crate::tube_stats::{self, Answer, record};

/// The end of `stats --help`.
pub const HELP: &str = "\
Protocol: stats.
Keys are the server's, in its order; cmd-* counters start with the server. The server does not count kick-job and
reserve-job.
With several servers, each row shows its server; one that does not answer is named, and its failure sets the exit code.

Examples:
  bsctl stats
  bsctl stats --interval 10s -o ndjson
  bsctl stats --columns current-jobs-ready,current-jobs-buried -o json
  bsctl -a one:11300,two:11300 stats -o wide";

/// The end of `stats-tube --help`.
pub const TUBE_HELP: &str = "\
Protocol: stats-tube TUBE.
A tube exists while it has jobs or a client uses or watches it; its counters start from zero each time.
With several servers, each is queried in turn, and SERVER shows where a row is from; the exit code is the most severe
one.

Examples:
  bsctl stats-tube mail
  bsctl stats-tube mail --interval 10s
  bsctl stats-tube mail sms --columns name,ready";

/// Arguments of `stats`.
#[derive(Debug, Args)]
pub struct StatsArgs {}

/// Arguments of `stats-tube`.
#[derive(Debug, Args)]
pub struct StatsTubeArgs {
    #[command(flatten)]
    tubes: Several<Tube>,
}

static TUBE: Shape = Shape::blocks(
    "name",
    &[
        Column::new("name", "NAME"),
        Column::new("current-jobs-urgent", "URGENT"),
        Column::new("current-jobs-ready", "READY"),
        Column::new("current-jobs-reserved", "RESERVED"),
        Column::new("current-jobs-delayed", "DELAYED"),
        Column::new("current-jobs-buried", "BURIED"),
        Column::new("total-jobs", "TOTAL"),
        Column::new("current-using", "USING"),
        Column::new("current-watching", "WATCHING"),
        Column::new("current-waiting", "WAITING"),
        Column::new("cmd-delete", "DELETES"),
        Column::new("cmd-pause-tube", "PAUSES"),
        Column::new("pause", "PAUSE"),
        Column::new("pause-time-left", "PAUSE LEFT"),
    ],
);

/// Several servers, one row each; documents contain everything.
static SERVERS: Shape = Shape::rows(
    "server",
    &[
        Column::new("server", "SERVER"),
        Column::new("current-jobs-ready", "READY"),
        Column::new("current-jobs-reserved", "RESERVED"),
        Column::new("current-jobs-delayed", "DELAYED"),
        Column::new("current-jobs-buried", "BURIED"),
        Column::new("current-workers", "WORKERS"),
        Column::new("current-connections", "CONNECTIONS"),
        Column::new("uptime", "UPTIME"),
        Column::wide("current-tubes", "TUBES"),
        Column::wide("current-waiting", "WAITING"),
        Column::wide("total-jobs", "TOTAL"),
        Column::wide("job-timeouts", "TIMEOUTS"),
        Column::wide("version", "VERSION"),
        Column::wide("draining", "DRAINING"),
    ],
);

/// Runs `stats`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, _: StatsArgs) -> Result<Exit, CliError> {
    let mut fleet = Fleet::of(tool)?;
    if fleet.is_several() {
        tool.out.expect(&SERVERS)?;
    }
    let all = fleet.ask(&mut tool.link, |link| record(&link.server_stats()?))?;
    if !fleet.is_several() {
        all.into_iter().try_for_each(|(_, stats)| tool.out.pairs(stats))?;
        return Ok(Exit::Done);
    }
    let mut list = tool.out.list(&SERVERS)?;
    for (server, stats) in all {
        list.push(stats.of_server(server.as_deref()))?;
    }
    list.finish()?;
    Ok(fleet.exit())
}

/// Runs `stats-tube`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run_tube(tool: &mut Tool, args: StatsTubeArgs) -> Result<Exit, CliError> {
    let tubes = args.tubes.names()?;
    on_each(tool, |tool| show(tool, &tubes))
}

fn show(tool: &mut Tool, tubes: &[TubeName]) -> Result<Exit, CliError> {
    let mut bulk = tool.bulk(found(), OnError::Continue, None)?;
    let mut list = tool.out.list(&TUBE)?;
    bulk.beside(&list);
    let answers = tube_stats::ask(&mut tool.link, tubes)?;
    count(tubes, answers, &mut bulk, |stats| list.push(record(stats)?))?;
    let exit = bulk.finish_silently()?;
    list.finish()?;
    Ok(exit)
}

fn found() -> Action {
    Action { past: "found", noun: "tube", place: String::new() }
}

/// Counts and shows those that exist, and names the others.
fn count(
    tubes: &[TubeName],
    answers: Vec<Answer>,
    bulk: &mut Bulk,
    mut show: impl FnMut(&TubeStats) -> Result<(), CliError>,
) -> Result<(), CliError> {
    for (tube, answer) in tubes.iter().zip(answers) {
        match answer {
            Answer::Stats(stats) => {
                bulk.success();
                show(&stats)?;
            }
            Answer::Gone => bulk.failure(format!("tube {tube}"), jobs::no_tube(tube))?,
            Answer::Unaskable(error) => bulk.failure(format!("tube {tube}"), error)?,
        }
    }
    Ok(())
}
