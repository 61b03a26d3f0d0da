//! `tail`, over restarts, too.

use std::io::{BufRead as _, BufReader};
use std::thread;
use std::time::{Duration, Instant};

use beanstalk_client::{PutOptions, TubeName, TubeStats};
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

#[test]
fn tail_takes_jobs_when_it_is_told_to() {
    on_both(|address| {
        for n in 0..3 {
            put(address, "a", n.to_string());
        }
        let tail = |arguments: &[&str]| {
            let line = [&["tail", "a", "-o", "raw", "-i", "10ms"][..], arguments].concat();
            bsctl(address, &line)
        };
        tail(&["--action", "delete", "-c", "1"]).exits(2);
        tail(&["--action", "delete", "-c", "1", "--yes", "--filter", "pri<1"]).exits(2);
        assert_eq!(tail(&["--action", "release", "-c", "3"]).exits(0).out(), "012");
        assert_eq!(places(address), ["0 a ready", "1 a ready", "2 a ready"]);
        assert_eq!(tail(&["--action", "bury", "-c", "1", "--yes"]).exits(0).out(), "0");
        assert_eq!(tail(&["--action", "delete", "-c", "2", "--yes"]).exits(0).out(), "12");
        assert_eq!(places(address), ["0 a buried"]);
    });
}

#[test]
fn tail_takes_from_the_tubes_that_the_session_watches() {
    on_both(|address| {
        put(address, "a", "mine");
        put(address, "default", "other");
        let script = "watch a\nignore default\ntail --action release -c 1 -i 10ms -o raw\n";
        let ran = bsctl_with(address, &["repl"], script.as_bytes()).exits(0);
        assert!(ran.out().ends_with("\nmine"), "{}", ran.out());
        let line = ["tail", "--action", "bury", "-c", "1", "-i", "10ms", "--yes", "-o", "raw"];
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.toml");
        std::fs::write(&file, "[defaults]\ntube = \"a\"\n").unwrap();
        let configured = ["--config", file.to_str().unwrap()];
        let ran = bsctl(address, &[&configured[..], &line].concat()).exits(0);
        assert_eq!(ran.out(), "mine");
        let said = bsctl(address, &[&configured[..], &["reserve"]].concat()).exits(1).err;
        assert!(said.contains("no job is ready in tube a"), "{said}");
    });
}

/// The server goes away, and is replaced by another one at its address, whose ids start at 1 again.
#[cfg(unix)]
#[test]
fn tail_waits_for_a_server_that_goes_away() {
    for action in ["peek", "release", "bury", "delete"] {
        let takes = matches!(action, "bury" | "delete");
        let port = Port::take().unwrap();
        let server = start_at(&port);
        let address = server.address().to_owned();
        let line =
            ["-a", &address, "tail", "a", "-i", "10ms", "-o", "raw", "--yes", "-v", "--action"];
        // A read-only tail sees however many jobs arrive in the meantime, so it is ended by a signal.
        let count: &[&str] = if takes { &["-c", "1"] } else { &[] };
        let mut child = command(&[&line[..], &[action], count].concat()).spawn().unwrap();
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
        if takes {
            let mut client = client(&address);
            let waits = |tube: Option<TubeStats>| tube.is_some_and(|tube| tube.current_waiting > 0);
            while !waits(client.stats_tube("a").unwrap()) {
                thread::sleep(Duration::from_millis(10));
            }
        } else {
            shows(&address);
        }
        drop(server);
        hears(&mut err, "retrying until it works");
        let again = start_at(&port);
        hears(&mut err, "the server is back");
        if !takes {
            hears(&mut err, "the server was restarted: its ids may name other jobs now");
        }
        shows(again.address());
        if !takes {
            signal(&child, rustix::process::Signal::INT);
        }
        let code = if takes { 0 } else { 130 };
        assert_eq!(child.wait().unwrap().code(), Some(code), "{action}");
    }
}

/// Nothing was asked of it while it was away.
#[cfg(unix)]
#[test]
fn tail_shows_an_id_again_after_a_restart_between_two_looks() {
    let port = Port::take().unwrap();
    let server = start_at(&port);
    let address = server.address().to_owned();
    put(&address, "a", "x");
    let line = ["-a", &address, "tail", "a", "-i", "1s", "-o", "raw", "-c", "2"];
    let mut child = command(&[&line[..], &["--action", "release"]].concat()).spawn().unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut shows = |body: u8| {
        let mut first = [0];
        std::io::Read::read_exact(&mut out, &mut first).unwrap();
        assert_eq!(first, [body]);
    };
    shows(b'x');
    drop(server);
    let _again = start_at(&port);
    put(&address, "a", "y");
    shows(b'y');
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[cfg(unix)]
#[test]
fn tail_tells_of_a_restart_before_the_rows_of_the_new_server() {
    let port = Port::take().unwrap();
    let server = start_at(&port);
    let address = server.address().to_owned();
    let folder = tempfile::tempdir().unwrap();
    let all = folder.path().join("all");
    let open = || std::fs::OpenOptions::new().create(true).append(true).open(&all).unwrap();
    let line = ["-a", &address, "tail", "a", "-i", "200ms", "-o", "raw"];
    let child = command(&line).stdout(open()).stderr(open()).spawn().unwrap();
    let puts_until_shown = |body: &str| {
        loop {
            put(&address, "a", body);
            thread::sleep(Duration::from_millis(10));
            let text = std::fs::read_to_string(&all).unwrap();
            if text.contains(body) {
                return text;
            }
        }
    };
    puts_until_shown("<old>");
    drop(server);
    let _again = start_at(&port);
    let text = puts_until_shown("<new>");
    let told = text.find("the server was restarted").unwrap();
    assert!(text.rfind("<old>") < Some(told) && Some(told) < text.find("<new>"), "{text}");
    signal(&child, rustix::process::Signal::INT);
    ended(child).exits(130);
}

/// There may be many of them.
#[test]
fn tail_shows_in_a_table_what_tells_jobs_apart() {
    on_both(|address| {
        let id = put(address, "a", "body");
        let tail = |format: &str| {
            let line = ["tail", "a", "--action", "release", "-c", "1", "-i", "10ms", "-o", format];
            bsctl(address, &line).exits(0)
        };
        let few = tail("table");
        assert_eq!(few.out(), format!("id:   {id}\ntube: a\n\nbody\n"));
        let all = tail("wide");
        assert!(all.out().contains("reserves:") && all.out().contains("kicks:"), "{}", all.out());
        assert_eq!(tail("plain").out(), format!("{id}\ta\tbody\n"));
    });
}
