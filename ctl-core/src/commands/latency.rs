//! `latency`: successive round trips, and their distribution in each period.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use hdrhistogram::Histogram;

use crate::context::{Context, Tool};
use crate::error::{CliError, Exit};
use crate::link::Link;
use crate::link::PATIENCE;
use crate::output::messages::Messages;
use crate::output::progress::Wait;
use crate::output::times;
use crate::output::{Column, Record, Shape};
use crate::system::at_once::at_once;
use crate::text::units;

/// Arguments of `latency`.
#[derive(Debug, Args)]
pub struct LatencyArgs {
    /// Interval between two round trips
    #[arg(short, long, value_name = "DUR", default_value = "100ms", value_parser = units::duration)]
    interval: Duration,

    /// Period that each line covers
    #[arg(long, value_name = "DUR", default_value = "5s", value_parser = stretch)]
    every: Duration,

    /// Exit after N lines, each of --every [default: 1 in a pipe]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

fn stretch(text: &str) -> Result<Duration, String> {
    let stretch = units::duration(text)?;
    if stretch < Duration::from_millis(100) {
        return Err(format!("`{text}` is too short: a line must cover at least 100ms"));
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
        Column::new("min_ms", "MIN MS"),
        Column::new("avg_ms", "AVG MS"),
        Column::new("p50_ms", "P50 MS"),
        Column::new("p99_ms", "P99 MS"),
        Column::new("max_ms", "MAX MS"),
    ],
);

/// Runs `latency`: a line for each server and period, and a summary at the end, also after Ctrl-C.
///
/// # Errors
/// No server answers the first time (69, 124, 76); stdout fails (74).
pub fn run<T: Tool>(context: &mut Context<T>, args: &LatencyArgs) -> Result<Exit, CliError> {
    context.link.dialer_mut().default_timeout(PATIENCE);
    context.out.expect(&TIMES)?;
    let interrupts = context.interrupts()?;
    let mut servers: Vec<(String, T::Link)> = context.link.each()?;
    let firsts = at_once(&mut servers, |(_, link)| link.connect().and_then(|()| link.ping(0)));
    if firsts.iter().all(Result::is_err) {
        let worst = firsts.into_iter().filter_map(Result::err).max_by_key(|e| e.exit.code());
        return Err(worst.unwrap_or_else(|| CliError::usage("no server given")));
    }
    let most = args.count.or((!context.out.style.terminal).then_some(1));
    let whole = args.every.saturating_mul(u32::try_from(most.unwrap_or(1)).unwrap_or(u32::MAX));
    if whole > LONG {
        let (lines, every) = (most.unwrap_or(1), units::show_duration(args.every));
        let whole = units::show_duration(whole);
        context.messages.note(format!("{lines} lines of {every} each take {whole} (--every)"));
    }
    let (over, messages) = (AtomicBool::new(false), context.messages.clone());
    let mut list = context.out.list(&TIMES)?.live();
    let (addresses, links): (Vec<String>, Vec<T::Link>) = servers.into_iter().unzip();
    let blank = Times::new()?;
    let wait = Wait::new(&messages, "measuring", Some(args.every));
    let mut waiting = wait.showing(&messages).shown();
    let mut wholes = vec![blank.clone(); addresses.len()];
    thread::scope(|scope| {
        let (lines, told) = mpsc::sync_channel(addresses.len());
        for (server, (link, address)) in links.into_iter().zip(&addresses).enumerate() {
            let meter = Meter { link, address, messages: &messages, over: &over };
            let (lines, times) = (lines.clone(), blank.clone());
            let tell = move |times| lines.send((server, times)).is_ok();
            scope.spawn(move || meter.run(args, most, times, tell));
        }
        drop(lines);
        let mut measured = loop {
            let (server, times) = match told.recv_timeout(TICK) {
                Ok(told) => told,
                Err(RecvTimeoutError::Timeout) if interrupts.requested().is_none() => {
                    waiting.see("");
                    continue;
                }
                Err(_) => break Ok(()),
            };
            let address = addresses.get(server).map(String::as_str).unwrap_or_default();
            waiting.over();
            let shown = list.push(times.record(address)).and_then(|()| list.flush());
            if let Some(whole) = wholes.get_mut(server) {
                whole.add(&times);
            }
            if shown.is_err() {
                break shown;
            }
        };
        over.store(true, Ordering::SeqCst);
        drop(waiting);
        // The measurements since the last line are the last one.
        for (server, times) in told {
            let is_wanted = interrupts.requested().is_some() && times.asked() > 0;
            if let Some(whole) = wholes.get_mut(server).filter(|_| is_wanted) {
                let address = addresses.get(server).map(String::as_str).unwrap_or_default();
                measured = measured.and_then(|()| list.push(times.record(address)));
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

/// A measurement that takes longer says so: its count may have been meant as one of round trips.
const LONG: Duration = Duration::from_secs(60);

/// How often to check for signals.
const TICK: Duration = Duration::from_millis(50);

/// Measures one server.
struct Meter<'m, L> {
    link: L,
    address: &'m str,
    messages: &'m Messages,
    over: &'m AtomicBool,
}

impl<L: Link> Meter<'_, L> {
    /// Reports each period, the last one cut short by the end, until there were `most`, or the receiver is gone.
    fn run(
        mut self,
        args: &LatencyArgs,
        mut most: Option<u64>,
        mut times: Times,
        mut tell: impl FnMut(Times) -> bool,
    ) {
        let (mut n, mut is_down) = (0, false);
        let mut begun = Instant::now();
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
            // A server that is away is not queried without a pause.
            let pause = if is_down { args.interval.max(TICK) } else { args.interval };
            let asked = Instant::now();
            while asked.elapsed() < pause && !self.over.load(Ordering::SeqCst) {
                thread::sleep(TICK.min(pause.saturating_sub(asked.elapsed())));
            }
            let is_over = self.over.load(Ordering::SeqCst);
            if is_over || begun.elapsed() >= args.every {
                begun = Instant::now();
                let is_heard = tell(times.take());
                most = most.map(|most| most.saturating_sub(1));
                if is_over || !is_heard || most == Some(0) {
                    return;
                }
            }
        }
    }
}

/// The durations of round trips.
#[derive(Debug, Clone)]
struct Times {
    histogram: Histogram<u64>,
    lost: u64,
}

impl Times {
    fn new() -> Result<Self, CliError> {
        Ok(Self { histogram: times::histogram()?, lost: 0 })
    }

    fn came(&mut self, took: Duration) {
        self.histogram.saturating_record(times::nanoseconds(took));
    }

    fn add(&mut self, other: &Self) {
        // Both have the same bounds.
        let _ = self.histogram.add(&other.histogram);
        self.lost += other.lost;
    }

    /// Takes these durations, and starts over.
    fn take(&mut self) -> Self {
        let taken = self.clone();
        // With the shortest and the longest, which `clear` would keep.
        self.histogram.reset();
        self.lost = 0;
        taken
    }

    fn n(&self) -> u64 {
        self.histogram.len()
    }

    /// The number of round trips, with those without an answer.
    fn asked(&self) -> u64 {
        self.n() + self.lost
    }

    /// The reported values: the minimum, the average, two percentiles, the maximum; `None` without an answer.
    fn told(&self) -> Option<[f64; 5]> {
        let times = &self.histogram;
        // The average of values that fit also fits.
        let average = times.mean() as u64;
        let [half, most] = [0.5, 0.99].map(|quantile| times.value_at_quantile(quantile));
        let all = [times.min(), average, half, most, times.max()];
        (!times.is_empty()).then(|| all.map(times::milliseconds))
    }

    fn record(&self, address: &str) -> Record {
        let now = units::now_in_milliseconds();
        let record = Record::new().with("ts", now).with("server", address);
        let record = record.with("n", self.n()).with("lost", self.lost);
        let keys = ["min_ms", "avg_ms", "p50_ms", "p99_ms", "max_ms"];
        keys.into_iter().enumerate().fold(record, |record, (at, key)| {
            record.with(key, self.told().and_then(|told| told.get(at).copied()))
        })
    }

    fn summary(&self, address: &str) -> String {
        let count = format!("{address}: {} of {} answered", self.n(), self.asked());
        match self.told() {
            Some([min, average, half, most, max]) => format!(
                "{count}, min {min} ms, avg {average} ms, p50 {half} ms, p99 {most} ms, max {max} ms"
            ),
            None => count,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_what_came_and_stretches_add_up() {
        let mut first = Times::new().unwrap();
        (1..=100).for_each(|ms| first.came(Duration::from_millis(ms)));
        let near = |told: Option<[f64; 5]>, expected: [f64; 5]| {
            let told = told.unwrap();
            let is_near =
                |(told, expected): (&f64, &f64)| (told - expected).abs() <= expected / 500.0;
            assert!(told.iter().zip(&expected).all(is_near), "{told:?} {expected:?}");
        };
        near(first.told(), [1.0, 50.5, 50.0, 99.0, 100.0]);
        let mut second = Times { lost: 3, ..Times::new().unwrap() };
        assert_eq!(second.told(), None);
        assert_eq!(second.summary("x"), "x: 0 of 3 answered");
        second.came(Duration::from_micros(500));
        second.add(&first);
        assert_eq!((second.n(), second.lost), (101, 3));
        near(second.told(), [0.5, 50.005, 50.0, 99.0, 100.0]);
        assert!(second.summary("x").starts_with("x: 101 of 104 answered, min 0.5 ms"));
        let taken = second.take();
        assert_eq!((taken.n(), second.n(), second.lost), (101, 0, 0));
        second.came(Duration::from_millis(2));
        near(second.told(), [2.0; 5]);
    }
}
