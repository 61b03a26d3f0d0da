//! `function create`, `function drop`, `function maxqueue`.

use std::ffi::{OsStr, OsString};

use clap::{Args, Subcommand};
use ctl_core::error::{CliError, Exit};
use ctl_core::named::{Leading, One};
use ctl_core::output::Record;
use ctl_core::units;
use gearman_client::protocol::{AdminCommand, AdminReply};
use gearman_client::{FunctionName, MaxQueue};

use super::functions::{no_function, status_of};
use crate::error::cli_error;
use crate::names::{self, Function};
use crate::tool::Tool;

/// The end of `function --help`.
pub const HELP: &str = "\
Protocol: create function, drop function, maxqueue; status to look first.
The server drops a function only without workers and running jobs. Queued jobs of a dropped function are not removed:
they stay on the server's lists and never run. `drop` therefore refuses while there are jobs, unless --force is given.
A limit holds for queued and running jobs together; 0, or no number, is no limit. The server does not report limits.

Examples:
  gearctl function create mail
  gearctl function maxqueue mail 1000
  gearctl function maxqueue mail --high 100 --normal 1000 --low 10
  gearctl function drop mail";

/// Arguments of `function`.
#[derive(Debug, Args)]
pub struct FunctionArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a function known before any worker or job names it
    Create {
        #[command(flatten)]
        name: One<Function>,
    },
    /// Forget a function
    Drop {
        #[command(flatten)]
        name: One<Function>,

        /// Also when it has jobs, which then never run
        #[arg(long)]
        force: bool,
    },
    /// Limit how many jobs a function may have
    Maxqueue {
        #[command(flatten)]
        name: Leading<Function>,

        /// The limit for each priority [default: none]
        #[arg(value_name = "N", conflicts_with_all = ["high", "normal", "low"])]
        limit: Option<OsString>,

        /// The limit for high priority
        #[arg(long, value_name = "N")]
        high: Option<u32>,

        /// The limit for normal priority
        #[arg(long, value_name = "N")]
        normal: Option<u32>,

        /// The limit for low priority
        #[arg(long, value_name = "N")]
        low: Option<u32>,
    },
}

impl FunctionArgs {
    /// Whether what is there stays as it is.
    #[must_use]
    pub fn only_adds(&self) -> bool {
        matches!(self.action, Action::Create { .. })
    }
}

/// Runs `function`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: FunctionArgs) -> Result<Exit, CliError> {
    match args.action {
        Action::Create { name } => {
            let function = name.name()?;
            let sentence = format!("created the function {function}");
            change(
                tool,
                "create",
                &function,
                AdminCommand::CreateFunction(function.clone()),
                sentence,
            )
        }
        Action::Drop { name, force } => drop_function(tool, &name.name()?, force),
        Action::Maxqueue { name, limit, high, normal, low } => {
            let (function, limit) = name.split_one(limit.as_ref())?;
            let limit = limit.as_deref().map(number).transpose()?;
            let size = match (high, normal, low) {
                (None, None, None) => MaxQueue::All(limit.unwrap_or(0)),
                _ => MaxQueue::ByPriority {
                    high: high.unwrap_or(0),
                    normal: normal.unwrap_or(0),
                    low: low.unwrap_or(0),
                },
            };
            maxqueue(tool, &function, size)
        }
    }
}

fn number(word: &OsStr) -> Result<u32, CliError> {
    let number = word.to_str().and_then(|text| text.parse().ok());
    number.ok_or_else(|| {
        CliError::usage(format!("`{}` is not a limit", word.to_string_lossy()))
            .hint("a whole number of jobs; 0 for none")
    })
}

fn drop_function(tool: &mut Tool, function: &FunctionName, force: bool) -> Result<Exit, CliError> {
    let status = status_of(&mut tool.link, function)?.ok_or_else(|| no_function(function))?;
    if status.total > 0 && !force {
        let jobs = units::count(status.total.unsigned_abs(), "job");
        return Err(CliError::new(
            Exit::Negative,
            "FUNCTION_IN_USE",
            format!("the function {function} has {jobs}, which would never run"),
        )
        .hint("--force drops it all the same"));
    }
    let sentence = format!("dropped the function {function}");
    change(tool, "drop", function, AdminCommand::DropFunction(function.clone()), sentence)
}

fn maxqueue(tool: &mut Tool, function: &FunctionName, size: MaxQueue) -> Result<Exit, CliError> {
    // The server answers OK for a function that it does not know, and does nothing.
    if status_of(&mut tool.link, function)?.is_none() {
        return Err(no_function(function)
            .hint(format!("gearctl function create {function}, to limit it before it is used")));
    }
    let text = match size {
        MaxQueue::All(0) => "without a limit".to_owned(),
        MaxQueue::All(limit) => format!("limited to {limit} for each priority"),
        MaxQueue::ByPriority { high, normal, low } => {
            format!("limited to high {high}, normal {normal}, low {low} (0 is no limit)")
        }
    };
    let sentence = format!("the function {function} is {text}");
    change(tool, "maxqueue", function, AdminCommand::MaxQueue(function.clone(), size), sentence)
}

fn change(
    tool: &mut Tool,
    action: &'static str,
    function: &FunctionName,
    command: AdminCommand,
    sentence: String,
) -> Result<Exit, CliError> {
    let record =
        Record::new().with("action", action).with("function", names::show_function(function));
    if tool.globals.dry_run {
        let record = record.with("dry_run", true);
        let sentence = format!("would do: {action} function {function}");
        return tool.out.done_with(&record, &["function"], &sentence);
    }
    tool.link.admin(&command).and_then(|reply: AdminReply| reply.ok().map_err(cli_error))?;
    tool.out.done_with(&record, &["function"], &sentence)
}
