//! `bsctl repl` with scripts: from a pipe, `-f` and `-e`, against the in-memory server and the real one.

use std::time::Duration;

use beanstalk_client::JobState;
use beanstalk_client::blocking::Client;
use ctl_contract::program::Ran;
use ctl_contract::session::{self, Fed, PATIENTLY};
use fixtures::beanstalkd::{Request, Seed, Server};
use fixtures::fault::Fault;

use crate::harness::{PROGRAM, eventually, on_both, put};

fn repl(address: &str, arguments: &[&str], script: impl AsRef<[u8]>) -> Ran {
    session::repl(&PROGRAM, address, arguments, script)
}

fn script(script: impl AsRef<[u8]>) -> Ran {
    let server = Server::start().unwrap();
    repl(server.address(), &[], script)
}

#[test]
fn every_byte_survives_in_bodies() {
    on_both(|address| {
        let all: Vec<u8> = (0..=255).collect();
        let escapes: String = all.iter().map(|b| format!("\\x{b:02x}")).collect();
        let digits: String = all.iter().map(|b| format!("{b:02x}")).collect();
        let raw: Vec<u8> = (1..=255).filter(|b| !b"\n\r'\\".contains(b)).collect();
        let mut text = format!("put \"{escapes}\"\nput hex:{digits}\nput '").into_bytes();
        text.extend_from_slice(&raw);
        text.extend_from_slice(b"'\nput <<END\n");
        text.extend_from_slice(&all);
        text.extend_from_slice(b"\nEND\n");
        let ended = repl(address, &[], text);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let mut client = Client::connect(address).unwrap();
        for (id, expected) in ended.out().lines().zip([&all, &all, &raw, &all]) {
            let job = client.peek(id.parse::<u64>().unwrap()).unwrap().unwrap();
            assert_eq!(job.body, expected.as_slice());
        }
    });
}

#[test]
fn quoted_words_are_always_data() {
    let server = Server::start().unwrap();
    let ended = repl(
        server.address(),
        &[],
        "put -t default \"@/etc/passwd\" '-' \"-t\" b64:LS1uby1zdWNo\n",
    );
    assert_eq!((ended.code, ended.out()), (Some(0), "1\n2\n3\n4\n"), "{ended:?}");
    let mut client = Client::connect(server.address()).unwrap();
    let mut body = |id: u64| client.peek(id).unwrap().unwrap().body;
    assert_eq!([body(1), body(2), body(3), body(4)], ["@/etc/passwd", "-", "-t", "--no-such"]);
}

#[test]
fn reads_bodies_from_files_but_not_from_the_script() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a body");
    std::fs::write(&file, b"\x00\n\xff").unwrap();
    let server = Server::start().unwrap();
    let ended = repl(server.address(), &[], format!("put @\"{}\"\nput @-\nput x", file.display()));
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.err.contains("stdin:2: stdin cannot be read here"), "{ended:?}");
    let mut client = Client::connect(server.address()).unwrap();
    assert_eq!(client.peek(1).unwrap().unwrap().body, b"\x00\n\xff".as_slice());
}

#[test]
fn flags_apply_to_one_line_only() {
    let server = Server::start().unwrap();
    let ended = repl(server.address(), &[], "use mail\nput -t sms a -o json\nput b\npeek 2 -o raw");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let lines: Vec<&str> = ended.out().lines().collect();
    assert_eq!((lines[0], lines[1], lines[lines.len() - 1]), ("mail", "[", "b"), "{ended:?}");
    let mut client = Client::connect(server.address()).unwrap();
    assert_eq!(client.stats_job(2).unwrap().unwrap().tube.as_str(), "mail");
    // Even if the line with the flag is the one that connects.
    repl(server.address(), &[], "put -t sms a\nput b").exits(0);
    assert_eq!(client.stats_job(4).unwrap().unwrap().tube.as_str(), "default");
    let ended = script("put x --timeout 3s");
    assert_eq!(ended.code, Some(2));
    assert!(ended.err.contains("--timeout only works when the session starts"), "{ended:?}");
}

#[test]
fn a_piped_session_only_probes_the_server_type() {
    let server = Server::start().unwrap();
    let ended = repl(server.address(), &[], "use mail\nput x\n:set format json\nhelp\n");
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let lines: Vec<String> = server.requests().iter().map(|request| request.text()).collect();
    assert_eq!(lines, ["list-tube-used", "use mail", "put 1024 0 60 1"]);
    assert!(!ended.err.contains("connected") && !ended.out().contains("> "), "{ended:?}");
}

#[test]
fn reserve_waits_and_uses_the_watch_list() {
    let server = Server::start().unwrap();
    let text = "put x\nreserve --wait 0\ndelete\n";
    let ended = repl(server.address(), &["--strict"], text);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let ended = repl(server.address(), &[], "reserve -t mail\n");
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.err.contains("watch mail, and then reserve"), "{ended:?}");
}

#[test]
fn the_last_reserved_job_needs_no_id() {
    on_both(|address| {
        let text = "put -t default a b c\nreserve 0 -o name\nreserve 0 -o name\nreserve 0 -o name\n\
                    delete\nreserved --columns tube,id\ndelete\ndelete\nreserved\n";
        let ended = repl(address, &["--strict"], text).exits(0);
        let [a, b, c] = ended.lines()[..3].try_into().unwrap();
        let held = [format!("default\t{a}"), format!("default\t{b}")];
        assert_eq!(ended.lines()[3..], [a, b, c, &held[0], &held[1]], "{ended:?}");
        let text = "use t\nput -p 9 a b\nwatch t\nignore default\nreserve 0\nbury\nreserve 0\nrelease -p 3\n";
        let _ = repl(address, &["--strict"], text).exits(0);
        let mut client = Client::connect(address).unwrap();
        client.use_tube("t").unwrap();
        let (buried, ready) =
            (client.peek_buried().unwrap(), client.peek_ready().unwrap().unwrap());
        assert!(buried.is_some());
        assert_eq!(client.stats_job(ready.id).unwrap().unwrap().pri.get(), 3);
        let ended = repl(address, &[], "delete");
        assert_eq!(ended.code, Some(2), "{ended:?}");
        assert!(ended.err.contains("holds no job"), "{ended:?}");
    });
}

#[test]
fn lists_and_releases_held_jobs_at_the_end() {
    on_both(|address| {
        let text = "use t\nput -p 5 a\nput b\nwatch t\nreserve 0\nreserve 0\n";
        let ended = repl(address, &[], text);
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let ids: Vec<&str> = ended.out().lines().skip(1).take(2).collect();
        let said = format!("2 reserved jobs went back to ready: {}", ids.join(", "));
        assert!(ended.err.contains(&said), "{ended:?}");
        let mut client = Client::connect(address).unwrap();
        let stats = client.stats_job(ids[0].parse::<u64>().unwrap()).unwrap().unwrap();
        assert_eq!((stats.state, stats.pri.get(), stats.releases), (JobState::Ready, 5, 0));
        let ended = repl(address, &["--strict"], "watch t\nreserve 0\n");
        assert_eq!(ended.code, Some(1), "{ended:?}");
        let ended = repl(address, &["--strict"], "watch t\nreserve 0\npeek 99999\n");
        assert_eq!(ended.code, Some(1), "{ended:?}");
    });
}

#[test]
fn a_setting_decides_what_happens_to_held_jobs() {
    on_both(|address| {
        let mut client = Client::connect(address).unwrap();
        for (setting, state, releases) in [
            ("release", Some(JobState::Ready), 1),
            ("bury", Some(JobState::Buried), 0),
            ("delete", None, 0),
        ] {
            let text = format!(":set on_exit {setting}\nput -p 7 x\nreserve 0\n");
            let ended = repl(address, &["--strict"], text);
            assert_eq!(ended.code, Some(0), "{ended:?}");
            let id: u64 = ended.out().lines().next().unwrap().parse().unwrap();
            let stats = client.stats_job(id).unwrap();
            assert_eq!(stats.as_ref().map(|s| s.state.clone()), state, "{setting}");
            if let Some(stats) = stats {
                assert_eq!((stats.pri.get(), stats.releases), (7, releases), "{setting}");
                client.delete(id).unwrap();
            }
        }
    });
}

#[test]
fn keeps_held_jobs_alive_during_a_reserve() {
    let server = Server::start().unwrap();
    let mut fed = Fed::start(&PROGRAM, server.address(), &[]);
    for line in ["put -r 3 x", "reserve 0 -o name"] {
        fed.say(line);
        assert_eq!(fed.hear(), "1");
    }
    fed.say("hold");
    assert_eq!(fed.hear(), "1\ttrue");
    fed.say("reserve 1h -o name");
    let is_touch = |request: &Request| request.text() == "touch 1";
    let touches = || server.requests().into_iter().filter(is_touch).count();
    // One each second: the first would no longer keep the job.
    eventually("touches", || (touches() >= 3).then_some(()));
    put(server.address(), "default", "y");
    assert_eq!(fed.hear(), "2");
    for line in ["touch 1", "delete 1"] {
        fed.say(line);
    }
    let ended = fed.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(server.view().jobs, 1, "{ended:?}");
    // All of a second is margin: the server answers DEADLINE_SOON at once.
    on_both(|address| {
        let ended = repl(address, &[], "put -r 1 x\nreserve 0\nreserve 30\n");
        assert_eq!(ended.code, Some(1), "{ended:?}");
        assert!(ended.err.contains("stdin:3: DEADLINE_SOON: job"), "{ended:?}");
    });
}

#[test]
fn saves_bodies_to_new_files_only() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("body");
    let (server, name) = (Server::start().unwrap(), file.display());
    let text = format!("put \"\\x00\\xff\"\nreserve 0\n:save {name}\ndelete\n:save {name}.2");
    let ended = repl(server.address(), &[], text);
    assert_eq!(std::fs::read(&file).unwrap(), b"\x00\xff");
    assert!(ended.err.contains("stdin:5: NOT_FOUND"), "{ended:?}");
    let ended = repl(server.address(), &[], format!("put x\nsave 2 {name}\n"));
    assert_eq!(ended.code, Some(74), "{ended:?}");
    assert!(ended.err.contains("already exists"), "{ended:?}");
}

#[test]
fn connect_goes_to_another_server() {
    let (one, two) = (Server::start().unwrap(), Server::start().unwrap());
    let text = format!("use mail\nput a\nreserve 0\nconnect {}\nput b\nreserved\n", two.address());
    let ended = repl(one.address(), PATIENTLY, format!("watch mail\n{text}"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.err.contains("1 reserved job went back to ready: 1"), "{ended:?}");
    assert_eq!((one.view().jobs, two.view().jobs), (1, 1));
    let mut client = Client::connect(two.address()).unwrap();
    assert_eq!(client.stats_job(1).unwrap().unwrap().tube.as_str(), "default");
}

#[test]
fn reconnects_and_restores_state() {
    let server = Server::start().unwrap();
    let mut fed = Fed::start(&PROGRAM, server.address(), &[]);
    for line in ["use mail", "watch mail", "ignore default", "put a", "reserve 0"] {
        fed.say(line);
        fed.hear();
    }
    server.close_connections();
    // Noticed by the session before the next line, which would be lost on the broken connection otherwise.
    fed.complains("connection lost — reserved job 1 went back to ready");
    fed.say("put b");
    assert_eq!(fed.hear(), "2");
    fed.say("reserve 5 -o name");
    assert_eq!(fed.hear(), "1");
    let ended = fed.end();
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(!ended.err.contains("connection lost"), "already reported: {ended:?}");
    let mut client = Client::connect(server.address()).unwrap();
    assert_eq!(client.stats_job(2).unwrap().unwrap().tube.as_str(), "mail");
    assert_eq!(server.requests().iter().filter(|r| r.text().starts_with("put ")).count(), 2);
}

#[test]
fn retries_reads_but_not_writes_after_a_cut() {
    let server = Server::start().unwrap();
    server.faults().add(Fault::nth(1).of("peek").cut_after(0));
    server.faults().add(Fault::nth(1).of("use").cut_after(0));
    let ended = repl(server.address(), &[], "put a\npeek 1 -o name\nuse mail\nput never\n");
    assert_eq!(ended.code, Some(69), "{ended:?}");
    assert_eq!(ended.out(), "1\n1\n", "{ended:?}");
    assert!(ended.err.contains("stdin:3: CONNECTION_LOST"), "{ended:?}");
    let uses = server.requests().iter().filter(|r| r.text() == "use mail").count();
    assert_eq!(uses, 1);
}

/// The server lost the end of its body in a crash: the session still has it reserved, and can finish it.
#[test]
fn holds_a_damaged_job_that_can_be_finished() {
    let server = Server::start().unwrap();
    server.seed(Seed::new("half\0").damaged()).unwrap();
    server.seed(Seed::new("whole")).unwrap();
    let ended = repl(server.address(), &[], "reserve 0\n");
    assert_eq!(ended.code, Some(65), "{ended:?}");
    assert!(ended.says("stdin:1: BODY_DAMAGED"), "{ended:?}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("body");
    let script = format!(
        "reserve 0\nsave 1 {}\nbury 1\nreserve 0 -o raw\ndelete\nreserved -o name\n",
        file.display()
    );
    let ended = repl(server.address(), &["--keep-going"], script);
    assert!(ended.out().contains("whole"), "{ended:?}");
    assert_eq!(std::fs::read(file).unwrap(), b"half\0");
    let mut client = Client::connect(server.address()).unwrap();
    assert_eq!(client.stats_job(1).unwrap().unwrap().state, JobState::Buried);
    assert_eq!(client.stats_job(2).unwrap(), None);
}

#[cfg(unix)]
#[test]
fn signals_end_a_script_in_order() {
    use rustix::process::Signal;
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        if signal == Signal::HUP && ctl_core::system::signals::is_hangup_ignored() {
            continue;
        }
        for waits in [true, false] {
            let server = Server::start().unwrap();
            let mut fed = Fed::start(&PROGRAM, server.address(), &[]);
            fed.say("put a");
            assert_eq!(fed.hear(), "1");
            fed.say("reserve 0 -o name");
            assert_eq!(fed.hear(), "1");
            if waits {
                fed.say("reserve 60");
                // Its second query is sent while it waits.
                let looked = server.wait_for(Duration::from_secs(60), |view| view.waiting == 1);
                assert!(looked);
            }
            fed.signal(signal);
            let ended = fed.ends_by_itself();
            assert_eq!(ended.code, Some(code), "{ended:?}");
            assert!(ended.err.contains("1 reserved job went back to ready: 1"), "{ended:?}");
        }
    }
}
