//! `map`: a job for every line, a line for every result.

use clap::Args;
use ctl_core::bulk::Action;
use ctl_core::error::{CliError, Exit};
use ctl_core::input::intake::would;
use ctl_core::output::{Column, Format, Record, Shape};
use gearman_client::JobEvent;

use super::submit::connect;
use crate::submit::merged::Guard;
use crate::submit::pool::{Kind, Pool, What};
use crate::submit::results::{Open, ResultArgs, Results};
use crate::submit::tasks::TaskArgs;
use crate::tool::Tool;

/// The end of `map --help`.
pub const HELP: &str = "\
Protocol: SUBMIT_JOB for every line.
One line in, one line out, like xargs: results are printed as they arrive, or in the order of the lines with
--ordered. A result's trailing line ending is dropped, and TABs, line endings and backslashes are escaped, so each result is one
line. -o ndjson prints a record for each job, including failed ones. The exit code is 3 if some jobs failed, 1 if all
did. A result larger than --max-result counts as a failure. With --ordered, results are buffered up to that size, and
anything beyond it waits at the server.

Examples:
  gearctl map resize -j 8 < files
  gearctl map geocode -j 4 --ordered -o ndjson < addresses";

/// Arguments of `map`.
#[derive(Debug, Args)]
pub struct MapArgs {
    #[command(flatten)]
    task: TaskArgs,

    #[command(flatten)]
    results: ResultArgs,
}

static RESULTS: Shape = Shape::rows(
    "body",
    &[
        Column::on_request("n", "N"),
        Column::on_request("handle", "HANDLE"),
        Column::on_request("ok", "OK"),
        Column::new("body", "RESULT"),
    ],
);

/// Runs `map`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, mut args: MapArgs) -> Result<Exit, CliError> {
    // Lines, unless other framing was requested.
    args.task.lines = !(args.task.null || args.task.ndjson);
    let wanted = args.task.read()?;
    let tasks = wanted.tasks((&mut tool.input, &tool.messages), tool.link.dialer.timeout())?;
    if tool.globals.dry_run {
        return would(&mut tool.out, tasks, ("map", "job", ""));
    }
    tool.out.expect(&RESULTS)?;
    let clients = connect(tool, &wanted)?;
    let interrupts = tool.interrupts()?;
    let action = Action { past: "mapped", noun: "job", place: String::new() };
    let mut bulk = tool.bulk(action, &wanted.args.pace.items, None)?;
    let (most, kept) = (args.results.most(), args.results.kept_in_order());
    let guard = Guard::new(&mut tool.link, &tool.messages)?;
    let mut pool =
        Pool::start(clients, tasks, Kind::Foreground { since: None }, kept, (&bulk.gate(), guard))?;
    if tool.out.style.format == Format::Table && tool.globals.output.is_none() {
        // One line in, one line out, even on a terminal.
        tool.out.style.format = Format::Plain;
    }
    let is_several = tool.link.is_several();
    let mut list = tool.out.list(&RESULTS)?;
    bulk.beside(&list);
    let structured = tool.globals.output.is_some_and(Format::has_records);
    let (keeps, mut results) = (!list.streams(), Results::default());
    loop {
        let news = match pool.next(&interrupts) {
            Ok(Some(news)) => news,
            Ok(None) => break,
            Err(error) => return Err(bulk.abort(error)),
        };
        if results.is_given_up(&news) {
            continue;
        }
        let (number, is_last) = (news.job, news.is_last());
        let was_taken = !matches!(news.what, What::Error(_));
        let failure = match news.what {
            What::Taken(handle, unique, _) => {
                results.begin(number, &handle, unique.as_ref(), is_several);
                continue;
            }
            What::Event(JobEvent::Data(bytes)) => match results.add(number, &bytes, most) {
                None => continue,
                large => large,
            },
            What::Event(JobEvent::Complete(bytes)) => results.add(number, &bytes, most),
            What::Event(JobEvent::Fail) => Some(results.failed(number, None)),
            What::Event(JobEvent::Exception(said)) => Some(results.failed(number, Some(&said))),
            What::Event(_) => continue,
            What::Error(error) => Some(error),
        };
        let mut open = results.give_up(number, is_last);
        let failure = match failure {
            None if keeps => results.count(&mut open, most),
            failure => failure,
        };
        let ok = failure.is_none();
        let counted = bulk.count(news.label, failure.map_or(Ok(()), Err));
        bulk = bulk.after(counted)?;
        // A job that failed has no line, only a record.
        if ok || structured && was_taken {
            list.push(record(number, open, ok))?;
            list.flush()?;
        }
    }
    let exit = bulk.finish_silently()?;
    list.finish()?;
    Ok(exit)
}

fn record(number: u64, open: Open, ok: bool) -> Record {
    let mut body = open.data;
    if body.last() == Some(&b'\n') {
        body.pop();
    }
    let record = Record::new().with("n", number).with("handle", open.handle);
    record.with("ok", ok).with_body(body)
}
