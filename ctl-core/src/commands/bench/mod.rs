//! `bench`: how fast a server answers, in closed and open loop, in a temporary place.
//!
//! A tool defines the operations ([`Client`]). When each starts, how long it takes, and the report are here. Every run
//! is bounded in number and time.

mod lane;
mod limit;
mod report;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clap::{Args, ValueEnum};

use crate::error::CliError;
use crate::input::sizes::{Random, Sizes};
use crate::output::messages::Messages;
use crate::output::progress::Progress;
use crate::output::times;
use crate::system::env::word_of;
use crate::system::signals::Interrupts;
use crate::text::units;

use self::lane::{Lane, Tally};
use self::limit::Limit;
pub use self::report::{Measured, ROWS};

/// Flags of every `bench`.
#[derive(Debug, Clone, Args)]
pub struct LoadArgs {
    /// Number of clients at once, each with its own connection
    #[arg(short, long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,

    /// Measure N operations in total [default: 100000, or as many as fit into --duration]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,

    /// Measure for this long [default: until all operations are done, at most 10m]
    #[arg(long, value_name = "DUR", value_parser = units::duration)]
    duration: Option<Duration>,

    /// Warm-up time before measuring starts
    #[arg(hide_short_help = true, long, value_name = "DUR", default_value = "0",
          value_parser = units::duration)]
    warmup: Duration,

    /// Body size, or a range to draw sizes from, e.g. 1k..64k
    #[arg(long, value_name = "SIZE", default_value = "128", value_parser = sizes)]
    size: Sizes,

    /// Operations that a client sends before it waits for their replies
    #[arg(hide_short_help = true, long = "batch", value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=1000))]
    pipeline: u16,

    /// Start N operations per second regardless of replies (open loop); times count from when each was due
    #[arg(long, value_name = "N", value_parser = rate)]
    rate: Option<f64>,

    /// Leave the benchmark's jobs in place; needs --count
    #[arg(hide_short_help = true, long, requires = "count")]
    keep: bool,

    /// Exit 1 if this holds, e.g. 'p99>5ms' or 'rate<1000'; repeatable
    #[arg(hide_short_help = true, long, value_name = "EXPR")]
    fail_if: Vec<Limit>,
}

/// The effect of a mode on jobs, which determines its bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An operation leaves nothing behind.
    Passing,
    /// Each operation leaves a job in the queue, until the end.
    Leaving,
    /// Each operation takes a job that existed before.
    Taking,
}

/// One client of a benchmark.
pub trait Client: Send {
    /// Executes an operation for each of these bodies, all sent at once, and calls `done` for each in turn as its
    /// answer arrives, and fewer times if there is nothing left to take.
    ///
    /// # Errors
    /// The failure of the connection. The operations for which `done` was not called have failed with it.
    fn perform(&mut self, bodies: &[Bytes], done: &mut Done<'_>) -> Result<(), CliError>;
}

/// Called with the outcome of each operation.
pub type Done<'a> = dyn FnMut(Result<(), CliError>) + 'a;

/// Default number of operations.
const USUAL: u64 = 100_000;
/// Default limit of a run's duration.
const LONGEST: Duration = Duration::from_secs(600);
/// Maximum amount of data to leave on a server, including its overhead for each body.
const MOST_KEPT: u64 = 1 << 30;
const OF_EACH: u64 = 256;
/// Number of jobs put at once before the benchmark.
const BATCH: u64 = 500;
/// How often to check whether the run has to end.
const SLICE: Duration = Duration::from_millis(20);

/// The plan of a run.
pub struct Plan {
    mode: String,
    flags: LoadArgs,
    most: u64,
}

impl Plan {
    /// The plan for these flags. `mode` is what is measured, which does this with jobs; `pipelines` says whether a
    /// client can send several operations at once. `largest` is the maximum body size of the server, if known.
    ///
    /// # Errors
    /// Conflicting flags, or more data than a server should be made to keep (2); a body that is too large (65).
    pub fn new(
        args: &LoadArgs,
        (mode, kind, pipelines): (impl ValueEnum, Kind, bool),
        largest: Option<u64>,
    ) -> Result<Self, CliError> {
        let mode = word_of(&mode);
        if args.pipeline > 1 && !pipelines {
            let why = format!("{mode} waits for each reply, so --batch does not apply");
            return Err(CliError::usage(why).hint("--jobs, for more concurrency"));
        }
        if let Some(largest) = largest.filter(|largest| args.size.largest > *largest) {
            let (asked, largest) = (args.size.largest, units::show_size(largest));
            let why = format!("bodies of {asked} bytes exceed the server's limit of {largest}");
            return Err(CliError::bad_data(why).hint("a smaller --size"));
        }
        if kind == Kind::Taking && !args.warmup.is_zero() {
            let why =
                format!("{mode} takes jobs that were put beforehand, so --warmup does not apply");
            return Err(
                CliError::usage(why).hint("the mode that puts and takes, which supports it")
            );
        }
        Ok(Self { mode, flags: args.clone(), most: most(args, kind)? })
    }

    /// The number of clients.
    pub fn clients(&self) -> u16 {
        self.flags.jobs
    }

    /// Whether to keep what the benchmark leaves behind.
    pub fn keeps(&self) -> bool {
        self.flags.keep
    }

    /// Puts a job for each operation of a mode that takes them, before it is measured; `send` sends some at once, as
    /// [`Client::perform`] does.
    ///
    /// # Errors
    /// The first failure of `send`, or of one of its jobs; a signal.
    pub fn fill(
        &self,
        interrupts: &Interrupts,
        mut send: impl FnMut(&[Bytes], &mut Done<'_>) -> Result<(), CliError>,
    ) -> Result<(), CliError> {
        let mut bodies = Bodies::new(self.flags.size, 0);
        let mut left = self.most;
        while left > 0 {
            interrupts.check()?;
            let batch: Vec<Bytes> = (0..left.min(BATCH)).map(|_| bodies.next()).collect();
            left -= batch.len() as u64;
            let mut failed = None;
            send(&batch, &mut |outcome| failed = outcome.err().or(failed.take()))?;
            failed.map_or(Ok(()), Err)?;
        }
        Ok(())
    }
}

/// The maximum number of operations of a run.
fn most(args: &LoadArgs, kind: Kind) -> Result<u64, CliError> {
    let mean = (args.size.smallest + args.size.largest) / 2;
    let room = MOST_KEPT / (mean + OF_EACH);
    let usual = match args.duration {
        Some(_) if kind != Kind::Taking => u64::MAX,
        _ => USUAL,
    };
    if kind == Kind::Passing {
        return Ok(args.count.unwrap_or(usual));
    }
    match args.count {
        Some(asked) if asked > room => {
            let kept = units::show_size(MOST_KEPT);
            let why = format!("{asked} jobs of this size exceed the limit of {kept} in the server");
            Err(CliError::usage(why).hint(format!("--count {room} at most, or a smaller --size")))
        }
        asked => Ok(asked.unwrap_or(usual).min(room)),
    }
}

fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate > 0.0);
    rate.ok_or_else(|| format!("`{text}` is not a rate (examples: 100, 0.5)"))
}

/// The maximum body size of a benchmark.
const LARGEST: u64 = MOST_KEPT / 4;

fn sizes(text: &str) -> Result<Sizes, String> {
    let sizes: Sizes = text.parse()?;
    if sizes.largest > LARGEST {
        return Err(format!("`{text}` is more than {}", units::show_size(LARGEST)));
    }
    Ok(sizes)
}

/// Bodies of the requested sizes, the same in each run.
struct Bodies {
    /// The longest body; the others are its prefixes. It is text, so that every transport can carry it.
    text: Bytes,
    sizes: Sizes,
    random: Random,
}

impl Bodies {
    fn new(sizes: Sizes, seed: u64) -> Self {
        let text = (b' '..=b'~').cycle().take(usize::try_from(sizes.largest).unwrap_or(0));
        Self { text: text.collect::<Vec<u8>>().into(), sizes, random: Random::new(seed) }
    }

    fn next(&mut self) -> Bytes {
        let size = self.sizes.draw(&mut self.random);
        self.text.slice(..usize::try_from(size).unwrap_or(0).min(self.text.len()))
    }
}

/// Shared by all clients while they run.
struct Shared<'a> {
    plan: &'a Plan,
    start: Instant,
    /// Number of operations still to start.
    left: AtomicU64,
    /// Number of finished operations.
    ended: AtomicU64,
    stop: AtomicBool,
}

impl Shared<'_> {
    fn is_over(&self, now: Instant) -> bool {
        let LoadArgs { warmup, duration, .. } = &self.plan.flags;
        let longest = warmup.saturating_add(duration.unwrap_or(LONGEST));
        self.stop.load(Ordering::Relaxed) || now.duration_since(self.start) >= longest
    }

    fn is_warm(&self, at: Instant) -> bool {
        at.duration_since(self.start) >= self.plan.flags.warmup
    }

    /// Claims up to this many operations; returns how many may start.
    fn take(&self, wanted: u64) -> u64 {
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            (left > 0).then(|| left.saturating_sub(wanted))
        });
        taken.map_or(0, |left| left.min(wanted))
    }
}

/// Runs the clients until all operations are done, the time is over, or a signal arrives; everything measured until
/// then counts.
///
/// # Errors
/// A defect of this tool.
pub fn measure<C: Client>(
    plan: &Plan,
    clients: Vec<C>,
    messages: &Messages,
    interrupts: &Interrupts,
) -> Result<Measured, CliError> {
    let blank = times::histogram()?;
    let total = Some(plan.most).filter(|most| *most < u64::MAX);
    let mut progress = Progress::start(messages, &plan.mode, total);
    let shared = Shared {
        plan,
        start: Instant::now(),
        left: AtomicU64::new(plan.most),
        ended: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    };
    let tallies = thread::scope(|scope| {
        let lanes = clients.into_iter().zip(0_u64..).map(|(client, number)| {
            let lane = Lane::new(client, number, &shared, Tally::new(blank.clone()));
            scope.spawn(move || lane.run())
        });
        let lanes: Vec<_> = lanes.collect();
        let mut shown = 0;
        while lanes.iter().any(|lane| !lane.is_finished()) {
            thread::sleep(SLICE);
            if interrupts.requested().is_some() {
                shared.stop.store(true, Ordering::Relaxed);
            }
            let ended = shared.ended.load(Ordering::Relaxed);
            progress.advance_by(ended - shown);
            shown = ended;
        }
        // A client that panicked has measured nothing.
        let broken = || Tally::broken(blank.clone());
        lanes.into_iter().map(|lane| lane.join().unwrap_or_else(|_| broken())).collect()
    });
    progress.finish();
    Ok(Measured::new(plan, tallies, Tally::new(blank), shared.start))
}

#[cfg(test)]
mod tests;
