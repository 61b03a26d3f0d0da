//! The resilient workers of the examples, while their server, or they themselves, are killed.

use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use beanstalk_client::{PutOptions, blocking::Client};
use fixtures::{
    beanstalkd::Server,
    real::{Beanstalkd, RealServer},
};

const PATIENCE: Duration = Duration::from_secs(60);

fn example(name: &str) -> PathBuf {
    fixtures::built::example(env!("CARGO_PKG_NAME"), name).unwrap()
}

/// A running example, and the bodies that it has printed.
struct Worker {
    child: Child,
    bodies: Arc<Mutex<Vec<String>>>,
    reader: JoinHandle<()>,
}

impl Worker {
    fn start(name: &str, address: &str) -> Self {
        let mut child = Command::new(example(name))
            .args([address, "numbers"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let printed = bodies.clone();
        let reader = thread::spawn(move || {
            lines.map_while(Result::ok).for_each(|line| printed.lock().unwrap().push(line));
        });
        Worker { child, bodies, reader }
    }

    fn count(&self) -> usize {
        self.bodies.lock().unwrap().len()
    }

    /// Closes its input, and waits for its end; returns what it has printed.
    fn end(mut self) -> Vec<String> {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
        self.printed()
    }

    fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.printed()
    }

    fn printed(self) -> Vec<String> {
        self.reader.join().unwrap();
        let bodies = self.bodies.lock().unwrap();
        bodies.clone()
    }
}

fn eventually(what: &str, mut look: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !look() {
        assert!(Instant::now() < deadline, "{what} does not come");
        thread::sleep(Duration::from_millis(2));
    }
}

fn put(address: &str, numbers: std::ops::Range<u32>, ttr: u64) {
    let mut client = Client::connect(address).unwrap();
    client.use_tube("numbers").unwrap();
    for number in numbers {
        let options = PutOptions::default().ttr(Duration::from_secs(ttr));
        let _ = client.put(number.to_string(), options).unwrap();
    }
}

fn is_done(address: &str) -> bool {
    let stats = Client::connect(address).and_then(|mut client| client.stats());
    stats.is_ok_and(|stats| {
        assert_eq!(stats.current_jobs_buried, 0);
        stats.current_jobs_ready + stats.current_jobs_reserved == 0
    })
}

fn all(numbers: u32) -> BTreeSet<String> {
    (0..numbers).map(|number| number.to_string()).collect()
}

fn with_log(folder: &std::path::Path) -> Option<RealServer> {
    Beanstalkd::builder().arg("-b").arg(folder).arg("-f").arg("0").start()
}

/// B19.
fn survives_kills_of_its_server(name: &str) {
    let folder = tempfile::tempdir().unwrap();
    let Some(mut server) = with_log(folder.path()) else { return };
    let address = server.address().to_owned();
    let worker = Worker::start(name, &address);
    for round in 0..3 {
        // Counted before there is work: it may all be done before the last put is answered.
        let before = worker.count();
        put(&address, round * 200..(round + 1) * 200, 60);
        eventually("some work", || worker.count() > before + 20);
        server.kill();
        server.restart().unwrap();
    }
    eventually("the end of the work", || is_done(&address));
    let bodies: BTreeSet<String> = worker.end().into_iter().collect();
    assert_eq!(bodies, all(600));
}

#[test]
fn the_async_worker_survives_kills_of_its_server() {
    survives_kills_of_its_server("resilient_consumer");
}

#[test]
fn the_blocking_worker_survives_kills_of_its_server() {
    survives_kills_of_its_server("resilient_consumer_blocking");
}

/// B25: whatever a worker holds when it is killed, others process.
fn leaves_its_jobs_to_others(name: &str, address: &str) {
    put(address, 0..300, 60);
    let first = Worker::start(name, address);
    eventually("some work", || first.count() > 50);
    let mut bodies = first.kill();
    let second = Worker::start(name, address);
    eventually("the end of the work", || is_done(address));
    bodies.extend(second.end());
    let again = bodies.len() - 300;
    assert!(again <= 4, "{again} jobs were printed twice: at most one in each slot");
    assert_eq!(bodies.into_iter().collect::<BTreeSet<String>>(), all(300));
    let stats = Client::connect(address).unwrap().stats().unwrap();
    assert_eq!(stats.job_timeouts, 0, "closed connections give back at once");
}

#[test]
fn a_killed_async_worker_leaves_its_jobs_to_others() {
    let server = Server::start().unwrap();
    leaves_its_jobs_to_others("resilient_consumer", server.address());
}

#[test]
fn a_killed_blocking_worker_leaves_its_jobs_to_others() {
    if let Some(server) = Beanstalkd::start() {
        leaves_its_jobs_to_others("resilient_consumer_blocking", server.address());
    }
}
