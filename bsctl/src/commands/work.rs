//! `work`: a worker that runs a command for every job.

use std::sync::Arc;

use beanstalk_client::blocking::{JobContext, Worker};
use beanstalk_client::{
    Heartbeat, JobLimit, Retries, Servers, SlotState, TubeName, WorkerHandle, WorkerOptions,
    WorkerReport,
};
use clap::{Args, ValueEnum};
use ctl_core::error::{CliError, Exit};
use ctl_core::link::Link as _;
use ctl_core::named::{self, Several};
use ctl_core::output::{Record, Shape};
use ctl_core::work::{self, Hands, Ledger, Recipe, WorkFlags};

use crate::error::cli_error;
use crate::names::Tube;
use crate::tool::{Tool, usual_tube};
use crate::work::fate::{Backoff, Fates, OnFail};
use crate::work::{PLACES, Shift, label};

/// The end of `work --help`.
pub const HELP: &str = "\
Protocol: watch TUBE, reserve-with-timeout, stats-job, touch, then delete, release or bury.
The command gets the body on stdin; its exit code decides what becomes of the job:
  0                 deleted
  75                released with a delay that grows (--backoff)
  64, 65            buried (--bury-codes)
  any other code, a signal, over --max-runtime
                    --on-fail: released with a delay, and buried after --max-releases
  cannot be run     the job is released, and the worker ends (126, 127);
                    with --shell also when the shell says so
{id}, {tube} and {file} in arguments are replaced, but never in a line for a shell, which would run what a tube is
called: the line has \"$BSCTL_TUBE\", and \"$1\" is the file or the body. The environment has BSCTL_JOB_ID, BSCTL_TUBE,
BSCTL_PRI, BSCTL_TTR, BSCTL_AGE, BSCTL_RESERVES, BSCTL_TIMEOUTS, BSCTL_RELEASES and BSCTL_KICKS. No shell is involved
unless --shell asks for one, and the body is never part of a command line unless --arg asks for it; one that cannot be
an argument (a NUL byte, over 128 KiB) is buried.
Of several servers each has its own slots (-j) and jobs; one that is away is tried again and holds up nobody.
When the system has no descriptor, process, thread or memory left, the worker waits until it has.
While a command runs, its job is touched at a third of its time to run. When the job is lost after all, because the
connection broke or the time to run was over, the command is ended with all that it has started.
What commands print goes to stdout, and the summary to stderr; with --log-jobs, and with -o json, ndjson or yaml, stdout
has only that, and what commands print goes to stderr. A job that does not end well is told there on a line. What a
command leaves running with its output open is ended 2 s after it, and named.
SIGTERM, SIGINT or SIGHUP: running jobs are finished, for at most --grace; a second SIGTERM or SIGINT, or the end of
that time, ends the commands with all that they have started, and releases their jobs. Under nohup, SIGHUP is ignored.

Examples:
  bsctl work -t mail -t sms -j 4 --exec ./handler {id}
  bsctl work -t thumbs --max-runtime 5m --on-fail bury -- convert - -resize 50% out/{id}.png
  bsctl work -t mail --exit-when-empty --log-jobs ndjson --shell 'jq .to | xargs notify'";

/// Arguments of `work`.
#[derive(Debug, Args)]
#[command(mut_args(named::described("The tubes, watched together [default: default]")))]
pub struct WorkArgs {
    #[command(flatten)]
    tubes: Several<Tube>,

    #[command(flatten)]
    flags: WorkFlags,

    /// Exit codes that bury
    #[arg(long, value_name = "CODES", value_delimiter = ',', default_value = "64,65")]
    #[arg(value_parser = clap::value_parser!(i32).range(1..=255))]
    bury_codes: Vec<i32>,

    /// What becomes of a job whose command failed
    #[arg(long, value_name = "WHAT", default_value = "release")]
    on_fail: OnFail,

    /// The delays of releases: the first, the longest, and the factor from one to the next
    #[arg(long, value_name = "FROM..TO,xN", default_value = "1s..1h,x2")]
    backoff: Backoff,

    /// Bury a failed job that was released N times before
    #[arg(long, value_name = "N", default_value_t = 10)]
    max_releases: u64,

    /// Bury a job whose time to run was over N times, without running it
    #[arg(long, value_name = "N")]
    bury_after_timeouts: Option<u64>,

    /// Whether jobs are touched while their command runs
    #[arg(long, value_name = "WHEN", default_value = "auto")]
    touch: Touch,

    /// End the command when the job's time to run is over: the job is not touched
    #[arg(long, conflicts_with = "touch")]
    kill_at_ttr: bool,
}

/// The value of `--touch`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Touch {
    /// At every third of the time to run.
    Auto,
    /// Not at all: the command has to be done within the time to run, and is ended when that is over.
    Never,
}

/// Runs `work`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: WorkArgs) -> Result<Exit, CliError> {
    tool.refuse_dry_run("work", "bsctl jobs -t TUBE looks only")?;
    let tubes = match args.tubes.given()? {
        none if none.is_empty() => vec![usual_tube(tool)?],
        given => given,
    };
    let recipe = Recipe::new(&args.flags, PLACES, "bsctl work -t mail", tool)?;
    let _pid = args.flags.create_pid_file()?;
    let interrupts = tool.gentle_interrupts()?;
    let servers = tool.link.dialer.options()?.len();
    let shift = work::Shift::new(recipe, tool.messages.stamped()).at(servers);
    shift.wait_out(&interrupts, || work::connect(tool))?;
    let options = options(tool, &args, &tubes)?;
    let (ledger, finished) = Ledger::new(shift.messages(), label);
    let shift = Arc::new(Shift { shift, ledger, fates: fates(&args) });
    let observer = shift.clone();
    let worker =
        Worker::new(options.on_event(move |event| observer.observe(event))).map_err(cli_error)?;
    let hands = Slots(worker.handle());
    let run = || worker.run(|job: JobContext| shift.handle(&job, &hands.0));
    let shift = &shift.shift;
    shift.say_taking("jobs", &tubes, &tool.link.dialer.address()?, &args.flags);
    let watched = shift.supervise((&hands, run), (&args.flags, &interrupts), &finished, |done| {
        static JOB: Shape = Shape::rows("id", &[]);
        let tube = done.more.as_ref().map(TubeName::as_str);
        let (server, id) = &done.job;
        let record = Record::new().with("id", id.get()).with("tube", tube);
        let record = record.of_server(server.as_deref());
        work::log(&args.flags, &mut tool.out, &JOB, record, &done.end, done.fate)
    });
    let (signal, report) = watched?;
    let WorkerReport { finished, released, buried, abandoned, lost, unknown, .. } = report;
    let ways = [
        ("deleted", finished, "deleted"),
        ("released", released, "released"),
        ("buried", buried, "buried"),
        ("abandoned", abandoned, "given back"),
        ("lost", lost, "lost"),
        ("unknown", unknown, "unknown"),
    ];
    work::tally(&mut tool.out, shift.messages(), &args.flags, "job", &ways)?;
    Ok(signal.unwrap_or(Exit::Done))
}

fn retries(args: &WorkArgs) -> Retries {
    let Backoff { base, cap, factor } = args.backoff;
    // Only what the flags say buries: reserves grow with every restart, too.
    let retries = Retries::default()
        .backoff(base, factor, cap)
        .releases(args.max_releases)
        .reserves(u64::MAX);
    args.bury_after_timeouts.map_or(retries, |timeouts| retries.timeouts(timeouts))
}

fn fates(args: &WorkArgs) -> Fates {
    Fates { bury_codes: args.bury_codes.clone(), on_fail: args.on_fail, retries: retries(args) }
}

fn options(
    tool: &mut Tool,
    args: &WorkArgs,
    tubes: &[TubeName],
) -> Result<WorkerOptions, CliError> {
    let servers = Servers::new(tool.link.dialer.options()?).map_err(cli_error)?;
    tool.link.close();
    let touches = args.touch == Touch::Auto && !args.kill_at_ttr;
    let mut options = WorkerOptions::from(servers)
        .tubes(tubes)
        .map_err(cli_error)?
        .slots(usize::from(args.flags.jobs))
        .heartbeat(if touches { Heartbeat::Always } else { Heartbeat::Never })
        .retries(retries(args))
        .grace(args.flags.last_grace());
    if let Some(jobs) = args.flags.limit() {
        options = options.limit(JobLimit::new(jobs));
    }
    if args.flags.exit_when_empty {
        options = options.until_empty();
    }
    Ok(options)
}

/// The worker's slots, as the supervisor sees them.
struct Slots(WorkerHandle);

impl Hands for Slots {
    fn stop(&self) {
        self.0.stop();
    }

    fn is_busy(&self) -> bool {
        self.0.slots().iter().any(|slot| matches!(slot.state, SlotState::Busy(_)))
    }
}
