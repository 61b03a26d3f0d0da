//! Running the program, and a server to run it against.

use std::io::Write;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gearman_client::blocking::{Admin, Client};

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) err: String,
}

impl Ran {
    pub(crate) fn out(&self) -> &str {
        std::str::from_utf8(&self.bytes).unwrap()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.bytes)
            .unwrap_or_else(|error| panic!("{error}: stdout is {:?}, {}", self.out(), self.err))
    }

    /// The error object that ends stderr; stdout must be empty then.
    pub(crate) fn error(&self) -> serde_json::Value {
        assert!(self.bytes.is_empty(), "{:?}", self.out());
        let last = self.err.lines().last().unwrap_or_default();
        let value: serde_json::Value = serde_json::from_str(last)
            .unwrap_or_else(|error| panic!("{error}: stderr ends with {last:?}"));
        value["error"].clone()
    }

    /// This run, which must have ended with `code`.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout: {:?}\nstderr: {}", self.bytes, self.err);
        self
    }
}

/// The program with a clean environment and empty stdin.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gearctl"));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let ours = ["GEARCTL_", "GEARMAN_", "NO_COLOR", "CLICOLOR"];
        if ours.iter().any(|prefix| text.starts_with(prefix)) {
            command.env_remove(&name);
        }
    }
    command.args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub(crate) fn bare(arguments: &[&str]) -> Ran {
    ended(command(arguments).spawn().unwrap())
}

pub(crate) fn gearctl(address: &str, arguments: &[&str]) -> Ran {
    bare(&[&["-s", address], arguments].concat())
}

pub(crate) fn gearctl_with(address: &str, arguments: &[&str], stdin: &[u8]) -> Ran {
    fed(command(&[&["-s", address], arguments].concat()), stdin)
}

/// Runs a command with these bytes as its stdin.
pub(crate) fn fed(mut command: Command, stdin: &[u8]) -> Ran {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    let stdin = stdin.to_vec();
    // Written beside, so that a child that writes much before it reads all does not block both.
    let writer = std::thread::spawn(move || {
        let _ = pipe.write_all(&stdin);
    });
    let ran = ended(child);
    writer.join().unwrap();
    ran
}

pub(crate) fn ended(child: Child) -> Ran {
    let output = child.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert!(!err.contains("panicked"), "{err}");
    Ran { code: output.status.code(), bytes: output.stdout, err }
}

/// A child that does not outlive the test.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The real server on a free port.
pub(crate) struct Gearmand {
    address: String,
    pub(crate) port: String,
    _child: Running,
    _directory: tempfile::TempDir,
}

impl Gearmand {
    /// None where it is not installed, which is an error with `CI=true`.
    pub(crate) fn start() -> Option<Self> {
        let places = ["/usr/sbin/gearmand", "/usr/local/sbin/gearmand", "/usr/bin/gearmand"];
        let Some(program) = places.iter().find(|place| std::path::Path::new(place).is_file())
        else {
            assert!(std::env::var("CI").as_deref() != Ok("true"), "gearmand is not installed");
            return None;
        };
        let directory = tempfile::tempdir().unwrap();
        for _ in 0..20 {
            let port = free_port();
            let pid_file = directory.path().join("pid");
            let child = Command::new(program)
                .args(["-l", "none", "-L", "127.0.0.1", "-p", &port, "-P"])
                .arg(&pid_file)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            let child = Running(child);
            let address = format!("127.0.0.1:{port}");
            // Somebody else may have taken the port: then another process answers, or none.
            if answers(&address) == Some(u64::from(child.0.id())) {
                return Some(Self { address, port, _child: child, _directory: directory });
            }
        }
        panic!("gearmand does not start");
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// One of the tools that come with the server, pointed at this one.
    pub(crate) fn tool(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(["-h", "127.0.0.1", "-p", &self.port]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

fn free_port() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

/// The pid of the server that answers there.
fn answers(address: &str) -> Option<u64> {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(10) {
        if let Ok(pid) = Admin::connect(address).and_then(|mut admin| admin.getpid()) {
            return Some(pid);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    None
}

/// Waits until `look` gives something.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(20) {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what} did not come");
}

/// Waits until the function has so many workers.
#[track_caller]
pub(crate) fn workers(address: &str, function: &str, count: i64) {
    let mut admin = Admin::connect(address).unwrap();
    eventually(&format!("{count} workers of {function}"), || {
        let rows = admin.status().unwrap();
        let now = rows.iter().find(|row| row.name.as_str() == Some(function));
        (now.map_or(0, |row| row.workers) == count).then_some(())
    });
}

/// A queued background job; its handle.
pub(crate) fn queue(address: &str, function: &str, workload: &[u8]) -> String {
    let mut client = Client::connect(address).unwrap();
    let job = client.submit_background(function, workload, Default::default()).unwrap();
    String::from_utf8(job.handle.name().to_vec()).unwrap()
}

/// An address where nobody listens.
pub(crate) fn dead_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}
