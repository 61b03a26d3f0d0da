//! The examples, run as a user would.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use std::{path::PathBuf, process::Command};

use fixtures::adf_queue::Server;

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

/// Every message is pushed, pulled and deleted, over both kinds of frames.
fn moves_every_message(name: &str) {
    let server = Server::start().unwrap();
    for scheme in ["adf", "adf+json"] {
        let address = format!("{scheme}://{}", server.address());
        let ran =
            Command::new(example(name)).args([&address, "/numbers", "1000"]).output().unwrap();
        assert!(ran.status.success(), "{name}: {}", String::from_utf8_lossy(&ran.stderr));
        assert_eq!(
            String::from_utf8(ran.stdout).unwrap(),
            "pushed 1000 messages\ndeleted 1000 messages, their sum is 499500\n"
        );
        assert_eq!((server.view().ready, server.view().waiting), (0, 0));
    }
}

#[test]
fn the_async_worker_example_handles_every_message() {
    moves_every_message("handler");
}

#[test]
fn the_blocking_worker_example_handles_every_message() {
    moves_every_message("handler_blocking");
}

#[test]
fn the_async_example_moves_every_message() {
    moves_every_message("messages");
}

#[test]
fn the_blocking_example_moves_every_message() {
    moves_every_message("messages_blocking");
}
