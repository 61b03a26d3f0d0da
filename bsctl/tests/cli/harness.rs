//! Running the program, and a server of each kind to run it against.

use std::process::Command;
use std::time::{Duration, Instant};

use beanstalk_client::blocking::Client;
use beanstalk_client::{ConnectOptions, JobId, JobStats, PutOptions};
#[cfg(unix)]
pub(crate) use ctl_contract::program::signal;
pub(crate) use ctl_contract::program::{Program, Ran, Running, ended, late};
use fixtures::Port;
use fixtures::beanstalkd::{Listen, Server};
use fixtures::real::Beanstalkd;

/// The program.
pub(crate) const PROGRAM: Program = Program::of::<bsctl::Bsctl>(env!("CARGO_BIN_EXE_bsctl"));

/// The program with a clean environment and empty stdin.
pub(crate) fn command(arguments: &[&str]) -> Command {
    PROGRAM.command(arguments)
}

pub(crate) fn bare(arguments: &[&str]) -> Ran {
    PROGRAM.bare(arguments)
}

pub(crate) fn bsctl(address: &str, arguments: &[&str]) -> Ran {
    PROGRAM.at(address, arguments)
}

pub(crate) fn bsctl_with(address: &str, arguments: &[&str], stdin: &[u8]) -> Ran {
    PROGRAM.fed(address, arguments, stdin)
}

/// Runs a scenario that is about the tool, whatever the server.
pub(crate) fn in_memory(scenario: impl Fn(&str)) {
    scenario(Server::start().unwrap().address());
}

/// Runs a scenario against a fresh in-memory server and a fresh real one.
pub(crate) fn on_both(scenario: impl Fn(&str)) {
    in_memory(&scenario);
    if let Some(real) = Beanstalkd::start() {
        scenario(real.address());
    }
}

/// A client that waits as long as a busy machine may take.
pub(crate) fn client(address: &str) -> Client {
    let options = ConnectOptions::new(address.parse().unwrap());
    Client::connect(options.reply_timeout(Duration::from_secs(60))).unwrap()
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

/// Puts jobs with the bodies `body 0`, `body 1` and so on, and buries them if they are to be buried.
pub(crate) fn fill(address: &str, tube: &str, count: usize, is_buried: bool) {
    let mut client = client(address);
    client.use_tube(tube).unwrap();
    for n in 0..count {
        let id = client.put(format!("body {n}"), PutOptions::default()).unwrap().id();
        if is_buried {
            let job = client.reserve_job(id).unwrap().unwrap();
            client.bury(&job, 1024).unwrap();
        }
    }
}

/// The server's statistics for a job; none if there is no such job.
pub(crate) fn stats(address: &str, id: JobId) -> Option<JobStats> {
    client(address).stats_job(id).unwrap()
}

pub(crate) fn state(address: &str, id: JobId) -> String {
    stats(address, id).map_or_else(|| "gone".to_owned(), |stats| stats.state.to_string())
}

/// An address without a listener.
pub(crate) fn dead_address() -> String {
    Port::take().unwrap().dead().to_string()
}

/// Every job of a server: its statistics, by its body.
pub(crate) fn all(address: &str) -> Vec<(String, JobStats)> {
    let mut client = client(address);
    let newest = client.stats().unwrap().total_jobs;
    let mut jobs = Vec::new();
    for id in 1..=newest {
        let Some(stats) = client.stats_job(id).unwrap() else { continue };
        let body = client.peek(id).unwrap().unwrap().body;
        jobs.push((String::from_utf8(body.to_vec()).unwrap(), stats));
    }
    jobs.sort_by(|one, other| one.0.cmp(&other.0));
    jobs
}

/// Body, tube and state of every job.
pub(crate) fn places(address: &str) -> Vec<String> {
    let shown =
        |(body, stats): (String, JobStats)| format!("{body} {} {}", stats.tube, stats.state);
    all(address).into_iter().map(shown).collect()
}

/// A server at a port that stays the test's own while no server is there.
pub(crate) fn start_at(port: &Port) -> Server {
    Server::builder().listen(Listen::Tcp(port.address())).start().unwrap()
}

/// Lets more than the time to run of the reserved jobs pass on a virtual clock: most of it each time that all of them
/// have been touched.
pub(crate) fn outlives_the_time_to_run(server: &Server, ttr: Duration) {
    eventually("a reserved job", || (server.view().reserved > 0).then_some(()));
    let touches =
        || server.requests().iter().filter(|request| request.line.starts_with(b"touch ")).count();
    for _ in 0..3 {
        let (before, held) = (touches(), server.view().reserved);
        eventually("touches", || (touches() >= before + 2 * held - 1).then_some(()));
        server.advance(ttr.mul_f64(0.9));
    }
}

pub(crate) fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what} does not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}
