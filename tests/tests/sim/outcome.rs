//! The outcome of one seed, and of many.

use std::{
    collections::BTreeSet,
    ops::Range,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use fixtures::history::{History, Report};

use crate::{kinds::Kinds, world::Struck};

/// The outcome of one seed.
#[derive(Default)]
pub struct Outcome {
    pub history: History,
    pub report: Report,
    pub struck: Struck,
    pub trace: u64,
    pub cancelled: u64,
}

/// Runs one seed in its own runtime, in virtual time.
pub fn simulate<F: Future>(seed: u64, run: impl Fn(u64) -> F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    // Whatever hangs in virtual time ends here.
    let limit = Duration::from_secs(1_000_000);
    runtime.block_on(async {
        tokio::time::timeout(limit, run(seed)).await.unwrap_or_else(|_| panic!("seed {seed} hangs"))
    })
}

/// A number that the environment may override.
pub fn setting(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |text| {
        text.parse().unwrap_or_else(|_| panic!("{variable} is not a number: {text}"))
    })
}

/// Does something for each seed, on all cores.
pub fn for_each_seed(seeds: Range<u64>, run: impl Fn(u64) + Sync) {
    let next = AtomicU64::new(seeds.start);
    let has_failed = AtomicBool::new(false);
    let worker = || {
        while !has_failed.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let outcome = catch_unwind(AssertUnwindSafe(|| run(seed)));
            if let Err(panic) = outcome {
                has_failed.store(true, Ordering::Relaxed);
                eprintln!("seed {seed} fails");
                resume_unwind(panic);
            }
        }
    };
    let cores = thread::available_parallelism().map_or(2, usize::from);
    thread::scope(|scope| {
        (0..cores).for_each(|_| drop(scope.spawn(worker)));
    });
}

/// Runs many seeds, this number unless the environment says another one, and fails with the first one that breaks a
/// rule.
pub fn simulate_all<F: Future<Output = Outcome>>(
    name: &str,
    usual: u64,
    run: impl Fn(u64) -> F + Sync,
) {
    let (first, seeds) = (setting("SIM_FIRST", 0), setting("SIM_SEEDS", usual));
    let total = Mutex::new(Total::default());
    for_each_seed(first..first + seeds, |seed| {
        let faults = TellsOnPanic(seed);
        let outcome = simulate(seed, &run);
        drop(faults);
        assert!(
            outcome.report.violations.is_empty(),
            "seed {seed} breaks rules, with {}; again: SIM_FIRST={seed} SIM_SEEDS=1 SIM_WIRE=1 cargo test -p tests --test sim {name} -- --nocapture\n\
             {}\n{}",
            Kinds::of(seed),
            outcome.history,
            outcome.report.violations.iter().map(|v| format!("{v}\n")).collect::<String>(),
        );
        total.lock().unwrap().add(&outcome);
    });
    let mut total = total.into_inner().unwrap();
    total.combinations = (first..first + seeds).map(Kinds::of).collect::<BTreeSet<_>>().len();
    let struck: u64 = total.struck.each().iter().sum();
    println!("{name}: {seeds} seeds from {first}: {total:?}, {struck} faults");
    // A simulation in which nothing goes wrong, or nothing gets through, proves nothing.
    if seeds >= usual {
        assert!(struck > 50 * seeds, "too few faults: {total:?}");
        assert!(!total.struck.each().contains(&0), "a kind of fault is missing: {total:?}");
        assert!(total.combinations as u64 > seeds / 2, "too few combinations: {total:?}");
        assert!(total.acknowledged > 10 * seeds, "too few jobs: {total:?}");
        assert!(
            total.recovered > 0 && total.duplicated > 0 && total.cancelled > seeds,
            "{total:?}"
        );
    }
}

/// Reports the faults of a seed in which an actor panics.
struct TellsOnPanic(u64);

impl Drop for TellsOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("seed {} has {}", self.0, Kinds::of(self.0));
        }
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
    /// Number of different sets of kinds of fault.
    combinations: usize,
}

impl Total {
    fn add(&mut self, outcome: &Outcome) {
        let Report { acknowledged, delivered, duplicated, recovered, remaining, forgotten, .. } =
            outcome.report;
        self.acknowledged += acknowledged as u64;
        self.delivered += delivered as u64;
        self.duplicated += duplicated as u64;
        self.recovered += recovered as u64;
        self.remaining += remaining as u64;
        self.forgotten += forgotten as u64;
        self.cancelled += outcome.cancelled;
        self.struck.add(outcome.struck);
    }
}
