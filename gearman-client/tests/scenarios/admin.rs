//! The text protocol, in both faces.

use std::{
    io::{Read, Write},
    net::TcpStream,
};

use gearman_client::{ErrorKind, Fate, MaxQueue, blocking};

use super::{
    face::WorkFace,
    support::{each_server, options},
};

each_server!(
    every_command_of_the_blocking_face,
    refusals_are_typed_and_leave_the_connection_usable,
    hostile_names_forge_no_row_unnoticed,
);

fn every_command_of_the_blocking_face(address: &str) {
    let mut admin = blocking::Admin::connect(address).unwrap();
    let mut client = blocking::Client::connect(address).unwrap();
    let job = client.submit_background("counted", "x", options()).unwrap();
    assert!(admin.version().unwrap().starts_with(|c: char| c.is_ascii_digit()));
    assert!(admin.getpid().unwrap() > 0);
    assert!(!admin.verbose().unwrap().is_empty());

    let status = admin.status().unwrap();
    let row = status.iter().find(|row| row.name == "counted").unwrap();
    assert_eq!((row.total, row.running, row.workers, row.queued()), (1, 0, 0, 1));
    let rows = admin.prioritystatus().unwrap();
    let row = rows.iter().find(|row| row.name == "counted").unwrap();
    assert_eq!((row.high, row.normal, row.low), (0, 1, 0));
    let jobs = admin.show_jobs().unwrap();
    assert_eq!(jobs[0].handle.name(), job.handle.name());
    let uniques = admin.show_unique_jobs().unwrap();
    assert_eq!(uniques[0].unique, job.unique.unwrap().as_bytes());

    admin.create_function("made").unwrap();
    admin.maxqueue("made", MaxQueue::ByPriority { high: 1, normal: 2, low: 3 }).unwrap();
    assert!(admin.status().unwrap().iter().any(|row| row.name == "made"));
    admin.drop_function("made").unwrap();
    assert!(!admin.status().unwrap().iter().any(|row| row.name == "made"));
    admin.cancel_job(&job.handle).unwrap();
    assert!(admin.show_jobs().unwrap()[0].is_ignored);
}

fn refusals_are_typed_and_leave_the_connection_usable(address: &str) {
    let mut admin = blocking::Admin::connect(address).unwrap();
    let kind = |error: gearman_client::Error| error.kind();
    assert_eq!(kind(admin.cancel_job("H:x:9").unwrap_err()), ErrorKind::JobNotFound);
    let elsewhere = "other:4730//H:x:9";
    let error = admin.cancel_job(elsewhere).unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::InvalidInput, Fate::NotSent));
    assert!(
        error.to_string().contains(elsewhere) && error.to_string().contains(address),
        "{error}"
    );
    assert_eq!(kind(admin.drop_function("none").unwrap_err()), ErrorKind::FunctionNotFound);
    assert_eq!(kind(admin.shutdown(true).unwrap_err()), ErrorKind::Unsupported);
    assert_eq!(kind(admin.create_function("a b").unwrap_err()), ErrorKind::InvalidInput);
    let mut worker = blocking::Worker::of("used", address);
    worker.echo_barrier().unwrap();
    assert_eq!(kind(admin.drop_function("used").unwrap_err()), ErrorKind::FunctionInUse);
    assert!(admin.version().is_ok());
}

/// G17, F13: names that forge rows, ends of lists and columns. gearmand takes any byte but NUL.
fn hostile_names_forge_no_row_unnoticed(address: &str) {
    let mut client = blocking::Client::connect(address).unwrap();
    for name in [
        &b"a\tb"[..],
        b"forged\n.\nbehind\t1\t1\t1",
        b"two\nlines",
        b"\x1b[2J",
        b"with space",
        b"\xff",
        b".",
    ] {
        client.submit_background(name, "x", options()).unwrap();
    }
    // Only others submit jobs of a function without a name.
    let mut other = TcpStream::connect(address).unwrap();
    other.write_all(b"\0REQ\0\0\0\x12\0\0\0\x04\0u\0x").unwrap();
    other.read_exact(&mut [0; 12]).unwrap();
    client.submit_background("honest", "x", options()).unwrap();
    let mut admin = blocking::Admin::connect(address).unwrap();
    for _ in 0..3 {
        let status = admin.status().unwrap();
        assert!(status.is_untrusted(), "{status:?}");
        let honest = status.iter().find(|row| row.name == "honest").unwrap();
        assert_eq!((honest.total, honest.running, honest.workers), (1, 0, 0));
        // A tab in a name is no column.
        assert!(status.iter().any(|row| row.name.as_bytes() == b"a\tb" && row.total == 1));
        // And the connection is in step.
        assert!(admin.getpid().unwrap() > 0);
        let rows = admin.prioritystatus().unwrap();
        assert!(rows.iter().any(|row| row.name == "honest" && row.normal == 1));
    }
    let id = gearman_client::ClientId::try_from("w:1").unwrap();
    let options: gearman_client::WorkerOptions = address.parse().unwrap();
    let mut worker = blocking::Worker::connect(options.client_id(id)).unwrap();
    worker.can_do(b"evil\n.\n1 1 x : y", None).unwrap();
    worker.can_do("honest", None).unwrap();
    worker.echo_barrier().unwrap();
    let workers = admin.workers().unwrap();
    assert!(workers.is_untrusted(), "{workers:?}");
    assert!(admin.getpid().unwrap() > 0);
}
