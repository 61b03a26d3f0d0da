//! Jobs that leave the queue: deleted once their output has arrived, one at a time for a reader.
#![cfg(unix)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use beanstalk_client::PutOptions;
use fixtures::beanstalkd::Server;
use serde_json::Value;

use crate::harness::*;

/// Runs a shell line in which `$0` is the program with the server's address.
fn shell(address: &str, script: &str, directory: &Path) -> Ran {
    let program = env!("CARGO_BIN_EXE_bsctl");
    let mut command = Command::new("sh");
    command.args(["-c", script, program]).current_dir(directory);
    command.env("BSCTL_ADDR", address).env_remove("BSCTL_OUTPUT");
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    ended(command.spawn().unwrap())
}

/// All jobs of a tube that are not reserved.
fn left(address: &str, tube: &str) -> u64 {
    let stats = client(address).stats_tube(tube).unwrap();
    stats.map_or(0, |stats| {
        stats.current_jobs_ready + stats.current_jobs_delayed + stats.current_jobs_buried
    })
}

#[test]
fn a_reader_that_takes_one_job_removes_one() {
    on_both(|address| {
        let directory = tempfile::tempdir().unwrap();
        for (at, line) in [
            "pop -t T -c 1000",
            "pop -t T -c 1000 -o ndjson",
            "pop -t T -c 1000 -o json",
            "reserve -t T -c 1000 --then delete",
            "drain T --yes",
            "drain T --yes --state buried",
        ]
        .iter()
        .enumerate()
        {
            let tube = format!("t{at}");
            let all = 20;
            fill(address, &tube, all, line.contains("buried"));
            let line = line.replace('T', &tube);
            let ran = shell(address, &format!("\"$0\" {line} | head -n 1"), directory.path());
            assert_eq!(ran.lines().len(), 1, "{line}: {}", ran.err);
            assert!(ran.err.contains("closed by its reader"), "{line}: {}", ran.err);
            if line.ends_with("json") && !line.ends_with("ndjson") {
                // The first line is not all of the first job.
                assert!(left(address, &tube) >= all as u64 - 1, "{line}: {}", ran.err);
                continue;
            }
            assert!(ran.err.contains("it read last"), "{line}: {}", ran.err);
            assert_eq!(left(address, &tube), all as u64 - 1, "{line}: {}", ran.err);
        }
    });
}

/// Whether the reader goes away before anything is written, or before it has read what was.
#[test]
fn unread_jobs_stay_in_the_queue() {
    on_both(|address| {
        fill(address, "t", 5, false);
        put_buried(address, "t", "buried");
        for line in [
            &["pop", "-t", "t"][..],
            &["pop", "-t", "t", "-c", "3", "-0"],
            &["pop", "-t", "t", "-o", "json"],
            &["reserve", "-t", "t", "--then", "delete"],
            &["drain", "t", "--yes"],
        ] {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            let mut command = command(&[&["-a", address], line].concat());
            let ran = ended(command.stdout(writer).spawn().unwrap()).exits(74);
            assert!(ran.err.contains("closed by its reader"), "{line:?}: {}", ran.err);
        }
        let mut child = command(&["-a", address, "pop", "-t", "t", "-c", "5"]).spawn().unwrap();
        let pipe = child.stdout.take().unwrap();
        // It is written and never read.
        while rustix::io::ioctl_fionread(&pipe).unwrap() == 0 {
            std::thread::yield_now();
        }
        drop(pipe);
        ended(child).exits(74);
        let stats = client(address).stats_tube("t").unwrap().unwrap();
        assert_eq!((left(address, "t"), stats.current_jobs_buried, stats.cmd_delete), (6, 1, 0));
    });
}

/// The reader starts after several times the time to run.
#[test]
fn a_reader_may_be_slower_than_the_time_to_run() {
    let server = Server::builder().virtual_clock().start().unwrap();
    let address = server.address();
    let options = PutOptions::default().ttr(Duration::from_secs(4));
    for n in 0..4 {
        put_with(address, "t", format!("body {n}"), options);
    }
    let line = ["-a", address, "pop", "-t", "t", "-c", "4", "-o", "ndjson"];
    let child = command(&line).spawn().unwrap();
    outlives_the_time_to_run(&server, Duration::from_secs(4));
    let ran = ended(child).exits(0);
    assert_eq!((ran.lines().len(), ran.err.contains("time to run")), (4, false), "{}", ran.err);
    assert_eq!(left(address, "t"), 0);
    assert_eq!(client(address).stats().unwrap().job_timeouts, 0);
}

#[test]
fn writes_whole_jobs_to_files() {
    on_both(|address| {
        let directory = tempfile::tempdir().unwrap();
        for (tube, line) in [
            ("a", "\"$0\" pop -t a -c 1000 -o ndjson > out"),
            ("b", "\"$0\" drain b --yes --to out"),
            ("c", "\"$0\" drain c --yes > out"),
            ("e", "\"$0\" reserve -t e -c 1000 -o ndjson --then delete > out"),
        ] {
            fill(address, tube, 250, false);
            shell(address, line, directory.path()).exits(0);
            let file = directory.path().join("out");
            let text = std::fs::read_to_string(&file).unwrap();
            assert_eq!((text.lines().count(), left(address, tube)), (250, 0), "{line}");
            std::fs::remove_file(file).unwrap();
        }
    });
}

/// The limit on the size of files simulates a full disk.
#[test]
fn a_full_disk_loses_nothing() {
    on_both(|address| {
        for (tube, line, name) in [
            ("a", "drain a --yes --to here.ndjson", "here.ndjson"),
            ("b", "drain b --yes --state buried --to here.ndjson", "here.ndjson"),
            ("c", "drain c --yes > here.ndjson", "stdout"),
            ("d", "pop -t d -c 1000 -o ndjson > here.ndjson", "stdout"),
        ] {
            let directory = tempfile::tempdir().unwrap();
            fill(address, tube, 300, tube == "b");
            let script = format!("trap '' XFSZ; ulimit -f 16; \"$0\" {line}");
            let ran = shell(address, &script, directory.path()).exits(74);
            assert!(ran.err.contains(&format!("cannot write {name}: ")), "{line}: {}", ran.err);
            let text = std::fs::read(directory.path().join("here.ndjson")).unwrap();
            let whole = text
                .split(|byte| *byte == b'\n')
                .filter(|line| serde_json::from_slice::<Value>(line).is_ok())
                .count();
            let left = usize::try_from(left(address, tube)).unwrap();
            assert!(whole + left >= 300, "{line}: {whole} written, {left} left");
            assert!(left > 0);
        }
    });
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_device_takes_no_job() {
    on_both(|address| {
        put(address, "t", "x");
        for line in ["pop -t t", "drain t --yes", "reserve -t t --then delete"] {
            let script = format!("\"$0\" {line} > /dev/full");
            let ran = shell(address, &script, Path::new("/")).exits(74);
            assert!(ran.err.contains("cannot write stdout: "), "{line}: {}", ran.err);
        }
        assert_eq!(left(address, "t"), 1);
    });
}

#[test]
fn refuses_to_sort_deleted_jobs() {
    on_both(|address| {
        put(address, "t", "x");
        for line in [&["pop", "-t", "t"][..], &["drain", "t", "--yes"]] {
            bsctl(address, &[line, &["--sort-by", "id"]].concat()).exits(2);
        }
        assert_eq!(left(address, "t"), 1);
    });
}
