//! `server`, `version`, `pid`, `verbose`: what kind of server this is and what it supports.

use clap::Args;
use ctl_core::error::{CliError, Exit};
use ctl_core::output::Record;
use gearman_client::protocol::AdminCommand;
use gearman_client::{FunctionPriorities, FunctionStatus, JobInfo, UniqueJob, WorkerInfo};
use serde_json::Value;

use crate::error::{UNSUPPORTED, cli_error};
use crate::tool::Tool;

/// The end of `server --help`.
pub const HELP: &str = "\
Protocol: version, getpid, verbose, status, workers; show jobs, show unique jobs and prioritystatus, to see whether the
server has them. Of several servers it is the first.

Example:
  gearctl server -o json";

/// Arguments of `server`.
#[derive(Debug, Args)]
pub struct ServerArgs {}

/// Arguments of `version`.
#[derive(Debug, Args)]
pub struct VersionArgs {}

/// Arguments of `pid`.
#[derive(Debug, Args)]
pub struct PidArgs {}

/// Arguments of `verbose`.
#[derive(Debug, Args)]
pub struct VerboseArgs {}

/// Runs `server`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, _: ServerArgs) -> Result<Exit, CliError> {
    let address = tool.link.address()?;
    let link = &mut tool.link;
    let version = link.admin(&AdminCommand::Version)?.value().map_err(cli_error)?;
    let pid = optional(link.admin(&AdminCommand::GetPid))?;
    let verbose = optional(link.admin(&AdminCommand::Verbose))?;
    let functions = link.listing::<FunctionStatus>(&AdminCommand::Status)?;
    let connections = link.listing::<WorkerInfo>(&AdminCommand::Workers)?;
    let jobs = link.listing_if_known::<JobInfo>(&AdminCommand::ShowJobs)?;
    let unique_jobs = link.listing_if_known::<UniqueJob>(&AdminCommand::ShowUniqueJobs)?;
    let priorities = link.listing_if_known::<FunctionPriorities>(&AdminCommand::PriorityStatus)?;
    let sum = |of: fn(&FunctionStatus) -> i64| functions.iter().map(of).sum::<i64>();
    let workers = connections.iter().filter(|worker| !worker.functions.is_empty()).count();
    let record = Record::new()
        .with("address", address)
        .with("address-from", link.source())
        .with("version", version)
        .with("pid", pid.and_then(|text| text.parse::<u64>().ok()))
        .with("verbose", verbose)
        .with("functions", functions.len())
        .with("queued", sum(FunctionStatus::queued))
        .with("running", sum(|function| function.running))
        .with("workers", workers)
        .with("connections", connections.len())
        .with("ignored", jobs.as_ref().map(|j| j.iter().filter(|job| job.is_ignored).count()))
        .with("show-jobs", jobs.is_some())
        .with("show-unique-jobs", unique_jobs.is_some())
        .with("prioritystatus", priorities.is_some());
    tool.out.pairs(record)?;
    Ok(Exit::Done)
}

/// Runs `version`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn version(tool: &mut Tool, _: VersionArgs) -> Result<Exit, CliError> {
    let version = tool.link.admin(&AdminCommand::Version)?.value().map_err(cli_error)?;
    one(tool, "version", version.into())
}

/// Runs `pid`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn pid(tool: &mut Tool, _: PidArgs) -> Result<Exit, CliError> {
    let pid = tool.link.admin(&AdminCommand::GetPid)?.number().map_err(cli_error)?;
    one(tool, "pid", pid.into())
}

/// Runs `verbose`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn verbose(tool: &mut Tool, _: VerboseArgs) -> Result<Exit, CliError> {
    let level = tool.link.admin(&AdminCommand::Verbose)?.value().map_err(cli_error)?;
    one(tool, "verbose", level.into())
}

fn one(tool: &mut Tool, key: &'static str, value: Value) -> Result<Exit, CliError> {
    let sentence = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    tool.out.done(&Record::new().with(key, value), &sentence)?;
    Ok(Exit::Done)
}

/// The value of a reply, or none from a server that does not know the command.
fn optional(
    reply: Result<gearman_client::protocol::AdminReply, CliError>,
) -> Result<Option<String>, CliError> {
    match reply {
        Ok(reply) => reply.value().map(Some).map_err(cli_error),
        Err(error) if error.code == UNSUPPORTED => Ok(None),
        Err(error) => Err(error),
    }
}
