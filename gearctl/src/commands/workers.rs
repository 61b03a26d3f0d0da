//! `workers`: the connections of a server and their functions.

use std::collections::HashSet;

use clap::Args;
use ctl_core::context::fleet::Fleet;
use ctl_core::error::{CliError, Exit};
use ctl_core::input::named::{self, One};
use ctl_core::output::{Column, Record, Shape};
use ctl_core::text::spelling::or_else;
use gearman_client::protocol::AdminCommand;
use gearman_client::{FunctionName, FunctionStatus, WorkerInfo};

use crate::link::statuses;
use crate::names::{Function, show_function};
use crate::tool::Tool;

/// The end of `workers --help`.
pub const HELP: &str = "\
Protocol: workers; status, which tells names with spaces apart.
The server lists every connection; clients, including this one, have no functions. It does not report which worker has
which job: --idle shows the workers none of whose functions has a running job, so they are certainly idle. With several
servers, SERVER shows where each row is from.

Examples:
  gearctl workers --function mail -o json
  gearctl workers --idle";

/// Arguments of `workers`.
#[derive(Debug, Args)]
#[command(mut_args(named::described("Only workers of this function")))]
pub struct WorkersArgs {
    #[command(flatten)]
    function: One<Function>,

    /// Only workers that are certainly idle
    #[arg(long)]
    idle: bool,
}

/// Workers and their functions.
static WORKERS: Shape = Shape::rows(
    "id",
    &[
        Column::new("fd", "FD"),
        Column::new("address", "ADDRESS"),
        Column::new("id", "ID"),
        Column::new("functions", "FUNCTIONS").escaped(),
    ],
);

/// Runs `workers`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: WorkersArgs) -> Result<Exit, CliError> {
    let function = args.function.given()?;
    let mut fleet = Fleet::of(tool)?;
    fleet.expect(&mut tool.out, &WORKERS)?;
    let all = fleet.ask(&mut tool.link, |link| {
        let mut workers = link.listing::<WorkerInfo>(&AdminCommand::Workers)?.into_rows();
        let known = statuses(link)?;
        workers.iter_mut().for_each(|worker| join(&mut worker.functions, &known));
        let busy = known.into_iter().filter(|row| row.running != 0).map(|row| row.name);
        Ok((workers, busy.collect::<HashSet<FunctionName>>()))
    })?;
    let mut list = fleet.list(&mut tool.out, &WORKERS)?;
    for (server, (workers, busy)) in &all {
        for worker in workers {
            let has = |function: &FunctionName| worker.functions.contains(function);
            let idle =
                !worker.functions.is_empty() && !worker.functions.iter().any(|f| busy.contains(f));
            if function.as_ref().is_some_and(|function| !has(function)) || args.idle && !idle {
                continue;
            }
            let functions: Vec<String> = worker.functions.iter().map(show_function).collect();
            let record = Record::new()
                .of_server(server.as_deref())
                .with("fd", worker.fd)
                .with("address", worker.address.as_str())
                .with("id", worker.id.as_deref())
                .with("functions", functions);
            list.push(record)?;
        }
    }
    list.finish()?;
    if let Some(function) = &function {
        let served = all.iter().flat_map(|(_, (workers, _))| workers.iter());
        let served: Vec<String> =
            served.flat_map(|worker| worker.functions.iter().map(show_function)).collect();
        let wanted = show_function(function);
        if !served.contains(&wanted) {
            let meant = or_else(&wanted, served.iter().map(String::as_str));
            tool.messages.note(format!("no worker serves {wanted}{meant}"));
        }
    }
    Ok(fleet.exit())
}

/// Joins the words of names that have spaces: `workers` separates names by spaces, `status` does not.
fn join(words: &mut Vec<FunctionName>, known: &[FunctionStatus]) {
    for name in known.iter().map(|row| &row.name) {
        let parts: Vec<&[u8]> = name.as_bytes().split(|byte| *byte == b' ').collect();
        if parts.len() < 2 {
            continue;
        }
        let is_here = |words: &[FunctionName]| {
            words.iter().map(FunctionName::as_bytes).eq(parts.iter().copied())
        };
        while let Some(at) = words.windows(parts.len()).position(is_here) {
            words.splice(at..at + parts.len(), [name.clone()]);
        }
    }
}
