//! The examples, run as a user would: they move 2,000 jobs, and none is lost.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Command, Output, Stdio},
    time::Duration,
};

use beanstalk_client::{ErrorKind, PutOptions, Reserved, blocking::Client};

use crate::support::{Environment, each_server};

const JOBS: &str = "2000";

fn example(name: &str) -> PathBuf {
    fixtures::built::example(env!("CARGO_PKG_NAME"), name).unwrap()
}

fn run(name: &str, arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } =
        Command::new(example(name)).args(arguments).output().unwrap();
    assert!(status.success(), "{name}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

fn moves_every_job(address: &str, producer: &str, consumer: &str) {
    let put = run(producer, &[address, "numbers", JOBS]);
    assert_eq!(put.trim(), format!("put {JOBS} jobs into numbers"));
    let took = run(consumer, &[address, "numbers"]);
    assert_eq!(took.trim(), format!("took {JOBS} jobs from numbers"));
    let mut client = Client::connect(address).unwrap();
    let stats = client.stats().unwrap();
    assert_eq!((stats.total_jobs, stats.current_jobs_ready), (2_000, 0));
    assert_eq!((stats.current_jobs_reserved, stats.job_timeouts), (0, 0));
}

#[test]
fn async_examples_move_every_job_through_the_in_memory_server() {
    let server = fixtures::beanstalkd::Server::start().unwrap();
    moves_every_job(server.address(), "producer", "consumer");
}

#[test]
fn blocking_examples_move_every_job_through_the_real_server() {
    if let Some(server) = fixtures::real::Beanstalkd::start() {
        moves_every_job(server.address(), "producer_blocking", "consumer_blocking");
    }
}

fn streams_every_job(address: &str) {
    let printed = run("job_streams", &[address, "numbers", "1000"]);
    let expected = "put 1000 jobs into numbers\ntook 1000 jobs from numbers, their sum is 499500\n";
    assert_eq!(printed, expected);
    let stats = Client::connect(address).unwrap().stats().unwrap();
    assert_eq!((stats.total_jobs, stats.cmd_delete, stats.job_timeouts), (1000, 1000, 0));
}

#[test]
fn the_example_of_streams_moves_every_job_through_the_in_memory_server() {
    streams_every_job(fixtures::beanstalkd::Server::start().unwrap().address());
}

/// Feeds numbers to a resilient producer while its server is killed and restarted, and checks for all of them.
fn survives_kills(producer: &str) {
    let folder = tempfile::tempdir().unwrap();
    let log = fixtures::real::Beanstalkd::builder().arg("-b").arg(folder.path());
    let Some(mut server) = log.arg("-f").arg("0").start() else { return };
    let mut child = Command::new(example(producer))
        .args([server.address(), "numbers"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut acknowledged = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut printed = Vec::new();
    for round in 0..5 {
        // Some are answered before the server goes away, and the rest while it is away or back.
        for number in 0..200 {
            writeln!(input, "{}", round * 200 + number).unwrap();
        }
        for _ in 0..50 {
            printed.push(acknowledged.next().unwrap().unwrap());
        }
        server.kill();
        server.restart().unwrap();
    }
    drop(input);
    printed.extend(acknowledged.map(Result::unwrap));
    let output = child.wait_with_output().unwrap();
    let report = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{report}");
    assert!(report.contains("1000 of 1000 jobs put"), "{report}");
    let mut numbers: Vec<u32> = printed.iter().map(|line| line.parse().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..1000).collect::<Vec<_>>());
    let mut client = Client::connect(server.address()).unwrap();
    client.watch("numbers").unwrap();
    let mut missing: BTreeSet<u32> = numbers.into_iter().collect();
    loop {
        match client.reserve_with_timeout(Duration::ZERO) {
            Ok(Reserved::Job(job)) => {
                missing.remove(&String::from_utf8_lossy(&job.body).parse().unwrap());
                client.delete(&job).unwrap();
            }
            // Killed while it wrote the job to its log: no producer knows of it.
            Err(error) if error.kind() == ErrorKind::BodyDamaged => {
                client.delete(error.job().unwrap()).unwrap();
            }
            other => break assert_eq!(other.unwrap(), Reserved::TimedOut),
        }
    }
    assert!(missing.is_empty(), "lost: {missing:?}");
}

#[test]
fn the_resilient_async_producer_survives_kills_of_the_server() {
    survives_kills("resilient_producer");
}

#[test]
fn the_resilient_blocking_producer_survives_kills_of_the_server() {
    survives_kills("resilient_producer_blocking");
}

/// A supervisor's signal reaches a worker while it has a job: the job is finished, and then the worker ends.
#[cfg(unix)]
fn finishes_its_jobs_on_sigterm(address: &str, worker: &str) {
    let mut client = Client::connect(address).unwrap();
    client.use_tube("mail").unwrap();
    let _ = client.put("ann", PutOptions::default()).unwrap();
    let mut child = Command::new(example(worker))
        .args([address, "mail"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(lines.next().unwrap(), "sending to ann");
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(lines.next().unwrap(), "sent to ann");
    assert_eq!(lines.next(), None);
    let output = child.wait_with_output().unwrap();
    let report = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && report.contains("1 finished"), "{report}");
    let stats = client.stats().unwrap();
    assert_eq!((stats.cmd_delete, stats.job_timeouts), (1, 0));
}

#[cfg(unix)]
fn graceful_workers_finish_their_jobs_on_sigterm(environment: Environment) {
    for worker in ["graceful_consumer", "graceful_consumer_blocking"] {
        finishes_its_jobs_on_sigterm(environment.start().address(), worker);
    }
}

#[cfg(unix)]
each_server!(graceful_workers_finish_their_jobs_on_sigterm);

fn pools_give_clients_that_are_like_new(environment: Environment) {
    let place = environment.start();
    for pool in ["pool_deadpool", "pool_bb8", "pool_r2d2"] {
        assert_eq!(run(pool, &[place.address()]).trim(), "watches [\"default\"]", "{pool}");
    }
}

each_server!(pools_give_clients_that_are_like_new);

#[test]
fn the_example_with_a_service_keeps_to_the_limits_of_its_layers() {
    let server = fixtures::beanstalkd::Server::start().unwrap();
    let mut client = Client::connect(server.address()).unwrap();
    client.use_tube("naps").unwrap();
    for millis in ["20", "600000", "20", "20", "20", "20"] {
        let _ = client.put(millis, PutOptions::default()).unwrap();
    }
    let printed = run("consumer_service", &[server.address(), "naps"]);
    let (report, most) = printed.trim().split_once("; at most ").unwrap();
    assert_eq!(report, "5 finished, 1 released, 0 buried, 0 abandoned, 0 lost, 0 unknown");
    assert!(["1 at a time", "2 at a time"].contains(&most), "{most}");
    let left = server.jobs();
    assert_eq!((left.len(), left[0].body.as_slice(), left[0].releases), (1, &b"600000"[..], 1));
}
