//! `move`: turns queued jobs into background jobs of another function or on another server.

use clap::Args;
use ctl_core::commands::leaving::doubting;
use ctl_core::error::{CliError, Exit};
use ctl_core::link::Link as _;
use gearman_client::blocking::Client;
use gearman_client::{FunctionName, JobHandle, Priority, SubmitOptions, UniqueId};

use super::slots::Taken;
use super::{End, EndArgs, Removal, TakeArgs, remove};
use crate::error::cli_error;
use crate::names::{self, show_function, show_handle};
use crate::submit::merged::{Guard, Submitted};
use crate::tool::Tool;

/// The end of `move --help`.
pub const HELP: &str = "\
Protocol: as drain, with SUBMIT_JOB_BG, SUBMIT_JOB_HIGH_BG or SUBMIT_JOB_LOW_BG before WORK_COMPLETE.
No server can rename or move a job, so move acts as a worker: it takes a job, submits it again, and ends it once the
server confirms that, so none is lost. If this process or a connection ends in between, a job may exist twice, at most
one per connection (-j). Jobs keep their unique ids: a server that still has the copy merges both when the move is run
again. A job whose copy the server skips, or may skip, because it has merged it with another one of its id, stays. Workers are not told the priority, so --priority sets it for all; time limits and reducers are not kept.
A job that cannot be submitted is given back by closing the connection, which counts as a retry: gearmand with
--job-retries may then drop it. Since 2026, `--job-retries 0` drops it at once, and no command reports that setting.
The results of moved foreground jobs would reach no client: while clients wait for one, nothing is moved, unless
--background-only skips such jobs, as with drain. Only a single source server is allowed. Cancelled jobs vanish. Running
jobs and jobs scheduled for later stay. With filters, other jobs are given back, as with drain.
Asks for confirmation; --yes skips it.

Examples:
  gearctl move --from resize --to resize-slow --priority low
  gearctl move --from resize --to-server other:4730 --rate 50/s --yes";

/// Arguments of `move`.
#[derive(Debug, Args)]
pub struct MoveArgs {
    /// Source function
    #[arg(long, value_name = "FUNCTION")]
    from: String,

    /// Target function [default with --to-server: the same]
    #[arg(long, value_name = "FUNCTION", required_unless_present = "to_server")]
    to: Option<String>,

    /// Target server
    #[arg(long, value_name = "ADDR")]
    to_server: Option<String>,

    /// high, normal or low
    #[arg(short, long, alias = "pri", value_name = "PRIORITY", default_value = "normal")]
    priority: Priority,

    #[command(flatten)]
    take: TakeArgs,
}

/// Runs `move`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: MoveArgs) -> Result<Exit, CliError> {
    let function = names::function(&args.from)?;
    let new = args.to.as_deref().map(names::function).transpose()?;
    let new = new.unwrap_or_else(|| function.clone());
    // With several servers, all copies would go to whichever answers first.
    tool.link.dialer.only()?;
    let (mut to, elsewhere) = tool.link.elsewhere(args.to_server.as_deref())?;
    if new == function && elsewhere.is_none() {
        let name = show_function(&new);
        return Err(CliError::usage(format!("source and target are the same function: {name}"))
            .hint("another function, or --to-server for another server"));
    }
    let mut place = show_function(&new);
    if let Some(elsewhere) = &elsewhere {
        place.push_str(&format!(" on {elsewhere}"));
    }
    let removal = Removal::of("move", "moved", vec![function]);
    let what = Removal { place: format!(" to {place}"), advice: BY_FILE, ..removal };
    let end = EndArgs { end: Some(End::Complete) };
    remove(tool, what, (end, &args.take), None, |tool| {
        if let Some(elsewhere) = &elsewhere {
            tool.unlock_at(elsewhere)?;
        }
        Ok(Some(Resubmit {
            client: to.open_client()?,
            function: new,
            options: SubmitOptions::default().priority(args.priority),
            guard: Guard::new(&mut to, &tool.messages)?,
            place,
        }))
    })
}

/// Advice about clients that wait for jobs.
const BY_FILE: &str = "gearctl drain FUNCTION --as fail --to FILE, and import FILE --function NEW: the clients are \
                       told that their jobs failed";

/// Submits jobs again.
pub(super) struct Resubmit {
    client: Client,
    function: FunctionName,
    options: SubmitOptions,
    guard: Guard,
    /// Where the copies go, for people.
    place: String,
}

impl Resubmit {
    /// Submits a copy of a job; the original stays where it is until the slot continues.
    ///
    /// # Errors
    /// It is uncertain whether the server has it.
    pub(super) fn submit(&mut self, job: &Taken) -> Result<(), CliError> {
        let mut options = self.options;
        let id = UniqueId::try_from(&job.unique[..]).ok();
        let chosen = id.map(|id| Submitted { id, function: &self.function, former: None });
        if let Some(chosen) = chosen {
            options = options.unique(chosen.id);
            self.guard.before(chosen);
        }
        let (client, function) = (&mut self.client, self.function.clone());
        let submitted = client.submit_background(function, &job.workload, options);
        let checked = submitted.map_err(cli_error).and_then(|copy| {
            check(client, &copy.handle, (job, &self.place))?;
            chosen.map_or(Ok(()), |chosen| self.guard.require(chosen, &copy.handle))
        });
        checked.map_err(|error| {
            let names = if error.is_unknown() { std::slice::from_ref(&job.handle) } else { &[] };
            let error = error.context(format!("job {} was given back", job.handle));
            let error = error.about("FUNCTION", show_function(&self.function));
            doubting(error, "job", names, &self.place)
        })
    }
}

/// A server that is reached under two addresses merges the copy and the original by their unique id, so ending the
/// original would lose the job. Two servers on one machine may also use the same handle, but there the job does not
/// run.
fn check(
    client: &mut Client,
    copy: &JobHandle,
    (job, place): (&Taken, &str),
) -> Result<(), CliError> {
    if show_handle(copy) != job.handle || !client.status(copy).map_err(cli_error)?.is_running {
        return Ok(());
    }
    let why = format!("{place} is the same function under another address");
    Err(CliError::new(Exit::Negative, "SAME_SERVER", why)
        .hint("another function, or another server"))
}
