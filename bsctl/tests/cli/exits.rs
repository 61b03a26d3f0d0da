//! Every exit code of the table, provoked.

use std::time::Duration;

use ctl_core::error::EXIT_CODES;
use fixtures::beanstalkd::Server;
use fixtures::fault::Fault;

use crate::harness::*;

/// A way to provoke one exit code.
type Way = fn(&Server) -> Ran;

const WAYS: &[(i32, Way)] = &[
    (0, |server| bsctl(server.address(), &["ping"])),
    (1, |server| bsctl(server.address(), &["pop", "-t", "empty"])),
    (2, |server| bsctl(server.address(), &["ping", "--nope"])),
    (3, |server| {
        let id = put(server.address(), "x", "").to_string();
        bsctl(server.address(), &["delete", &id, "999"])
    }),
    (4, |server| {
        server.faults().add(Fault::nth(1).of("put").cut_after(0));
        bsctl(server.address(), &["put", "x"])
    }),
    (65, |server| bsctl(server.address(), &["put", "-t", "no spaces", "x"])),
    (66, |server| bsctl(server.address(), &["put", "@/no/such/file"])),
    (69, |_| bsctl(&dead_address(), &["ping"])),
    (75, |server| {
        server.drain();
        bsctl(server.address(), &["put", "x"])
    }),
    (76, |server| {
        server.faults().add(Fault::nth(1).of("stats").reply("WHAT"));
        bsctl(server.address(), &["stats"])
    }),
    (77, |_| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("tls://{}", listener.local_addr().unwrap());
        // A server without TLS that rejects its input.
        std::thread::spawn(move || drop(listener.accept()));
        bsctl(&address, &["--timeout", "60s", "ping"])
    }),
    (124, |server| {
        server.faults().add(Fault::nth(1).of("stats").hang());
        bsctl(server.address(), &["stats", "--timeout", "2s"])
    }),
    #[cfg(target_os = "linux")]
    (74, |server| {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let mut command = command(&["-a", server.address(), "stats"]);
        ended(command.stdout(full).spawn().unwrap())
    }),
    #[cfg(unix)]
    (129, |server| signalled(server, rustix::process::Signal::HUP)),
    #[cfg(unix)]
    (130, |server| signalled(server, rustix::process::Signal::INT)),
    #[cfg(unix)]
    (143, |server| signalled(server, rustix::process::Signal::TERM)),
];

/// A `wait` that gets a signal while it waits.
#[cfg(unix)]
fn signalled(server: &Server, with: rustix::process::Signal) -> Ran {
    put(server.address(), "busy", "x");
    server.clear_requests();
    let line = ["-a", server.address(), "wait", "--for", "empty", "-t", "busy"];
    let child = command(&line).spawn().unwrap();
    // It catches signals before it polls for the first time.
    while server.requests().is_empty() {
        std::thread::sleep(Duration::from_millis(1));
    }
    signal(&child, with);
    ended(child)
}

#[test]
fn provokes_every_exit_code() {
    for (code, way) in WAYS {
        // Under `nohup`, it has no effect.
        if *code == 129 && ctl_core::system::signals::is_hangup_ignored() {
            continue;
        }
        let server = Server::start().unwrap();
        way(&server).exits(*code);
    }
    // A defect of the tool cannot be provoked from outside; the library's own test does it.
    let provoked = |code: i32| code == 70 || WAYS.iter().any(|(known, _)| *known == code);
    if cfg!(target_os = "linux") {
        for code in EXIT_CODES.iter().map(|(exit, _)| exit.code()) {
            assert!(provoked(code.into()), "{code} is not provoked");
        }
    }
}

#[test]
fn failures_state_cause_and_next_step() {
    let ran = bsctl(&dead_address(), &["ping"]).exits(69);
    assert!(ran.err.starts_with("error: UNAVAILABLE: cannot connect to 127.0.0.1:"), "{}", ran.err);
    assert!(ran.err.contains("(address from flag --server)"), "{}", ran.err);
    assert!(ran.err.contains("  try: "), "{}", ran.err);

    let mut command = command(&["ping", "-o", "json"]);
    let ran = ended(command.env("BEANSTALKD_ADDR", dead_address()).spawn().unwrap()).exits(69);
    let message = ran.error()["message"].as_str().unwrap().to_owned();
    assert!(message.contains("(address from environment BEANSTALKD_ADDR)"), "{message}");
}

#[test]
fn flags_beat_bsctl_and_then_beanstalkd_variables() {
    let (server, dead) = (Server::start().unwrap(), dead_address());
    let pinged = |flag: &[&str], variables: &[(&str, &str)]| {
        let mut command = command(&[&["ping", "-v"], flag].concat());
        command.env("BEANSTALKD_ADDR", &dead).envs(variables.iter().copied());
        ended(command.spawn().unwrap()).exits(0)
    };
    let address = server.address();
    pinged(&["-s", address], &[("BSCTL_SERVER", &dead)]);
    for (variable, other) in [("BSCTL_SERVER", "BSCTL_ADDR"), ("BSCTL_ADDR", "BEANSTALKD_ADDR")] {
        let ran = pinged(&[], &[(other, &dead), (variable, address)]);
        assert!(ran.err.contains(&format!("(environment {variable})")), "{}", ran.err);
    }
}

#[test]
fn an_illegal_name_error_has_byte_position_and_rule() {
    let ran = bare(&["put", "-t", "a\rb", "x"]).exits(65);
    assert!(ran.err.contains("byte 0x0d") && ran.err.contains("position 1"), "{}", ran.err);
    assert!(ran.err.contains("allowed: A-Z"), "{}", ran.err);
}

#[test]
fn no_command_without_a_terminal_is_a_usage_error() {
    let ran = bare(&[]).exits(2);
    assert_eq!(ran.bytes, b"");
    assert!(ran.err.contains("Usage: bsctl"), "{}", ran.err);
}

#[test]
fn shows_protocol_lines_only_at_vvv() {
    let server = Server::start().unwrap();
    let ran = bsctl(server.address(), &["put", "-t", "mail", "hello", "-vvv"]).exits(0);
    let lines: Vec<&str> = ran.err.lines().filter(|line| line.starts_with(['>', '<'])).collect();
    // The first connection detects the kind of server.
    let lines = lines.strip_prefix(&["> list-tube-used", "< USING default"]).unwrap();
    assert_eq!(lines, ["> use mail", "> put 1024 0 60 5", "< USING mail", "< INSERTED 1"]);
    let ran = bsctl(server.address(), &["put", "hello", "-vv"]).exits(0);
    assert!(!ran.err.contains("> put"), "{}", ran.err);
    let mut by_variable = command(&["-a", server.address(), "ping"]);
    by_variable.env("BSCTL_LOG", "warn,bsctl::protocol=trace");
    assert!(ended(by_variable.spawn().unwrap()).err.contains("> list-tube-used"));
}

/// Jobs are released one by one.
#[test]
fn release_refuses_a_batch() {
    let ran = bare(&["release", "1", "--batch", "5"]).exits(2);
    assert!(ran.says("error: unexpected argument '--batch'"), "{}", ran.err);
}
