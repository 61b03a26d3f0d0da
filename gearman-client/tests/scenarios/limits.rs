//! Workers that take a limited number of jobs, and not one more.

use std::time::Duration;

use fixtures::{fault::Fault, gearmand::Server};
use gearman_client::{JobLimit, Worker, WorkerOptions, blocking};

use super::{
    face::{WorkFace, scenarios},
    handlers::HandlerFace,
    support::{each_server, each_server_async, options},
};

each_server!(
    workers_of_several_threads_and_servers_share_a_limit,
    a_stopping_worker_sends_no_grab_with_its_last_result,
);

each_server_async!(a_stop_leaves_the_last_job_its_grace,);

scenarios!(a_run_ends_with_the_last_job_of_its_limit, the_last_job_has_all_the_time_it_needs,);

const SOON: Duration = Duration::from_secs(5);

fn submit(address: &str, jobs: usize) {
    let mut client = blocking::Client::connect(address).unwrap();
    for n in 0..jobs {
        client.submit_background("f", n.to_string(), options()).unwrap();
    }
}

/// Number of queued jobs, and how many of them a worker has had and given back.
fn left(address: &str) -> (i64, usize) {
    let mut admin = blocking::Admin::connect(address).unwrap();
    let jobs = admin.show_jobs().unwrap();
    let given_back = jobs.iter().filter(|job| job.retries > 0).count();
    let status = admin.status().unwrap();
    let row = status.iter().find(|row| row.name == "f").unwrap();
    assert_eq!(row.running, 0);
    (row.total, given_back)
}

fn a_run_ends_with_the_last_job_of_its_limit<F: HandlerFace>(address: &str) {
    submit(address, 10);
    let limited: WorkerOptions = address.parse().unwrap();
    let limited = limited.limit(JobLimit::new(3)).slots(8).connections(3);
    assert_eq!(F::start(limited, |_| Ok(String::new())).end().completed, 3);
    assert_eq!(left(address), (7, 0));
}

/// The grace belongs to a stop.
fn one_with_little_grace(address: &str) -> WorkerOptions {
    submit(address, 1);
    let options: WorkerOptions = address.parse().unwrap();
    options.limit(JobLimit::new(1)).grace(Duration::from_millis(50))
}

const LONG: Duration = Duration::from_millis(500);

fn the_last_job_has_all_the_time_it_needs<F: HandlerFace>(address: &str) {
    for slots in [1, 2] {
        let worker = F::start(one_with_little_grace(address).slots(slots), |job| {
            std::thread::sleep(LONG);
            assert!(!job.is_stopping());
            Ok(String::new())
        });
        let report = worker.end();
        assert_eq!((report.completed, report.abandoned), (1, 0), "{slots} slots: {report}");
        assert_eq!(left(address), (0, 0));
    }
}

async fn a_stop_leaves_the_last_job_its_grace(address: String) {
    let mut worker = Worker::connect(one_with_little_grace(&address)).await.unwrap();
    let (started, starts) = tokio::sync::oneshot::channel();
    let started = std::sync::Mutex::new(Some(started));
    worker
        .register("f", move |_| {
            started.lock().unwrap().take().unwrap().send(()).unwrap();
            async { std::future::pending::<()>().await }
        })
        .unwrap();
    // The limit is reached long before.
    let stop = async {
        starts.await.unwrap();
        tokio::time::sleep(LONG).await;
    };
    let report = worker.run_until(stop).await;
    assert_eq!((report.completed, report.abandoned), (0, 1), "{report}");
}

/// In addition to an in-memory server.
fn workers_of_several_threads_and_servers_share_a_limit(one: &str) {
    let server = fixtures::gearmand::Server::start().unwrap();
    let two = server.address();
    for address in [one, two] {
        submit(address, 30);
    }
    let before = left(one).0 + left(two).0;
    let limit = JobLimit::new(25);
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let both: WorkerOptions = format!("{one},{two}").parse().unwrap();
            let mut worker = blocking::Worker::connect(both.limit(limit.clone()).slots(2)).unwrap();
            worker.register("f", |_| "").unwrap();
            std::thread::spawn(move || worker.run().unwrap())
        })
        .collect();
    let completed: u64 = threads.into_iter().map(|thread| thread.join().unwrap().completed).sum();
    assert_eq!((completed, limit.left()), (25, 0));
    let (first, second) = (left(one), left(two));
    assert_eq!(before - (first.0 + second.0), 25);
    assert_eq!(first.1 + second.1, 0, "none was taken and given back");
}

#[test]
fn the_last_job_is_found_on_whichever_server_it_comes_to() {
    let (one, two) = (Server::start().unwrap(), Server::start().unwrap());
    let both: WorkerOptions = format!("{},{}", one.address(), two.address()).parse().unwrap();
    for server in [&one, &two] {
        let mut worker = blocking::Worker::of("f", both.clone().limit(JobLimit::new(1)));
        assert!(worker.next_job(Duration::from_millis(50)).unwrap().is_none());
        submit(server.address(), 2);
        let job = worker.next_job(SOON).unwrap().unwrap();
        worker.complete(job, "").unwrap();
        assert!(worker.next_job(Duration::from_secs(3600)).unwrap().is_none(), "and at once");
        assert_eq!(worker.stop().completed, 1);
        assert_eq!(left(server.address()), (1, 0));
        let mut rest = blocking::Worker::of("f", server.address());
        let job = rest.next_job(SOON).unwrap().unwrap();
        rest.complete(job, "").unwrap();
        assert_eq!(rest.stop().completed, 1);
    }
}

fn a_stopping_worker_sends_no_grab_with_its_last_result(address: &str) {
    submit(address, 3);
    let mut worker = blocking::Worker::of("f", address);
    let job = worker.next_job(SOON).unwrap().unwrap();
    worker.handle().stop();
    worker.complete(job, "").unwrap();
    assert!(worker.next_job(Duration::from_secs(3600)).unwrap().is_none(), "and at once");
    assert_eq!(worker.stop().completed, 1);
    assert_eq!(left(address), (2, 0));

    let mut worker = blocking::Worker::connect(address).unwrap();
    let stop = worker.handle();
    worker
        .register("f", move |_| {
            stop.stop();
            ""
        })
        .unwrap();
    assert_eq!(worker.run().unwrap().completed, 1);
    assert_eq!(left(address), (1, 0));
}

/// Its connection ends while the last grab is unanswered, and no time is left to look once more.
#[test]
fn a_stopped_worker_ends_without_an_error() {
    let server = Server::start().unwrap();
    server.faults().add(Fault::always().of("GRAB_JOB_ALL").unexecuted().hang());
    let mut worker = blocking::Worker::of("f", server.address());
    assert!(worker.next_job(Duration::from_millis(50)).unwrap().is_none());
    server.close_connections();
    std::thread::sleep(Duration::from_millis(50));
    worker.handle().stop();
    assert!(worker.next_job(Duration::ZERO).unwrap().is_none());
}
