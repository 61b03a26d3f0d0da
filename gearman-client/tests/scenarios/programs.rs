//! Together with the `gearman` program, if it is installed.

use std::{
    io::Write,
    process::{Child, Command, Stdio},
};

use gearman_client::{Failure, blocking};

use super::support::each_server;
use super::support::{Background, options};

each_server!(the_gearman_program_works_for_our_client, our_worker_works_for_the_gearman_program,);

fn gearman(address: &str, arguments: &[&str]) -> Option<Child> {
    let (host, port) = address.rsplit_once(':')?;
    Command::new("gearman")
        .args(["-h", host, "-p", port])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .ok()
}

fn the_gearman_program_works_for_our_client(address: &str) {
    let worker = ["-w", "-f", "up", "tr", "a-z", "A-Z"];
    let Some(mut worker) = gearman(address, &worker) else { return };
    let mut client = blocking::Client::connect(address).unwrap();
    let outcome = client.run("up", "hello", options()).unwrap();
    assert_eq!(outcome.complete().unwrap(), "HELLO");
    worker.kill().unwrap();
    worker.wait().unwrap();
}

fn our_worker_works_for_the_gearman_program(address: &str) {
    let mut worker = blocking::Worker::connect(address).unwrap();
    worker
        .register("rev", |job| {
            job.status(1, 2)?;
            Ok::<Vec<u8>, Failure>(job.workload.iter().rev().copied().collect())
        })
        .unwrap();
    let worker = Background::start(worker);
    if let Some(mut client) = gearman(address, &["-f", "rev"]) {
        client.stdin.take().unwrap().write_all(b"hello").unwrap();
        let output = client.wait_with_output().unwrap();
        assert!(output.status.success());
        // The program prints the progress, too.
        let printed = String::from_utf8(output.stdout).unwrap();
        assert!(printed.contains("olleh") && printed.contains("50%"), "{printed}");
    }
    worker.stop();
}
