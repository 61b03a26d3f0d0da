//! `wait`: until a condition is true.

use clap::Args;
use ctl_core::commands::wait::{self, Count, Look, WaitFlags};
use ctl_core::config::Settings;
use ctl_core::error::{CliError, Exit};
use ctl_core::input::named::One;
use ctl_core::link::Link as _;
use ctl_core::rules::filter::Filter;
use ctl_core::system::at_once::at_once;
use gearman_client::{FunctionName, FunctionStatus, JobHandle};

use super::functions::{near, no_function};
use crate::error::cli_error;
use crate::link::{Link, counts, status_of};
use crate::names::{self, Function, show_function};
use crate::tool::Tool;

/// The end of `wait --help`.
pub const HELP: &str = "\
Protocol: status or GET_STATUS, polled.
Conditions:
  empty            the function has no jobs, queued or running
  queued==0        and likewise != < <= > >= with total, queued, running, workers
  function-exists  the server knows the function
  handle-done=H    the job was known and no longer is
  server           the server answers
Waits for things that do not exist yet; a missing function has no jobs and no workers unless --must-exist is given.
Cancelled jobs count as queued until a worker asks for work: `gearctl jobs` shows them as ignored.
The server does not distinguish a finished job from one that never existed: handle-done needs to see the job once, or
--assume-done. A handle that names its server, as SERVER//HANDLE, is looked up there only. Otherwise, with several
servers, all must answer, and their counts are added up. --timeout limits the whole wait (default 60s); when it expires,
the exit code is 124.

Examples:
  gearctl wait --for server --timeout 30s
  gearctl wait --for 'workers>=4' -f resize
  gearctl wait --for handle-done=H:host:17";

/// Arguments of `wait`.
#[derive(Debug, Args)]
pub struct WaitArgs {
    #[command(flatten)]
    function: One<Function>,

    #[command(flatten)]
    wait: WaitFlags,

    /// Treat a job that the server does not know as done
    #[arg(long)]
    assume_done: bool,
}

/// The conditions that are not on counts.
const WORDS: &str = "empty, function-exists, handle-done=HANDLE, server";

enum Goal {
    Exists(FunctionName),
    Counts(FunctionName, Filter),
    Done { handle: JobHandle, seen: bool },
    Server,
}

/// Runs `wait`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: WaitArgs) -> Result<Exit, CliError> {
    let mut goal = Goal::parse(&args, tool.settings())?;
    let (must_exist, mut is_told) = (args.wait.must_exist, false);
    let mut several: Option<Vec<(String, Link)>> = None;
    let subject = ("function", goal.function().map(show_function));
    wait::until(tool, &args.wait, subject, |tool| {
        let links = match &mut several {
            Some(links) => links,
            // By now it is known how long to wait for connections.
            none => none.insert(match goal.server() {
                Some(server) => vec![(server.clone(), tool.link.to_server(&server)?)],
                None => tool.link.each()?,
            }),
        };
        let mut links: Vec<&mut Link> = match &mut links[..] {
            [] | [_] if goal.server().is_none() => vec![&mut tool.link],
            links => links.iter_mut().map(|(_, link)| link).collect(),
        };
        let status = goal.function().map(|function| status_of_all(&mut links, function));
        let status = status.transpose()?.flatten();
        match goal.function().filter(|_| status.is_none()) {
            Some(function) if must_exist => return Err(no_function(function, &mut links)),
            Some(function) if !std::mem::replace(&mut is_told, true) => {
                note_near(&mut links, function);
            }
            _ => {}
        }
        goal.look(&mut links, status)
    })
}

impl Goal {
    fn parse(args: &WaitArgs, settings: &Settings) -> Result<Self, CliError> {
        let function = || match args.function.name_or_usual(settings) {
            Ok(name) => Ok(name),
            Err(error) if error.exit != Exit::Usage || args.function.text().is_some() => Err(error),
            Err(_) => Err(CliError::usage(format!("`{}` needs a function", args.wait.condition))
                .hint(format!("gearctl wait --for '{}' -f FUNCTION", args.wait.condition))),
        };
        let on_counts = |text: &str| wait::on_counts(text, ("function", WORDS), &values(None));
        match args.wait.condition.as_str() {
            "server" => Ok(Self::Server),
            "function-exists" => Ok(Self::Exists(function()?)),
            text => {
                if let Some(handle) = text.strip_prefix("handle-done=") {
                    let handle = names::handle(handle)?;
                    return Ok(Self::Done { handle, seen: args.assume_done });
                }
                let is_empty = wait::EMPTY.contains(&text);
                let condition = on_counts(if is_empty { "total==0" } else { text })?;
                Ok(Self::Counts(function()?, condition))
            }
        }
    }

    /// What it is about, unless it is the server or a job.
    fn function(&self) -> Option<&FunctionName> {
        match self {
            Self::Counts(function, _) | Self::Exists(function) => Some(function),
            Self::Server | Self::Done { .. } => None,
        }
    }

    /// The server of the job, if its handle names one.
    fn server(&self) -> Option<String> {
        match self {
            Self::Done { handle, .. } => handle.server().map(ToString::to_string),
            _ => None,
        }
    }

    /// Whether the condition holds, and what was seen: the counts of its function, or what all servers answer when they
    /// are polled once, at the same time.
    fn look(
        &mut self,
        servers: &mut [&mut Link],
        status: Option<FunctionStatus>,
    ) -> Result<Look, CliError> {
        match self {
            Self::Server => {
                let answers = at_once(servers, |link| link.round_trip().map(drop));
                wait::answers(answers.into_iter().collect::<Result<(), _>>())
            }
            Self::Exists(function) => {
                let exists = status.is_some();
                let name = show_function(function);
                Ok((exists, if exists { name } else { format!("no function {name}") }))
            }
            Self::Counts(_, condition) => Ok(wait::seen(condition, &values(status.as_ref()))),
            Self::Done { handle, seen } => {
                let (mut is_known, mut is_running) = (false, false);
                // The name alone: the server may have another address here.
                let bare = JobHandle::try_from(handle.name()).map_err(cli_error)?;
                let statuses =
                    at_once(servers, |link| link.client()?.status(&bare).map_err(cli_error));
                for status in statuses {
                    let status = status?;
                    is_known |= status.is_known;
                    is_running |= status.is_running;
                }
                let done = *seen && !is_known;
                *seen |= is_known;
                let found = match (is_known, is_running) {
                    (true, true) => "it is running",
                    (true, false) => "it is queued",
                    (false, _) => {
                        "the server does not know the job; --assume-done treats that as done"
                    }
                };
                Ok((done, found.to_owned()))
            }
        }
    }
}

/// Reports which function of a server is probably meant by one that no server knows.
fn note_near(servers: &mut [&mut Link], function: &FunctionName) {
    let (meant, name) = (near(servers, function), show_function(function));
    if let (Some(meant), [link, ..]) = (meant, servers) {
        link.dialer.messages().note(format!("no server knows {name}{meant}"));
    }
}

/// The counts of a function on all servers together; none if no server knows it.
fn status_of_all(
    servers: &mut [&mut Link],
    function: &FunctionName,
) -> Result<Option<FunctionStatus>, CliError> {
    let mut sum: Option<FunctionStatus> = None;
    for status in at_once(servers, |link| status_of(link, function)) {
        let Some(status) = status? else { continue };
        match &mut sum {
            None => sum = Some(status),
            Some(sum) => {
                sum.total = sum.total.saturating_add(status.total);
                sum.running = sum.running.saturating_add(status.running);
                sum.workers = sum.workers.saturating_add(status.workers);
            }
        }
    }
    Ok(sum)
}

/// The values that conditions can name; all 0 for a function that does not exist.
fn values(status: Option<&FunctionStatus>) -> [Count; 4] {
    counts(status).map(|(name, count)| (name, u64::try_from(count).unwrap_or(0)))
}
