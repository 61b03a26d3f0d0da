//! Stopping, whatever the worker is doing.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use beanstalk_client::{
    JobContext, JobLimit, JobState, LostReason, Outcome, Servers, SlotState, Worker, WorkerOptions,
    blocking,
};
use fixtures::{Dark, Port, beanstalkd::Server};
use queue_core::proof::runtime;
use tokio::sync::Notify;

use super::faces::{Door, Running, WorkerFace, put};
use crate::support::{
    Blocking, Environment, Face, Place, both_faces,
    place::{PATIENCE, connect, options},
    scenarios,
};

fn worker_options(place: &Place) -> WorkerOptions {
    WorkerOptions::new(options(place.address())).unwrap()
}

fn wait_for_slots(worker: &Running, state: SlotState) {
    let deadline = Instant::now() + PATIENCE;
    while !worker.handle.slots().iter().all(|slot| slot.state == state) {
        assert!(Instant::now() < deadline, "{:?}", worker.handle.slots());
        std::thread::sleep(Duration::from_millis(2));
    }
}

scenarios!(
    a_stop_ends_waiting_reserves_at_once,
    a_stop_lets_running_jobs_end,
    a_handler_sees_its_worker_stop,
    jobs_that_outlive_the_grace_go_back_unchanged,
    a_second_stop_gives_running_jobs_back_at_once,
    prefetched_jobs_go_back_when_the_worker_stops,
    a_worker_ends_at_its_job_limit,
    the_last_job_of_a_limit_has_all_the_time_it_needs,
    a_worker_of_several_servers_ends_at_its_job_limit,
    a_stop_at_any_moment_loses_no_job,
);
both_faces!(
    a_stop_while_there_is_no_server,
    a_stop_waits_for_no_attempt_to_connect,
    a_worker_that_never_began_can_be_stopped,
);

#[test]
fn a_job_that_outlives_a_run_knows_that_it_has_ended() {
    let place = Server::start().unwrap();
    let mut client: Blocking = connect(place.address());
    let (tell, jobs) = std::sync::mpsc::channel();
    let worker = |id| {
        let options = WorkerOptions::new(options(place.address())).unwrap();
        match id {
            0 => options.limit(JobLimit::new(1)),
            _ => options.until_empty(),
        }
    };
    for round in 0..2 {
        put(&mut client, "x");
        let tell = tell.clone();
        let mut run = blocking::Worker::new(worker(round)).unwrap();
        run.register("default", move |job| drop(tell.send(job.clone()))).unwrap();
        let _ = run.run();
        let job = jobs.recv().unwrap();
        assert!(job.wait_stopping(Duration::ZERO) && job.is_stopping(), "round {round}");
    }
    runtime().block_on(async {
        for round in 0..3 {
            put(&mut client, "x");
            let (tell, job) = tokio::sync::oneshot::channel();
            let tell = std::sync::Mutex::new(Some(tell));
            let handler = move |job: JobContext| {
                drop(tell.lock().unwrap().take().unwrap().send(job));
                // The last run is dropped.
                async move {
                    if round == 2 {
                        std::future::pending::<()>().await;
                    }
                }
            };
            let mut run = Worker::new(worker(round)).unwrap();
            run.register("default", handler).unwrap();
            let run = run.run();
            let job = if round == 2 {
                tokio::select! {
                    _ = run => panic!("it has ended"),
                    job = job => job.unwrap(),
                }
            } else {
                run.await;
                job.await.unwrap()
            };
            tokio::time::timeout(PATIENCE, job.stopping()).await.expect("it waits for a stop");
            assert!(job.is_stopping(), "round {round}");
        }
    });
}

/// B23, F2.
fn a_stop_ends_waiting_reserves_at_once<F: WorkerFace>(environment: Environment) {
    let (place, mut client) = environment.with_client::<F>();
    let options = worker_options(&place).slots(3).reserve_wait(Duration::from_secs(3600));
    let worker = F::start(options, |_| Ok(Outcome::Delete));
    wait_for_slots(&worker, SlotState::Waiting);
    while client.stats().unwrap().current_waiting < 3 {}
    let handle = worker.handle.clone();
    let events = worker.events.clone();
    assert_eq!(worker.stop().total(), 0);
    assert!(handle.slots().iter().all(|slot| slot.state == SlotState::Ended));
    assert_eq!(events.count("disconnected"), 0, "{:?}", events.all());
    let stats = client.stats().unwrap();
    assert_eq!((stats.current_waiting, stats.current_connections), (0, 1));
}

/// B23.
fn a_stop_lets_running_jobs_end<F: WorkerFace>(environment: Environment) {
    let (place, mut client) = environment.with_client::<F>();
    let first = put(&mut client, "running");
    let (open, door) = Door::new();
    let worker = F::start(worker_options(&place), move |_| {
        door.pass();
        Ok(Outcome::Delete)
    });
    worker.events.wait_for("started", 1);
    worker.handle.stop();
    let second = put(&mut client, "not to be taken");
    assert_eq!(client.stats_job(first).unwrap().unwrap().state, JobState::Reserved);
    open.send(()).unwrap();
    let report = worker.end();
    assert_eq!((report.finished, report.total()), (1, 1));
    assert_eq!(client.stats_job(first).unwrap(), None);
    let stats = client.stats_job(second).unwrap().unwrap();
    assert_eq!((stats.state, stats.reserves), (JobState::Ready, 0));
}

/// A long-running handler ends early on its own, and decides on its job.
fn a_handler_sees_its_worker_stop<F: WorkerFace>(environment: Environment) {
    let (place, mut client) = environment.with_client::<F>();
    let id = put(&mut client, "long");
    let (began, begun) = std::sync::mpsc::channel();
    let worker = F::start(worker_options(&place), move |job| {
        assert!(!job.is_stopping());
        began.send(()).unwrap();
        assert!(job.wait_stopping() && job.is_stopping() && !job.is_lost());
        Ok(Outcome::release())
    });
    begun.recv_timeout(PATIENCE).unwrap();
    let report = worker.stop();
    assert_eq!((report.released, report.total()), (1, 1));
    let stats = client.stats_job(id).unwrap().unwrap();
    assert_eq!((stats.state, stats.pri.get(), stats.releases), (JobState::Ready, 77, 1));
}

/// B23.
fn jobs_that_outlive_the_grace_go_back_unchanged<F: WorkerFace>(environment: Environment) {
    let (place, mut client) = environment.with_client::<F>();
    let id = put(&mut client, "stubborn");
    let worker = F::start(worker_options(&place).grace(Duration::from_millis(50)), |job| {
        assert_eq!(job.wait_lost(), Some(LostReason::Stopped));
        Ok(Outcome::Delete)
    });
    worker.events.wait_for("started", 1);
    let report = worker.stop();
    assert_eq!((report.abandoned, report.total()), (1, 1));
    let stats = settled(&mut client, id);
    assert_eq!((stats.state, stats.pri.get(), stats.releases), (JobState::Ready, 77, 0));
}

/// The grace belongs to a stop.
fn the_last_job_of_a_limit_has_all_the_time_it_needs<F: WorkerFace>(environment: Environment) {
    let place = environment.start();
    put(&mut place.connect::<F>(), "long");
    let options = worker_options(&place).limit(JobLimit::new(1)).grace(Duration::from_millis(50));
    let worker = F::start(options, |job| {
        std::thread::sleep(Duration::from_millis(150));
        assert!(!job.is_stopping());
        Ok(Outcome::Delete)
    });
    let report = worker.end();
    assert_eq!((report.finished, report.total()), (1, 1), "{report}");
}

/// A closed connection is noticed by the server soon, but not at once.
fn settled<F: Face>(client: &mut F, id: u64) -> beanstalk_client::JobStats {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let stats = client.stats_job(id).unwrap().unwrap();
        if stats.state != JobState::Reserved || Instant::now() > deadline {
            return stats;
        }
    }
}

fn a_second_stop_gives_running_jobs_back_at_once<F: WorkerFace>(environment: Environment) {
    let (place, mut client) = environment.with_client::<F>();
    let id = put(&mut client, "stubborn");
    let worker = F::start(worker_options(&place).grace(Duration::MAX), |job| {
        assert_eq!(job.wait_lost(), Some(LostReason::Stopped));
        Ok(Outcome::Delete)
    });
    worker.events.wait_for("started", 1);
    worker.handle.stop();
    worker.handle.stop_now();
    let report = worker.end();
    assert_eq!((report.abandoned, report.total()), (1, 1));
    assert_eq!(settled(&mut client, id).pri.get(), 77);
}

fn prefetched_jobs_go_back_when_the_worker_stops<F: WorkerFace>(environment: Environment) {
    let (place, mut client) = environment.with_client::<F>();
    let ids: Vec<u64> = (0..10).map(|_| put(&mut client, "x")).collect();
    let (open, door) = Door::new();
    let worker = F::start(worker_options(&place).prefetch(8), move |_| {
        door.pass();
        Ok(Outcome::Delete)
    });
    // A job that no handler has started goes back, too.
    worker.events.wait_for("started", 1);
    // The window grows as jobs arrive; wait until it holds several.
    let deadline = Instant::now() + PATIENCE;
    while client.stats().unwrap().current_jobs_reserved < 8 {
        assert!(Instant::now() < deadline);
    }
    worker.handle.stop();
    // Those that wait go back while the first one still runs.
    while client.stats().unwrap().current_jobs_reserved > 1 {
        assert!(Instant::now() < deadline);
    }
    open.send(()).unwrap();
    let report = worker.end();
    assert_eq!((report.finished, report.abandoned, report.total()), (1, 7, 8));
    for id in &ids[1..] {
        let stats = client.stats_job(*id).unwrap().unwrap();
        assert_eq!((stats.state, stats.pri.get()), (JobState::Ready, 77));
    }
}

fn a_worker_ends_at_its_job_limit<F: WorkerFace>(environment: Environment) {
    for (slots, prefetch, jobs) in [(1, 1, 1), (1, 1, 3), (4, 1, 5), (2, 10, 13)] {
        let (place, mut client) = environment.with_client::<F>();
        for _ in 0..30 {
            put(&mut client, "x");
        }
        let limited =
            worker_options(&place).slots(slots).prefetch(prefetch).limit(JobLimit::new(jobs));
        let report = F::start(limited, |_| Ok(Outcome::Delete)).end();
        assert_eq!((report.finished, report.total()), (jobs, jobs), "{slots} {prefetch}");
        let stats = client.stats().unwrap();
        assert_eq!((stats.current_jobs_ready, stats.current_jobs_reserved), (30 - jobs, 0));
    }
}

/// Neither an unreachable server nor a slot waiting on an empty tube keeps it from ending.
fn a_worker_of_several_servers_ends_at_its_job_limit<F: WorkerFace>(environment: Environment) {
    let (empty, full) = (environment.start(), environment.start());
    let away = Port::take().unwrap();
    let mut client: F = full.connect();
    for other in [&*away.address().to_string(), empty.address()] {
        for jobs in [1, 2] {
            put(&mut client, "x");
            put(&mut client, "x");
            let servers = Servers::new([options(other), options(full.address())]).unwrap();
            let several = WorkerOptions::from(servers)
                .reserve_wait(Duration::from_secs(1))
                .reconnect_backoff(Duration::from_secs(3600), Duration::from_secs(3600));
            let limited = several.limit(JobLimit::new(jobs));
            let report = F::start(limited, |_| Ok(Outcome::Delete)).end();
            assert_eq!((report.finished, report.total()), (jobs, jobs), "{report}");
        }
    }
}

/// The blocking face waited for the end of its attempt.
fn a_stop_waits_for_no_attempt_to_connect<F: WorkerFace>() {
    let (dark, server) = (Dark::start().unwrap(), Server::start().unwrap());
    let mut client: F = connect(server.address());
    put(&mut client, "x");
    let servers = [&*dark.address().to_string(), server.address()]
        .map(|address| options(address).connect_timeout(Duration::from_secs(3600)));
    let worker =
        F::start(WorkerOptions::from(Servers::new(servers).unwrap()), |_| Ok(Outcome::Delete));
    worker.events.wait_for("deleted", 1);
    assert_eq!(worker.stop().finished, 1);
}

/// B23: the race between a job and the stop, many times.
fn a_stop_at_any_moment_loses_no_job<F: WorkerFace>(environment: Environment) {
    let (place, mut client) = environment.with_client::<F>();
    let runs = Arc::new(AtomicU32::new(0));
    let (rounds, jobs) = (20, 20);
    let mut finished = 0;
    for round in 0..rounds {
        let counted = runs.clone();
        let worker = F::start(worker_options(&place).slots(2), move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
            Ok(Outcome::Delete)
        });
        let handle = worker.handle.clone();
        let stopper = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_micros(700 * round));
            handle.stop();
        });
        for _ in 0..jobs {
            put(&mut client, "x");
        }
        stopper.join().unwrap();
        let report = worker.end();
        assert_eq!(report.lost + report.unknown, 0, "{report}");
        finished += report.finished;
    }
    let deadline = Instant::now() + PATIENCE;
    while client.stats().unwrap().current_jobs_reserved > 0 {
        assert!(Instant::now() < deadline, "every job is back");
    }
    let ready = client.stats().unwrap().current_jobs_ready;
    assert_eq!(finished + ready, rounds * jobs);
    assert_eq!(u64::from(runs.load(Ordering::SeqCst)), finished, "each was run once at most");
}

fn a_stop_while_there_is_no_server<F: WorkerFace>() {
    let nobody = fixtures::Port::take().unwrap();
    let (address, hour) = (nobody.address().to_string(), Duration::from_secs(3600));
    let options = WorkerOptions::new(address).unwrap().slots(2).reconnect_backoff(hour, hour);
    let worker = F::start(options, |_| Ok(Outcome::Delete));
    worker.until_it_failed_to_connect(2);
    assert_eq!(worker.stop().total(), 0);
}

fn a_worker_that_never_began_can_be_stopped<F: WorkerFace>() {
    let worker = F::start(WorkerOptions::new("127.0.0.1:1").unwrap(), |_| Ok(Outcome::Delete));
    assert_eq!(worker.stop().total(), 0);
}

#[test]
fn a_run_until_a_future_ends_finishes_the_running_handler_and_takes_nothing_more() {
    let place = Environment::InMemory.start();
    let mut client: Blocking = place.connect();
    let (_first, second) = (put(&mut client, "first"), put(&mut client, "second"));
    let stop = Arc::new(Notify::new());
    let begun = Arc::clone(&stop);
    let handler = move |_| {
        begun.notify_one();
        // Longer than it takes to see that the future has ended.
        async { tokio::time::sleep(Duration::from_millis(50)).await }
    };
    let mut worker = Worker::new(worker_options(&place)).unwrap();
    worker.register("default", handler).unwrap();
    let report = runtime().block_on(async {
        tokio::time::timeout(PATIENCE, worker.run_until(stop.notified())).await.unwrap()
    });
    assert_eq!((report.finished, report.total()), (1, 1), "{report}");
    assert_eq!(client.peek_ready().unwrap().map(|job| job.id.get()), Some(second));
}
