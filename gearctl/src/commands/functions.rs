//! `functions`: the functions of a server with the number of jobs and workers of each.

use std::collections::HashMap;

use clap::Args;
use ctl_core::context::fleet::Fleet;
use ctl_core::error::{CliError, Exit};
use ctl_core::input::glob::{is_wanted, tell_unmatched};
use ctl_core::input::named::{self, Several};
use ctl_core::output::messages::Messages;
use ctl_core::output::{Column, Format, Record, Shape};
use gearman_client::protocol::AdminCommand;
use gearman_client::{FunctionName, FunctionPriorities, FunctionStatus};

use crate::link::{Answer, Link, counts, or_near, statuses};
use crate::names::{Function, show_function};
use crate::tool::Tool;

/// The end of `functions --help`.
pub const HELP: &str = "\
Protocol: status; prioritystatus for the columns HIGH NORMAL LOW (-o wide, json, ndjson, yaml), where supported.
QUEUED is TOTAL minus RUNNING. It includes jobs scheduled for later, and jobs that were cancelled or whose submitter
disconnected, until a worker asks for work: `gearctl jobs` shows those as ignored. WORKERS counts registrations. With
several servers, SERVER shows where each row is from.
Bytes of names that are no printable text are shown as \\xHH, and \\\\ is a backslash in front of such; every command takes
names in this form.
A count below zero is a counter that wrapped around in the server.

Examples:
  gearctl functions --interval 10s
  gearctl functions 'mail*' -o wide
  gearctl functions -o name";

/// Arguments of `functions`.
#[derive(Debug, Args)]
#[command(mut_args(|arg| named::pattern(arg, "Only functions matching one of these patterns (* and ?)")))]
pub struct FunctionsArgs {
    #[command(flatten)]
    patterns: Several<Function>,
}

/// Functions with their counts.
static FUNCTIONS: Shape = Shape::rows(
    "queue",
    &[
        Column::new("queue", "FUNCTION").escaped(),
        Column::new("total", "TOTAL"),
        Column::new("queued", "QUEUED"),
        Column::new("running", "RUNNING"),
        Column::new("workers", "WORKERS"),
        Column::wide("high", "HIGH"),
        Column::wide("normal", "NORMAL"),
        Column::wide("low", "LOW"),
    ],
);

/// Runs `functions`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: FunctionsArgs) -> Result<Exit, CliError> {
    let style = &tool.out.style;
    let few = matches!(style.format, Format::Table | Format::Plain | Format::Name)
        && style.columns.is_none()
        && style.sort_by.is_none();
    let patterns = args.patterns.texts();
    let mut fleet = Fleet::of(tool)?;
    fleet.expect(&mut tool.out, &FUNCTIONS)?;
    let messages = tool.messages.clone();
    let all = fleet.ask(&mut tool.link, |link| {
        let mut functions = statuses(link)?;
        let names: Vec<String> =
            functions.iter().map(|function| show_function(&function.name)).collect();
        functions.retain(|function| is_wanted(&show_function(&function.name), &patterns));
        functions.sort_by(|a, b| a.name.cmp(&b.name));
        let priorities = if few { HashMap::new() } else { known_priorities(link, &messages)? };
        Ok((names, functions, priorities))
    })?;
    let rows = all.iter().flat_map(|(server, (_, functions, priorities))| {
        functions.iter().map(move |function| {
            let priority = priorities.get(&function.name);
            let record = Record::new()
                .of_server(server.as_deref())
                .with("queue", show_function(&function.name));
            let add = |record: Record, (name, count)| record.with(name, count);
            counts(Some(function))
                .into_iter()
                .fold(record, add)
                .with("high", priority.map(|row| row.high))
                .with("normal", priority.map(|row| row.normal))
                .with("low", priority.map(|row| row.low))
        })
    });
    fleet.list(&mut tool.out, &FUNCTIONS)?.all(rows)?;
    let names = all.iter().flat_map(|(_, (names, ..))| names.iter().map(String::as_str));
    tell_unmatched(&messages, "functions", &patterns, names);
    Ok(fleet.exit())
}

fn known_priorities(link: &mut Link, messages: &Messages) -> Result<Priorities, CliError> {
    let answer = priorities(link)?;
    if let Answer::Silent(error) = &answer {
        messages.warn(format!("{}, so HIGH, NORMAL and LOW are not known", error.message));
    }
    Ok(answer.came().unwrap_or_default())
}

/// The number of workers: of registrations, as in the counts of a function, so that one that serves three functions
/// counts three times.
pub fn workers(functions: &[FunctionStatus]) -> i64 {
    functions.iter().map(|function| function.workers).sum()
}

/// Queued jobs of each function, by priority.
pub(super) type Priorities = HashMap<FunctionName, FunctionPriorities>;

/// Queued jobs by priority, if the server reports them.
///
/// # Errors
/// The failure of the connection.
pub(super) fn priorities(link: &mut Link) -> Result<Answer<Priorities>, CliError> {
    link.probe_listing::<FunctionPriorities>(&AdminCommand::PriorityStatus)?
        .and_then(|rows| Ok(rows.into_iter().map(|row| (row.name.clone(), row)).collect()))
}

/// What completes a message about a function that none of these servers knows, if one is probably meant.
pub(super) fn near(servers: &mut [&mut Link], function: &FunctionName) -> Option<String> {
    let mut meant = servers.iter_mut().map(|link| or_near(link, function));
    meant.find(|meant| !meant.is_empty())
}

/// The error for a function that none of these servers knows.
pub fn no_function(function: &FunctionName, servers: &mut [&mut Link]) -> CliError {
    let (name, meant) = (show_function(function), near(servers, function).unwrap_or_default());
    CliError::not_found(format!("the server does not know the function {name}{meant}"))
        .hint("gearctl functions, to list those that it knows")
}
