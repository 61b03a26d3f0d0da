//! The example, run as a user would.

use std::{path::PathBuf, process::Command};

fn example(name: &str) -> PathBuf {
    fixtures::built::example(env!("CARGO_PKG_NAME"), name).unwrap()
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
