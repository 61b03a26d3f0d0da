//! Bugs reported against other workers, each as a test named by its report.

use std::time::{Duration, Instant};

use beanstalk_client::{Heartbeat, Outcome, SlotState, WorkerOptions};
use fixtures::beanstalkd::Server;

use super::faces::{Door, WorkerFace, put_for};
use crate::support::{
    Environment, both_faces,
    place::{PATIENCE, connect, options, start},
    scenarios,
};

fn worker_options(address: &str) -> WorkerOptions {
    let quick = Duration::from_millis(5);
    WorkerOptions::from(options(address)).reconnect_backoff(quick, 4 * quick)
}

both_faces!(
    regress_symfony_65923_a_touch_takes_no_other_commands_reply,
    regress_node_beanstalk_733_no_slot_is_lost_in_restarts,
);
scenarios!(regress_beanstalkd_262_a_quiet_connection_does_not_keep_a_job_that_is_over,);

// B. Jobs lost between server and handler.

// C and D. Hanging forever, and incomplete reconnects.

/// xobotyi/node-beanstalk#733, #751: a restart took all slots of the pool.
fn regress_node_beanstalk_733_no_slot_is_lost_in_restarts<F: WorkerFace>() {
    let server = Server::start().unwrap();
    let worker = F::start(worker_options(server.address()).slots(4), |_| Ok(Outcome::Delete));
    for round in 1..=10 {
        worker.events.wait_for("connected", 4 * round);
        server.reset_connections();
    }
    worker.events.wait_for("connected", 44);
    let deadline = Instant::now() + PATIENCE;
    while !worker.handle.slots().iter().all(|slot| slot.state == SlotState::Waiting) {
        assert!(Instant::now() < deadline, "{:?}", worker.handle.slots());
    }
    let mut client: F = connect(server.address());
    assert_eq!(client.stats().unwrap().current_workers, 4);
    worker.stop();
}

// E. Lease and heartbeat.

/// beanstalkd/beanstalkd#262, #380: a job stayed reserved with negative time-left, because its connection was quiet.
fn regress_beanstalkd_262_a_quiet_connection_does_not_keep_a_job_that_is_over<F: WorkerFace>(
    environment: Environment,
) {
    let (place, mut client) = environment.with_client::<F>();
    let id = put_for(&mut client, "x", 1);
    let (open, door) = Door::new();
    let options = worker_options(place.address()).heartbeat(Heartbeat::Never);
    let worker = F::start(options, move |_| {
        door.pass();
        Ok(Outcome::Delete)
    });
    // Only the worker's connection sends anything.
    worker.events.wait_for("lost", 1);
    let other = client.reserve_with_timeout(PATIENCE / 2).unwrap().job().unwrap();
    assert_eq!(other.id.get(), id);
    open.send(()).unwrap();
    client.delete(&other).unwrap();
    worker.stop();
}

/// symfony/symfony#65923: a touch from a signal handler read the reply of the command that it had interrupted.
fn regress_symfony_65923_a_touch_takes_no_other_commands_reply<F: WorkerFace>() {
    let (server, mut client) = start::<F>();
    for n in 0..8 {
        put_for(&mut client, &format!("body {n}"), 60);
    }
    // Touches, stats and reserves of two jobs at a time share a connection.
    let worker = F::start(worker_options(server.address()).prefetch(4), |job| {
        let body = job.body();
        for _ in 0..50 {
            job.touch().unwrap();
            assert_eq!((job.stats().unwrap().id, job.body()), (job.id(), body.clone()));
        }
        Ok(Outcome::Delete)
    });
    worker.events.wait_for("deleted", 8);
    assert_eq!(worker.stop().finished, 8);
    assert_eq!(server.view().jobs, 0);
}

// G. Life cycle.
