//! `--timeout` bounds a command, whatever a server does.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::program::{Program, Ran, Running};

/// How a server treats its connections. It sends the start of an answer, or whole answers to other requests.
#[derive(Debug, Clone, Copy)]
pub enum Peer {
    /// It reads, and never answers.
    Silent,
    /// It starts an answer, and continues with a byte now and then.
    Dripping(&'static [u8]),
    /// It sends answers without end, as fast as they are read.
    Flooding(&'static [u8]),
}

impl Peer {
    fn serve(self, mut stream: TcpStream) {
        if let Self::Silent = self {
            let _ = stream.read_to_end(&mut Vec::new());
            return;
        }
        let _ = stream.read(&mut [0; 64]);
        match self {
            Self::Silent => {}
            Self::Dripping(begin) => {
                let _ = stream.write_all(begin);
                while stream.write_all(b"-").is_ok() {
                    thread::sleep(Duration::from_millis(20));
                }
            }
            Self::Flooding(answer) => while stream.write_all(&answer.repeat(1000)).is_ok() {},
        }
    }

    /// Starts such a server, and returns its address.
    fn start(self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        thread::spawn(move || {
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                thread::spawn(move || self.serve(stream));
            }
        });
        address
    }
}

/// Far more than the limit of each command, for a busy machine.
const LONGEST: Duration = Duration::from_secs(30);

/// Runs a command to its end. One that takes longer than [`LONGEST`] is killed, and gives `None`.
fn run(mut command: Command) -> Option<Ran> {
    let mut child = Running::of(command.stdin(Stdio::piped()).spawn().unwrap());
    drop(child.stdin.take());
    let (mut stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let errors = thread::spawn(move || {
        let mut text = String::new();
        stderr.read_to_string(&mut text).unwrap();
        text
    });
    let (end, ended) = mpsc::channel();
    thread::spawn(move || {
        let mut bytes = Vec::new();
        stdout.read_to_end(&mut bytes).unwrap();
        let _ = end.send((bytes, errors.join().unwrap()));
    });
    let (bytes, err) = ended.recv_timeout(LONGEST).ok()?;
    assert!(!err.contains("panicked"), "{err}");
    Some(Ran { bytes, err, ..child.ended() })
}

/// Runs every line against every peer: each ends. Only those named in `may_succeed` may exit with 0.
pub fn every_command_honours_the_timeout(
    program: &Program,
    lines: &[&[&str]],
    peers: &[Peer],
    may_succeed: impl Fn(Peer, &[&str]) -> bool + Sync,
) {
    for peer in peers {
        let address = peer.start();
        for some in lines.chunks(8) {
            thread::scope(|scope| {
                for line in some {
                    let (address, may_succeed) = (&address, &may_succeed);
                    scope.spawn(move || {
                        let limited = [program.flag, address, "--timeout", "100ms"];
                        let mut command = program.command(&[&limited, *line].concat());
                        // A command that ignores the flag never ends.
                        command.env(format!("{}_TIMEOUT", program.prefix), "1h");
                        let Some(ran) = run(command) else {
                            panic!("{peer:?} {line:?}: no end within {LONGEST:?}");
                        };
                        let succeeds = ran.code == Some(0);
                        assert!(
                            !succeeds || may_succeed(*peer, line),
                            "{peer:?} {line:?}: {ran:?}"
                        );
                    });
                }
            });
        }
    }
}

/// Whether a run ends with this code, and well before its time limit has passed twice: with one of several limits, of
/// which a longer one leaves more time for what a busy machine does besides.
pub fn takes_less_than_twice(code: i32, run: impl Fn(&str) -> Ran) -> bool {
    [2, 8, 30].into_iter().any(|seconds| {
        let start = Instant::now();
        let ran = run(&format!("{seconds}s"));
        ran.code == Some(code) && start.elapsed() < Duration::from_secs(2 * seconds) * 19 / 20
    })
}
