//! The example, run as a user would.
#![allow(missing_docs, clippy::unwrap_used, clippy::panic)]
#![cfg(feature = "json")]

use std::{path::PathBuf, process::Command};

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

fn adds_every_number_up(address: &str) {
    let ran = Command::new(example("apalis_beanstalk"))
        .args([address, "numbers", "1000"])
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let printed = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(printed, "pushed 1000 tasks\ntheir sum is 499500\n");
}

#[test]
fn the_example_adds_every_number_up_in_memory() {
    adds_every_number_up(fixtures::beanstalkd::Server::start().unwrap().address());
}

#[test]
fn the_example_adds_every_number_up_real() {
    if let Some(server) = fixtures::real::Beanstalkd::start() {
        adds_every_number_up(server.address());
    }
}
