//! The command line.

use std::{path::PathBuf, str::FromStr, time::Duration};

use crate::{adf_queue, beanstalk, gearman, summary::Summary};

pub const USAGE: &str = "\
usage: soak beanstalkd|gearmand|adf-queue [options]
  --minutes N        how long (30)
  --seconds N        the same in seconds
  --kill-every N     seconds between two kills of the server (30)
  --rate N           jobs a second, all producers together (500)
  --seed N           for all that is random (random)
  --without-log      the server forgets its jobs when it is killed, as adf-queue always does: nobody misses those
  --miss-forgotten   they are missed all the same: such a run is not good
  --trace FILE       writes down everything that happens
  --json             the summary as one line of JSON";

pub struct Options {
    pub soak: fn(&Options) -> Option<Summary>,
    pub length: Duration,
    pub kill_every: Duration,
    pub rate: u64,
    pub seed: u64,
    pub without_log: bool,
    pub miss_forgotten: bool,
    pub trace: Option<PathBuf>,
    pub json: bool,
}

type Soak = (&'static str, fn(&Options) -> Option<Summary>);

const SOAKS: [Soak; 3] =
    [("beanstalkd", beanstalk::soak), ("gearmand", gearman::soak), ("adf-queue", adf_queue::soak)];

impl Options {
    pub fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
        let server = arguments.next().ok_or("which server?")?;
        let soak = SOAKS.iter().find(|(name, _)| *name == server).map(|(_, soak)| *soak);
        let none = || format!("{server:?} is no server: beanstalkd, gearmand or adf-queue");
        let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let mut options = Options {
            soak: soak.ok_or_else(none)?,
            length: Duration::from_secs(30 * 60),
            kill_every: Duration::from_secs(30),
            rate: 500,
            seed: clock.map_or(0, |time| time.as_nanos() as u64 % 1_000_000),
            without_log: false,
            miss_forgotten: false,
            trace: None,
            json: false,
        };
        while let Some(argument) = arguments.next() {
            let mut value =
                || arguments.next().ok_or_else(|| format!("{argument} needs a value behind it"));
            match argument.as_str() {
                "--minutes" => options.length = Duration::from_secs(60 * number::<u64>(&value()?)?),
                "--seconds" => options.length = Duration::from_secs(number(&value()?)?),
                "--kill-every" => options.kill_every = Duration::from_secs(number(&value()?)?),
                "--rate" => options.rate = number(&value()?)?,
                "--seed" => options.seed = number(&value()?)?,
                "--trace" => options.trace = Some(value()?.into()),
                "--without-log" => options.without_log = true,
                "--miss-forgotten" => options.miss_forgotten = true,
                "--json" => options.json = true,
                other => return Err(format!("{other:?} is not known")),
            }
        }
        let positive = |what: &str, value: u64| match value {
            0 => Err(format!("{what} 0 is not valid: it has to be at least 1")),
            _ => Ok(()),
        };
        positive("--minutes", options.length.as_secs())?;
        positive("--kill-every", options.kill_every.as_secs())?;
        positive("--rate", options.rate)?;
        Ok(options)
    }
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is not valid: a whole number is needed"))
}
