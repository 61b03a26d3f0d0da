//! Running the program, and a server of each kind to run it against.

use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

pub(crate) use ctl_contract::program::{Program, Ran, Running, ended, fed, late};
#[cfg(unix)]
pub(crate) use ctl_contract::program::{hears, signal};
use fixtures::Port;
use fixtures::gearmand::{Listen, Server};
use fixtures::real::Gearmand;
use gearman_client::blocking::{Admin, Client, JobContext, Worker};
use gearman_client::{ConnectOptions, Failure, JobLimit, Servers, WorkerOptions};

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

/// Runs a scenario that is about the tool, whatever the server.
pub(crate) fn in_memory(scenario: impl Fn(&Site)) {
    let server = Server::start().unwrap();
    scenario(&Site { address: server.address().to_owned() });
}

/// Runs a scenario against a fresh in-memory server and a fresh real one, at the same time.
pub(crate) fn on_both(scenario: impl Fn(&Site) + Sync) {
    at_once([false, true], |is_real| on_one(is_real, &scenario));
}

/// As [`on_both`], one after the other: for limits that apply to all processes of a user.
pub(crate) fn on_both_in_turn(scenario: impl Fn(&Site)) {
    for is_real in [false, true] {
        on_one(is_real, &scenario);
    }
}

fn on_one(is_real: bool, scenario: &impl Fn(&Site)) {
    if !is_real {
        in_memory(scenario);
    } else if let Some(real) = Gearmand::start() {
        scenario(&Site { address: real.address().to_owned() });
    }
}

/// As [`on_both`], if `gearman` and `gearadmin` are installed, which `CI=true` requires.
pub(crate) fn on_both_with_tools(scenario: impl Fn(&Site) + Sync) {
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

/// Runs all at the same time, because most of it is spent on answers that do not come.
pub(crate) fn at_once<T: Send>(all: impl IntoIterator<Item = T>, run: impl Fn(T) + Sync) {
    std::thread::scope(|scope| {
        let run = &run;
        for one in all {
            scope.spawn(move || run(one));
        }
    });
}

/// Waits until `look` returns something.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        if let Some(found) = look() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what} did not come");
}

/// Limits for connecting and waiting that a busy machine meets.
fn patient(address: &str) -> ConnectOptions {
    let minute = Duration::from_secs(60);
    ConnectOptions::new(address.parse().unwrap()).connect_timeout(minute).reply_timeout(minute)
}

/// Waits until the function has this number of workers.
#[track_caller]
pub(crate) fn workers(address: &str, function: &str, count: i64) {
    let mut admin = Admin::connect(patient(address)).unwrap();
    eventually(&format!("{count} workers of {function}"), || {
        let rows = admin.status().unwrap();
        let now = rows.iter().find(|row| row.name.as_str() == Some(function));
        (now.map_or(0, |row| row.workers) == count).then_some(())
    });
}

/// Serves a function with a handler until this number of jobs have been done.
pub(crate) fn serve(address: &str, function: &str, jobs: u64, handler: Handler) -> JoinHandle<()> {
    let servers: Servers = address.parse().unwrap();
    let options = WorkerOptions::from(servers).limit(JobLimit::new(jobs));
    let mut worker = Worker::connect(options).unwrap();
    worker.register(function, handler).unwrap();
    std::thread::spawn(move || {
        worker.run().unwrap();
    })
}

type Handler = fn(&mut JobContext<'_>) -> Result<Vec<u8>, Failure>;

/// Submits with a `run` that leaves before a worker has taken the job: the server skips it, and what is merged with it.
pub(crate) fn leaves(address: &str, run: &[&str]) {
    let mut child = command(&[&["-s", address], run].concat()).spawn().unwrap();
    let mut admin = Admin::connect(patient(address)).unwrap();
    eventually("the job", || {
        let rows = admin.status().unwrap();
        let row = rows.iter().find(|row| row.name.as_str() == Some(run[1]))?;
        (row.queued() > 0).then_some(())
    });
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the loss of the client", || {
        let jobs = admin.show_jobs().unwrap();
        jobs.iter().all(|job| job.is_ignored).then_some(())
    });
}

/// The number of queued jobs.
pub(crate) fn queued(address: &str, function: &str) -> i64 {
    let rows = Admin::connect(patient(address)).unwrap().status().unwrap();
    let row = rows.iter().find(|row| row.name.as_str() == Some(function));
    row.map_or(0, |row| row.queued())
}

/// Queues a background job, and returns its handle.
pub(crate) fn queue(address: &str, function: &str, workload: &[u8]) -> String {
    let mut client = Client::connect(patient(address)).unwrap();
    let job = client.submit_background(function, workload, Default::default()).unwrap();
    String::from_utf8(job.handle.name().to_vec()).unwrap()
}

/// A server at a port that stays the test's own while no server is there.
pub(crate) fn start_at(port: &Port) -> Server {
    Server::builder().listen(Listen::Tcp(port.address())).start().unwrap()
}

/// An address without a listener.
pub(crate) fn dead_address() -> String {
    Port::take().unwrap().dead().to_string()
}
