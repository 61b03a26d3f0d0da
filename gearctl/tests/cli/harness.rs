//! Running the program, and a server of each kind to run it against.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fixtures::gearmand::Server;
use fixtures::real::Gearmand;
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
        let ours = ["GEARCTL_", "GEARMAN", "NO_COLOR", "CLICOLOR"];
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

/// A server to run against.
pub(crate) struct Site {
    address: String,
}

impl Site {
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// One of the tools that come with the real server, pointed at this one.
    pub(crate) fn tool(&self, program: &str, arguments: &[&str]) -> Command {
        let (host, port) = self.address.rsplit_once(':').unwrap();
        let mut command = Command::new(program);
        command.args(["-h", host, "-p", port]).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// Runs a scenario against a fresh in-memory server and a fresh real one.
pub(crate) fn on_both(scenario: impl Fn(&Site)) {
    let server = Server::start().unwrap();
    scenario(&Site { address: server.address().to_owned() });
    if let Some(real) = Gearmand::start() {
        scenario(&Site { address: real.address().to_owned() });
    }
}

/// As [`on_both`], where `gearman` and `gearadmin` are installed, which has to be so with `CI=true`.
pub(crate) fn on_both_with_tools(scenario: impl Fn(&Site)) {
    let works = |tool: &str| {
        let mut command = Command::new(tool);
        command.arg("-H").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok()
    };
    if works("gearman") && works("gearadmin") {
        on_both(scenario);
        return;
    }
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "gearman and gearadmin are not installed"
    );
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
    fixtures::Port::take().unwrap().address().to_string()
}
