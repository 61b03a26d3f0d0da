//! The examples, run as a user would.

#[cfg(unix)]
use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};
use std::{path::PathBuf, process::Command};

#[cfg(unix)]
use adf_queue_client::{ProducerOptions, blocking::Producer};
use fixtures::adf_queue::Server;

fn example(name: &str) -> PathBuf {
    fixtures::built::example(env!("CARGO_PKG_NAME"), name).unwrap()
}

/// Every message is pushed, pulled and deleted, over both kinds of frames.
fn moves_every_message(name: &str) {
    let server = Server::start().unwrap();
    for scheme in ["adf", "adf+json"] {
        let address = format!("{scheme}://{}", server.address());
        let ran = Command::new(example(name)).args([&address, "/numbers", "200"]).output().unwrap();
        assert!(ran.status.success(), "{name}: {}", String::from_utf8_lossy(&ran.stderr));
        assert_eq!(
            String::from_utf8(ran.stdout).unwrap(),
            "pushed 200 messages\ndeleted 200 messages, their sum is 19900\n"
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

#[test]
fn the_example_of_streams_moves_every_message() {
    moves_every_message("message_streams");
}

/// A supervisor's signal reaches a worker while it has a message: the message is handled and deleted.
#[cfg(unix)]
fn finishes_its_message_on_sigterm(worker: &str) {
    let server = Server::start().unwrap();
    let options: ProducerOptions = server.address().parse().unwrap();
    let producer = Producer::new(options.create_queues(true)).unwrap();
    producer.rpush("/mail", "ann").unwrap();
    let mut child = Command::new(example(worker))
        .args([server.address(), "/mail"])
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
    assert!(output.status.success() && report.contains("1 deleted, 0 returned"), "{report}");
    assert_eq!((server.view().ready, server.view().waiting), (0, 0));
}

#[cfg(unix)]
#[test]
fn the_graceful_async_worker_finishes_its_messages_on_sigterm() {
    finishes_its_message_on_sigterm("graceful_handler");
}

#[cfg(unix)]
#[test]
fn the_graceful_blocking_worker_finishes_its_messages_on_sigterm() {
    finishes_its_message_on_sigterm("graceful_handler_blocking");
}

#[test]
fn the_example_with_a_service_keeps_to_the_limits_of_its_layers() {
    let server = Server::builder().queue("/naps").start().unwrap();
    let mut client = adf_queue_client::blocking::Client::connect(server.address()).unwrap();
    for millis in ["20", "600000", "20", "20", "20", "20"] {
        client.rpush("/naps", millis).unwrap();
    }
    let arguments = [server.address(), "/naps", "6"];
    let ran = Command::new(example("handler_service")).args(arguments).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let printed = String::from_utf8(ran.stdout).unwrap();
    let (report, most) = printed.trim().split_once("; at most ").unwrap();
    assert_eq!(report, "5 deleted, 1 returned, 0 dead-lettered, 0 abandoned, 0 lost, 0 unknown");
    assert!(["1 at a time", "2 at a time"].contains(&most), "{most}");
    let left = server.messages("/naps");
    assert_eq!((left.len(), left[0].body.as_slice()), (1, &b"600000"[..]));
}
