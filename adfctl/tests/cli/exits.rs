//! Exit codes and errors.

use fixtures::adf_queue::Server;

use crate::harness::*;

#[test]
fn bad_command_lines_exit_2() {
    for line in [
        &["push"][..],
        &["pull"],
        &["clear"],
        &["wait", "--for", "empty"],
        &["pull", "/q", "-Q", "/r"],
        &["raw", "pull", "/q"],
        &["raw", "nope", "/q"],
        &["raw", "count", "/q", "body"],
        &["pop", "/q", "-n"],
        // Messages are written one by one.
        &["export", "/q", "--batch", "5"],
    ] {
        let ran = bare(&[line, &["-o", "json"]].concat()).exits(2);
        assert_eq!(ran.error_alone()["code"], "USAGE", "{line:?}");
    }
}

#[test]
fn a_bad_scheme_exits_2_and_a_bad_name_or_id_65() {
    adfctl("gopher://a", &["ping"]).exits(2);
    bare(&["push", "", "x"]).exits(65);
    bare(&["clear", ""]).exits(65);
    bare(&["recover", "/q", "two words"]).exits(65);
}

#[test]
fn a_missing_queue_exits_1_with_a_hint() {
    on_both(|site| {
        let queue = site.no_queue("none");
        for line in
            [&["push", &queue.name, "x"][..], &["pull", &queue.name], &["clear", &queue.name, "-n"]]
        {
            let ran = adfctl(site.address(), line).exits(1);
            let said = format!("there is no queue {}\n", queue.name);
            assert!(ran.says("error: QUEUE_NOT_FOUND: "), "{line:?} {}", ran.err);
            assert!(ran.err.contains(&said), "{line:?} {}", ran.err);
            let create = format!("adfctl queue create {}, or ", queue.name);
            assert!(ran.err.contains(&create), "{line:?} {}", ran.err);
        }
    });
}

#[test]
fn the_address_selects_the_transport() {
    let server = Server::start().unwrap();
    let address = server.address();
    let json = format!("adf+json://{address}");
    // Only JSON carries names that are not ASCII,.
    adfctl(&json, &["push", "/队", "--create", "hello"]).exits(0);
    adfctl(address, &["clear", "/队", "-n"]).exits(65);
    adfctl(&json, &["clear", "/队", "-n"]).exits(0);
    adfctl(&format!("pigeon://{address}"), &["ping"]).exits(2);
}

/// The server's message names no queue, and an id or a size may follow it.
#[test]
fn names_the_missing_queue() {
    let server = Server::start().unwrap();
    let http = format!("http://{}", server.address());
    for line in [
        &["raw", "count", "no such queue"][..],
        &["raw", "count", "no such queue", "--id", "7"],
        &["raw", "rpush", "no such queue", "x"],
        &["raw", "clear", "no such queue"],
        &["clear", "no such queue", "--yes"],
    ] {
        for address in [server.address(), &http] {
            let ran = adfctl(address, line).exits(1);
            let named = "there is no queue no such queue\n";
            assert!(ran.err.contains(named), "{line:?} at {address}: {}", ran.err);
        }
    }
}

#[test]
fn vvv_shows_requests_and_answers() {
    let server = Server::start().unwrap();
    let ran = adfctl(server.address(), &["-vvv", "push", "/q", "--create", "hello"]).exits(0);
    for line in ["> createqueue /q", "> rpush /q (5 bytes)", "< ok"] {
        assert!(ran.err.contains(line), "{line} {}", ran.err);
    }
    let ran = adfctl(server.address(), &["-vvv", "clear", "/none", "-n"]).exits(1);
    assert!(ran.err.contains("< count: the server refused: queue not exists"), "{}", ran.err);
}
