//! `import`: puts the records that `export` and `drain` wrote, or the jobs in a log of beanstalkd.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use beanstalk_client::{Inserted, JobId, Priority, TubeName};
use clap::{Args, ValueHint};
use ctl_core::bulk::{Action, Bulk, BulkArgs};
use ctl_core::error::{CliError, Exit};
use ctl_core::input::Argument;
use ctl_core::input::intake::{self, Batches, Cut, Items};
use ctl_core::output::progress::Meter;

use crate::jobs::binlog::Binlog;
use crate::jobs::hidden::{Hidden, bury};
use crate::jobs::{self, Described};
use crate::link::Link;
use crate::names;
use crate::producer::{Defaults, NewJob, after_refusals, check_size, max_job_size, put_batch};
use crate::tool::Tool;

/// The end of `import --help`.
pub const HELP: &str = "\
Protocol: use TUBE and put; for buried jobs pause-tube TUBE, reserve-job ID and bury ID PRI (server 1.12 or later).
Jobs get new ids and keep tube, priority, time to run and body. Without --keep-state, every job becomes ready at
once. With it, delayed jobs wait for their whole delay again, and buried jobs are buried again: each is put, reserved by id
and buried while its tube is paused briefly, so that no worker can take it in between. Jobs that were reserved become
ready. Counters start at 0.
--binlog reads the log of a beanstalkd (-b, versions 5 and 7) that does not run, or runs elsewhere, and changes nothing
there: jobs that were not deleted, by id, and buried ones in the order in which they were buried. A damaged file is read
up to the damage, which is named; the exit code is then 3.

Examples:
  bsctl import all.ndjson --keep-state
  bsctl import --binlog /var/lib/beanstalkd --keep-state
  bsctl export mail | bsctl import - --tube mail-copy";

/// Arguments of `import`.
#[derive(Debug, Args)]
pub struct ImportArgs {
    /// File of records, or - for stdin
    #[arg(value_name = "FILE|-", default_value = "-")]
    from: OsString,

    /// Read a beanstalkd binlog from this directory (its -b) instead
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath, conflicts_with = "from")]
    binlog: Option<PathBuf>,

    /// Put all jobs into this tube
    #[arg(short, long, value_name = "TUBE")]
    tube: Option<String>,

    /// Restore delayed and buried states
    #[arg(long)]
    keep_state: bool,

    #[command(flatten)]
    bulk: BulkArgs,
}

/// A job to put, and whether to bury it afterwards.
struct Incoming {
    job: NewJob,
    bury: Option<Priority>,
}

/// Runs `import`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: ImportArgs) -> Result<Exit, CliError> {
    let tube = args.tube.as_deref().map(names::tube).transpose()?;
    if args.from == "-" && args.binlog.is_none() {
        tool.input.invite("records", &tool.messages);
    }
    let limit = if tool.globals.dry_run { u64::MAX } else { max_job_size(&mut tool.link)? };
    if args.keep_state && !tool.globals.dry_run && !tool.link.side().knows_reserve_job()? {
        let why = "--keep-state needs reserve-job, which this server does not have (1.12 or later)";
        return Err(CliError::new(Exit::Protocol, "UNSUPPORTED", why)
            .hint("without --keep-state all jobs become ready"));
    }
    let (jobs, meter): (Items<(String, Described)>, _) = match &args.binlog {
        Some(folder) => (Binlog::read(folder)?.jobs(), None),
        None => {
            let from = Argument::Read(args.from);
            let named = |name: &str, line: Vec<u8>| Ok((name.to_owned(), jobs::parse(&line)?));
            let input = (&mut tool.input, &tool.messages);
            intake::chain(vec![from], Cut::Ndjson, limit, input, named)?
        }
    };
    let keep_state = args.keep_state;
    let items = jobs.map(move |job| {
        let (name, job) = job?;
        let item = incoming(job, tube.as_ref(), keep_state, name.clone());
        check_size(&item.job, limit).map(|()| item).map_err(|error| (name, error))
    });
    let items = intake::take(Box::new(items), args.bulk.items.count);
    if tool.globals.dry_run {
        return intake::would(&mut tool.out, items, ("put", "job", ""));
    }
    let weigh = |item: &Incoming| item.job.body.len();
    let batches = Batches::of(items, false, limit, args.bulk.window(), weigh)?;
    import(tool, (batches, meter), &args.bulk)
}

fn incoming(job: Described, tube: Option<&TubeName>, keep_state: bool, label: String) -> Incoming {
    let state = if keep_state { job.state.as_deref() } else { None };
    let buried = state == Some("buried");
    // The delay of a buried job is only the one that it was put with.
    let delay = if matches!(state, Some("delayed" | "buried")) { job.delay } else { None };
    let defaults = Defaults {
        tube: TubeName::default(),
        pri: Priority::default().get(),
        delay: Duration::ZERO,
        ttr: Duration::from_secs(60),
    };
    let pri = job.pri.map_or(Priority::default(), Priority::from);
    let job = Described { tube: tube.cloned().or(job.tube), delay, ..job };
    Incoming { job: job.to_put(&defaults, label), bury: buried.then_some(pri) }
}

fn import(
    tool: &mut Tool,
    (batches, meter): (Batches<Incoming>, Option<Meter>),
    args: &BulkArgs,
) -> Result<Exit, CliError> {
    let interrupts = tool.interrupts()?;
    let action = Action { past: "imported", noun: "job", place: String::new() };
    let mut bulk = tool.bulk(action, &args.items, None)?;
    bulk.measure(meter);
    let mut buried = 0_u64;
    let imported = batches.each(&mut bulk, &interrupts, |bulk, good| {
        let (good, bury): (Vec<_>, Vec<_>) =
            good.into_iter().map(|item| (item.job, item.bury)).unzip();
        buried += put_batch_again(tool.link.side(), &good, &bury, bulk)?;
        Ok(())
    });
    let exit = bulk.after(imported)?.finish(&mut tool.out)?;
    Ok(after_refusals(&tool.messages, buried, exit))
}

/// Puts a batch, then buries the jobs that were buried before; returns the number of jobs that the server buried for
/// lack of memory.
fn put_batch_again(
    link: &mut Link,
    jobs: &[NewJob],
    bury: &[Option<Priority>],
    bulk: &mut Bulk,
) -> Result<u64, CliError> {
    let mut tubes: Vec<TubeName> = jobs
        .iter()
        .zip(bury)
        .filter(|(_, wish)| wish.is_some())
        .map(|(job, _)| job.tube.clone())
        .collect();
    tubes.sort();
    tubes.dedup();
    let hidden = Hidden::pause(link, tubes)?;
    let refused = put_and_bury(link, jobs, bury, bulk);
    // Also after a failure, because workers wait for these tubes.
    let ended = hidden.end(link);
    refused.and_then(|refused| ended.map(|()| refused))
}

fn not_buried() -> CliError {
    let why = "it was put, but the connection failed before it could be buried: it is ready";
    CliError::new(Exit::Negative, "NOT_BURIED", why)
}

fn put_and_bury(
    link: &mut Link,
    jobs: &[NewJob],
    bury: &[Option<Priority>],
    bulk: &mut Bulk,
) -> Result<u64, CliError> {
    let mut to_bury = Vec::new();
    let mut wishes = bury.iter();
    let mut refused = 0;
    put_batch(link, jobs, |job, outcome| {
        let wish = wishes.next().copied().flatten();
        match (outcome, wish) {
            (Ok(Inserted::Ready(id)), Some(priority)) => to_bury.push(((), id, priority)),
            (Ok(inserted), _) => {
                refused += u64::from(inserted.is_buried() && wish.is_none());
                bulk.success();
            }
            (Err(error), _) => bulk.unsent(job.label.clone(), error),
        }
        Ok(())
    })?;
    if bulk.is_broken() {
        for ((), id, _) in to_bury {
            bulk.failure(format!("job {id}"), not_buried())?;
        }
        return Ok(refused);
    }
    bury_new(link, to_bury, bulk)?;
    Ok(refused)
}

/// Buries jobs that were put. If the connection fails, each one that is not buried is counted.
fn bury_new(
    link: &mut Link,
    jobs: Vec<((), JobId, Priority)>,
    bulk: &mut Bulk,
) -> Result<(), CliError> {
    let mut lost = None;
    for ((), id, outcome) in bury(link, jobs) {
        let error = match outcome {
            Ok(true) => {
                bulk.success();
                continue;
            }
            Ok(false) => CliError::not_found("another client took it before it could be buried"),
            Err(error) if error.ends_everything() => {
                lost.get_or_insert(error);
                not_buried()
            }
            Err(error) => error,
        };
        bulk.failure(format!("job {id}"), error)?;
    }
    lost.map_or(Ok(()), Err)
}
