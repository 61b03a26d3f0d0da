//! `cancel`: removes queued jobs.

use std::collections::BTreeSet;

use clap::Args;
use ctl_core::bulk::{Action, ItemArgs};
use ctl_core::context::fleet::Fleet;
use ctl_core::error::{CliError, Exit};
use ctl_core::output::Record;
use ctl_core::text::units;
use gearman_client::protocol::AdminCommand;
use gearman_client::{JobHandle, Listing, UniqueId, UniqueJob};

use super::job;
use crate::error::{NOT_FOUND, UNSUPPORTED, cli_error};
use crate::link::Link;
use crate::names::{self, show_handle_at, show_handle_of, show_unique};
use crate::tool::Tool;

/// The end of `cancel --help`.
pub const HELP: &str = "\
Protocol: cancel job HANDLE; show unique jobs for --unique.
Removes queued jobs; waiting clients see a failure. A running job is not stopped. A cancelled job counts as queued, and
is listed as ignored, until a worker of its function asks for work.
A handle that names its server, as SERVER//HANDLE, is cancelled there only, even if that is none of the servers given.
Otherwise the server that knows it is found, and -v shows which; a handle that several know is refused, because servers
on one host issue the same ones. Handles of unique ids are known to servers from 2.2 on: on others, `clear FUNCTION
--filter 'unique==ID'` takes the job.

Examples:
  gearctl cancel H:host:17
  gearctl -s one,two cancel two:4730//H:host:17
  gearctl cancel --unique order-4711
  gearctl jobs -o id | gearctl cancel -";

/// Arguments of `cancel`.
#[derive(Debug, Args)]
pub struct CancelArgs {
    /// Job handles, or - to read handles from stdin, one per line
    #[arg(value_name = "HANDLE", required_unless_present = "unique")]
    handles: Vec<String>,

    /// Cancel the job with this unique id
    #[arg(short, long, value_name = "ID", conflicts_with = "handles")]
    unique: Option<String>,

    #[command(flatten)]
    bulk: ItemArgs,
}

/// Runs `cancel`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: CancelArgs) -> Result<Exit, CliError> {
    let mut fleet = Fleet::of(tool)?;
    let mut handles = match &args.unique {
        Some(unique) => of_unique(tool, &mut fleet, &names::unique(unique)?)?,
        None => names::handles(&args.handles, (&mut tool.input, &tool.messages))?,
    };
    let limit = args.bulk.count.and_then(|limit| usize::try_from(limit).ok());
    handles.truncate(limit.unwrap_or(usize::MAX));
    if tool.globals.dry_run {
        let all: Vec<String> = handles.iter().map(|handle| show_handle_of(handle, true)).collect();
        let sentence = format!("would cancel {}", units::count(all.len() as u64, "job"));
        let record =
            Record::new().with("dry_run", true).with("jobs", all.len()).with("handles", all);
        return tool.out.done_with(&record, &["jobs"], &sentence);
    }
    let action = Action { past: "cancelled", noun: "job", place: String::new() };
    let total = Some(handles.len() as u64);
    let servers: BTreeSet<String> =
        handles.iter().filter_map(JobHandle::server).map(ToString::to_string).collect();
    for server in servers {
        if !fleet.has(&mut tool.link, &server)? {
            tool.unlock_at(&server)?;
        }
    }
    let mut bulk = tool.bulk(action, &args.bulk, total)?;
    let gate = bulk.gate();
    for handle in handles {
        if !gate.turn(1) {
            break;
        }
        let name = show_handle_of(&handle, true);
        let cancelled = cancel(&mut fleet, &mut tool.link, handle, &name);
        if let Ok(Some(server)) = &cancelled {
            tool.messages.decision(format!("{server} has cancelled the job {name}"));
        }
        let counted = bulk.count(format!("job {name}"), cancelled.map(drop));
        bulk = bulk.after(counted)?;
    }
    bulk.finish(&mut tool.out)
}

/// The jobs with this unique id: a function each, or a server.
fn of_unique(
    tool: &mut Tool,
    fleet: &mut Fleet<Link>,
    unique: &UniqueId,
) -> Result<Vec<JobHandle>, CliError> {
    let name = show_unique(unique);
    let all = fleet.ask(&mut tool.link, |link| {
        link.listing::<UniqueJob>(&AdminCommand::ShowUniqueJobs).map(Listing::into_rows)
    })?;
    let mut handles = Vec::new();
    for (server, jobs) in all {
        let is_it = |job: &UniqueJob| job.unique == unique.as_bytes();
        for job in jobs.into_iter().filter(is_it) {
            let Some(handle) = job.handle else {
                let why = format!("the server does not report the handle of the job {name}");
                let hint = format!("gearctl clear FUNCTION --filter 'unique=={name}'");
                return Err(CliError::new(Exit::Protocol, UNSUPPORTED, why).hint(hint));
            };
            handles.push(match &server {
                Some(server) => names::handle(&show_handle_at(&handle, Some(server)))?,
                None => handle,
            });
        }
    }
    if handles.is_empty() {
        let silent = fleet.silent().map(|error| error.context(format!("job {name}")));
        return Err(silent.unwrap_or_else(|| unknown(fleet, &name)));
    }
    Ok(handles)
}

/// Returns the server that has cancelled it, if there are several.
fn cancel(
    fleet: &mut Fleet<Link>,
    own: &mut Link,
    handle: JobHandle,
    name: &str,
) -> Result<Option<String>, CliError> {
    let at = match (handle.server(), fleet.is_several()) {
        (Some(server), _) => Some(server.to_string()),
        (None, false) => None,
        // Servers on one host issue the same handles.
        (None, true) => match job::find(fleet, own, &handle)? {
            Some((server, _)) => server,
            // A server that did not answer may have it.
            None => return Err(fleet.silent().unwrap_or_else(|| unknown(fleet, name))),
        },
    };
    // The name alone: the server may have another address here.
    let bare = JobHandle::try_from(handle.name()).map_err(cli_error)?;
    let command = AdminCommand::CancelJob(bare);
    let ask = |link: &mut Link| match link
        .admin(&command)
        .and_then(|reply| reply.ok().map_err(cli_error))
    {
        Ok(()) => Ok(true),
        Err(error) if error.code == NOT_FOUND => Ok(false),
        Err(error) => Err(error.about("HANDLE", name)),
    };
    let (server, is_cancelled) = match at {
        Some(server) => fleet.ask_at(own, &server, ask)?,
        None => (None, ask(own)?),
    };
    if is_cancelled { Ok(server) } else { Err(unknown(fleet, name)) }
}

fn unknown(fleet: &Fleet<Link>, name: &str) -> CliError {
    fleet.unknown(&format!("the job {name}"))
}
