//! Servers that are dead, silent or not of the kind of the tool, alone and among several.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use ctl_core::context::Tool;
use fixtures::tls::Authority;

use crate::Case;
use crate::program::{Ran, fed};
use crate::session::{PATIENTLY, repl};

/// Results name their server even if only one of several answers, and a verdict names those that answer.
pub fn lists_live_servers_when_one_is_dead<T: Tool>(case: &Case<T>) {
    let (_server, address) = case.filled();
    let both = format!("127.0.0.1:1,{address}");
    for line in [case.list, case.figures] {
        let ran = case.run(&both, line, &["-o", "json"]).exits(69);
        for record in ran.json().as_array().unwrap() {
            assert_eq!(record["server"], address.as_str(), "{line}: {record}");
        }
        assert!(ran.says("warning: cannot connect to 127.0.0.1:1: "), "{line}: {}", ran.err);
        let ran = case.run(&both, line, &[]).exits(69);
        assert!(ran.says_out(&format!("{address}\t")), "{line}: {}", ran.out());
    }
    let verdict = case.program.at(&both, &["check", "server"]).exits(2);
    assert!(verdict.out().contains("cannot connect to 127.0.0.1:1: "), "{}", verdict.out());
    assert!(verdict.out().contains(&format!("; {address} answers")), "{}", verdict.out());
}

/// A command that visits its servers in turn would wait for the first in vain.
pub fn queries_servers_concurrently<T: Tool>(case: &Case<T>) {
    for line in [case.list, case.figures] {
        asks_both(case, line);
    }
}

/// The same for the commands of every tool.
pub fn common_commands_query_servers_concurrently<T: Tool>(case: &Case<T>) {
    let lines = ["check server", "ping", "doctor", "exporter -c 1"];
    for line in lines {
        asks_both(case, line);
    }
}

/// Runs a line with two servers, neither of which does anything before the other has been visited.
fn asks_both<T: Tool>(case: &Case<T>, line: &str) {
    let (addresses, folder) = (inseparable(), tempfile::tempdir().unwrap());
    let config = folder.path().join("config.toml");
    std::fs::write(&config, format!("[contexts.both]\nserver = {addresses:?}\n")).unwrap();
    let flags = ["--config", config.to_str().unwrap(), "--timeout", "60s"];
    let ran = case.run(&addresses.join(","), line, &flags);
    let said = format!("{}{}", ran.out(), ran.err);
    // Closed connections, and no expired time.
    for late in ["TIMEOUT", "no reply within", "not done within"] {
        assert!(!said.contains(late), "{line}: {said}");
    }
    let named = addresses.iter().filter(|address| said.contains(*address)).count();
    assert!(named == 2, "{line}: {said}");
}

/// It runs, so the error does not suggest starting it.
pub fn a_frozen_server_exits_124<T: Tool>(case: &Case<T>) {
    let silent = &silent();
    thread::scope(|scope| {
        for line in [case.list, case.figures] {
            scope.spawn(move || {
                // Long enough for a busy machine to connect.
                let error = case.run(silent, line, &["--timeout", "2s", "-o", "json"]);
                let error = error.exits(124).error_alone();
                let hints = error["hints"].to_string();
                assert!(error["code"] == "TIMEOUT" && !hints.contains("start "), "{line}: {error}");
            });
        }
    });
}

/// A server that takes connections and never answers is named, and the others are heard all the same.
pub fn names_the_silent_server<T: Tool>(case: &Case<T>) {
    reports_the_silent_server(case, &[case.list, case.figures]);
}

/// The same by the commands of every tool.
pub fn common_commands_name_the_silent_server<T: Tool>(case: &Case<T>) {
    let pings = "ping -c 2 -i 0 -o json";
    let lines = ["top -c 1", "doctor", "exporter -c 1", pings];
    let (servers, ran) = reports_the_silent_server(case, &lines);
    let rows = ran.last().unwrap().json();
    let lost = servers.map(|server| -> Vec<bool> {
        let rows = rows.as_array().unwrap().iter().filter(|row| row["server"] == *server);
        rows.map(|row| row["error"].is_string()).collect()
    });
    assert_eq!(lost, [vec![true; 2], vec![false; 2]], "{rows}");
}

/// Runs these lines at the same time, as each of them waits: with a silent server and one that answers, which come
/// back the bytes received.
fn reports_the_silent_server<T: Tool>(case: &Case<T>, lines: &[&str]) -> ([String; 2], Vec<Ran>) {
    let ((_server, address), silent) = (case.filled(), silent());
    let both = format!("{silent},{address}");
    let ran = thread::scope(|scope| {
        let run = |line: &&str| {
            // How long it waits for the silent one. The other one has as long.
            let words: Vec<&str> = line.split(' ').chain(["--timeout", "2s"]).collect();
            let command = case.program.command(&[&[case.program.flag, &both], &words[..]].concat());
            scope.spawn(move || fed(command, b""))
        };
        let running: Vec<_> = lines.iter().map(run).collect();
        running.into_iter().map(|ran| ran.join().unwrap()).collect::<Vec<_>>()
    });
    for (line, ran) in lines.iter().zip(&ran) {
        let said = format!("{}{}", ran.out(), ran.err);
        assert!([Some(69), Some(124)].contains(&ran.code), "{line}: {:?} {said}", ran.code);
        assert!(ran.out().contains(&address) && said.contains(&silent), "{line}: {said}");
    }
    ([silent, address], ran)
}

/// A server that takes connections, reads, and never answers.
fn silent() -> String {
    serves(|mut stream| drop(std::io::copy(&mut stream, &mut std::io::sink())))
}

/// The addresses of two servers that close their connections once both have been visited.
fn inseparable() -> [String; 2] {
    let visited = Arc::new((Mutex::new([false; 2]), Condvar::new()));
    [0, 1].map(|at| {
        let visited = Arc::clone(&visited);
        serves(move |mut stream| {
            let _ = stream.read(&mut [0; 64]);
            let (seen, news) = &*visited;
            let mut seen = seen.lock().unwrap();
            seen[at] = true;
            news.notify_all();
            drop(news.wait_while(seen, |seen| seen.contains(&false)).unwrap());
        })
    })
}

/// A server that runs this for each connection, on its own thread.
fn serves(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let stream = stream.unwrap();
            let serve = serve.clone();
            thread::spawn(move || serve(stream));
        }
    });
    address
}

/// An HTTP server that waits for the end of a request, as many do.
#[must_use]
pub fn http() -> String {
    serves(|mut stream| {
        let mut request = Vec::new();
        let mut chunk = [0; 1024];
        while !request.ends_with(b"\r\n\r\n") {
            match stream.read(&mut chunk) {
                Ok(read @ 1..) => request.extend_from_slice(&chunk[..read]),
                _ => return,
            }
        }
        let answer = b"HTTP/1.1 404 \x1b[31mNot Found\r\nContent-Length: 0\r\n\r\n";
        let _ = stream.write_all(answer);
    })
}

/// Sends this at once, and closes the connection once something has arrived.
fn greet(mut stream: TcpStream, greeting: &[u8]) {
    let _ = stream.write_all(greeting);
    let _ = stream.read(&mut [0; 65536]);
}

/// With its address, its reply and a remedy; nothing of the command was sent.
pub fn detects_the_wrong_server_type<T: Tool>(case: &Case<T>) {
    let meant = T::PROGRAM.servers.kind;
    let add: Vec<&str> = case.add.split(' ').chain(["x"]).collect();
    let strangers = [
        (http(), "an HTTP server"),
        (serves(|stream| greet(stream, b"SSH-2.0-OpenSSH_9.6\r\n")), "an SSH server"),
        (
            serves(|stream| greet(stream, b"\x15\x03\x01\x00\x02\x02\x46")),
            "a server that wants TLS",
        ),
    ];
    let program = case.program.unconfigured();
    thread::scope(|scope| {
        for (address, what) in &strangers {
            for line in [&["ping", "-c", "1"][..], &add] {
                scope.spawn(move || {
                    // It does not wait until a time runs out.
                    let ran = program.at(address, &[&["--timeout", "1h"], line].concat()).exits(76);
                    let said = format!("WRONG_SERVER: {what} answers at {address}");
                    assert!(ran.err.contains(&said), "{line:?}: {}", ran.err);
                    assert!(ran.err.contains(&format!(", not {meant}")), "{}", ran.err);
                    assert!(ran.err.contains(T::PROGRAM.servers.variables[0]), "{}", ran.err);
                    assert!(!ran.err.contains('\x1b'), "{}", ran.err);
                });
            }
        }
    });
}

/// Even if another of the servers has replied correctly.
pub fn reports_wrong_server_type_among_several<T: Tool>(case: &Case<T>) {
    let ((_server, good), other) = (Case::<T>::server(), http());
    let program = case.program.unconfigured();
    let ran = program.at(&format!("{good},{other}"), &["ping"]).exits(76);
    assert!(ran.err.contains(&format!("an HTTP server answers at {other}")), "{}", ran.err);
    assert_eq!(ran.lines().len(), 2, "{:?}", ran.out());
}

/// An unknown reply is shown unchanged.
pub fn reports_an_unknown_server_type<T: Tool>(case: &Case<T>) {
    let address = serves(|stream| greet(stream, b"hello, who is there?\r\n"));
    let ran = case.program.at(&address, &["ping", "-c", "1"]).exits(76);
    assert!(ran.err.contains("hello, who is there?") && ran.err.contains(&address), "{}", ran.err);
    assert!(ran.err.contains(T::PROGRAM.servers.kind), "{}", ran.err);
}

/// A server that is only slow is waited for: what it says about itself meanwhile is no reason to give it up.
pub fn waits_for_a_slow_server<T: Tool>(case: &Case<T>) {
    let ((_server, plain), authority) = (Case::<T>::server(), Authority::new());
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, authority.pem()).unwrap();
    let tls = authority.identity("127.0.0.1").server(None);
    let encrypted = tls.proxy(plain.parse().unwrap()).to_string();
    let trusting = format!("--tls=ca={}", ca.display());
    for (address, flags) in [(plain, &[][..]), (encrypted, &[&*trusting][..])] {
        let line = [&["ping", "-c", "1"], flags].concat();
        case.program.unconfigured().at(&hesitant(&address), &line).exits(0);
    }
}

/// The address of a server that gets nothing of its first connection before it was looked at: before another one has
/// come and gone.
#[must_use]
pub fn hesitant(server: &str) -> String {
    let (server, begun) = (server.to_owned(), Arc::new(AtomicUsize::new(0)));
    let looked_at = Arc::new((Mutex::new(false), Condvar::new()));
    serves(move |client| {
        let is_first = begun.fetch_add(1, Ordering::SeqCst) == 0;
        let (state, news) = &*looked_at;
        if is_first {
            drop(news.wait_while(state.lock().unwrap(), |looked_at| !*looked_at).unwrap());
        }
        let through = TcpStream::connect(&server).unwrap();
        let pass = |mut from: &TcpStream, mut to: &TcpStream| {
            let _ = std::io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        };
        thread::scope(|scope| {
            scope.spawn(|| pass(&through, &client));
            pass(&client, &through);
        });
        *state.lock().unwrap() = true;
        news.notify_all();
    })
}

/// The session keeps its server.
pub fn session_refuses_the_wrong_server_type<T: Tool>(case: &Case<T>) {
    let (server, address) = Case::<T>::server();
    let other = http();
    let text = format!("connect {other}\n{} x\n", case.add);
    let flags = [&["--keep-going"], PATIENTLY].concat();
    let ran = repl(&case.program.unconfigured(), &address, &flags, text).exits(3);
    assert!(ran.err.contains(&format!("an HTTP server answers at {other}")), "{}", ran.err);
    assert!(ran.err.contains(&format!("still connected to {address}")), "{}", ran.err);
    assert_eq!((case.jobs)(&server), 1);
}
