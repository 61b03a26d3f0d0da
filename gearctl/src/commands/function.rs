//! `function create`, `function drop`, `function maxqueue`.

use std::ffi::{OsStr, OsString};

use clap::{Args, Subcommand};
use ctl_core::context::fleet::Fleet;
use ctl_core::error::{CliError, Exit};
use ctl_core::input::named::{Leading, One};
use ctl_core::output::Record;
use ctl_core::text::units;
use gearman_client::protocol::AdminCommand;
use gearman_client::{FunctionName, MaxQueue};

use super::functions::no_function;
use crate::error::cli_error;
use crate::link::{Link, status_of};
use crate::names::{self, Function};
use crate::tool::Tool;

/// The end of `function --help`.
pub const HELP: &str = "\
Protocol: create function, drop function, maxqueue; status first, to check.
These are commands of the text protocol: they take only names of visible ASCII characters without spaces.
The server drops a function only if it has no workers and no running jobs. Queued jobs of a dropped function are not
removed: they stay listed and never run. `drop` therefore refuses while there are jobs, unless --force is given.
A limit applies to queued and running jobs together; 0, or no number, means no limit. The server does not report limits.
With several servers, all are updated (drop and maxqueue: those that know the function); one that fails is named, and
its failure sets the exit code.

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
    /// Register a function before any worker or job uses it
    Create(One<Function>),
    /// Remove a function
    Drop {
        #[command(flatten)]
        name: One<Function>,

        /// Drop it even if it has jobs, which then never run
        #[arg(long)]
        force: bool,
    },
    /// Limit the number of jobs of a function
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
    /// Whether existing jobs and workers stay as they are.
    pub fn only_adds(&self) -> bool {
        matches!(self.action, Action::Create(_))
    }
}

/// Runs `function`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: FunctionArgs) -> Result<Exit, CliError> {
    match args.action {
        Action::Create(name) => {
            let function = name.name()?;
            let sentence = format!("created the function {function}");
            let command = AdminCommand::CreateFunction(function.clone());
            change(tool, ("create", &function), &command, sentence, |_| Ok(true))
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
    let sentence = format!("dropped the function {function}");
    let command = AdminCommand::DropFunction(function.clone());
    change(tool, ("drop", function), &command, sentence, |link| {
        let Some(status) = status_of(link, function)? else { return Ok(false) };
        if status.total > 0 && !force {
            let jobs = units::count(status.total.unsigned_abs(), "job");
            let why = format!("the function {function} has {jobs}, which would never run");
            return Err(CliError::new(Exit::Negative, "FUNCTION_IN_USE", why)
                .hint("--force, to drop it anyway"));
        }
        Ok(true)
    })
}

fn maxqueue(tool: &mut Tool, function: &FunctionName, size: MaxQueue) -> Result<Exit, CliError> {
    let text = match size {
        MaxQueue::All(0) => "without a limit".to_owned(),
        MaxQueue::All(limit) => format!("limited to {limit} for each priority"),
        MaxQueue::ByPriority { high, normal, low } => {
            format!("limited to high {high}, normal {normal}, low {low} (0 is no limit)")
        }
    };
    let sentence = format!("the function {function} is {text}");
    let command = AdminCommand::MaxQueue(function.clone(), size);
    // For an unknown function, the server answers OK and does nothing.
    let is_known = |link: &mut Link| Ok(status_of(link, function)?.is_some());
    let create = || format!("gearctl function create {function}, to limit it before it is used");
    let changed = change(tool, ("maxqueue", function), &command, sentence, is_known);
    changed.map_err(|error| match error.exit {
        Exit::Negative => error.hint(create()),
        _ => error,
    })
}

/// Sends a change of a function to every server that `knows` it; the sentence says what was done.
fn change(
    tool: &mut Tool,
    (action, function): (&'static str, &FunctionName),
    command: &AdminCommand,
    sentence: String,
    knows: impl Fn(&mut Link) -> Result<bool, CliError> + Sync,
) -> Result<Exit, CliError> {
    let dry_run = tool.globals.dry_run;
    // The server would take its words apart.
    if !function.is_plain() {
        return Err(CliError::bad_data(format!(
            "the function {} cannot be part of a text command: only 1 or more visible ASCII characters without \
             spaces can",
            names::show_function(function)
        )));
    }
    let mut fleet = Fleet::of(tool)?;
    let told = fleet.ask(&mut tool.link, |link| {
        let knows = knows(link)?;
        if knows && !dry_run {
            let told = link.admin(command).and_then(|reply| reply.ok().map_err(cli_error));
            told.map_err(|error| error.about("FUNCTION", function))?;
        }
        Ok(knows)
    })?;
    let told: Vec<Option<String>> =
        told.into_iter().filter(|(_, knows)| *knows).map(|(server, _)| server).collect();
    if told.is_empty() {
        return Err(fleet.silent().unwrap_or_else(|| no_function(function, &mut [&mut tool.link])));
    }
    let servers: Vec<String> = told.into_iter().flatten().collect();
    let mut sentence = match dry_run {
        true => format!("would run: {action} function {function}"),
        false => sentence,
    };
    let name = names::show_function(function);
    let mut record = Record::new().with("action", action).with("function", name);
    if dry_run {
        record = record.with("dry_run", true);
    }
    if !servers.is_empty() {
        sentence.push_str(&format!(" on {}", servers.join(", ")));
        record = record.with("servers", servers);
    }
    let exit = tool.out.done_with(&record, &["function"], &sentence)?;
    Ok(if exit.is_done() { fleet.exit() } else { exit })
}
