//! `tail`, over restarts, too.

use std::io::{BufRead as _, BufReader};
use std::thread;
use std::time::{Duration, Instant};

use beanstalk_client::{PutOptions, TubeName};
use ctl_contract::program::hears;
use fixtures::Port;

use crate::harness::*;

#[test]
fn tail_shows_what_is_put_from_now_on() {
    on_both(|address| {
        put(address, "a", "before");
        let line = [
            "-a", address, "tail", "a", "-c", "2", "-i", "10ms", "-o", "ndjson", "--filter",
            "body!=no",
        ];
        let mut child = command(&line).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (found, start) = (
            thread::spawn(move || lines.by_ref().take(2).map(Result::unwrap).collect::<Vec<_>>()),
            Instant::now(),
        );
        // Waits until it polls, which cannot be observed from here.
        while !found.is_finished() {
            put(address, "b", "other");
            put(address, "a", "no");
            put(address, "a", "new");
            assert!(start.elapsed() < Duration::from_secs(60));
            thread::sleep(Duration::from_millis(20));
        }
        let found = found.join().unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0));
        assert!(
            found.iter().all(|line| line.contains("\"new\"") && line.contains("\"tube\":\"a\"")),
            "{found:?}"
        );
        assert_eq!(client(address).stats().unwrap().cmd_reserve, 0);
    });
}

/// The count of puts shows what no poll has seen.
#[test]
fn tail_counts_the_jobs_that_came_and_went_between_two_polls() {
    on_both(|address| {
        let line = ["-a", address, "tail", "a", "-i", "10ms", "-o", "ndjson"];
        let mut child = command(&line).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let heard = thread::spawn(move || hears(&mut said, "came and went between two polls"));
        let (mut client, start) = (client(address), Instant::now());
        // Whether it polls in between cannot be seen from here.
        while !heard.is_finished() {
            for _ in 0..100 {
                client.use_tube("a".parse::<TubeName>().unwrap()).unwrap();
                let id = client.put("x", PutOptions::default()).unwrap().id();
                client.delete(id).unwrap();
            }
            assert!(start.elapsed() < Duration::from_secs(60));
        }
        heard.join().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    });
}

/// The server goes away, and is replaced by another one at its address, whose ids start at 1 again.
#[cfg(unix)]
#[test]
fn tail_waits_for_a_server_that_goes_away() {
    let port = Port::take().unwrap();
    let server = start_at(&port);
    let line = ["-a", server.address(), "tail", "a", "-i", "10ms", "-o", "raw", "-v"];
    let mut child = command(&line).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut err = BufReader::new(child.stderr.take().unwrap());
    let mut shows = |address: &str| {
        let mut first = [0];
        thread::scope(|scope| {
            let shown = scope.spawn(|| std::io::Read::read_exact(&mut out, &mut first));
            while !shown.is_finished() {
                put(address, "a", "x");
                thread::sleep(Duration::from_millis(10));
            }
            shown.join().unwrap().unwrap();
        });
        assert_eq!(first, *b"x");
    };
    shows(server.address());
    drop(server);
    hears(&mut err, "retrying until it works");
    let again = start_at(&port);
    hears(&mut err, "the server is back");
    hears(&mut err, "the server restarted: ids may name other jobs now");
    shows(again.address());
    // It sees however many jobs arrive in the meantime, so a signal ends it.
    signal(&child, rustix::process::Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// There may be many of them.
#[test]
fn tail_tables_show_key_fields_only() {
    on_both(|address| {
        let tail = |format: &str| {
            let line = ["-a", address, "tail", "a", "-c", "1", "-i", "10ms", "-o", format];
            let mut child = command(&line).spawn().unwrap();
            // Whether it polls already cannot be seen from here.
            while child.try_wait().unwrap().is_none() {
                put(address, "a", "body");
                thread::sleep(Duration::from_millis(10));
            }
            ended(child).exits(0).out().to_owned()
        };
        let few = tail("table");
        assert!(few.starts_with("id:   ") && few.ends_with("\ntube: a\n\nbody\n"), "{few}");
        assert_eq!(few.lines().count(), 4, "{few}");
        let all = tail("wide");
        assert!(all.contains("reserves:") && all.contains("kicks:"), "{all}");
        assert!(tail("plain").ends_with("\ta\tbody\n"));
    });
}
