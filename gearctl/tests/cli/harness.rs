//! Running the program, and a server of each kind to run it against.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) use ctl_contract::program::{Program, Ran, Running, ended, fed};
use fixtures::gearmand::Server;
use fixtures::real::Gearmand;
use gearman_client::blocking::{Admin, Client};

/// The program.
pub(crate) const PROGRAM: Program = Program::of::<gearctl::Gearctl>(env!("CARGO_BIN_EXE_gearctl"));

/// The program with a clean environment and empty stdin.
pub(crate) fn command(arguments: &[&str]) -> Command {
    PROGRAM.command(arguments)
}

pub(crate) fn bare(arguments: &[&str]) -> Ran {
    PROGRAM.bare(arguments)
}

pub(crate) fn gearctl(address: &str, arguments: &[&str]) -> Ran {
    PROGRAM.at(address, arguments)
}

pub(crate) fn gearctl_with(address: &str, arguments: &[&str], stdin: &[u8]) -> Ran {
    PROGRAM.fed(address, arguments, stdin)
}

/// A server to run against.
pub(crate) struct Site {
    address: String,
}

impl Site {
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// The same server behind another address.
    pub(crate) fn at(&self, address: &str) -> Site {
        Site { address: address.to_owned() }
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

/// As [`on_both`], if `gearman` and `gearadmin` are installed, which `CI=true` requires.
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

/// Waits until `look` returns something.
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

/// Waits until the function has this number of workers.
#[track_caller]
pub(crate) fn workers(address: &str, function: &str, count: i64) {
    let mut admin = Admin::connect(address).unwrap();
    eventually(&format!("{count} workers of {function}"), || {
        let rows = admin.status().unwrap();
        let now = rows.iter().find(|row| row.name.as_str() == Some(function));
        (now.map_or(0, |row| row.workers) == count).then_some(())
    });
}

/// Queues a background job, and returns its handle.
pub(crate) fn queue(address: &str, function: &str, workload: &[u8]) -> String {
    let mut client = Client::connect(address).unwrap();
    let job = client.submit_background(function, workload, Default::default()).unwrap();
    String::from_utf8(job.handle.name().to_vec()).unwrap()
}

/// An address where nobody listens.
pub(crate) fn dead_address() -> String {
    fixtures::Port::take().unwrap().address().to_string()
}
