//! A command line for every command.

use std::any::Any;

use ctl_contract::formats::{Sample, Samples};
use fixtures::gearmand::Server;
use gearman_client::blocking::{Admin, Worker};
use gearman_client::{Servers, WorkerOptions};

use crate::harness::*;

pub(crate) const SAMPLES: Samples = Samples {
    succeeding: &[
        Sample::of("run", &["run", "up", "x", "y"]),
        Sample::of("submit", &["submit", "mail", "x", "y"]),
        Sample::of("map", &["map", "up"]).fed("a\nb\n"),
        Sample::of("work", &["work", "-f", "mail", "--max-idle", "0", "--exec", "true"]),
        Sample::of("job", &["job", FIRST]).without_shape(),
        Sample::of("jobs", &["jobs"]),
        Sample::of("jobs", &["jobs", "--unique-ids"]),
        Sample::of("peek", &["peek", "mail", "--yes"]),
        Sample::of("cancel", &["cancel", FIRST]),
        Sample::of("functions", &["functions"]),
        Sample::of("function create", &["function", "create", "new"]),
        Sample::of("function drop", &["function", "drop", "idle"]),
        Sample::of("function maxqueue", &["function", "maxqueue", "mail", "9"]),
        Sample::of("workers", &["workers"]),
        Sample::of("clear", &["clear", "mail", "--yes"]),
        Sample::of("drain", &["drain", "mail", "--yes"]),
        Sample::of("move", &["move", "--from", "mail", "--to", "other", "--yes"]),
        Sample::of("export", &["export", "mail", "--yes"]),
        Sample::of("import", &["import", "-"]).fed(r#"{"function":"imported","body":"x"}"#),
        Sample::of("check server", &["check", "server", "-c", "workers=0:"]),
        Sample::of("check function", &["check", "function", "mail", "-c", "workers=0:"]),
        Sample::of("check functions", &["check", "functions", "*", "-c", "workers=0:"]),
        Sample::of("check roundtrip", &["check", "roundtrip", "up", "--send", "x"]),
        Sample::of("wait", &["wait", "--for", "queued>=1", "-f", "mail"]),
        Sample::of("server", &["server"]).without_shape(),
        Sample::of("server", &["server", "pid"]),
        Sample::of("server", &["server", "shutdown", "-n"]).offline(),
        Sample::of("repl", &["repl", "-e", "functions"]),
        Sample::of("raw", &["raw", "status"]),
    ],
    failing: &[],
    prepared,
};

/// The handle of the first job of an in-memory server.
const FIRST: &str = "H:localhost:1";

/// Two queued jobs of `mail`, one of them with a body that is not text; a worker for `up`; an empty function.
fn prepared() -> (Box<dyn Any>, String) {
    let server = Server::start().unwrap();
    let address = server.address().to_owned();
    assert_eq!(queue(&address, "mail", b"hello\tworld\n"), FIRST);
    queue(&address, "mail", b"\xff\x00");
    Admin::connect(&address).unwrap().create_function("idle").unwrap();
    let servers: Servers = address.parse().unwrap();
    let mut worker = Worker::connect(WorkerOptions::from(servers)).unwrap();
    worker.register("up", |job| job.workload.to_ascii_uppercase()).unwrap();
    // It ends with the server.
    std::thread::spawn(move || drop(worker.run()));
    workers(&address, "up", 1);
    (Box::new(server), address)
}
