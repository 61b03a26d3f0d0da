//! Servers that refuse, close, or do not answer; and machines that have run out of resources.

use std::time::{Duration, Instant};

use fixtures::{
    gearmand::{Flavour, Server},
    real::{Geard, Gearmand, PerlGearmand, Rustygeard},
};
use gearman_client::{ConnectOptions, RetryPolicy, WorkerOptions, blocking};

use super::{
    face::{Face, WorkFace, both_faces},
    support::{PATIENCE, options},
};

both_faces!(
    quirk_servers_without_gearmands_grabs_are_worked_for,
    an_exception_ends_its_job_on_every_server,
);

/// Lets a worker that gets no job try for this long, and until this has happened.
fn wait_idly<F: Face>(worker: &mut F::Worker, time: Duration, has_happened: impl Fn() -> bool) {
    let started = Instant::now();
    while started.elapsed() < time || !has_happened() {
        assert!(worker.next_within(Duration::from_millis(100)).is_none());
        assert!(started.elapsed() < PATIENCE, "it does not try");
    }
}

/// geard ignores the newest and the oldest kind, rustygeard none, and g2 closes the connection on the newest.
fn quirk_servers_without_gearmands_grabs_are_worked_for<F: Face>() {
    for flavour in Flavour::ALL {
        let server = Server::builder().flavour(flavour).start().unwrap();
        let to: ConnectOptions = server.address().parse().unwrap();
        let mut client = F::connect(to.clone().exceptions(false)).unwrap();
        let retry =
            RetryPolicy::new(20).backoff(Duration::from_millis(5), Duration::from_millis(9));
        let to = to.retry(retry).reply_timeout(PATIENCE);
        let mut worker = F::Worker::of("f", WorkerOptions::from(to).barrier(false));
        for round in 0..3 {
            client.submit_background("f", b"w", options()).unwrap();
            let started = Instant::now();
            let job = worker.next();
            // Not the time of a reply.
            assert!(started.elapsed() < PATIENCE / 2, "{flavour}, round {round}");
            assert_eq!(F::Worker::assignment(&job).workload, "w");
            worker.complete(job, "").unwrap();
            assert!(worker.next_within(Duration::from_millis(20)).is_none());
            if round == 1 {
                server.clear_requests();
                server.reset_connections();
                // What the server understands is remembered.
                let grabs = || -> Vec<String> {
                    let names = server.requests().into_iter().map(|request| request.name());
                    names.filter(|verb| verb.starts_with("GRAB")).collect()
                };
                wait_idly::<F>(&mut worker, Duration::from_millis(300), || !grabs().is_empty());
                let grabs = grabs();
                let kind = match flavour {
                    Flavour::Geard | Flavour::G2 => "GRAB_JOB_UNIQ",
                    _ => "GRAB_JOB_ALL",
                };
                assert!(grabs.iter().all(|grab| grab == kind), "{grabs:?}");
            }
        }
    }
}

/// Perl's Gearman::Server passes an exception on, and waits for the job's end; the others end it.
fn an_exception_ends_its_job_on_every_server<F: Face>() {
    for flavour in Flavour::ALL {
        an_exception_ends_its_job::<F>(
            Server::builder().flavour(flavour).start().unwrap().address(),
        );
    }
    let real = [Gearmand::start(), Geard::start(), Rustygeard::start(), PerlGearmand::start()];
    real.iter().flatten().for_each(|server| an_exception_ends_its_job::<F>(server.address()));
}

fn an_exception_ends_its_job<F: Face>(address: &str) {
    let to: ConnectOptions = address.parse().unwrap();
    let mut client = F::connect(to.clone()).unwrap();
    client.submit_background("f", b"w", options()).unwrap();
    let mut worker = F::Worker::of("f", WorkerOptions::from(to).barrier(false));
    let job = worker.next();
    worker.exception(job, "why").unwrap();
    let started = Instant::now();
    let mut admin = blocking::Admin::connect(address).unwrap();
    while admin.status().unwrap().iter().any(|function| function.total > 0) {
        assert!(started.elapsed() < PATIENCE, "the job goes on");
        assert!(worker.next_within(Duration::from_millis(10)).is_none());
    }
    // The connection is in step.
    client.submit_background("f", b"again", options()).unwrap();
    let job = worker.next();
    assert_eq!(F::Worker::assignment(&job).workload, "again");
    worker.complete(job, "").unwrap();
}
