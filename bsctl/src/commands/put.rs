//! `put`: jobs from arguments, files, stdin.

pub(super) mod lanes;

use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use beanstalk_client::TubeName;
use beanstalk_client::protocol::StatsTube;
use clap::{ArgGroup, Args};
use ctl_core::bulk::{Action, BulkArgs};
use ctl_core::context::fleet::Fleet;
use ctl_core::error::{CliError, Exit};
use ctl_core::input::intake::{self, Batches, Cut, Items};
use ctl_core::input::own::OwnFirst;
use ctl_core::input::{Argument, Framing, named};
use ctl_core::output::progress::Meter;
use ctl_core::output::{Column, Shape};
use ctl_core::text::units;

use self::lanes::Event;
use crate::jobs::{self, Described};
use crate::link::Link;
use crate::names;
use crate::producer::{Defaults, NewJob, after_refusals, check_size, max_job_size};
use crate::tool::{Tool, tube_or_used};

/// The end of `put --help`.
pub const HELP: &str = "\
Protocol: use TUBE, put PRI DELAY TTR BYTES.
Prints the id of each job as soon as the server confirms it.
BODY is the text itself, @FILE a file, - stdin (also if no BODY is given), and @@x the text @x.
beanstalkd knows delays only: with --at, each job is put with what is left until then, rounded up to a second; a time that
has passed is now. A TTR of 0 becomes 1; its last second is a safety margin (DEADLINE_SOON).
With --ndjson, each record may name its own tube; import --tube puts all of them into one tube.
If the server answers BURIED (out of memory), the job exists but is buried, and the exit code is 75.
Several servers share the jobs: each has its own connection, an idle one takes the next jobs, and SERVER shows where a
job went. A server that does not answer at the start is named and gets no jobs, which is no failure if the others take
them; losing a server later ends the command.

Examples:
  bsctl put -t mail 'hello'
  bsctl put -t mail @letter.bin
  seq 1000 | bsctl put -t numbers --lines
  bsctl put -t mail --at 2026-12-24T18:00:00Z 'happy holidays'
  find . -print0 | bsctl put -t files -0";

/// Arguments of `put`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("framing"))]
pub struct PutArgs {
    /// Bodies: text, @FILE, or - for stdin
    #[arg(value_name = "BODY|@FILE|-", allow_hyphen_values = false)]
    bodies: Vec<OsString>,

    /// The tube
    #[arg(short, long, value_name = "TUBE")]
    tube: Option<String>,

    /// Priority, 0 is the most urgent [default: 1024]
    #[arg(short, long, value_name = "N")]
    pri: Option<u32>,

    /// Delay before the job becomes ready [default: 0]
    #[arg(short, long, value_name = "DUR", value_parser = units::duration)]
    delay: Option<Duration>,

    /// Delay until this time, e.g. 2026-12-24T18:00:00Z, or seconds since 1970
    #[arg(hide_short_help = true, long, value_name = "TIME", conflicts_with = "delay", value_parser = units::point)]
    at: Option<SystemTime>,

    /// Time to run: how long a worker may take [default: 60s]
    #[arg(short = 'r', long, value_name = "DUR", value_parser = units::duration)]
    ttr: Option<Duration>,

    /// One job per line, without its line end (LF or CRLF); an empty line is an empty job
    #[arg(long, group = "framing")]
    lines: bool,

    /// One job per NUL-terminated record
    #[arg(hide_short_help = true, short = '0', long = "null", group = "framing")]
    null: bool,

    /// One job record per line, as written by `export`; -t, -p, -d and -r are for what a record does not say
    #[arg(hide_short_help = true, long, group = "framing")]
    ndjson: bool,

    /// Put each body N times
    #[arg(long, value_name = "N", default_value_t = 1)]
    repeat: u64,

    /// Number of connections; with more than one, jobs may be put out of order
    #[arg(short, long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,

    #[command(flatten)]
    bulk: BulkArgs,
}

/// Jobs that were put.
static JOBS: Shape = Shape::rows(
    "id",
    &[
        Column::new("id", "ID"),
        Column::on_request("tube", "TUBE"),
        Column::on_request("state", "STATE"),
    ],
);

/// Bodies up to the server's default limit are sent without asking for the limit first.
const USUAL_LIMIT: u64 = 65_535;

/// Runs `put`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: PutArgs) -> Result<Exit, CliError> {
    let tube = args.tube.as_deref().map(names::tube).transpose()?;
    if tube.is_none() && args.bodies.len() > 1 && !args.ndjson {
        refuse_no_tube(tool, &args.bodies)?;
    }
    let mut fleet = Fleet::of(tool)?;
    if !tool.globals.dry_run {
        fleet.expect(&mut tool.out, &JOBS)?;
    }
    let defaults = Defaults {
        tube: tube_or_used(tool, tube.clone())?,
        pri: args.pri.unwrap_or(1024),
        delay: args.delay.unwrap_or_default(),
        ttr: args.ttr.unwrap_or(Duration::from_secs(60)),
    };
    if args.tube.is_none() && !tool.globals.dry_run {
        let exists =
            |tube: &TubeName| matches!(tool.link.call(StatsTube(tube.clone())), Ok(Some(_)));
        named::note_first_body::<names::Tube>(&tool.messages, &args.bodies, exists);
    }
    let sources = intake::sources(&args.bodies, &tool.input, &tool.messages);
    let simple = sources.iter().all(
        |source| matches!(source, Argument::Literal(body) if body.len() as u64 <= USUAL_LIMIT),
    ) && !args.ndjson;
    let known = simple.then(|| args.repeat.saturating_mul(sources.len() as u64));
    // Any of the servers may get a job, so all have to accept it.
    let limits = match simple || tool.globals.dry_run {
        true => Vec::new(),
        false => fleet.ask(&mut tool.link, max_job_size)?,
    };
    let limit = limits.into_iter().map(|(_, limit)| limit).min().unwrap_or(u64::MAX);
    let framing = Framing::of(args.lines, args.null);
    let cut = if args.ndjson { Cut::Ndjson } else { Cut::Bodies(framing) };
    let (args, own) = (Arc::new(args), OwnFirst::new(&tool.messages));
    let making = Making { args: args.clone(), tube, defaults: defaults.clone(), limit, own };
    let make = move |label: &str, bytes| making.job(label, bytes);
    let (items, meter) =
        intake::chain(sources, cut, limit, (&mut tool.input, &tool.messages), make)?;
    let items = intake::take(intake::repeat(items, args.repeat), args.bulk.items.count);
    if tool.globals.dry_run {
        let place = place(&args, &defaults);
        return intake::would(&mut tool.out, items, ("put", "job", &place));
    }
    put_all(tool, (items, meter), fleet, (&*args, &defaults), (known, limit))
}

/// The first of several bodies is often meant as the tube, as in other commands. A tube from the settings, or one that a
/// session uses, is given.
fn refuse_no_tube(tool: &mut Tool, bodies: &[OsString]) -> Result<(), CliError> {
    if tool.settings().queue().is_some() || tube_or_used(tool, None)? != TubeName::default() {
        return Ok(());
    }
    let why = format!("put {} bodies into which tube?", bodies.len());
    let first = bodies.first().and_then(|first| first.to_str());
    let tube = first.and_then(|first| names::tube(first).ok());
    let tube = tube.as_ref().map_or("TUBE", TubeName::as_str);
    Err(CliError::usage(why)
        .hint(format!("-t {tube}, for a tube"))
        .hint("-t default, for the default tube"))
}

/// Where the jobs go, for people: records may name their own tubes.
fn place(args: &PutArgs, defaults: &Defaults) -> String {
    match args.ndjson {
        true => "into the tubes of their records".to_owned(),
        false => format!("into tube {}", defaults.tube),
    }
}

/// How to turn records into jobs.
#[derive(Clone)]
struct Making {
    /// The options as given, which are for what a record does not say.
    args: Arc<PutArgs>,
    tube: Option<TubeName>,
    defaults: Defaults,
    limit: u64,
    own: OwnFirst,
}

impl Making {
    fn job(&self, label: &str, bytes: Vec<u8>) -> Result<NewJob, CliError> {
        let mut defaults = self.defaults.clone();
        if let Some(at) = self.args.at {
            // A time that has passed is now.
            defaults.delay = at.duration_since(SystemTime::now()).unwrap_or_default();
        }
        let job = if self.args.ndjson {
            let record = jobs::parse(&bytes)?;
            self.compare(label, &record);
            record.to_put(&defaults, label.to_owned())
        } else {
            defaults.job(bytes, label.to_owned())
        };
        check_size(&job, self.limit).map(|()| job)
    }

    fn compare(&self, label: &str, record: &Described) {
        let seconds = |seconds: Option<u32>| seconds.map(|n| Duration::from_secs(n.into()));
        let (own, given) = (&self.own, &self.args);
        own.compare(('t', "tube"), label, &record.tube, &self.tube);
        own.compare(('p', "pri"), label, &record.pri, &given.pri);
        own.compare(('d', "delay"), label, &seconds(record.delay), &given.delay);
        own.compare(('r', "ttr"), label, &seconds(record.ttr), &given.ttr);
    }
}

fn put_all(
    tool: &mut Tool,
    (items, meter): (Items<NewJob>, Option<Meter>),
    mut fleet: Fleet<Link>,
    (args, defaults): (&PutArgs, &Defaults),
    (known, limit): (Option<u64>, u64),
) -> Result<Exit, CliError> {
    let lanes = lanes::open(tool, &mut fleet, args.jobs)?;
    let interrupts = tool.interrupts()?;
    let action = Action { past: "put", noun: "job", place: place(args, defaults) };
    let mut bulk = tool.bulk(action, &args.bulk.items, known)?;
    let gate = bulk.gate();
    let weigh = |job: &NewJob| job.body.len();
    let mut source = Batches::of(items, known.is_some(), limit, args.bulk.window(), weigh)?;
    // An id names a job of one server only.
    if !fleet.is_several() {
        tool.out.style.prefer_names();
    }
    let mut list = fleet.list(&mut tool.out, &JOBS)?;
    bulk.measure(meter);
    bulk.beside(&list);
    let mut buried = 0_u64;
    let absorb = |event| match event {
        Event::Put { record, buried: refused } => {
            bulk.success();
            buried += u64::from(refused);
            list.push(record)
        }
        Event::Failed(label, error) => {
            bulk.unsent(label, error);
            Ok(())
        }
        Event::BatchEnds => list.flush(),
        Event::Broken(error) => Err(error),
    };
    let done = if lanes.is_empty() {
        let next = || source.next(&interrupts);
        lanes::lane((None, &mut tool.link), next, &gate, absorb)
    } else {
        lanes::several(lanes, source, &gate, &interrupts, absorb)
    };
    let exit = bulk.finish_list(done, list)?;
    Ok(after_refusals(&tool.messages, buried, exit))
}
