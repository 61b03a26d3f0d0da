//! `server`: what kind of server this is and what it supports.

use beanstalk_client::TubeStats;
use beanstalk_client::protocol::ListTubes;
use clap::Args;
use ctl_core::error::{CliError, Exit};
use ctl_core::link::diagnosis::Diagnosis;
use ctl_core::output::Record;
use ctl_core::text::units;

use crate::attendance::{Load, Problem, Workers};
use crate::jobs::paused;
use crate::link::Link;
use crate::tool::Tool;
use crate::tube_stats::{self, Answer};

/// Number of tubes that a sentence names.
const SHOWN: usize = 5;

/// The end of `server --help`.
pub const HELP: &str = "\
Protocol: stats, and reserve-job 0 to test whether the server supports the command (1.12 and later).

Example:
  bsctl server -o json";

/// Arguments of `server`.
#[derive(Debug, Args)]
pub struct ServerArgs {}

/// Runs `server`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, _: ServerArgs) -> Result<Exit, CliError> {
    let address = tool.link.dialer.address()?;
    let stats = tool.link.server_stats()?;
    let reserve_job = tool.link.side().knows_reserve_job()?;
    let record = Record::new()
        .with("address", address)
        .with("address-from", tool.link.dialer.source())
        .with("version", stats.version.as_str())
        .with("uptime", stats.uptime)
        .with("draining", stats.draining)
        .with("max-job-size", stats.max_job_size)
        .with("binlog", stats.binlog_current_index > 0)
        .with("binlog-oldest-index", stats.binlog_oldest_index)
        .with("binlog-current-index", stats.binlog_current_index)
        .with("connections", stats.current_connections)
        .with("reserve-job", reserve_job)
        .with("pid", stats.pid)
        .with("id", stats.id.as_str())
        .with("hostname", stats.hostname.as_str())
        .with("os", stats.os.as_deref())
        .with("platform", stats.platform.as_deref());
    tool.out.pairs(record)?;
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
    Ok(Diagnosis::default()
        .fact("version", stats.version.as_str())
        .seconds("uptime", stats.uptime)
        .fact("hostname", stats.hostname.as_str())
        .fact("max-job-size", stats.max_job_size)
        .fact("binlog", stats.binlog_current_index > 0)
        .fact("draining", stats.draining)
        .fact("reserve-job", reserve_job)
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
            "start a worker, or bsctl work TUBE",
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
            format!(
                "{} buried in {}",
                units::count(stats.current_jobs_buried, "job"),
                units::first_of(&buried, SHOWN)
            ),
            "bsctl retry TUBE, to kick them",
        ))
}
