//! `populate`: test data.

use std::time::Duration;

use clap::Args;
use ctl_core::bulk::{Action, BulkArgs};
use ctl_core::context::fleet::Fleet;
use ctl_core::error::{CliError, Exit};
use ctl_core::input::intake::{Batches, Items};
use ctl_core::input::named::One;
use ctl_core::input::sizes::{Random, Sizes};
use ctl_core::output::Record;
use ctl_core::text::units;

use super::put::lanes::{self, Event};
use crate::names::Tube;
use crate::producer::{Defaults, NewJob, after_refusals, check_length, smallest_limit};
use crate::tool::Tool;

/// The end of `populate --help`.
pub const HELP: &str = "\
Protocol: use TUBE, put PRI DELAY TTR BYTES.
Bodies are letters and digits, with sizes spread evenly over the range. The same seed gives the same bodies and sizes.

Examples:
  bsctl populate -t test --count 1000
  bsctl populate -t test --count 100k --size 1k..64k --seed 7 -j 4
  bsctl populate -t test --count 600 --rate 10/s";

/// Arguments of `populate`.
#[derive(Debug, Args)]
pub struct PopulateArgs {
    #[command(flatten)]
    tube: One<Tube>,

    /// Number of jobs, e.g. 1000 or 10k
    #[arg(short, long, value_name = "N", value_parser = count)]
    count: u64,

    /// Body size in bytes, or a range of sizes
    #[arg(long, value_name = "SIZE|MIN..MAX", default_value = "1k", value_parser = sizes)]
    size: Sizes,

    /// Seed for bodies and sizes
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,

    /// Priority, 0 is the most urgent
    #[arg(short, long, value_name = "N", default_value_t = 1024)]
    pri: u32,

    /// Delay before the job becomes ready
    #[arg(short, long, value_name = "DUR", value_parser = units::duration, default_value = "0")]
    delay: Duration,

    /// Time to run: how long a worker may hold a job
    #[arg(short = 'r', long, value_name = "DUR", value_parser = units::duration, default_value = "60s")]
    ttr: Duration,

    /// Number of connections; with more than one, jobs may be put out of order
    #[arg(short, long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u16).range(1..=64))]
    jobs: u16,

    #[command(flatten)]
    bulk: BulkArgs,
}

/// `1000`, `10k`, `2m`: `k` and `m` are thousands and millions.
fn count(text: &str) -> Result<u64, String> {
    let rule = || format!("`{text}` is not a number of jobs (examples: 1000, 10k, 2m)");
    let trimmed = text.trim().to_ascii_lowercase();
    let (number, times) = match trimmed.strip_suffix('k') {
        Some(number) => (number, 1000),
        None => match trimmed.strip_suffix('m') {
            Some(number) => (number, 1_000_000),
            None => (&*trimmed, 1),
        },
    };
    let number: u64 = number.parse().map_err(|_| rule())?;
    number.checked_mul(times).ok_or_else(rule)
}

/// `1k`, `1k..64k`, or `1k..=64k`.
fn sizes(text: &str) -> Result<Sizes, String> {
    text.replacen("..=", "..", 1).parse()
}

/// Runs `populate`.
///
/// # Errors
/// As documented in the table of exit codes.
pub fn run(tool: &mut Tool, args: PopulateArgs) -> Result<Exit, CliError> {
    let tube = args.tube.name()?;
    let place = format!("into tube {tube}");
    let defaults = Defaults { tube, pri: args.pri, delay: args.delay, ttr: args.ttr };
    let count = args.count.min(args.bulk.limit.unwrap_or(u64::MAX));
    if tool.globals.dry_run {
        let record = Record::new().with("dry_run", true).with("jobs", count);
        let sentence = format!("would put {} {place}", units::count(count, "job"));
        return tool.out.done_with(&record, &["jobs"], &sentence);
    }
    let mut fleet = Fleet::of(tool)?;
    let limit = smallest_limit(tool, &mut fleet)?;
    check_length(args.size.largest, limit)?;
    let lanes = lanes::open(tool, &mut fleet, args.jobs)?;
    let interrupts = tool.interrupts()?;
    let action = Action { past: "put", noun: "job", place };
    let mut bulk = tool.bulk(action, &args.bulk, Some(count))?;
    let gate = bulk.gate();
    let mut bodies = Bodies::new(args.size, args.seed);
    let items: Items<NewJob> = Box::new((1..=count).map(move |n| Ok(bodies.job(&defaults, n))));
    let mut source = Batches::given(items, args.bulk.window(), |job: &NewJob| job.body.len());
    let mut buried = 0_u64;
    let absorb = |event| match event {
        Event::Put { buried: refused, .. } => {
            bulk.success();
            buried += u64::from(refused);
            Ok(())
        }
        Event::Failed(label, error) => {
            bulk.unsent(label, error);
            Ok(())
        }
        Event::BatchEnds => Ok(()),
        Event::Broken(error) => Err(error),
    };
    let done = if lanes.is_empty() {
        lanes::one(&mut tool.link, &mut source, &gate, &interrupts, absorb)
    } else {
        lanes::several(lanes, source, &gate, &interrupts, absorb)
    };
    let exit = bulk.after(done)?.finish(&mut tool.out)?;
    Ok(after_refusals(&tool.messages, buried, exit))
}

/// Bodies of pseudo-random letters and digits.
struct Bodies {
    sizes: Sizes,
    random: Random,
}

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl Bodies {
    fn new(sizes: Sizes, seed: u64) -> Self {
        Self { sizes, random: Random::new(seed) }
    }

    fn job(&mut self, defaults: &Defaults, number: u64) -> NewJob {
        let size = self.sizes.draw(&mut self.random);
        let mut body = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        while (body.len() as u64) < size {
            let mut bits = self.random.next_u64();
            // Ten letters of six bits each.
            for _ in 0..10 {
                let letter = LETTERS.get((bits & 63) as usize).copied().unwrap_or(b'A');
                if (body.len() as u64) < size {
                    body.push(letter);
                }
                bits >>= 6;
            }
        }
        defaults.job(body, format!("job {number}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_sizes_are_read_or_refused() {
        assert_eq!((count("7"), count("10k"), count("2M")), (Ok(7), Ok(10_000), Ok(2_000_000)));
        for text in ["", "-1", "k", "1.5k", "99999999999999999999k"] {
            assert!(count(text).unwrap_err().contains(&format!("`{text}`")));
        }
        assert_eq!(sizes("1k..2k"), Ok(Sizes { smallest: 1024, largest: 2048 }));
        assert_eq!(sizes("1k..=2k"), sizes("1k..2k"));
        assert_eq!(sizes("5"), Ok(Sizes { smallest: 5, largest: 5 }));
        for text in ["", "..", "2..1", "x..2"] {
            assert!(sizes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_bodies_over_the_whole_range() {
        let defaults = Defaults {
            tube: beanstalk_client::TubeName::default(),
            pri: 0,
            delay: Duration::ZERO,
            ttr: Duration::ZERO,
        };
        let sizes = Sizes { smallest: 3, largest: 6 };
        let made = |seed| {
            let mut bodies = Bodies::new(sizes, seed);
            (0..50).map(|n| bodies.job(&defaults, n).body).collect::<Vec<_>>()
        };
        assert_eq!(made(1), made(1));
        assert_ne!(made(1), made(2));
        let mut lengths: Vec<usize> = made(1).iter().map(Vec::len).collect();
        lengths.sort_unstable();
        lengths.dedup();
        assert_eq!(lengths, [3, 4, 5, 6]);
        assert!(made(1).concat().iter().all(u8::is_ascii_graphic));
    }
}
