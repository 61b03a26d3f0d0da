//! `server`: what kind of server this is and what it supports.

use beanstalk_client::TubeStats;
use beanstalk_client::protocol::ListTubes;
use clap::Args;
use ctl_core::context::fleet::{Answered, Fleet};
use ctl_core::error::{CliError, Exit};
use ctl_core::link::diagnosis::Diagnosis;
use ctl_core::output::{Column, Format, Record, Shape};
use ctl_core::text::units;

use crate::attendance::{Load, Problem, Workers};
use crate::jobs::paused;
use crate::link::Link;
use crate::tool::Tool;
use crate::tube_stats::{self, Answer, record};

/// Number of tubes that a sentence names.
const SHOWN: usize = 5;

/// The end of `server --help`.
pub const HELP: &str = "\
Protocol: stats, and reserve-job 0 to test whether the server supports the command (1.12 and later).
--all shows all statistics, with the server's keys in its order; so do documents, and lines in a pipe. cmd-* counters
start with the server, which does not count kick-job and reserve-job.

Examples:
  bsctl server
  bsctl stats --interval 10s
  bsctl server --columns current-jobs-ready,current-jobs-buried
  bsctl -s one:11300,two:11300 server";

/// Arguments of `server`.
#[derive(Debug, Args)]
pub struct ServerArgs {
    /// Show all statistics
    #[arg(long)]
    all: bool,
}

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

/// The statistics in a table, unless all are asked for.
const BRIEF: [&str; 13] = [
    "server",
    "version",
    "uptime",
    "draining",
    "max-job-size",
    "current-connections",
    "current-tubes",
    "reserve_job",
    "pid",
    "id",
    "hostname",
    "os",
    "platform",
];

/// Runs `server`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: ServerArgs) -> Result<Exit, CliError> {
    let mut fleet = Fleet::of(tool)?;
    if fleet.is_several() {
        tool.out.expect(&SERVERS)?;
    }
    let all = fleet.ask(&mut tool.link, |link| {
        let stats = record(&link.server_stats()?)?;
        Ok(stats.with("reserve_job", link.side().knows_reserve_job()?))
    })?;
    if fleet.is_several() {
        let of = |(server, stats): Answered<Record>| stats.of_server(server.as_deref());
        tool.out.list(&SERVERS)?.all(all.into_iter().map(of))?;
        return Ok(fleet.exit());
    }
    let address = tool.link.dialer.address()?;
    let is_table = tool.out.style.format == Format::Table && tool.out.style.columns.is_none();
    for (_, stats) in all {
        let mut stats = stats.of_server(Some(&address));
        if is_table && !args.all {
            stats.select(&BRIEF.map(str::to_owned));
        }
        tool.out.pairs(stats)?;
    }
    Ok(Exit::Done)
}

/// The server's state, for `doctor`.
///
/// # Errors
/// The failure of the connection.
pub fn diagnose(link: &mut Link) -> Result<Diagnosis, CliError> {
    let stats = link.server_stats()?;
    let reserve_job = link.knows_reserve_job()?;
    let tubes = link.call(ListTubes)?;
    let answers = tube_stats::ask(link, &tubes)?;
    let paused = paused::of(&answers);
    let with = |wanted| {
        let has = |tube: &TubeStats| {
            Load::of(tube, Workers::of(tube, Some(&stats))).problems().any(|one| one == wanted)
        };
        let tubes = answers.iter().filter_map(Answer::stats).filter(|tube| has(tube));
        tubes.map(|tube| tube.name.to_string()).collect::<Vec<_>>()
    };
    let (idle, untold) = (with(Problem::NoWorkers), with(Problem::WorkersUnknown));
    let buried = with(Problem::Buried);
    let place = match buried.is_empty() {
        true => "tubes that it does not report on".to_owned(),
        false => units::first_of(&buried, SHOWN),
    };
    Ok(Diagnosis::default()
        .fact("version", stats.version.as_str())
        .seconds("uptime", stats.uptime)
        .fact("hostname", stats.hostname.as_str())
        .fact("max-job-size", stats.max_job_size)
        .fact("binlog", stats.binlog_current_index > 0)
        .fact("draining", stats.draining)
        .fact("reserve_job", reserve_job)
        .warn_if(
            stats.draining == Some(true),
            "it is draining: it refuses new jobs",
            "another server, or restart it once its jobs are done",
        )
        .warn_if(
            !reserve_job,
            "it does not support reserve-job: single jobs cannot be released or buried",
            "beanstalkd 1.12 or later",
        )
        .warn_if(
            !idle.is_empty(),
            format!("jobs are ready, but no worker serves {}", units::first_of(&idle, SHOWN)),
            "bsctl tubes, to see how many; bsctl work, to process them",
        )
        .warn_if(
            !untold.is_empty(),
            format!(
                "jobs are ready, and the server does not tell whether a worker serves {}",
                units::first_of(&untold, SHOWN)
            ),
            "another tube for these jobs: the workers of others can be counted",
        )
        .warn_if(
            !paused.is_empty(),
            paused::told(&paused).unwrap_or_default(),
            &paused::remedy(&paused).unwrap_or_default(),
        )
        .warn_if(
            stats.current_jobs_buried > 0,
            format!("{} buried in {place}", units::count(stats.current_jobs_buried, "job")),
            &format!("bsctl retry {}, to kick them", buried.first().map_or("TUBE", String::as_str)),
        ))
}
