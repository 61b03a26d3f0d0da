//! The resources of this process, and whether they grow.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::{ledger::MEMORY, options::Options, stage::Stage, trend::Trend};

/// The resources of the process at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// Resident memory, in KiB.
    pub memory: u64,
    pub descriptors: u64,
    pub threads: u64,
}

/// How often to check whether producers are too fast.
const THROTTLE: Duration = Duration::from_millis(200);

/// The memory of the ledger for a job that it remembers.
const JOB_BYTES: u64 = 256;

/// Takes samples until the calm; meanwhile, tidies the ledger and throttles producers. There are none if the system
/// does not report them.
pub fn watch(stage: &Stage, options: &Options) -> Vec<Trend> {
    let length = options.length;
    // Every 10 s, and in a short run enough for a median.
    let every = (length / 24).min(Duration::from_secs(10)).max(Duration::from_millis(500));
    // From then on, the ledger forgets as much as it learns; in a short run, it only learns.
    let is_long = length > 4 * MEMORY;
    let warm_up = Instant::now() + if is_long { MEMORY + 2 * every } else { length / 10 };
    let learned = if is_long { 0 } else { options.rate * length.as_secs() * JOB_BYTES / 1024 };
    let mut samples = Vec::new();
    let mut next = Instant::now();
    while stage.pause(THROTTLE) {
        stage.throttle();
        if Instant::now() < next {
            continue;
        }
        next += every;
        let open = stage.ledger.tidy();
        let Some(sample) = sample() else { continue };
        stage.ledger.remark(&format!("{open} jobs are open; {sample:?}"));
        if Instant::now() >= warm_up {
            samples.push(sample);
        }
    }
    let trend = |name, unit, of: fn(&Sample) -> u64, margin| {
        Trend::of(name, unit, &samples.iter().map(of).collect::<Vec<_>>(), margin)
    };
    let trends = [
        trend("memory", "KiB", |sample| sample.memory, 16 * 1024 + learned),
        // A third of a short run may be one storm, in which clients and networks hold connections that end soon.
        trend("descriptors", "", |sample| sample.descriptors, if is_long { 20 } else { 100 }),
        trend("threads", "", |sample| sample.threads, 20),
    ];
    trends.into_iter().flatten().collect()
}

/// As reported by Linux; `None` elsewhere.
fn sample() -> Option<Sample> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let field = |name: &str| -> Option<u64> {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse().ok()
    };
    Some(Sample {
        memory: field("VmRSS:")?,
        descriptors: std::fs::read_dir("/proc/self/fd").ok()?.count() as u64,
        threads: field("Threads:")?,
    })
}

/// Waits for a condition, at most this long; returns whether it became true.
pub fn wait_for(limit: Duration, mut is_there: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        if is_there() {
            return true;
        }
        if Instant::now() >= end {
            return false;
        }
        thread::sleep(Duration::from_millis(100));
    }
}
