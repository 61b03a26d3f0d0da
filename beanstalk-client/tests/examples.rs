//! The examples, run as a user would: they move 10,000 jobs, and none is lost.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    path::PathBuf,
    process::{Command, Output},
};

use beanstalk_client::blocking::Client;

const JOBS: &str = "10000";

/// The built example. A test run that builds only some targets leaves the examples out, so they are built here.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile = test.parent().and_then(|deps| deps.parent()).unwrap();
    let path = profile.join("examples").join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    if !path.exists() {
        let built = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", env!("CARGO_PKG_NAME"), "--example", name])
            .arg("--target-dir")
            .arg(profile.parent().unwrap())
            .status()
            .unwrap();
        assert!(built.success(), "example {name} does not build");
    }
    path
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
    assert_eq!((stats.total_jobs, stats.current_jobs_ready), (10_000, 0));
    assert_eq!((stats.current_jobs_reserved, stats.job_timeouts), (0, 0));
}

fn in_memory(producer: &str, consumer: &str) {
    let server = fixtures::beanstalkd::Server::start().unwrap();
    moves_every_job(server.address(), producer, consumer);
}

fn real(producer: &str, consumer: &str) {
    if let Some(server) = fixtures::real::Beanstalkd::start() {
        moves_every_job(server.address(), producer, consumer);
    }
}

#[test]
fn async_examples_move_every_job_through_the_in_memory_server() {
    in_memory("producer", "consumer");
}

#[test]
fn async_examples_move_every_job_through_the_real_server() {
    real("producer", "consumer");
}

#[test]
fn blocking_examples_move_every_job_through_the_in_memory_server() {
    in_memory("producer_blocking", "consumer_blocking");
}

#[test]
fn blocking_examples_move_every_job_through_the_real_server() {
    real("producer_blocking", "consumer_blocking");
}
