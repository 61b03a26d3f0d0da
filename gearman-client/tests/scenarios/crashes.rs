//! Jobs that end the processes of their workers.

use std::{
    env,
    path::Path,
    process::{self, Command, Stdio},
    thread,
};

use gearman_client::{CrashLedger, JobLimit, Outcome, Worker, WorkerOptions, blocking};

use super::{
    face::{Face, scenarios},
    support::options,
};

/// The variables that control the worker processes below.
const ADDRESS: &str = "CRASHING_WORKER_ADDRESS";
const FOLDER: &str = "CRASHING_WORKER_FOLDER";

/// Ends at once for one workload, and after two jobs otherwise.
fn crash(workload: &[u8]) {
    if workload == b"crash" {
        process::abort();
    }
}

fn worker_options() -> Option<WorkerOptions> {
    let options: WorkerOptions = env::var(ADDRESS).ok()?.parse().unwrap();
    let ledger = CrashLedger::open(env::var(FOLDER).unwrap(), 2).unwrap();
    Some(options.crash_ledger(ledger).limit(JobLimit::new(2)))
}

/// Not a test, but the worker process of those below.
#[test]
fn worker_process_blocking() {
    let Some(options) = worker_options() else { return };
    let mut worker = blocking::Worker::connect(options).unwrap();
    worker
        .register("crashes", |job| {
            crash(&job.workload);
            "fine"
        })
        .unwrap();
    worker.run().unwrap();
}

/// Not a test, but the worker process of those below.
#[test]
fn worker_process_async() {
    let Some(options) = worker_options() else { return };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut worker = Worker::connect(options).await.unwrap();
        worker
            .register("crashes", |job| async move {
                tokio::task::yield_now().await;
                crash(&job.workload);
                "fine"
            })
            .unwrap();
        worker.run().await;
    });
}

/// Runs a worker in its own process to its end; returns whether it ended normally.
fn work(process: &str, address: &str, folder: &Path) -> bool {
    Command::new(env::current_exe().unwrap())
        .args(["--exact", &format!("crashes::{process}"), "--nocapture"])
        .env(ADDRESS, address)
        .env(FOLDER, folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .unwrap()
        .success()
}

scenarios!(a_job_that_kills_its_workers_is_failed_at_the_limit);

/// G25.
fn a_job_that_kills_its_workers_is_failed_at_the_limit<F: Face>(address: &str) {
    let process = match F::NAME {
        "async" => "worker_process_async",
        _ => "worker_process_blocking",
    };
    let folder = tempfile::tempdir().unwrap();
    let at = address.to_owned();
    let waits = thread::spawn(move || {
        let mut client = F::to(&at);
        let bad = client.run("crashes", b"crash", options()).unwrap();
        (bad, client.run("crashes", b"", options()).unwrap())
    });
    assert!(!work(process, address, folder.path()), "the first crash");
    assert!(!work(process, address, folder.path()), "the second crash");
    assert!(work(process, address, folder.path()), "it is not run a third time");
    let (bad, good) = waits.join().unwrap();
    let Outcome::Exception(why) = bad else { panic!("{bad:?}") };
    assert!(why.starts_with(b"not run: "), "{why:?}");
    assert_eq!(good, Outcome::Complete("fine".into()));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
