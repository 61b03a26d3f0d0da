//! What came of one seed, and of many.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
    time::Duration,
};

use fixtures::history::{History, Report};

use crate::world::Struck;

/// What came of one seed.
#[derive(Default)]
pub struct Outcome {
    pub history: History,
    pub report: Report,
    pub struck: Struck,
    pub trace: u64,
    pub cancelled: u64,
}

/// Runs one seed in a runtime of its own, in virtual time.
pub fn simulate<F: Future<Output = Outcome>>(seed: u64, run: impl Fn(u64) -> F) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    // Whatever hangs in virtual time ends here.
    let limit = Duration::from_secs(3600);
    runtime.block_on(async {
        tokio::time::timeout(limit, run(seed)).await.unwrap_or_else(|_| panic!("seed {seed} hangs"))
    })
}

/// Runs many seeds on all cores, and fails with the first one that breaks a rule.
pub fn simulate_all<F: Future<Output = Outcome>>(name: &str, run: impl Fn(u64) -> F + Sync) {
    let number = |variable: &str, usual| {
        std::env::var(variable).map_or(usual, |text| {
            text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {text}"))
        })
    };
    let (first, seeds) = (number("SIM_FIRST", 0), number("SIM_SEEDS", 1000));
    let next = AtomicU64::new(first);
    let worker = || {
        let mut total = Total::default();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + seeds {
                return total;
            }
            let outcome = simulate(seed, &run);
            assert!(
                outcome.report.violations.is_empty(),
                "seed {seed} breaks rules; again: SIM_FIRST={seed} SIM_SEEDS=1 SIM_WIRE=1 cargo test -p tests --test sim {name} -- --nocapture\n\
                 {}\n{}",
                outcome.history,
                outcome.report.violations.iter().map(|v| format!("{v}\n")).collect::<String>(),
            );
            total.add(&outcome);
        }
    };
    let cores = thread::available_parallelism().map_or(2, usize::from);
    let total = thread::scope(|scope| {
        let running: Vec<_> = (0..cores).map(|_| scope.spawn(worker)).collect();
        let mut total = Total::default();
        for worker in running {
            match worker.join() {
                Ok(part) => total.merge(&part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        total
    });
    println!("{name}: {seeds} seeds from {first}: {total:?}, {} faults", total.struck.total());
    // A simulation in which nothing goes wrong, or nothing comes through, proves nothing.
    if seeds >= 100 {
        assert!(total.struck.total() > 50 * seeds, "too few faults: {total:?}");
        assert!(total.acknowledged > 10 * seeds, "too few jobs: {total:?}");
        assert!(
            total.recovered > 0 && total.duplicated > 0 && total.cancelled > seeds,
            "{total:?}"
        );
    }
}

/// The numbers of many seeds.
#[derive(Debug, Default)]
struct Total {
    acknowledged: u64,
    delivered: u64,
    duplicated: u64,
    recovered: u64,
    remaining: u64,
    forgotten: u64,
    cancelled: u64,
    struck: Struck,
}

impl Total {
    fn add(&mut self, outcome: &Outcome) {
        let Report { acknowledged, delivered, duplicated, recovered, remaining, forgotten, .. } =
            outcome.report;
        self.merge(&Total {
            acknowledged: acknowledged as u64,
            delivered: delivered as u64,
            duplicated: duplicated as u64,
            recovered: recovered as u64,
            remaining: remaining as u64,
            forgotten: forgotten as u64,
            cancelled: outcome.cancelled,
            struck: outcome.struck,
        });
    }

    fn merge(&mut self, other: &Total) {
        self.acknowledged += other.acknowledged;
        self.delivered += other.delivered;
        self.duplicated += other.duplicated;
        self.recovered += other.recovered;
        self.remaining += other.remaining;
        self.forgotten += other.forgotten;
        self.cancelled += other.cancelled;
        self.struck.add(other.struck);
    }
}
