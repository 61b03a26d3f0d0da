//! `job`: what the server knows about one job.

use clap::Args;
use ctl_core::context::fleet::{Answered, Fleet};
use ctl_core::error::{CliError, Exit};
use ctl_core::output::Record;
use gearman_client::{JobHandle, JobStatus};

use crate::error::{TIMEOUT, cli_error};
use crate::link::{Link, not_everywhere};
use crate::names;
use crate::tool::Tool;

/// The end of `job --help`.
pub const HELP: &str = "\
Protocol: GET_STATUS, or GET_STATUS_UNIQUE with --unique, which also reports the number of waiting clients.
The server keeps no results: a finished job is as unknown as one that never existed. Unknown is exit code 1. A cancelled
job is known until a worker asks for work: `jobs` shows it as ignored.
A handle that names its server, as SERVER//HANDLE, is looked up there only, even if that is none of the servers given.
Otherwise all are queried, and the record shows which one has the job; a handle that several know is refused.

Examples:
  gearctl job H:host:17
  gearctl job queue2:4730//H:host:17
  gearctl job --unique order-4711 -o json";

/// Arguments of `job`.
#[derive(Debug, Args)]
pub struct JobArgs {
    /// Job handle
    #[arg(value_name = "HANDLE", required_unless_present = "unique")]
    handle: Option<String>,

    /// Look the job up by its unique id
    #[arg(short, long, value_name = "ID", conflicts_with = "handle")]
    unique: Option<String>,
}

/// Runs `job`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: JobArgs) -> Result<Exit, CliError> {
    let mut fleet = Fleet::of(tool)?;
    let (key, name, answers) = match (&args.handle, &args.unique) {
        (Some(handle), _) => {
            let handle = names::handle(handle)?;
            let found = find(&mut fleet, &mut tool.link, &handle)?;
            ("handle", names::show_handle(&handle), found.into_iter().collect())
        }
        (None, unique) => {
            let unique = names::unique(unique.as_deref().unwrap_or_default())?;
            let status = |link: &mut Link| {
                let status = link.client()?.status_unique(unique).map_err(cli_error);
                status.map_err(|error| match error.code {
                    TIMEOUT => error.hint(not_everywhere("GET_STATUS_UNIQUE")),
                    _ => error,
                })
            };
            ("unique", names::show_unique(&unique), fleet.ask(&mut tool.link, status)?)
        }
    };
    let Some((server, status)) = answers.into_iter().find(|(_, status)| status.is_known) else {
        let what = format!("the job {name}: it has ended, or never existed");
        // A server that did not answer may have it.
        let silent = fleet.silent().map(|error| error.context(format!("job {name}")));
        return Err(silent.unwrap_or_else(|| fleet.unknown(&what)));
    };
    tool.out.pairs(record(Record::new().of_server(server.as_deref()).with(key, name), &status))?;
    Ok(Exit::Done)
}

/// The server that knows a job, and what it knows: the one that the handle names, or the only one of all. None if no
/// server that has answered knows it.
///
/// # Errors
/// Several servers know a job of this name: exit 2. None has answered.
pub(super) fn find(
    fleet: &mut Fleet<Link>,
    own: &mut Link,
    handle: &JobHandle,
) -> Result<Option<Answered<JobStatus>>, CliError> {
    // The name alone: the server may have another address here.
    let bare = JobHandle::try_from(handle.name()).map_err(cli_error)?;
    let status = |link: &mut Link| link.client()?.status(&bare).map_err(cli_error);
    let answers = match handle.server() {
        Some(server) => vec![fleet.ask_at(own, &server.to_string(), status)?],
        None => fleet.ask(own, status)?,
    };
    let known: Vec<_> = answers.into_iter().filter(|(_, status)| status.is_known).collect();
    if known.len() > 1 {
        let name = names::show_handle(handle);
        let each = known.iter().map(|(server, _)| names::show_handle_at(handle, server.as_deref()));
        let error = CliError::usage(format!("{} servers know a job {name}", known.len()));
        return Err(each.fold(error, CliError::hint));
    }
    Ok(known.into_iter().next())
}

fn record(record: Record, status: &JobStatus) -> Record {
    let mut record = record
        .with("known", status.is_known)
        .with("running", status.is_running)
        .with("numerator", status.progress.numerator())
        .with("denominator", status.progress.denominator())
        .with("percent", status.progress.share().map(|share| (share * 1000.0).round() / 10.0));
    if let Some(waiting) = status.waiting {
        record.push("waiting", waiting);
    }
    record
}
