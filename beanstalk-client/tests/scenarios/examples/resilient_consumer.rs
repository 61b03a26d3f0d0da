//! The resilient workers of the examples, while their server, or they themselves, are killed and frozen.

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

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args([name, &pid]).status().unwrap().success());
    }

    /// Closes its input, and waits for its end; returns what it has printed.
    fn end(self) -> Vec<String> {
        self.end_beside(|| thread::sleep(Duration::from_millis(2)))
    }

    /// The same, while something else is done repeatedly.
    fn end_beside(mut self, mut beside: impl FnMut()) -> Vec<String> {
        drop(self.child.stdin.take());
        let status = loop {
            beside();
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
        };
        assert!(status.success());
        self.reader.join().unwrap();
        let bodies = self.bodies.lock().unwrap();
        bodies.clone()
    }

    fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
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

/// B12, F5: a worker that was frozen for longer than its jobs' time to run must not settle what others have by then.
fn leaves_alone_what_it_lost_while_frozen(name: &str) {
    // The example's jobs are short, so catching one takes luck: repeat until there is one.
    let deletes = Arc::new(Mutex::new(BTreeSet::new()));
    let seen = deletes.clone();
    let server = Server::builder()
        .on_request(move |request| {
            if let Some(id) = request.text().strip_prefix("delete ") {
                seen.lock().unwrap().insert(id.to_owned());
            }
        })
        .start()
        .unwrap();
    let address = server.address();
    let mut client = Client::connect(address).unwrap();
    client.watch("numbers").unwrap();
    // Once may be bad luck: a busy machine may stop it between its look at the clock and its write.
    let mut late = None;
    for _ in 0..20 {
        put(address, 0..100, 2);
        let worker = Worker::start(name, address);
        eventually("some work", || worker.count() > 5);
        worker.signal("-STOP");
        // What it held becomes ready, and everything is taken and kept here.
        thread::sleep(Duration::from_millis(2200));
        let timeouts = client.stats().unwrap().job_timeouts;
        let mut held = Vec::new();
        while let Some(job) = client.reserve_with_timeout(Duration::ZERO).unwrap().job() {
            held.push(job);
        }
        let lost: Vec<_> = held
            .iter()
            .filter(|job| client.stats_job(job.id).unwrap().unwrap().timeouts > 0)
            .collect();
        deletes.lock().unwrap().clear();
        worker.signal("-CONT");
        // However long it takes to end, the jobs stay here.
        worker.end_beside(|| {
            for job in &held {
                client.touch(job).unwrap();
            }
        });
        // While it was frozen, a slot of it that waited may have been given a job again that another of its slots had
        // lost. It holds that job, and may settle it.
        let ended = std::mem::take(&mut *deletes.lock().unwrap());
        let stale: Vec<_> = held.iter().filter(|job| ended.contains(&job.id.to_string())).collect();
        for job in &held {
            client.delete(job).unwrap();
        }
        if timeouts > 0 && !lost.is_empty() {
            if stale.is_empty() {
                return;
            }
            let now = format!("{stale:?}");
            assert_eq!(late.replace(now.clone()), None, "deleted while held here, again: {now}");
        }
    }
    panic!("no worker was ever frozen while it held a job");
}

#[test]
fn an_async_worker_that_was_frozen_leaves_alone_what_it_lost() {
    leaves_alone_what_it_lost_while_frozen("resilient_consumer");
}

#[test]
fn a_blocking_worker_that_was_frozen_leaves_alone_what_it_lost() {
    leaves_alone_what_it_lost_while_frozen("resilient_consumer_blocking");
}
