//! Sessions with scripts: from a pipe, `-f` and `-e`.

use ctl_contract::session;
use fixtures::adf_queue::Server;

use crate::harness::*;

fn repl(address: &str, arguments: &[&str], script: impl AsRef<[u8]>) -> Ran {
    session::repl(&PROGRAM, address, arguments, script)
}

#[test]
fn a_session_holds_pulled_messages() {
    on_both(|site| {
        let queue = site.queue("held");
        let q = &queue.name;
        let state = format!("pulled --columns messageid\nqueues {q} --columns ready\n");
        let text = format!(
            "push {q} \"a\\x00\" b c d\npull {q}\npull {q} 0\npull {q} 1s\n{state}delete\nlcancel all\n\
             {state}pop {q} -o raw\n"
        );
        let ended = repl(site.address(), &[], text).exits(0);
        let out = ended.out();
        assert!(out.ends_with("a\0"), "{ended:?}");
        assert!(out.contains("1\n2\n3\n1\n") && out.contains("\n3\na\0"), "{ended:?}");
        assert!(out.contains("message 3 of"), "{ended:?}");
    });
}

#[test]
fn lists_and_returns_messages_left_by_a_script() {
    on_both(|site| {
        let queue = site.queue("left");
        let q = &queue.name;
        let text = format!("push {q} a b\npull {q}\npull {q}\n");
        let ended = repl(site.address(), &[], &text).exits(0);
        assert!(ended.err.contains("2 pulled messages went back to their queues"), "{ended:?}");
        let ended = repl(site.address(), &["--strict"], &text).exits(1);
        assert!(ended.err.contains("went back"), "{ended:?}");
        let keeps = format!(":set on_exit delete\npull {q}\n");
        repl(site.address(), &[], keeps).exits(0);
        let rest = adfctl(site.address(), &["pop", q, "-c", "9", "--columns", "body"]).exits(0);
        assert_eq!(rest.out(), "b\na\nb\n");
    });
}

#[test]
fn a_session_collects_a_late_pull() {
    on_both(|site| {
        let queue = site.queue("given-up");
        let q = &queue.name;
        let pulled = "pulled --columns size";
        let text = format!("pull {q} 100ms\npush {q} late\npull {q} 20s\n{pulled}\n");
        let ended = repl(site.address(), &["--keep-going"], text).exits(3);
        assert!(ended.says("stdin:1: TIMEOUT"), "{ended:?}");
        // A message that comes before the second pull does not belong to it.
        let came_before = ended.err.contains("arrived, pull 1");
        assert!(came_before || ended.out().contains("late"), "{ended:?}");
        assert_eq!(ended.lines().last(), Some(&"4"), "{ended:?}");
    });
}

#[test]
fn saves_bodies_to_new_files() {
    let server = Server::builder().queue("/q").start().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("body");
    let file = file.to_str().unwrap();
    let text = format!("push /q \"\\x00\\xff\"\npull /q -o json\n:save {file}\n:save {file}\n");
    let ended = repl(server.address(), &[], text).exits(74);
    assert!(ended.err.contains("stdin:4: ") && ended.err.contains("already exists"), "{ended:?}");
    assert_eq!(std::fs::read(file).unwrap(), b"\x00\xff");
}

#[test]
fn a_session_with_an_http_address_uses_a_websocket() {
    on_both(|site| {
        let queue = site.queue("over-http");
        let q = &queue.name;
        let text = format!("push {q} a\npull {q}\nqueues {q} --columns ready\n");
        let ended = repl(&site.http(), &[], text).exits(0);
        assert_eq!(ended.lines().last(), Some(&"0"), "{ended:?}");
        // Over HTTP it would have stayed pulled.
        assert_eq!(ready(site.address(), q), 1);
    });
}
