//! The examples, run as a user would: they move 10,000 jobs, and none is lost.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    path::PathBuf,
    process::{Command, Output, Stdio},
};

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

fn printed(name: &str, Output { status, stdout, stderr }: Output) -> String {
    assert!(status.success(), "{name}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
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
fn async_examples_move_every_job_through_the_real_server() {
    if let Some(server) = fixtures::real::Gearmand::start() {
        moves_every_job(server.address(), "submit", "worker", "admin");
    }
}

#[test]
fn blocking_examples_move_every_job_through_the_real_server() {
    if let Some(server) = fixtures::real::Gearmand::start() {
        moves_every_job(server.address(), "submit_blocking", "worker_blocking", "admin_blocking");
    }
}

#[test]
fn async_examples_move_every_job_through_the_in_memory_server() {
    let server = fixtures::gearmand::Server::start().unwrap();
    moves_every_job(server.address(), "submit", "worker", "admin");
}

#[test]
fn blocking_examples_move_every_job_through_the_in_memory_server() {
    let server = fixtures::gearmand::Server::start().unwrap();
    moves_every_job(server.address(), "submit_blocking", "worker_blocking", "admin_blocking");
}
