//! The examples, run as a user would: they move 10,000 jobs, and none is lost.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use fixtures::real::RealServer;
use gearman_client::{
    FunctionName, JobEvent, Outcome, SubmitOptions, blocking::Client, protocol::Submit,
};

const JOBS: &str = "10000";

fn example(name: &str) -> PathBuf {
    fixtures::built::example(env!("CARGO_PKG_NAME"), name).unwrap()
}

fn printed(name: &str, Output { status, stdout, stderr }: Output) -> String {
    assert!(status.success(), "{name}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

/// In memory, and the real one if it is installed.
fn on_each_server(runs: impl Fn(&str)) {
    runs(fixtures::gearmand::Server::start().unwrap().address());
    if let Some(server) = fixtures::real::Gearmand::start() {
        runs(server.address());
    }
}

fn moves_every_job(address: &str, submit: &str, worker: &str, admin: &str) {
    // As many as are submitted, and the one in the foreground.
    let working = Command::new(example(worker))
        .args([address, "square", "10001"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let submitted = Command::new(example(submit)).args([address, "square", JOBS]).output();
    let submitted = printed(submit, submitted.unwrap());
    assert_eq!(
        submitted.lines().collect::<Vec<_>>(),
        ["submitted 10000 jobs", "progress Some(0.5)", "12 gives 144"]
    );
    let worked = printed(worker, working.wait_with_output().unwrap());
    assert_eq!(worked.trim(), "10001 completed, 0 failed");
    let shown = Command::new(example(admin)).arg(address).output().unwrap();
    let shown = printed(admin, shown);
    assert!(shown.contains("square: 0 queued, 0 running, 0 workers"), "{shown}");
}

#[test]
fn async_examples_move_every_job() {
    on_each_server(|address| moves_every_job(address, "submit", "worker", "admin"));
}

#[test]
fn blocking_examples_move_every_job() {
    on_each_server(|address| {
        moves_every_job(address, "submit_blocking", "worker_blocking", "admin_blocking");
    });
}

fn streams_every_job(address: &str) {
    let ran =
        Command::new(example("submit_streams")).args([address, "square", "1000"]).output().unwrap();
    let printed = printed("submit_streams", ran);
    assert_eq!(printed, "the sum of 1000 squares is 332833500\n1000 completed, 0 failed\n");
}

#[test]
fn the_example_of_streams_moves_every_job() {
    on_each_server(streams_every_job);
}

/// A worker process. It ends when its input does.
fn start_worker(example_name: &str, address: &str) -> Child {
    Command::new(example(example_name))
        .args([address, "square"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Ends a worker process as a user would, and returns what it printed.
fn end_worker(name: &str, mut worker: Child) -> String {
    drop(worker.stdin.take());
    printed(name, worker.wait_with_output().unwrap())
}

/// Kills worker processes (SIGKILL) while ten thousand jobs are in progress; every one of them gets its result.
fn no_job_is_lost_with_a_killed_worker(address: &str, worker: &str) {
    const JOBS: usize = 10_000;
    let mut client = Client::connect(address).unwrap();
    let square = FunctionName::try_from("square").unwrap();
    let submits = (0..JOBS).map(|n| {
        Submit::foreground(square.clone(), n.to_string(), SubmitOptions::default()).unwrap()
    });
    let mut working = start_worker(worker, address);
    // With jobs in its hands.
    let mut kill_at = vec![JOBS / 2, JOBS / 4];
    let mut ended = 0;
    for (number, event) in client.submit_many(submits).window(1000) {
        if let JobEvent::Complete(result) = event.unwrap() {
            assert_eq!(result, (number * number).to_string());
            ended += 1;
            if kill_at.pop_if(|at| *at == ended).is_some() {
                working.kill().unwrap();
                working.wait().unwrap();
                working = start_worker(worker, address);
            }
        }
    }
    assert_eq!(ended, JOBS);
    let report = end_worker(worker, working);
    assert!(report.contains("completed") && !report.contains("not finished"), "{report}");
}

#[test]
fn ten_thousand_jobs_survive_killed_worker_processes_on_the_in_memory_server() {
    for worker in ["resilient_worker", "resilient_worker_blocking"] {
        let server = fixtures::gearmand::Server::start().unwrap();
        no_job_is_lost_with_a_killed_worker(server.address(), worker);
    }
}

#[test]
fn ten_thousand_jobs_survive_killed_worker_processes_on_the_real_server() {
    for worker in ["resilient_worker", "resilient_worker_blocking"] {
        if let Some(server) = fixtures::real::Gearmand::start() {
            no_job_is_lost_with_a_killed_worker(server.address(), worker);
        }
    }
}

/// Kills the real server (SIGKILL) and starts it on the same port, again and again while jobs are in progress. It
/// forgets them all; submitter and worker do not.
fn results_survive_a_killed_server(server: &mut RealServer, submit: &str, worker: &str) {
    const JOBS: usize = 4000;
    let working = start_worker(worker, server.address());
    let mut submitting = Command::new(example(submit))
        .args([server.address(), "square", &JOBS.to_string()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut kills = 0;
    let started = Instant::now();
    while submitting.try_wait().unwrap().is_none() {
        assert!(started.elapsed() < Duration::from_secs(120), "it does not end");
        // Jobs have to be in progress before it dies, according to the server's own count.
        let rows = gearman_client::blocking::Admin::connect(server.address())
            .and_then(|mut admin| admin.status().map(gearman_client::Listing::into_rows));
        let counts: HashMap<_, _> = rows
            .unwrap_or_default()
            .into_iter()
            .map(|row| (row.name.to_string(), row.total))
            .collect();
        if kills < 5 && counts.get("square").is_some_and(|total| *total > 0) {
            server.restart().unwrap();
            kills += 1;
        }
        thread::sleep(Duration::from_millis(5));
    }
    let submitted = printed(submit, submitting.wait_with_output().unwrap());
    assert_eq!(submitted.trim(), format!("{JOBS} of {JOBS} results are right"));
    assert!(kills > 0, "the server was never killed with jobs in it");
    let report = end_worker(worker, working);
    assert!(report.contains("completed"), "{report}");
}

#[test]
fn resilient_async_examples_survive_killed_servers() {
    if let Some(mut server) = fixtures::real::Gearmand::start() {
        results_survive_a_killed_server(&mut server, "resilient_submit", "resilient_worker");
    }
}

#[test]
fn resilient_blocking_examples_survive_killed_servers() {
    if let Some(mut server) = fixtures::real::Gearmand::start() {
        results_survive_a_killed_server(
            &mut server,
            "resilient_submit_blocking",
            "resilient_worker_blocking",
        );
    }
}

/// A supervisor's signal reaches a worker while it has a job: the submitter still gets its result.
#[cfg(unix)]
fn finishes_its_job_on_sigterm(address: &str, worker: &str) {
    let mut child = Command::new(example(worker))
        .args([address, "reverse"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id().to_string();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    let outcome = thread::scope(|scope| {
        let submitted = scope.spawn(|| {
            let mut client = Client::connect(address).unwrap();
            client.run("reverse", "hello", SubmitOptions::default()).unwrap()
        });
        assert_eq!(lines.next().unwrap(), "began hello");
        assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
        assert_eq!(lines.next().unwrap(), "ended hello");
        assert_eq!(lines.next(), None);
        submitted.join().unwrap()
    });
    assert_eq!(outcome, Outcome::Complete("olleh".into()));
    let output = child.wait_with_output().unwrap();
    let report = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && report.contains("1 completed, 0 failed"), "{report}");
}

#[cfg(unix)]
#[test]
fn the_graceful_workers_finish_their_jobs_on_sigterm() {
    for worker in ["graceful_worker", "graceful_worker_blocking"] {
        let server = fixtures::gearmand::Server::start().unwrap();
        finishes_its_job_on_sigterm(server.address(), worker);
        if let Some(server) = fixtures::real::Gearmand::start() {
            finishes_its_job_on_sigterm(server.address(), worker);
        }
    }
}

#[test]
fn the_example_with_a_service_keeps_to_the_limits_of_its_layers() {
    let server = fixtures::gearmand::Server::start().unwrap();
    let mut client = Client::connect(server.address()).unwrap();
    for millis in ["20", "600000", "20", "20", "20", "20"] {
        client.submit_background("nap", millis, SubmitOptions::default()).unwrap();
    }
    let ran = Command::new(example("worker_service")).args([server.address(), "nap", "6"]).output();
    let printed = printed("worker_service", ran.unwrap());
    let (report, most) = printed.trim().split_once("; at most ").unwrap();
    assert_eq!(report, "5 completed, 1 failed");
    assert!(["1 at a time", "2 at a time"].contains(&most), "{most}");
}
