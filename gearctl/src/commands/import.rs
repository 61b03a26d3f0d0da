//! `import`: submit the records that `export` and `drain` wrote.

use std::ffi::OsString;

use clap::Args;
use ctl_core::bulk::Action;
use ctl_core::error::{CliError, Exit};
use ctl_core::input::intake;
use gearman_client::{FunctionName, Priority};

use super::submit::{SUBMITTED, Submission, clients, submit_all};
use crate::names::{self, show_function};
use crate::submit::merged::Guard;
use crate::submit::tasks::{self, PaceArgs};
use crate::tool::Tool;

/// The end of `import --help`.
pub const HELP: &str = "\
Protocol: SUBMIT_JOB_BG, SUBMIT_JOB_HIGH_BG, SUBMIT_JOB_LOW_BG.
Jobs are submitted as background jobs and get new handles; no client waits for their results. They keep function, unique
id and workload; a record's own priority applies if it has one (records of export and drain have none), else
--priority. The server merges records with the same function and unique id, also with jobs that it already has.

Examples:
  gearctl import mail.ndjson --priority low
  gearctl drain mail --yes | gearctl -s other import -";

/// Arguments of `import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// File of records, or - for stdin
    #[arg(value_name = "FILE|-", default_value = "-")]
    from: OsString,

    /// Submit all jobs to this function
    #[arg(short, long, value_name = "FUNCTION")]
    function: Option<String>,

    /// high, normal or low
    #[arg(short, long, alias = "pri", value_name = "PRIORITY", default_value = "normal")]
    priority: Priority,

    #[command(flatten)]
    pace: PaceArgs,
}

/// Runs `import`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: ImportArgs) -> Result<Exit, CliError> {
    tool.out.expect(&SUBMITTED)?;
    let function = args.function.as_deref().map(names::function).transpose()?;
    let again = again(function.as_ref());
    if args.from == "-" {
        tool.input.invite("records", &tool.messages);
    }
    let input = (&mut tool.input, &tool.messages);
    let tasks = tasks::records(args.from, function, args.priority, input)?;
    let tasks = intake::take(tasks, args.pace.items.count);
    if tool.globals.dry_run {
        return intake::would(&mut tool.out, tasks, ("import", "job", ""));
    }
    let clients = clients(tool, args.pace.jobs)?;
    let action = Action { past: "imported", noun: "job", place: String::new() };
    let guard = Guard::new(&mut tool.link, &tool.messages)?.advising(again);
    let submission = Submission { tasks, at: None, is_single: false, guard };
    submit_all(tool, clients, submission, action, &args.pace.items)
}

/// Advice about records whose jobs are merged with others that never run.
fn again(function: Option<&FunctionName>) -> String {
    let mut import = "gearctl import -".to_owned();
    if let Some(function) = function {
        import.push_str(&format!(" --function {}", show_function(function)));
    }
    format!("jq -c 'del(.unique, .unique_base64)' FILE | {import}, to submit the jobs with new ids")
}
