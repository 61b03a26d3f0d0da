//! `latency`: round trips, one after the other, and what they took in each stretch of time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use clap::Args;

use crate::error::{CliError, Exit};
use crate::link::Link;
use crate::messages::Messages;
use crate::output::{Column, Record, Shape};
use crate::ping::PATIENCE;
use crate::tool::{Context, Tool};
use crate::units;

/// Arguments of `latency`.
#[derive(Debug, Args)]
pub struct LatencyArgs {
    /// Pause between two round trips
    #[arg(short, long, value_name = "DUR", default_value = "100ms", value_parser = units::duration)]
    interval: Duration,

    /// How much time each line is about
    #[arg(long, value_name = "DUR", default_value = "5s", value_parser = stretch)]
    every: Duration,

    /// Stop after N lines [default: 1 in a pipe]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

fn stretch(text: &str) -> Result<Duration, String> {
    let stretch = units::duration(text)?;
    if stretch < Duration::from_millis(100) {
        return Err(format!("`{text}` is too short: a line is about 100ms at least"));
    }
    Ok(stretch)
}

static TIMES: Shape = Shape::rows(
    "server",
    &[
        Column::on_request("ts", "TIME"),
        Column::new("server", "SERVER"),
        Column::new("n", "N"),
        Column::new("lost", "LOST"),
        Column::new("min_ms", "MIN"),
        Column::new("avg_ms", "AVG"),
        Column::new("p50_ms", "P50"),
        Column::new("p99_ms", "P99"),
        Column::new("max_ms", "MAX"),
    ],
);

/// Runs `latency`: a line for each server and stretch of time, and a summary at the end, also after Ctrl-C.
///
/// # Errors
/// No server answers the first time (69, 124, 76); stdout fails (74).
pub fn run<T: Tool>(context: &mut Context<T>, args: &LatencyArgs) -> Result<Exit, CliError> {
    context.link.dialer_mut().default_timeout(PATIENCE);
    let interrupts = context.interrupts()?;
    let mut servers: Vec<(String, T::Link)> = context.link.each()?;
    let firsts: Vec<Result<_, CliError>> =
        servers.iter_mut().map(|(_, link)| link.connect().and_then(|()| link.ping(0))).collect();
    if firsts.iter().all(Result::is_err) {
        let worst = firsts.into_iter().filter_map(Result::err).max_by_key(|e| e.exit.code());
        return Err(worst.unwrap_or_else(|| CliError::usage("no server is given")));
    }
    let most = args.count.or((!context.out.style.terminal).then_some(1));
    let (over, messages) = (AtomicBool::new(false), context.messages.clone());
    let mut list = context.out.list(&TIMES)?.live();
    let (addresses, links): (Vec<String>, Vec<T::Link>) = servers.into_iter().unzip();
    let mut wholes: Vec<Times> = addresses.iter().map(|_| Times::default()).collect();
    thread::scope(|scope| {
        let (lines, told) = mpsc::sync_channel(addresses.len());
        for (server, (link, address)) in links.into_iter().zip(&addresses).enumerate() {
            let meter = Meter { link, address, messages: &messages, over: &over };
            let lines = lines.clone();
            scope.spawn(move || meter.run(args, |times| lines.send((server, times)).is_ok()));
        }
        drop(lines);
        let mut left = most.map(|most| most.saturating_mul(addresses.len() as u64));
        let measured = loop {
            let (server, times) = match told.recv_timeout(TICK) {
                Ok(told) => told,
                Err(RecvTimeoutError::Timeout) if interrupts.requested().is_none() => continue,
                Err(_) => break Ok(()),
            };
            let address = addresses.get(server).map(String::as_str).unwrap_or_default();
            let shown = list.push(times.record(address)).and_then(|()| list.flush());
            if let Some(whole) = wholes.get_mut(server) {
                whole.add(&times);
            }
            left = left.map(|left| left - 1);
            if shown.is_err() || left == Some(0) {
                break shown;
            }
        };
        over.store(true, Ordering::SeqCst);
        // What has been measured since the last line counts in the summary.
        for (server, times) in told {
            if let Some(whole) = wholes.get_mut(server).filter(|_| interrupts.requested().is_some())
            {
                whole.add(&times);
            }
        }
        measured
    })?;
    list.finish()?;
    for (address, whole) in addresses.iter().zip(&wholes) {
        context.messages.note(whole.summary(address));
    }
    let has_lost = wholes.iter().any(|whole| whole.lost > 0);
    let exit = if has_lost { Exit::Unavailable } else { Exit::Done };
    Ok(interrupts.requested().unwrap_or(exit))
}

/// How often signals are looked for.
const TICK: Duration = Duration::from_millis(50);

/// Measures one server.
struct Meter<'m, L> {
    link: L,
    address: &'m str,
    messages: &'m Messages,
    over: &'m AtomicBool,
}

impl<L: Link> Meter<'_, L> {
    /// Tells what came of each stretch of time, the last one cut short by the end, until nobody wants to hear more.
    fn run(mut self, args: &LatencyArgs, mut tell: impl FnMut(Times) -> bool) {
        let (mut n, mut is_down) = (0, false);
        let mut end = Instant::now() + args.every;
        let mut times = Times::default();
        loop {
            n += 1;
            match self.link.connect().and_then(|()| self.link.ping(n)) {
                Ok(pong) => {
                    times.came(pong.took);
                    if std::mem::take(&mut is_down) {
                        self.messages.note(format!("{} answers again", self.address));
                    }
                }
                Err(error) => {
                    times.lost += 1;
                    self.link.close();
                    if !std::mem::replace(&mut is_down, true) {
                        self.messages.warn(error.at(self.address));
                    }
                }
            }
            // One that is away is not asked without a pause.
            let pause = if is_down { args.interval.max(TICK) } else { args.interval };
            let next = Instant::now() + pause;
            while Instant::now() < next && !self.over.load(Ordering::SeqCst) {
                thread::sleep(TICK.min(next.saturating_duration_since(Instant::now())));
            }
            let (is_over, now) = (self.over.load(Ordering::SeqCst), Instant::now());
            if is_over || now >= end {
                end = now + args.every;
                let is_heard = tell(std::mem::take(&mut times));
                if is_over || !is_heard {
                    return;
                }
            }
        }
    }
}

/// The buckets of a doubling of time: each is about 1.6 % wide.
const STEPS: u64 = 64;

/// What round trips took, in buckets of nanoseconds that grow with the time.
#[derive(Debug, Default)]
struct Times {
    counts: Vec<u64>,
    n: u64,
    lost: u64,
    sum: Duration,
    min: Option<Duration>,
    max: Duration,
}

impl Times {
    fn came(&mut self, took: Duration) {
        let bucket = bucket(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        if self.counts.len() <= bucket {
            self.counts.resize(bucket + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(bucket) {
            *count += 1;
        }
        self.n += 1;
        self.sum += took;
        self.min = Some(self.min.map_or(took, |min| min.min(took)));
        self.max = self.max.max(took);
    }

    fn add(&mut self, other: &Self) {
        if self.counts.len() < other.counts.len() {
            self.counts.resize(other.counts.len(), 0);
        }
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.n += other.n;
        self.lost += other.lost;
        self.sum += other.sum;
        self.min = match (self.min, other.min) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        self.max = self.max.max(other.max);
    }

    /// What so many of a hundred took at most.
    fn percentile(&self, percent: u64) -> Option<Duration> {
        let wanted = (self.n * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let at = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        })?;
        Some(Duration::from_nanos(upper(at)).clamp(self.min?, self.max))
    }

    fn average(&self) -> Option<Duration> {
        let nanoseconds = self.sum.as_nanos().checked_div(self.n.into())?;
        Some(Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX)))
    }

    /// What is told of them: the smallest, the average, two percentiles, the largest; none without an answer.
    fn told(&self) -> Option<[f64; 5]> {
        let all =
            [self.min?, self.average()?, self.percentile(50)?, self.percentile(99)?, self.max];
        Some(all.map(units::milliseconds))
    }

    fn record(&self, address: &str) -> Record {
        let now = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
        let record = Record::new().with("ts", now).with("server", address);
        let record = record.with("n", self.n).with("lost", self.lost);
        let keys = ["min_ms", "avg_ms", "p50_ms", "p99_ms", "max_ms"];
        keys.into_iter().enumerate().fold(record, |record, (at, key)| {
            record.with(key, self.told().and_then(|told| told.get(at).copied()))
        })
    }

    fn summary(&self, address: &str) -> String {
        let asked = self.n + self.lost;
        let count = format!("{address}: {} of {asked} answered", self.n);
        match self.told() {
            Some([min, average, half, most, max]) => format!(
                "{count}, min {min} ms, avg {average} ms, p50 {half} ms, p99 {most} ms, max {max} ms"
            ),
            None => count,
        }
    }
}

/// The bucket of so many nanoseconds: one for each below 64, then 64 for each doubling.
fn bucket(nanoseconds: u64) -> usize {
    let log = nanoseconds.checked_ilog2();
    let doublings = log.map_or(0, |log| (log + 1).saturating_sub(STEPS.ilog2()));
    let step =
        if doublings == 0 { nanoseconds } else { nanoseconds >> (doublings - 1) & (STEPS - 1) };
    usize::try_from(u64::from(doublings) * STEPS + step).unwrap_or(usize::MAX)
}

/// The most nanoseconds of a bucket.
fn upper(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let (doublings, step) = (bucket / STEPS, bucket % STEPS);
    match doublings {
        0 => step,
        doublings => ((STEPS + step) << (doublings - 1)) + ((1 << (doublings - 1)) - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_no_wider_than_a_sixtieth_of_its_time() {
        let mut before = None;
        for shift in 0..40 {
            for part in 0..200_u64 {
                let nanoseconds = (1 << shift) + (part << shift) / 200;
                let at = bucket(nanoseconds);
                assert!(before <= Some(at), "{nanoseconds}");
                before = Some(at);
                let upper = upper(at);
                assert!(upper >= nanoseconds, "{nanoseconds} {upper}");
                assert!((upper - nanoseconds) as f64 <= nanoseconds as f64 / 60.0, "{nanoseconds}");
            }
        }
        assert_eq!(upper(bucket(u64::MAX)), u64::MAX);
    }

    #[test]
    fn percentiles_are_of_what_came_and_stretches_add_up() {
        let mut first = Times::default();
        (1..=100).for_each(|ms| first.came(Duration::from_millis(ms)));
        let [min, average, half, most, max] = first.told().unwrap();
        assert_eq!((min, average, max), (1.0, 50.5, 100.0));
        assert!((50.0..51.0).contains(&half) && (99.0..=100.0).contains(&most), "{half} {most}");
        let mut second = Times { lost: 3, ..Times::default() };
        assert_eq!(second.told(), None);
        second.came(Duration::from_micros(500));
        second.add(&first);
        assert_eq!((second.n, second.lost), (101, 3));
        let [min, .., max] = second.told().unwrap();
        assert_eq!((min, max), (0.5, 100.0));
        assert!(second.summary("x").starts_with("x: 101 of 104 answered, min 0.5 ms"));
        assert_eq!(Times { lost: 2, ..Times::default() }.summary("x"), "x: 0 of 2 answered");
    }
}
