//! `server`, `version`, `pid`, `verbose`: what kind of server this is and what it supports.

use std::cmp::Reverse;

use clap::Args;
use ctl_core::context::fleet::Fleet;
use ctl_core::error::{CliError, Exit};
use ctl_core::link::Link as _;
use ctl_core::link::diagnosis::Diagnosis;
use ctl_core::output::{Column, Record, Shape};
use ctl_core::system::at_once::at_once;
use ctl_core::text::units;
use gearman_client::protocol::{AdminCommand, AdminReply};
use gearman_client::{FunctionStatus, JobInfo, Listing, UniqueJob, WorkerInfo};
use serde_json::Value;

use crate::commands::functions::workers;
use crate::error::cli_error;
use crate::link::statuses;
use crate::link::{Answer, Link};
use crate::names::show_function;
use crate::tool::Tool;

/// The end of `server --help`.
pub const HELP: &str = "\
Protocol: version, getpid, verbose, status, workers; show jobs, show unique jobs and prioritystatus, to test whether the
server supports them. Not every server does, and some then stay silent: each reply is awaited for at most 2s, or
--timeout. Values without a reply are empty (null), and NO-ANSWER names them.
Warns if so many queued jobs have unique ids that gearmand slows down: by default, it looks ids up in 991 hash chains.
WORKERS counts registrations, as in `functions` and `check server`: a worker that serves three functions counts three
times.
With several servers, each row shows its server; one that does not answer is named, and its failure sets the exit code.

Example:
  gearctl server -o json";

/// The end of `version --help`.
pub const VERSION_HELP: &str = "\
Protocol: version.
With several servers, each row shows its server; one that does not answer is named, and its failure sets the exit code.

Example:
  gearctl version";

/// The end of `pid --help`.
pub const PID_HELP: &str = "\
Protocol: getpid. The id is that of a process on the server's machine.
With several servers, each row shows its server; one that does not answer is named, and its failure sets the exit code.

Example:
  gearctl pid";

/// The end of `verbose --help`.
pub const VERBOSE_HELP: &str = "\
Protocol: verbose. The level is set by gearmand's --verbose when the server starts.
With several servers, each row shows its server; one that does not answer is named, and its failure sets the exit code.

Example:
  gearctl verbose";

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
    let mut fleet = Fleet::of(tool)?;
    if fleet.is_several() {
        tool.out.expect(&SERVERS)?;
    }
    let all = fleet.ask(&mut tool.link, look)?;
    if !fleet.is_several() {
        let source = tool.link.dialer.source();
        for (_, (address, record)) in all {
            let record = record.led_by("address-from", source.clone());
            tool.out.pairs(record.led_by("address", address))?;
        }
        return Ok(Exit::Done);
    }
    let mut list = tool.out.list(&SERVERS)?;
    for (server, (_, record)) in all {
        list.push(record.of_server(server.as_deref()))?;
    }
    list.finish()?;
    Ok(fleet.exit())
}

/// Several servers, one row each; documents contain everything.
static SERVERS: Shape = Shape::rows(
    "server",
    &[
        SERVER,
        Column::new("version", "VERSION"),
        Column::new("pid", "PID"),
        Column::new("functions", "FUNCTIONS"),
        Column::new("queued", "QUEUED"),
        Column::new("running", "RUNNING"),
        Column::new("workers", "WORKERS"),
        Column::new("connections", "CONNECTIONS"),
        Column::wide("ignored", "IGNORED"),
        Column::wide("verbose", "VERBOSE"),
        Column::wide("no-answer", "NO ANSWER"),
    ],
);

/// The address of a server, and what it reports about itself.
fn look(link: &mut Link) -> Result<(String, Record), CliError> {
    // Every server answers these. A server that answers neither is not queried further. One after the other, because
    // the second lists the connections.
    let functions = link.probe_listing::<FunctionStatus>(&AdminCommand::Status)?;
    let connections = link.probe_listing::<WorkerInfo>(&AdminCommand::Workers)?;
    let (functions, connections) = match (functions, connections) {
        (Answer::Silent(error), Answer::Silent(_)) => return Err(error),
        some => some,
    };
    let mut silent = Vec::new();
    note(&mut silent, &AdminCommand::Status, &functions);
    note(&mut silent, &AdminCommand::Workers, &connections);
    let [version, pid, verbose, jobs, unique_jobs, priorities] =
        ask_at_once(link, &OPTIONAL, &mut silent)?;
    let value = |reply: AdminReply| reply.value().map_err(cli_error);
    let pid = pid.and_then(value)?.came();
    let jobs = jobs.and_then(|reply| link.rows::<JobInfo>(&AdminCommand::ShowJobs, reply))?;
    let unique_jobs = unique_jobs_of(link, unique_jobs)?;
    let address = link.dialer.address()?;
    if let Some((problem, remedy)) = depth_of_ids(&unique_jobs) {
        link.dialer.messages().warn(format!("{address}: {problem}: {remedy}"));
    }
    let (functions, connections) = (functions.came(), connections.came());
    let sum = |of: fn(&FunctionStatus) -> i64| {
        functions.as_ref().map(|all| all.iter().map(of).sum::<i64>())
    };
    let has_jobs = is_there(&jobs);
    let ignored = |all: Listing<JobInfo>| all.iter().filter(|job| job.is_ignored).count();
    let record = Record::new()
        .with("version", version.and_then(value)?.came())
        .with("pid", pid.and_then(|text| text.parse::<u64>().ok()))
        .with("verbose", verbose.and_then(value)?.came())
        .with("functions", functions.as_ref().map(|all| all.len()))
        .with("queued", sum(FunctionStatus::queued))
        .with("running", sum(|function| function.running))
        .with("workers", functions.as_ref().map(|all| workers(all)))
        .with("connections", connections.as_ref().map(|all| all.len()))
        .with("ignored", jobs.came().map(ignored))
        .with("show-jobs", has_jobs)
        .with("show-unique-jobs", is_there(&unique_jobs))
        .with("prioritystatus", is_there(&priorities))
        .with("no-answer", silent);
    Ok((address, record))
}

fn unique_jobs_of(
    link: &Link,
    reply: Answer<AdminReply>,
) -> Result<Answer<Listing<UniqueJob>>, CliError> {
    reply.and_then(|reply| link.rows(&AdminCommand::ShowUniqueJobs, reply))
}

/// The number of queued ids from which gearmand's default of 991 hash chains costs more than a submission itself.
const MANY_IDS: usize = 50_000;

/// The problem and its remedy, if submissions with ids are slow because many ids are queued.
fn depth_of_ids(unique_jobs: &Answer<Listing<UniqueJob>>) -> Option<(String, &'static str)> {
    let Answer::Came(jobs) = unique_jobs else { return None };
    let ids = jobs.iter().filter(|job| job.unique.is_some()).count();
    (ids >= MANY_IDS).then(|| {
        let problem = format!(
            "{ids} queued jobs have unique ids, and each submission with an id searches one of 991 hash chains unless \
             gearmand was started with more"
        );
        (problem, "gearmand --hashtable-buckets=100003, or gearctl submit --no-unique")
    })
}

/// Commands that not every server answers.
static OPTIONAL: [AdminCommand; 6] = [
    AdminCommand::Version,
    AdminCommand::GetPid,
    AdminCommand::Verbose,
    AdminCommand::ShowJobs,
    AdminCommand::ShowUniqueJobs,
    AdminCommand::PriorityStatus,
];

/// Sends each command over a connection of its own, so that silence costs the wait only once. `silent` gets those
/// without an answer.
fn ask_at_once<const N: usize>(
    link: &Link,
    commands: &'static [AdminCommand; N],
    silent: &mut Vec<&'static str>,
) -> Result<[Answer<AdminReply>; N], CliError> {
    let probes = commands.iter().map(|command| (command, link.sibling()));
    let answers = at_once(probes, |(command, link)| link.probe(command));
    let answers = answers.into_iter().collect::<Result<Vec<_>, _>>()?;
    for (command, answer) in commands.iter().zip(&answers) {
        note(silent, command, answer);
    }
    answers.try_into().map_err(|_| CliError::internal("a probe was lost"))
}

fn note<T>(silent: &mut Vec<&'static str>, command: &AdminCommand, answer: &Answer<T>) {
    if matches!(answer, Answer::Silent(_)) {
        silent.push(command.name());
    }
}

/// Whether the server has a command; unknown if it did not answer.
fn is_there<T>(answer: &Answer<T>) -> Option<bool> {
    match answer {
        Answer::Came(_) => Some(true),
        Answer::Unsupported(_) => Some(false),
        Answer::Silent(_) => None,
    }
}

/// Runs `version`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn version(tool: &mut Tool, _: VersionArgs) -> Result<Exit, CliError> {
    one(tool, ("version", &VERSIONS), |link| {
        let reply = link.probe(&AdminCommand::Version)?.required()?;
        Ok(reply.value().map_err(cli_error)?.into())
    })
}

/// Runs `pid`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn pid(tool: &mut Tool, _: PidArgs) -> Result<Exit, CliError> {
    one(tool, ("pid", &PIDS), |link| {
        let reply = link.probe(&AdminCommand::GetPid)?.required()?;
        Ok(reply.number().map_err(cli_error)?.into())
    })
}

/// Runs `verbose`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn verbose(tool: &mut Tool, _: VerboseArgs) -> Result<Exit, CliError> {
    one(tool, ("verbose", &LEVELS), |link| {
        let reply = link.probe(&AdminCommand::Verbose)?.required()?;
        Ok(reply.value().map_err(cli_error)?.into())
    })
}

/// Several servers, one row each.
static VERSIONS: Shape = Shape::rows("server", &[SERVER, Column::new("version", "VERSION")]);
static PIDS: Shape = Shape::rows("server", &[SERVER, Column::new("pid", "PID")]);
static LEVELS: Shape = Shape::rows("server", &[SERVER, Column::new("verbose", "VERBOSE")]);
const SERVER: Column = Column::new("server", "SERVER");

/// One value that each server reports about itself.
fn one(
    tool: &mut Tool,
    (key, shape): (&'static str, &'static Shape),
    ask: impl Fn(&mut Link) -> Result<Value, CliError> + Sync,
) -> Result<Exit, CliError> {
    let mut fleet = Fleet::of(tool)?;
    if fleet.is_several() {
        tool.out.expect(shape)?;
    }
    let all = fleet.ask(&mut tool.link, ask)?;
    if fleet.is_several() {
        let mut list = tool.out.list(shape)?;
        for (server, value) in all {
            list.push(Record::new().of_server(server.as_deref()).with(key, value))?;
        }
        list.finish()?;
        return Ok(fleet.exit());
    }
    for (_, value) in all {
        let sentence = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        tool.out.done(&Record::new().with(key, value), &sentence)?;
    }
    Ok(Exit::Done)
}

/// The server's state, for `doctor`.
///
/// # Errors
/// The failure of the connection.
pub fn diagnose(link: &mut Link) -> Result<Diagnosis, CliError> {
    let functions = statuses(link)?;
    let mut silent = Vec::new();
    let [version, pid, verbose, jobs, unique_jobs, priorities] =
        ask_at_once(link, &OPTIONAL, &mut silent)?;
    let value = |reply: AdminReply| reply.value().map_err(cli_error);
    let unique_jobs = unique_jobs_of(link, unique_jobs)?;
    let is_unattended = |row: &&FunctionStatus| row.queued() > 0 && row.workers == 0;
    let mut unattended: Vec<_> = functions.iter().filter(is_unattended).collect();
    unattended.sort_by_key(|row| Reverse(row.queued()));
    let unattended: Vec<_> = unattended.into_iter().map(|row| show_function(&row.name)).collect();
    let diagnosis = Diagnosis::default()
        .fact("version", version.and_then(value)?.came())
        .fact("pid", pid.and_then(value)?.came())
        .fact("verbose", verbose.and_then(value)?.came())
        .fact("functions", functions.len())
        .fact("show-jobs", is_there(&jobs))
        .fact("show-unique-jobs", is_there(&unique_jobs))
        .fact("prioritystatus", is_there(&priorities))
        .partial_if(!silent.is_empty())
        .warn_if(
            !silent.is_empty(),
            format!("no answer to {}", silent.join(", ")),
            "a longer --timeout, if the server supports them: not every server does",
        )
        .warn_if(
            !unattended.is_empty(),
            format!(
                "jobs are waiting, but no worker serves {}",
                units::first_of(&unattended, SHOWN)
            ),
            "gearctl functions, to see how many; gearctl work, to process them",
        );
    Ok(match depth_of_ids(&unique_jobs) {
        Some((problem, remedy)) => diagnosis.warn_if(true, problem, remedy),
        None => diagnosis,
    })
}

/// Number of functions that a warning names.
const SHOWN: usize = 5;
