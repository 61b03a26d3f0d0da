//! `--timeout` bounds a command, whatever a server does.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::formats::{OFFLINE, SUCCEEDS};
use crate::harness::*;

/// What a server does with its connections.
fn server(serve: fn(TcpStream)) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            std::thread::spawn(move || serve(stream));
        }
    });
    address
}

/// Reads, and answers nothing.
fn silent(mut stream: TcpStream) {
    let _ = stream.read_to_end(&mut Vec::new());
}

/// Begins an answer, and goes on with a byte now and then.
fn dripping(mut stream: TcpStream) {
    let _ = stream.read(&mut [0; 64]);
    let _ = stream.write_all(b"OK 100000\r\n");
    while stream.write_all(b"-").is_ok() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Answers without end, as fast as it is read.
fn flooding(mut stream: TcpStream) {
    let _ = stream.read(&mut [0; 64]);
    while stream.write_all(&b"USING default\r\n".repeat(1000)).is_ok() {}
}

/// An order of magnitude more than the bound, for a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(15);

#[test]
fn the_timeout_holds_for_every_command_whatever_the_server_does() {
    // A worker goes on until somebody stops it.
    let never_ends = |name: &str| OFFLINE.contains(&name) || name == "work";
    let commands: Vec<_> = SUCCEEDS.iter().filter(|(name, _)| !never_ends(name)).collect();
    assert!(commands.len() > 25);
    for (kind, serve) in
        [("silent", silent as fn(TcpStream)), ("dripping", dripping), ("flooding", flooding)]
    {
        let address = server(serve);
        for some in commands.chunks(8) {
            std::thread::scope(|scope| {
                for (name, line) in some {
                    let address = &address;
                    scope.spawn(move || {
                        let start = Instant::now();
                        let ran = bsctl(address, &[&["--timeout", "300ms"], *line].concat());
                        let took = start.elapsed();
                        assert!(took < PATIENCE, "{kind} {name}: {took:?} {}", ran.err);
                        let empty = *name == "import" && ran.code == Some(0);
                        let floods = kind == "flooding";
                        assert!(floods || empty || ran.code != Some(0), "{kind} {name}: {ran:?}");
                    });
                }
            });
        }
    }
}
