//! Running the program, and a server of each kind to run it against.

use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use beanstalk_client::blocking::Client;
use beanstalk_client::{JobId, JobStats, PutOptions};
use fixtures::beanstalkd::Server;
use fixtures::real::Beanstalkd;

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

    pub(crate) fn lines(&self) -> Vec<&str> {
        self.out().lines().collect()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.bytes)
            .unwrap_or_else(|error| panic!("{error}: stdout is {:?}, {}", self.out(), self.err))
    }

    /// The error object that ends stderr.
    pub(crate) fn error(&self) -> serde_json::Value {
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
    let mut command = Command::new(env!("CARGO_BIN_EXE_bsctl"));
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let ours = ["BSCTL_", "BEANSTALKD_", "NO_COLOR", "CLICOLOR"];
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

pub(crate) fn bsctl(address: &str, arguments: &[&str]) -> Ran {
    bare(&[&["-a", address], arguments].concat())
}

pub(crate) fn bsctl_with(address: &str, arguments: &[&str], stdin: &[u8]) -> Ran {
    let mut command = command(&[&["-a", address], arguments].concat());
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
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

/// Runs a scenario against a fresh in-memory server and a fresh real one.
pub(crate) fn on_both(scenario: impl Fn(&str)) {
    let server = Server::start().unwrap();
    scenario(server.address());
    if let Some(real) = Beanstalkd::start() {
        scenario(real.address());
    }
}

pub(crate) fn client(address: &str) -> Client {
    Client::connect(address).unwrap()
}

pub(crate) fn put(address: &str, tube: &str, body: impl AsRef<[u8]>) -> JobId {
    put_with(address, tube, body, PutOptions::default())
}

pub(crate) fn put_with(
    address: &str,
    tube: &str,
    body: impl AsRef<[u8]>,
    options: PutOptions,
) -> JobId {
    let mut client = client(address);
    client.use_tube(tube).unwrap();
    client.put(body, options).unwrap().id()
}

pub(crate) fn put_delayed(address: &str, tube: &str, body: impl AsRef<[u8]>) -> JobId {
    put_with(address, tube, body, PutOptions::default().delay(Duration::from_secs(3600)))
}

pub(crate) fn put_buried(address: &str, tube: &str, body: impl AsRef<[u8]>) -> JobId {
    let id = put_delayed(address, tube, body);
    let mut client = client(address);
    let job = client.reserve_job(id).unwrap().unwrap();
    client.bury(&job, 1024).unwrap();
    id
}

/// What the server says about a job; none when there is no such job.
pub(crate) fn stats(address: &str, id: JobId) -> Option<JobStats> {
    client(address).stats_job(id).unwrap()
}

pub(crate) fn state(address: &str, id: JobId) -> String {
    stats(address, id).map_or_else(|| "gone".to_owned(), |stats| stats.state.to_string())
}

/// An address where nobody listens.
pub(crate) fn dead_address() -> String {
    fixtures::Port::take().unwrap().address().to_string()
}

/// Sends a signal to a child.
#[cfg(unix)]
pub(crate) fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}
