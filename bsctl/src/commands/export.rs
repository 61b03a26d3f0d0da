//! `export`: the jobs of a server as NDJSON records.

use std::ffi::OsString;

use beanstalk_client::protocol::ListTubes;
use bytes::Bytes;
use clap::Args;
use ctl_core::bulk::{Action, Bulk, BulkArgs};
use ctl_core::error::{CliError, Exit};
use ctl_core::named::{self, Several};
use ctl_core::progress::Progress;
use ctl_core::records;

use super::clear::SweepArgs;
use super::drain::drain;
use crate::jobs::{self, JOBS_WITH_BODY};
use crate::names::Tube;
use crate::scan::{Wanted, fetch, find};
use crate::sweep::State;
use crate::tool::Tool;

/// The end of `export --help`.
pub const HELP: &str = "\
Protocol: --scan asks stats-job and peek for every id and changes nothing; --drain is `drain`: it takes the jobs
out of the queue.
One record per line:
  {\"v\":1,\"id\":7,\"tube\":\"mail\",\"state\":\"ready\",\"pri\":1024,\"delay\":0,\"ttr\":60,\"age\":12,\"reserves\":0,
   \"timeouts\":0,\"releases\":0,\"buries\":0,\"kicks\":0,\"body\":\"...\"}
`body_base64` stands in place of `body` when the bytes are not UTF-8. `import` reads the same.
A scan is no snapshot: jobs that come and go meanwhile may be missing or be there twice after an import.

Examples:
  bsctl export > all.ndjson
  bsctl export mail | bsctl -a other:11300 import - --keep-state";

/// Arguments of `export`.
#[derive(Debug, Args)]
#[command(mut_args(named::described("The tubes [default: all]")))]
pub struct ExportArgs {
    #[command(flatten)]
    tubes: Several<Tube>,

    /// Read only (the default)
    #[arg(long, conflicts_with = "drain")]
    scan: bool,

    /// Delete each job after it has been written
    #[arg(long)]
    drain: bool,

    #[command(flatten)]
    bulk: BulkArgs,
}

impl ExportArgs {
    /// Whether jobs are taken out of the queue.
    #[must_use]
    pub fn drains(&self) -> bool {
        self.drain
    }
}

/// Runs `export`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: ExportArgs) -> Result<Exit, CliError> {
    if args.drain {
        let mut tubes = args.tubes.given()?;
        if tubes.is_empty() {
            tubes = tool.link.call(ListTubes)?;
        }
        let state = vec![State::Ready, State::Delayed, State::Buried];
        let sweep = SweepArgs { state, until_empty: false };
        return drain(tool, &tubes, &OsString::from("-"), &sweep, &args.bulk);
    }
    records::prepare(tool, records::STDOUT.as_ref())?;
    let wanted = Wanted { tubes: args.tubes.given()?, ..Wanted::default() };
    let interrupts = tool.interrupts()?;
    let when = tool.globals.progress.unwrap_or_default();
    let asking = Bulk::start(
        Action { past: "asked", noun: "id", place: String::new() },
        args.bulk.on_error,
        None,
        ctl_core::args::ProgressWhen::Never,
        interrupts.clone(),
        &tool.messages,
    );
    let gate = asking.gate();
    let mut progress = Progress::start(when, &tool.messages, "asking ids", None);
    let found = find(&mut tool.link, &wanted, &gate, &mut progress)?;
    progress.finish();
    if let Some(exit) = interrupts.requested() {
        return Ok(exit);
    }
    let mut ids = found.ids;
    if let Some(limit) = args.bulk.limit {
        ids.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    }
    let action = Action { past: "exported", noun: "job", place: String::new() };
    let total = Some(ids.len() as u64);
    let mut bulk = Bulk::start(action, &args.bulk, total, when, interrupts, &tool.messages);
    let mut list = tool.out.list(&JOBS_WITH_BODY)?.eager();
    bulk.beside(&list);
    for chunk in ids.chunks(args.bulk.window()) {
        if !bulk.gate().turn(chunk.len()) {
            break;
        }
        for (stats, body) in fetch(&mut tool.link, chunk, &wanted, true)? {
            match body.unwrap_or_else(|| Ok(Bytes::new())) {
                Ok(body) => {
                    bulk.success();
                    list.push(jobs::record(&stats).with_body(body))?;
                }
                Err(error) => bulk.failure(format!("job {}", stats.id), error)?,
            }
        }
    }
    list.finish()?;
    if found.missing > 0 {
        tool.messages.warn(format!(
            "the server counts {} more that were not found",
            ctl_core::units::count(found.missing, "job")
        ));
    }
    let exit = bulk.finish_quietly()?;
    Ok(if exit.is_done() && found.missing > 0 { Exit::Partial } else { exit })
}
