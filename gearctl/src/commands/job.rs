//! `job`: what the server knows about one job.

use clap::Args;
use ctl_core::error::{CliError, Exit};
use ctl_core::link::fleet::Fleet;
use ctl_core::output::Record;
use gearman_client::JobStatus;

use crate::error::cli_error;
use crate::link::Link;
use crate::names;
use crate::tool::Tool;

/// The end of `job --help`.
pub const HELP: &str = "\
Protocol: GET_STATUS, or GET_STATUS_UNIQUE with --unique, which also reports the number of waiting clients.
The server keeps no results: a finished job is as unknown as one that never existed. Unknown is exit code 1. With
several servers, all are queried, and the record shows which one has the job.

Examples:
  gearctl job H:host:17
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
            let status = |link: &mut Link| link.client()?.status(&handle).map_err(cli_error);
            ("handle", names::show_handle(&handle), fleet.ask(&mut tool.link, status)?)
        }
        (None, unique) => {
            let unique = names::unique(unique.as_deref().unwrap_or_default())?;
            let status = |link: &mut Link| link.client()?.status_unique(unique).map_err(cli_error);
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
