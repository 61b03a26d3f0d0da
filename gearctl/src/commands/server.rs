//! `server`: what kind of server this is and what it supports; and to shut it down.

use std::cmp::Reverse;

use clap::{Args, ValueEnum};
use ctl_core::context::fleet::{Answered, Fleet};
use ctl_core::error::{CliError, Exit};
use ctl_core::link::Link as _;
use ctl_core::link::diagnosis::Diagnosis;
use ctl_core::output::{Column, Record, Shape};
use ctl_core::system::at_once::these_at_once;
use ctl_core::text::units;
use gearman_client::protocol::{AdminCommand, AdminReply};
use gearman_client::{FunctionStatus, JobInfo, Listing, UniqueJob, WorkerInfo};
use serde_json::Value;

use crate::commands::functions::workers;
use crate::error::{UNSUPPORTED, cli_error};
use crate::link::{Answer, Link, statuses};
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
`server version`, `pid` and `verbose` ask for that value only: the process is one of the server's machine, and the log
level is set by gearmand's --verbose when the server starts.
`server shutdown` shuts the server down. gearmand has not had this command since 1.1.14, and says so; other servers have
it. It asks for the server's address as confirmation; --confirm=ADDRESS answers that, --yes is not enough.

Examples:
  gearctl server -o json
  gearctl server version
  gearctl server shutdown --graceful --confirm=127.0.0.1:4730";

/// Arguments of `server`.
#[derive(Debug, Args)]
pub struct ServerArgs {
    /// version, pid or verbose, to show that alone; shutdown, to shut the server down
    #[arg(value_name = "WHAT", hide_possible_values = true)]
    what: Option<What>,

    /// With shutdown, let the server finish its jobs
    #[arg(long, requires = "what")]
    graceful: bool,
}

/// A question about the server alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// Its version.
    Version,
    /// The id of its process.
    Pid,
    /// Its log level.
    Verbose,
    /// To shut down.
    Shutdown,
}

impl ServerArgs {
    /// Whether the server stays as it is.
    pub fn only_reads(&self) -> bool {
        self.what != Some(What::Shutdown)
    }
}

/// Runs `server`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: ServerArgs) -> Result<Exit, CliError> {
    let text = |reply: AdminReply| Ok(reply.value().map_err(cli_error)?.into());
    let number = |reply: AdminReply| Ok(reply.number().map_err(cli_error)?.into());
    match args.what {
        Some(What::Shutdown) => shutdown(tool, args.graceful),
        _ if args.graceful => Err(CliError::usage("--graceful belongs to shutdown")),
        None => describe(tool),
        Some(What::Version) => one(tool, ("version", AdminCommand::Version), text),
        Some(What::Pid) => one(tool, ("pid", AdminCommand::GetPid), number),
        Some(What::Verbose) => one(tool, ("verbose", AdminCommand::Verbose), text),
    }
}

fn describe(tool: &mut Tool) -> Result<Exit, CliError> {
    let mut fleet = Fleet::of(tool)?;
    if fleet.is_several() {
        tool.out.expect(&SERVERS)?;
    }
    let all = fleet.ask(&mut tool.link, look)?;
    if !fleet.is_several() {
        for (_, (address, record)) in all {
            tool.out.pairs(record.led_by("server", address))?;
        }
        return Ok(Exit::Done);
    }
    let rows = all.into_iter().map(|(server, (_, record))| (server, record));
    list(tool, &fleet, rows)
}

/// A row for each of several servers.
fn list(
    tool: &mut Tool,
    fleet: &Fleet<Link>,
    rows: impl Iterator<Item = Answered<Record>>,
) -> Result<Exit, CliError> {
    let rows = rows.map(|(server, record)| record.of_server(server.as_deref()));
    tool.out.list(&SERVERS)?.all(rows)?;
    Ok(fleet.exit())
}

/// Several servers, one row each; documents contain everything.
static SERVERS: Shape = Shape::rows(
    "server",
    &[
        Column::new("server", "SERVER"),
        Column::new("version", "VERSION"),
        Column::new("pid", "PID"),
        Column::new("functions", "FUNCTIONS"),
        Column::new("queued", "QUEUED"),
        Column::new("running", "RUNNING"),
        Column::new("workers", "WORKERS"),
        Column::new("connections", "CONNECTIONS"),
        Column::wide("ignored", "IGNORED"),
        Column::wide("verbose", "VERBOSE"),
        Column::wide("no_answer", "NO ANSWER"),
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
    let more = Optional::ask(link, &mut silent)?;
    let address = link.dialer.address()?;
    if let Some((problem, remedy)) = &more.slow {
        link.dialer.messages().warn(format!("{address}: {problem}: {remedy}"));
    }
    let (functions, connections) = (functions.came(), connections.came());
    let sum = |of: fn(&FunctionStatus) -> i64| {
        functions.as_ref().map(|all| all.iter().map(of).sum::<i64>())
    };
    let record = Record::new()
        .with("version", more.version)
        .with("pid", more.pid)
        .with("verbose", more.verbose)
        .with("functions", functions.as_ref().map(|all| all.len()))
        .with("queued", sum(FunctionStatus::queued))
        .with("running", sum(|function| function.running))
        .with("workers", functions.as_ref().map(|all| workers(all)))
        .with("connections", connections.as_ref().map(|all| all.len()))
        .with("ignored", more.ignored);
    let record = more.has.into_iter().fold(record, |record, (name, has)| record.with(name, has));
    Ok((address, record.with("no_answer", silent)))
}

/// The questions that not every server answers.
struct Optional {
    version: Option<String>,
    pid: Option<u64>,
    verbose: Option<String>,
    /// Number of jobs that it ignores.
    ignored: Option<usize>,
    /// Which lists it has, as far as is known.
    has: [(&'static str, Option<bool>); 3],
    /// Why submissions are slow, and the remedy.
    slow: Option<(String, &'static str)>,
}

impl Optional {
    /// Asks for everything at the same time. `silent` gets the commands without an answer.
    fn ask(link: &Link, silent: &mut Vec<&'static str>) -> Result<Self, CliError> {
        // Each over its own connection, so that silence costs the wait only once.
        let probes = OPTIONAL.each_ref().map(|command| (command, link.sibling()));
        let answers = these_at_once(probes, |(command, link)| link.probe(command));
        for (command, answer) in OPTIONAL.iter().zip(&answers) {
            answer.iter().for_each(|answer| note(silent, command, answer));
        }
        let [version, pid, verbose, jobs, unique_jobs, priorities] = answers;
        let value = |reply: AdminReply| reply.value().map_err(cli_error);
        let ids = unique_jobs?.and_then(|reply| link.rows(&AdminCommand::ShowUniqueJobs, reply))?;
        let jobs = jobs?.and_then(|reply| link.rows::<JobInfo>(&AdminCommand::ShowJobs, reply))?;
        Ok(Self {
            version: version?.and_then(value)?.came(),
            pid: pid?.and_then(value)?.came().and_then(|text| text.parse().ok()),
            verbose: verbose?.and_then(value)?.came(),
            slow: depth_of_ids(&ids),
            has: [
                ("show_jobs", is_there(&jobs)),
                ("show_unique_jobs", is_there(&ids)),
                ("prioritystatus", is_there(&priorities?)),
            ],
            ignored: jobs.came().map(|all| all.iter().filter(|job| job.is_ignored).count()),
        })
    }
}

/// The number of queued ids from which gearmand's default of 991 hash chains costs more than a submission itself.
const MANY_IDS: usize = 50_000;

/// The problem and its remedy, if submissions with ids are slow because many ids are queued.
fn depth_of_ids(ids: &Answer<Listing<UniqueJob>>) -> Option<(String, &'static str)> {
    let Answer::Came(jobs) = ids else { return None };
    let ids = jobs.iter().filter(|job| !job.unique.is_empty()).count();
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

/// One value that each server reports about itself.
fn one(
    tool: &mut Tool,
    (key, command): (&'static str, AdminCommand),
    value: impl Fn(AdminReply) -> Result<Value, CliError> + Sync,
) -> Result<Exit, CliError> {
    let mut fleet = Fleet::of(tool)?;
    if fleet.is_several() {
        let columns = || ["server", key].map(str::to_owned).to_vec();
        tool.out.style.columns.get_or_insert_with(columns);
        tool.out.expect(&SERVERS)?;
    }
    let ask = |link: &mut Link| value(link.probe(&command)?.required()?);
    let all = fleet.ask(&mut tool.link, ask)?;
    if fleet.is_several() {
        let rows = all.into_iter().map(|(server, value)| (server, Record::new().with(key, value)));
        return list(tool, &fleet, rows);
    }
    for (_, value) in all {
        let sentence = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        tool.out.done(&Record::new().with(key, value), &sentence)?;
    }
    Ok(Exit::Done)
}

fn shutdown(tool: &mut Tool, graceful: bool) -> Result<Exit, CliError> {
    let address = tool.link.dialer.address()?;
    if address.contains(',') {
        return Err(CliError::usage("shutdown takes one server").hint("-s with one address"));
    }
    let record = Record::new().with("server", address.as_str()).with("graceful", graceful);
    if tool.globals.dry_run {
        let record = record.with("dry_run", true);
        let sentence = format!("would shut down {address}");
        return tool.out.done_with(&record, &["server"], &sentence);
    }
    let question = format!("shut down the server {address}");
    tool.confirm().everything(&question, &address, &tool.messages)?;
    let reply = tool.link.admin(&AdminCommand::Shutdown { graceful });
    reply.and_then(|reply| reply.ok().map_err(cli_error)).map_err(|error| match error.code {
        UNSUPPORTED => {
            let why = "has no shutdown command (gearmand has none since 1.1.14)";
            CliError::new(error.exit, UNSUPPORTED, format!("the server {address} {why}"))
                .hint("gearctl server pid, to find the process and stop it with SIGTERM")
        }
        _ => error,
    })?;
    let sentence = format!("the server {address} is shutting down");
    tool.out.done_with(&record, &["server"], &sentence)
}

/// The server's state, for `doctor`.
///
/// # Errors
/// The failure of the connection.
pub fn diagnose(link: &mut Link) -> Result<Diagnosis, CliError> {
    let functions = statuses(link)?;
    let mut silent = Vec::new();
    let more = Optional::ask(link, &mut silent)?;
    let is_unattended = |row: &&FunctionStatus| row.queued() > 0 && row.workers == 0;
    let mut unattended: Vec<_> = functions.iter().filter(is_unattended).collect();
    unattended.sort_by_key(|row| Reverse(row.queued()));
    let unattended: Vec<_> = unattended.into_iter().map(|row| show_function(&row.name)).collect();
    let mut diagnosis = Diagnosis::default()
        .fact("version", more.version)
        .fact("pid", more.pid)
        .fact("verbose", more.verbose)
        .fact("functions", functions.len());
    diagnosis.is_partial = !silent.is_empty();
    let diagnosis = more.has.into_iter().fold(diagnosis, |all, (name, has)| all.fact(name, has));
    let diagnosis = diagnosis
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
    Ok(match more.slow {
        Some((problem, remedy)) => diagnosis.warn_if(true, problem, remedy),
        None => diagnosis,
    })
}

/// Number of functions that a warning names.
const SHOWN: usize = 5;
