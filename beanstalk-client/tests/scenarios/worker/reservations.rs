//! How long a job is ours, and what happens when it no longer is.

use std::{
    sync::{Arc, Mutex, mpsc},
    thread,
    time::Duration,
};

use beanstalk_client::{ErrorKind, Heartbeat, JobState, LostReason, Outcome, WorkerOptions};

use super::faces::{Door, WorkerFace, put_for};
use crate::support::{
    Environment, Place, damaged,
    place::{PATIENCE, options},
    scenarios,
};

const NOW: Duration = Duration::ZERO;
const SECOND: Duration = Duration::from_secs(1);

fn worker_options(place: &Place) -> WorkerOptions {
    let quick = Duration::from_millis(5);
    WorkerOptions::new(options(place.address())).unwrap().reconnect_backoff(quick, 4 * quick)
}

scenarios!(
    a_long_job_is_kept_by_touches_while_its_handler_blocks,
    a_job_that_is_not_kept_goes_to_others_and_its_outcome_is_not_sent,
    a_handler_can_keep_its_job_itself,
    a_bounded_heartbeat_contains_a_handler_that_never_ends,
    a_lost_connection_notifies_the_handler_and_the_slot_continues,
    an_oversized_job_is_buried,
    a_damaged_job_is_buried_and_the_others_run,
);

/// B11: however busy the slot was before.
fn a_long_job_is_kept_by_touches_while_its_handler_blocks<F: WorkerFace>(environment: Environment) {
    let (place, mut client) = environment.with_client::<F>();
    for _ in 0..100 {
        put_for(&mut client, "short", 4);
    }
    let id = put_for(&mut client, "long", 4);
    put_for(&mut client, "short", 4);
    let worker = F::start(worker_options(&place), |job| {
        if job.body() == b"long" {
            thread::sleep(Duration::from_millis(4500));
            assert!(!job.is_lost());
        }
        Ok(Outcome::Delete)
    });
    worker.events.wait_for(&format!("deleted {id}"), 1);
    worker.events.wait_for("deleted", 102);
    let stats = client.stats().unwrap();
    assert_eq!((stats.job_timeouts, stats.cmd_touch > 0), (0, true));
    let report = worker.stop();
    assert_eq!((report.finished, report.total()), (102, 102));
}

/// B12: the other one gets it; the first one's delete would hit the other's job, and is not sent.
fn a_job_that_is_not_kept_goes_to_others_and_its_outcome_is_not_sent<F: WorkerFace>(
    environment: Environment,
) {
    let (place, mut client) = environment.with_client::<F>();
    let id = put_for(&mut client, "slow", 1);
    let (open, door) = Door::new();
    let worker = F::start(worker_options(&place).heartbeat(Heartbeat::Never), move |job| {
        assert_eq!(job.wait_lost(), Some(LostReason::TimeToRun));
        assert_eq!(job.touch().unwrap_err().kind(), ErrorKind::JobLost);
        assert_eq!(job.time_left(), Some(NOW));
        door.pass();
        Ok(Outcome::Delete)
    });
    worker.events.wait_for("lost", 1);
    let other = client.reserve_with_timeout(PATIENCE).unwrap().job().unwrap();
    assert_eq!(other.id.get(), id);
    let deletes = client.stats().unwrap().cmd_delete;
    open.send(()).unwrap();
    let report = worker.stop();
    assert_eq!((report.lost, report.total()), (1, 1));
    assert_eq!(client.stats().unwrap().cmd_delete, deletes);
    client.delete(&other).unwrap();
}

fn a_handler_can_keep_its_job_itself<F: WorkerFace>(environment: Environment) {
    let (place, mut client) = environment.with_client::<F>();
    put_for(&mut client, "slow", 3);
    let worker = F::start(worker_options(&place).heartbeat(Heartbeat::Never), |job| {
        for _ in 0..4 {
            thread::sleep(SECOND * 4 / 5);
            job.touch().unwrap();
            assert!(job.time_left().unwrap() > NOW);
        }
        Ok(Outcome::Delete)
    });
    worker.events.wait_for("deleted", 1);
    assert_eq!((worker.stop().finished, client.stats().unwrap().cmd_touch), (1, 4));
}

/// B24: never returns.
fn a_bounded_heartbeat_contains_a_handler_that_never_ends<F: WorkerFace>(environment: Environment) {
    let (place, mut client) = environment.with_client::<F>();
    let id = put_for(&mut client, "endless", 1);
    let bounded = worker_options(&place).heartbeat(Heartbeat::AtMost(SECOND / 2));
    let worker = F::start(bounded, |job| {
        job.wait_lost();
        Ok(Outcome::Delete)
    });
    worker.events.wait_for(&format!("lost {id}"), 1);
    // The slot takes jobs again: first of all this one.
    worker.events.wait_for(&format!("started {id}"), 2);
    worker.handle.stop_now();
    worker.end();
    assert!(client.stats_job(id).unwrap().unwrap().timeouts >= 1);
}

/// B4, B19, F5.
fn a_lost_connection_notifies_the_handler_and_the_slot_continues<F: WorkerFace>(
    environment: Environment,
) {
    let (place, mut client) = environment.with_client::<F>();
    let id = put_for(&mut client, "job", 60);
    let (open, door) = Door::new();
    let reasons = Arc::new(Mutex::new(Vec::new()));
    let seen = reasons.clone();
    let worker = F::start(worker_options(&place), move |job| {
        door.pass();
        if seen.lock().unwrap().is_empty() {
            seen.lock().unwrap().push(job.wait_lost());
        }
        Ok(Outcome::Delete)
    });
    worker.events.wait_for("started", 1);
    // Not the server, only its connections, where that can be done.
    let mut place = place;
    match &mut place {
        Place::InMemory(server) => server.close_connections(),
        Place::Real(server) => {
            server.kill();
            server.restart().unwrap();
        }
    }
    open.send(()).unwrap();
    worker.events.wait_for(&format!("lost {id}"), 1);
    worker.events.wait_for("connected", 2);
    let mut client: F = place.connect();
    if environment == Environment::Real {
        worker.events.wait_for("replaced", 1);
        // Another job under the same id: the first one's outcome must not have touched it.
        assert_eq!(put_for(&mut client, "another", 60), id);
    }
    open.send(()).unwrap();
    worker.events.wait_for(&format!("deleted {id}"), 1);
    assert_eq!(*reasons.lock().unwrap(), [Some(LostReason::ConnectionLost)]);
    let report = worker.stop();
    assert_eq!((report.finished, report.lost, report.total()), (1, 1, 2));
}

/// B13. A limit for bodies lets the server's statistics through, which are longer.
fn an_oversized_job_is_buried<F: WorkerFace>(environment: Environment) {
    let (place, mut client) = environment.with_client::<F>();
    let large = put_for(&mut client, &"x".repeat(11), 60);
    let fitting = put_for(&mut client, &"x".repeat(10), 60);
    let limited = options(place.address()).max_body_size(10);
    let worker = F::start(WorkerOptions::new(limited).unwrap().until_empty(), move |job| {
        assert_eq!(job.id().get(), fitting);
        Ok(Outcome::Delete)
    });
    let events = worker.events.clone();
    let report = worker.end();
    assert_eq!((report.finished, report.buried, report.total()), (1, 1, 2));
    assert_eq!(events.count(&format!("poisoned {large}: its body has 11 bytes")), 1);
    assert_eq!(events.count("disconnected"), 0);
    let stats = client.stats_job(large).unwrap().unwrap();
    assert_eq!((stats.state, stats.pri.get()), (JobState::Buried, 77));
}

/// They would be delivered again and again, each time blocking the jobs behind them.
fn a_damaged_job_is_buried_and_the_others_run<F: WorkerFace>(environment: Environment) {
    let (place, _folder) = damaged::start(environment);
    let (ran, runs) = mpsc::channel();
    let worker = F::start_on(worker_options(&place).until_empty(), &["a"], move |job| {
        ran.send(job.body()).unwrap();
        Ok(Outcome::Delete)
    });
    let events = worker.events.clone();
    let report = worker.end();
    assert_eq!((report.finished, report.buried, report.total()), (2, 3, 5));
    assert_eq!(runs.into_iter().collect::<Vec<_>>(), [b"first".to_vec(), b"last".to_vec()]);
    let told = "the server lost the end of its body in a crash";
    let mut client: F = place.connect();
    for id in 2..=4 {
        assert_eq!(events.count(&format!("poisoned {id}: {told}")), 1, "{:?}", events.all());
        let stats = client.stats_job(id).unwrap().unwrap();
        assert_eq!((stats.state, stats.pri.get(), stats.reserves), (JobState::Buried, 77, 1));
    }
    assert_eq!(events.count("connected"), 1);
}
