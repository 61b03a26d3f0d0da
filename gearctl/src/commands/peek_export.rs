//! `peek` and `export`: jobs are shown only to workers, so they are taken, shown, and given back.

use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use ctl_core::bulk::{Action, Bulk, Manner, OnError, Rate};
use ctl_core::context::fleet::{Fleet, name_at};
use ctl_core::error::{CliError, Exit};
use ctl_core::input::confirm::Confirm;
use ctl_core::input::named::{One, Several};
use ctl_core::output::records;
use ctl_core::output::{BodiesArgs, Format, List, Record};
use ctl_core::text::units;
use gearman_client::blocking::GrabbedJob;
use gearman_client::{FunctionName, FunctionStatus, JobLimit};

use super::drain::{RECORDS, targets};
use crate::link::status_of;
use crate::link::{Link, next_job, worker};
use crate::names::{Function, show_function, show_handle};
use crate::tool::Tool;

/// The end of `peek --help`.
pub const PEEK_HELP: &str = "\
Protocol: CAN_DO, GRAB_JOB_UNIQ, then close the connection.
A Gearman server shows jobs only to workers. So peek acts as a worker that takes the next jobs, shows them and
disconnects, which makes the server queue them again, behind all others and the last one first: each job's retry count
grows by one (RETRIES of `jobs`), and the server may DROP it. gearmand does that with --job-retries once a job's retries
are used up; since 2026, `--job-retries 0` drops it at once, and no command reports that setting. The client of a
dropped foreground job is told that it failed. Therefore peek asks for confirmation; --yes skips it.
Servers other than gearmand do not queue such jobs again: there, peek says so before, shows whole records on a terminal,
too, and ends with exit code 3 if jobs are missing afterwards. `import` submits the records.
With several servers, each shows its jobs in turn, and records name their server.

Examples:
  gearctl peek mail --yes
  gearctl peek mail --yes -c 10 -o ndjson";

/// The end of `export --help`.
pub const EXPORT_HELP: &str = "\
Protocol: as peek, for all queued jobs of functions.
The jobs are taken, written, and given back together when the connection ends. Until then, no worker gets them; each
job's retry count grows by one, and the server may DROP it, as explained in `peek --help`. Therefore export asks for
confirmation; --yes skips it. Servers other than gearmand do not queue them again; if jobs are missing afterwards, the
exit code is 3. `drain` takes jobs for good and loses none.
Records have the format of drain, which import and submit --ndjson read. The server does not report a job's priority, so
they have none. At most 10,000 jobs or 256 MiB of a function are held at once; if there are more, the exit code is 3.
With several servers, all are exported, and records name their server; one that does not answer is named, and its failure
sets the exit code.

Examples:
  gearctl export mail --yes > mail.ndjson
  gearctl export mail --yes | gearctl -s other import -";

/// Arguments of `peek`.
#[derive(Debug, Args)]
pub struct PeekArgs {
    #[command(flatten)]
    function: One<Function>,

    /// Show up to N jobs
    #[arg(short, long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(1..=1000))]
    count: u64,

    #[command(flatten)]
    bodies: BodiesArgs,
}

/// Arguments of `export`.
#[derive(Debug, Args)]
pub struct ExportArgs {
    #[command(flatten)]
    functions: Several<Function>,

    /// Process at most N items
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    /// Rate limit: N/s, N/m or N/h, evenly spaced
    #[arg(long, value_name = "N/s")]
    rate: Option<Rate>,
}

/// Maximum held at once: number of jobs, and bytes.
const MOST: (u64, usize) = (10_000, 256 << 20);

/// Runs `peek`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn peek(tool: &mut Tool, args: PeekArgs) -> Result<Exit, CliError> {
    let function = args.function.name()?;
    tool.refuse_dry_run("peek", "gearctl functions shows how many jobs there are")?;
    args.bodies.prepare(&mut tool.out, &RECORDS)?;
    let name = show_function(&function);
    let mut fleet = Fleet::of(tool)?;
    let counted = fleet.ask(&mut tool.link, |link| Before::of(link, &function))?;
    let is_lossy = counted.iter().any(|(_, before)| !before.is_gearmand);
    let confirm = tool.confirm().unrehearsed();
    ask(
        tool,
        &confirm,
        &format!("briefly take {} of {name}", units::count(args.count, "job")),
        is_lossy,
    )?;
    if is_lossy && matches!(tool.out.style.format, Format::Table | Format::Wide) {
        // A table shortens bodies, and there may be no other copy.
        tool.out.style.format = Format::Ndjson;
    }
    let action = Action { past: "shown", noun: "job", place: format!("of {name}") };
    let mut bulk = tool.bulk(action, OnError::Stop, None)?;
    let mut list = fleet.list(&mut tool.out, &RECORDS)?.eager();
    let (mut left, mut is_complete) = (args.count, true);
    for (server, before) in &counted {
        let link = fleet.at(&mut tool.link, server.as_deref());
        let of = (&function, server.as_deref());
        let taken = borrow(link, of, left, &mut bulk, &mut list);
        let count = taken.as_ref().map_or(0, |taken| taken.count);
        left = left.saturating_sub(count);
        is_complete &= before.is_back(fleet.at(&mut tool.link, server.as_deref()), of, count)?;
        bulk = bulk.after(taken.map(drop))?;
    }
    if bulk.succeeded() == 0 {
        if let Some(error) = fleet.silent() {
            return Err(error);
        }
        let why = format!("no job of {name} is queued");
        return Err(CliError::not_found(why).hint("gearctl functions, to see where jobs are"));
    }
    list.finish()?;
    let exit = bulk.finish_silently()?;
    let exit = if exit.is_done() { fleet.exit() } else { exit };
    Ok(if exit.is_done() && !is_complete { Exit::Partial } else { exit })
}

/// Runs `export`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn export(tool: &mut Tool, args: ExportArgs) -> Result<Exit, CliError> {
    records::prepare(&mut tool.out, tool.globals.output, records::STDOUT.as_ref(), &RECORDS)?;
    let mut fleet = Fleet::of(tool)?;
    let functions = args.functions.names()?;
    let targets = targets(tool, &mut fleet, &functions)?;
    let queued: u64 = targets.iter().map(|target| target.queued).sum();
    let total = queued.min(args.limit.unwrap_or(u64::MAX));
    let jobs = units::count(total, "job");
    if tool.globals.dry_run {
        let record = Record::new().with("dry_run", true).with("jobs", total);
        return tool.out.done_with(&record, &["jobs"], &format!("would export {jobs}"));
    }
    let before = |link: &mut Link| {
        functions.iter().map(|function| Before::of(link, function)).collect::<Result<Vec<_>, _>>()
    };
    let before: Vec<Before> = match total {
        0 => Vec::new(),
        _ => fleet.ask(&mut tool.link, before)?.into_iter().flat_map(|(_, all)| all).collect(),
    };
    if total > 0 {
        let is_lossy = before.iter().any(|before| !before.is_gearmand);
        let confirm = tool.confirm();
        ask(tool, &confirm, &format!("briefly take {jobs}"), is_lossy)?;
    }
    let action = Action { past: "exported", noun: "job", place: String::new() };
    let manner = Manner { on_error: OnError::Stop, rate: args.rate };
    let mut bulk = tool.bulk(action, manner, Some(total))?;
    let mut list = fleet.list(&mut tool.out, &RECORDS)?.eager();
    bulk.beside(&list);
    let (mut left, mut is_all) = (total, true);
    for (at, target) in targets.iter().enumerate() {
        let most = target.queued.min(left);
        let link = fleet.at(&mut tool.link, target.server.as_deref());
        let of = (&target.function, target.server.as_deref());
        let taken = borrow(link, of, most, &mut bulk, &mut list);
        let taken = match taken {
            Ok(taken) => taken,
            Err(error) => return Err(bulk.abort(error)),
        };
        left = left.saturating_sub(taken.count);
        if let Some(before) = before.get(at) {
            let link = fleet.at(&mut tool.link, target.server.as_deref());
            is_all &= before.is_back(link, of, taken.count)?;
        }
        if taken.is_full {
            is_all = false;
            let name = name_at(show_function(&target.function), target.server.as_deref());
            tool.messages.warn(format!(
                "{name} has more than the {} that can be held at once: drain takes them all",
                units::count(taken.count, "job")
            ));
        }
    }
    list.finish()?;
    let exit = bulk.finish_quietly()?;
    let exit = if exit.is_done() { fleet.exit() } else { exit };
    Ok(if exit.is_done() && !is_all { Exit::Partial } else { exit })
}

fn ask(tool: &mut Tool, confirm: &Confirm, what: &str, is_lossy: bool) -> Result<(), CliError> {
    let address = tool.link.dialer.address()?;
    let which = match is_lossy {
        true => "is not gearmand: such servers lose the jobs of a worker that disconnects",
        false => "may drop jobs whose worker disconnects (gearmand's --job-retries)",
    };
    confirm.many(&format!("{what} from {address}, which {which}"), &tool.messages)?;
    if is_lossy && tool.globals.yes {
        tool.messages.warn(format!("{address} {which}"));
    }
    Ok(())
}

/// A server and the queue of a function, before jobs are taken from it.
struct Before {
    /// Whether the server queues the jobs of a worker that disconnects again, unless they have no retries left.
    is_gearmand: bool,
    queued: i64,
    workers: i64,
}

/// How long the server may take to queue jobs again that it was given back.
const PATIENCE: Duration = Duration::from_secs(2);

impl Before {
    fn of(link: &mut Link, function: &FunctionName) -> Result<Self, CliError> {
        link.client()?;
        let is_gearmand = link.is_gearmand()?;
        let status = status_of(link, function)?;
        let queued = status.as_ref().map_or(0, FunctionStatus::queued);
        Ok(Self { is_gearmand, queued, workers: status.map_or(0, |status| status.workers) })
    }

    /// Whether the jobs that were given back are in the queue again, as far as can be known: with workers of the
    /// function, they may have taken them. If not, says how many are missing.
    fn is_back(
        &self,
        link: &mut Link,
        (function, server): (&FunctionName, Option<&str>),
        taken: u64,
    ) -> Result<bool, CliError> {
        let start = Instant::now();
        let missing = loop {
            let status = status_of(link, function)?;
            let now = status.as_ref().map_or(0, FunctionStatus::queued);
            let missing = u64::try_from(self.queued.saturating_sub(now)).unwrap_or(0).min(taken);
            if missing == 0 || (self.is_gearmand && self.workers > 0) {
                return Ok(true);
            }
            if start.elapsed() >= PATIENCE {
                let is_running = status.is_some_and(|now| now.running > 0);
                if self.is_gearmand && is_running {
                    return Ok(true);
                }
                break missing;
            }
            thread::sleep(LOOK_EVERY);
        };
        let name = name_at(show_function(function), server);
        link.dialer.messages().warn(format!(
            "jobs of {name} that did not come back to the queue: {missing} of {taken}; gearctl import submits what was written"
        ));
        Ok(false)
    }
}

/// How often the queue is looked at meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The jobs that were taken.
struct Borrowed {
    count: u64,
    /// Whether more jobs were left for lack of room.
    is_full: bool,
}

/// Takes up to `most` jobs, writes their records, and gives them back by closing the connection.
fn borrow(
    link: &mut Link,
    (function, server): (&FunctionName, Option<&str>),
    most: u64,
    bulk: &mut Bulk,
    list: &mut List<'_>,
) -> Result<Borrowed, CliError> {
    let mut borrowed = Borrowed { count: 0, is_full: false };
    if most == 0 {
        return Ok(borrowed);
    }
    // Connects like other commands, so that --wait-for-server applies here, too.
    link.client()?;
    let slots = most.min(MOST.0);
    let options = link
        .worker_options()?
        .slots(usize::try_from(slots).unwrap_or(usize::MAX))
        .limit(JobLimit::new(slots));
    let mut worker = worker(options, function)?;
    let (mut held, mut bytes): (Vec<GrabbedJob>, usize) = (Vec::new(), 0);
    let gate = bulk.gate();
    let taken = loop {
        if borrowed.count == most {
            break Ok(());
        }
        if borrowed.count == slots || bytes > MOST.1 {
            borrowed.is_full = true;
            break Ok(());
        }
        if !gate.turn(1) {
            break Ok(());
        }
        let is_over = || {
            bulk.see();
            !gate.is_open()
        };
        let job = match next_job(&mut worker, link.patience(), is_over) {
            Ok(Some(job)) => job,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        borrowed.count += 1;
        bytes = bytes.saturating_add(job.workload.len());
        let written = list.push(record(&job, function).of_server(server));
        held.push(job);
        match written {
            Ok(()) => bulk.success(),
            Err(error) => break Err(error),
        }
    };
    // Closing gives the jobs back; after that, they must not be failed.
    drop(worker);
    drop(held);
    taken.map(|()| borrowed)
}

fn record(job: &GrabbedJob, function: &FunctionName) -> Record {
    super::drain::record(&show_handle(&job.handle), function, &job.unique, &job.workload)
}
