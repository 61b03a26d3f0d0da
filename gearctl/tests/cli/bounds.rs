//! `--timeout` bounds a command, whatever a server does.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use crate::exits::LINES;
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
    let _ = stream.write_all(b"\0RES\0\0\0\x11\0\x10\0\0");
    while stream.write_all(b"-").is_ok() {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Sends NOOP without end, as fast as it is read: a packet that no request is answered by, and no text either.
fn flooding(mut stream: TcpStream) {
    let _ = stream.read(&mut [0; 64]);
    while stream.write_all(&b"\0RES\0\0\0\x06\0\0\0\0".repeat(1000)).is_ok() {}
}

/// An order of magnitude more than the bound, for a machine that is busy.
const PATIENCE: Duration = Duration::from_secs(15);

#[test]
fn the_timeout_holds_for_every_command_whatever_the_server_does() {
    // A worker goes on until somebody stops it.
    let commands: Vec<_> = LINES.iter().filter(|line| line[0] != "work").collect();
    for (kind, serve) in
        [("silent", silent as fn(TcpStream)), ("dripping", dripping), ("flooding", flooding)]
    {
        let address = server(serve);
        for some in commands.chunks(8) {
            std::thread::scope(|scope| {
                for line in some {
                    let address = &address;
                    scope.spawn(move || {
                        let start = Instant::now();
                        let ran = gearctl(address, &[&["--timeout", "300ms"], **line].concat());
                        let took = start.elapsed();
                        assert!(took < PATIENCE, "{kind} {line:?}: {took:?} {}", ran.err);
                        // Without a line there is no job.
                        let empty = line[0] == "map";
                        assert!(empty || ran.code != Some(0), "{kind} {line:?}: {ran:?}");
                    });
                }
            });
        }
    }
}
