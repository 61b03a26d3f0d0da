//! `peek` and `export`: jobs are shown only to workers, so they are taken, shown, and given back.

use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use ctl_core::bulk::{Action, Bulk, Manner, OnError, Rate};
use ctl_core::context::fleet::Fleet;
use ctl_core::error::{CliError, Exit};
use ctl_core::input::confirm::Confirm;
use ctl_core::input::named::{One, Several};
use ctl_core::output::{BodiesArgs, Format, List, Record, records};
use ctl_core::rules::filter::{self, FilterArgs, Filters};
use ctl_core::text::units;
use gearman_client::{FunctionStatus, JobLimit};

use super::drain::{RECORDS, Target, targets};
use super::held::{Held, MOST, PATIENCE};
use crate::filters::{Candidate, FILTER};
use crate::link::{Link, next_job, status_of};
use crate::names::{Function, show_function, show_handle};
use crate::submit::tasks::record;
use crate::tool::Tool;

/// The end of `peek --help`.
pub const PEEK_HELP: &str = "\
Protocol: CAN_DO, GRAB_JOB_UNIQ, then close the connection.
A Gearman server shows jobs only to workers. So peek acts as a worker that takes the next jobs, shows them and
disconnects, which makes the server queue them again, in their order but behind all others: each job's retry count grows
by one (RETRIES of `jobs`), and the server may DROP it. gearmand does that with --job-retries once a job's retries
are used up; since 2026, `--job-retries 0` drops it at once, and no command reports that setting. The client of a
dropped foreground job is told that it failed. Therefore peek asks for confirmation; --yes skips it.
Servers other than gearmand do not queue such jobs again: there, peek says so before, shows whole records on a terminal,
too, and ends with exit code 3 if jobs are missing afterwards. `import` submits the records.

Examples:
  gearctl peek mail --yes
  gearctl peek mail --yes -c 10 -o ndjson";

/// The end of `export --help`.
pub const EXPORT_HELP: &str = "\
Protocol: as peek, for all queued jobs of functions.
The jobs are taken, written, and given back in their order (exactly if there are at most 256, each on a connection of its
own). Until then, no worker gets them; each job's retry count grows by one, and the server may DROP it, as explained in
`peek --help`. Therefore export asks for confirmation; --yes skips it. Servers other than gearmand do not queue them again; if jobs are missing afterwards, the
exit code is 3. `drain` takes jobs for good and loses none.
Records have the format of drain, which import and submit --ndjson read. The server does not report a job's priority, so
they have none. At most 10,000 jobs or 256 MiB of a function are held at once; if there are more, the exit code is 3.
With filters, all jobs are taken, but only those that match are written, at most --count.
Filters: see `gearctl help filters`.

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
#[command(mut_args(filter::described(FILTER)))]
pub struct ExportArgs {
    #[command(flatten)]
    functions: Several<Function>,

    #[command(flatten)]
    filter: FilterArgs,

    /// Process at most N items
    #[arg(short, long, alias = "limit", value_name = "N")]
    count: Option<u64>,

    /// Rate limit: N/s, N/m or N/h, evenly spaced
    #[arg(long, value_name = "N/s")]
    rate: Option<Rate>,
}

/// Runs `peek`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn peek(tool: &mut Tool, args: PeekArgs) -> Result<Exit, CliError> {
    let function = args.function.name()?;
    tool.refuse_dry_run("peek", LOOK)?;
    args.bodies.prepare(&mut tool.out, &RECORDS)?;
    let name = show_function(&function);
    let mut fleet = Fleet::of(tool)?;
    let sources = targets(tool, &mut fleet, &[function])?;
    let confirm = tool.confirm().unrehearsed();
    let what = format!("briefly take {} of {name}", units::count(args.count, "job"));
    let is_lossy = ask(tool, &mut fleet, &what, &sources, &confirm)?;
    if is_lossy && matches!(tool.out.style.format, Format::Table | Format::Wide) {
        // A table shortens bodies, and there may be no other copy.
        tool.out.style.format = Format::Ndjson;
    }
    let action = Action { past: "shown", noun: "job", place: format!("of {name}") };
    let bulk = tool.bulk(action, OnError::Stop, None)?;
    // A worker's function exists on gearmand from then on.
    let there = sources.iter().filter(|source| source.queued > 0);
    let jobs = there.map(|source| (source, args.count));
    let (bulk, is_all) = lend(tool, &mut fleet, jobs, (args.count, &Filters::default()), bulk)?;
    if bulk.succeeded() == 0 {
        if let Some(error) = fleet.silent() {
            return Err(error);
        }
        let why = format!("no job of {name} is queued");
        return Err(CliError::not_found(why).hint("gearctl functions, to see where jobs are"));
    }
    Ok(ended(&fleet, bulk.finish_silently()?, is_all))
}

/// Runs `export`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn export(tool: &mut Tool, args: ExportArgs) -> Result<Exit, CliError> {
    records::prepare(&mut tool.out, tool.globals.output, records::STDOUT.as_ref(), &RECORDS)?;
    let filters = args.filter.read::<Candidate<'_>>()?;
    if !filters.is_empty() {
        tool.refuse_dry_run("export --filter", LOOK)?;
    }
    let mut fleet = Fleet::of(tool)?;
    let sources = targets(tool, &mut fleet, &args.functions.names()?)?;
    let total =
        sources.iter().map(|source| source.queued).sum::<u64>().min(args.count.unwrap_or(u64::MAX));
    let jobs = units::count(total, "job");
    if tool.globals.dry_run {
        let record = Record::new().with("dry_run", true).with("jobs", total);
        return tool.out.done_with(&record, &["jobs"], &format!("would export {jobs}"));
    }
    if total > 0 {
        let confirm = tool.confirm();
        let jobs = if filters.is_empty() { jobs } else { "all jobs".to_owned() };
        ask(tool, &mut fleet, &format!("briefly take {jobs}"), &sources, &confirm)?;
    }
    let action = Action { past: "exported", noun: "job", place: String::new() };
    let manner = Manner { on_error: OnError::Stop, rate: args.rate };
    let bulk = tool.bulk(action, manner, Some(total))?;
    let jobs = sources.iter().map(|source| (source, source.queued));
    let (bulk, is_all) = lend(tool, &mut fleet, jobs, (total, &filters), bulk)?;
    Ok(ended(&fleet, bulk.finish_quietly()?, is_all))
}

/// Takes, shows and gives back the jobs of sources, at most this many of each; shows `left` of those that fit. Returns
/// whether all were shown and came back. Nothing is written if there are none to show, but were to be.
fn lend<'s>(
    tool: &mut Tool,
    fleet: &mut Fleet<Link>,
    sources: impl Iterator<Item = (&'s Target, u64)>,
    (mut left, filters): (u64, &Filters),
    mut bulk: Bulk,
) -> Result<(Bulk, bool), CliError> {
    let (mut list, is_wanted) = (fleet.list(&mut tool.out, &RECORDS)?.eager(), left > 0);
    bulk.beside(&list);
    let mut is_all = true;
    for (source, most) in sources {
        let link = fleet.at(&mut tool.link, source.server.as_deref());
        let most = if filters.is_empty() { most.min(left) } else { most };
        let taken = match borrow(link, source, (most, left, filters), &mut bulk, &mut list) {
            Ok(taken) => taken,
            Err(error) => return Err(bulk.abort(error)),
        };
        left = left.saturating_sub(taken.shown);
        is_all &= is_back(link, source, taken.count)?;
        if taken.is_full {
            is_all = false;
            tool.messages.warn(format!(
                "{} has more than the {} that can be held at once: drain takes them all",
                source.name(),
                units::count(taken.count, "job")
            ));
        }
    }
    if bulk.succeeded() > 0 || !is_wanted {
        list.finish()?;
    }
    Ok((bulk, is_all))
}

fn ended(fleet: &Fleet<Link>, exit: Exit, is_all: bool) -> Exit {
    match if exit.is_done() { fleet.exit() } else { exit } {
        Exit::Done if !is_all => Exit::Partial,
        exit => exit,
    }
}

/// Asks before jobs are taken. Returns whether a server may lose them.
fn ask(
    tool: &mut Tool,
    fleet: &mut Fleet<Link>,
    what: &str,
    sources: &[Target],
    confirm: &Confirm,
) -> Result<bool, CliError> {
    let mut is_lossy = false;
    for source in sources {
        is_lossy |= !fleet.at(&mut tool.link, source.server.as_deref()).is_gearmand()?;
    }
    let address = tool.link.dialer.address()?;
    let which = match is_lossy {
        true => "is not gearmand: such servers lose the jobs of a worker that disconnects",
        false => "may drop jobs whose worker disconnects, by gearmand's --job-retries",
    };
    confirm.many(&format!("{what} from {address} (which {which})"), &tool.messages)?;
    if is_lossy && tool.globals.yes {
        tool.messages.warn(format!("{address} {which}"));
    }
    Ok(is_lossy)
}

/// How to see jobs without taking them.
const LOOK: &str = "gearctl functions shows how many jobs there are";

/// Whether the jobs that were given back are in the queue again, as far as can be known: with workers of the function,
/// they may have taken them. If not, says how many are missing.
fn is_back(link: &mut Link, source: &Target, taken: u64) -> Result<bool, CliError> {
    let (start, is_gearmand) = (Instant::now(), link.is_gearmand()?);
    let missing = loop {
        let status = status_of(link, &source.function)?;
        let now = status.as_ref().map_or(0, FunctionStatus::queued);
        let missing = source.queued.saturating_sub(u64::try_from(now).unwrap_or(0)).min(taken);
        if missing == 0 || (is_gearmand && source.workers > 0) {
            return Ok(true);
        }
        if start.elapsed() >= PATIENCE {
            if is_gearmand && status.is_some_and(|now| now.running > 0) {
                return Ok(true);
            }
            break missing;
        }
        thread::sleep(LOOK_EVERY);
    };
    let name = source.name();
    link.dialer.messages().warn(format!(
        "jobs of {name} that are not back in the queue after {}: {missing} of {taken}; if `gearctl functions` still shows \
         fewer later, gearctl import submits what was written",
        units::show_duration(PATIENCE)
    ));
    Ok(false)
}

/// How often the queue is polled meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// The jobs that were taken.
#[derive(Default)]
struct Borrowed {
    count: u64,
    /// Those of them that were shown.
    shown: u64,
    /// Whether more jobs were left for lack of room.
    is_full: bool,
}

/// Takes up to `most` jobs, writes the records of up to `wanted` that fit, and gives all back.
fn borrow(
    link: &mut Link,
    source: &Target,
    (most, wanted, filters): (u64, u64, &Filters),
    bulk: &mut Bulk,
    list: &mut List<'_>,
) -> Result<Borrowed, CliError> {
    let mut borrowed = Borrowed::default();
    if most == 0 || wanted == 0 {
        return Ok(borrowed);
    }
    // Connects like other commands, so that --wait-for-server applies here, too.
    link.client()?;
    let options = link.worker_options()?.limit(JobLimit::new(most.min(MOST.0)));
    let mut held = Held::new(&options, &source.function, most.min(source.queued), 1)?;
    let (gate, formats) = (bulk.gate(), link.dialer.settings().config().envelopes.clone());
    let mut take = || {
        while borrowed.count < most && borrowed.shown < wanted {
            borrowed.is_full = held.is_full();
            if borrowed.is_full || !gate.turn(1) {
                break;
            }
            let is_over = || {
                bulk.see();
                !gate.is_open()
            };
            let next = next_job(held.worker()?, link.patience(), is_over)?;
            let Some(job) = next else { break };
            borrowed.count += 1;
            let record = filters.fit(&Candidate(&job, &formats)).then(|| {
                let handle = show_handle(&job.handle);
                record(&handle, &source.function, &job.unique, &job.workload)
            });
            held.keep(job);
            if let Some(record) = record {
                borrowed.shown += 1;
                list.push(record.of_server(source.server.as_deref()))?;
                bulk.success();
            }
        }
        Ok(())
    };
    let taken = take();
    held.give_back(link);
    taken.map(|()| borrowed)
}
