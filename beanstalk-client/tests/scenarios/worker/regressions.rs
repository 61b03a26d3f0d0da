//! Bugs reported against other workers, each as a test named by its report.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use beanstalk_client::{
    Heartbeat, JobLimit, JobState, LostReason, Outcome, PutOptions, Retries, SlotState,
    WorkerOptions,
};
use fixtures::{beanstalkd::Server, fault::Fault};

use super::faces::{Door, WorkerFace};
use crate::support::{
    Environment, Face, both_faces,
    place::{PATIENCE, connect, options},
    scenarios,
};

const SECOND: Duration = Duration::from_secs(1);

fn put<F: Face>(client: &mut F, body: &str, ttr: u64) -> u64 {
    let options = PutOptions::default().priority(77).ttr(Duration::from_secs(ttr));
    client.put(body.as_bytes(), options).unwrap().id().get()
}

fn worker_options(address: &str) -> WorkerOptions {
    let quick = Duration::from_millis(5);
    WorkerOptions::from(options(address)).reconnect_backoff(quick, 4 * quick)
}

both_faces!(
    regress_laravel_20654_a_handler_longer_than_the_lease_is_not_run_twice,
    regress_faktory_worker_go_57_a_heartbeat_goes_on_after_one_error,
    regress_lapin_401_a_heartbeat_ends_with_its_connection,
    regress_turbocharged_beanstalk_3_a_touch_is_read_at_once,
    regress_symfony_65923_a_touch_takes_no_other_commands_reply,
    regress_symfony_66057_a_job_is_kept_while_others_are_waited_for,
    regress_symfony_65922_an_outcome_is_not_sent_on_a_new_connection_unasked,
    regress_apalis_639_a_panic_does_not_end_the_worker,
    regress_faktory_300_a_job_whose_handler_panicked_is_not_held_for_ever,
    regress_yii2_beanstalk_44_a_worker_watches_its_tubes_again,
    regress_node_beanstalkd_worker_5_an_error_is_told_and_the_worker_goes_on,
    regress_node_beanstalk_733_no_slot_is_lost_in_restarts,
    regress_resque_93_a_job_is_not_gone_before_it_is_done,
);
scenarios!(
    regress_pheanstalk_268_deadline_soon_runs_no_job_twice,
    regress_beanstalkd_262_a_quiet_connection_does_not_keep_a_job_that_is_over,
    regress_beanstalkd_407_a_waiting_reserve_can_be_cancelled,
    regress_backburner_82_burying_after_the_time_to_run_is_no_error_of_the_worker,
);

// B. Jobs lost between server and handler.

/// resque/resque#93, laravel/framework#22939: popped before it was safe, and lost with the worker.
fn regress_resque_93_a_job_is_not_gone_before_it_is_done<F: WorkerFace>() {
    let server = Server::start().unwrap();
    let mut client: F = connect(server.address());
    let id = put(&mut client, "x", 60);
    let (open, door) = Door::new();
    let worker = F::start(worker_options(server.address()), move |_| {
        door.pass();
        Ok(Outcome::Delete)
    });
    worker.events.wait_for("started", 1);
    assert_eq!(client.stats_job(id).unwrap().unwrap().state, JobState::Reserved);
    worker.handle.stop_now();
    open.send(()).unwrap();
    worker.end();
    let deadline = Instant::now() + PATIENCE;
    while client.stats_job(id).unwrap().unwrap().state != JobState::Ready {
        assert!(Instant::now() < deadline);
    }
}

// C and D. Hanging forever, and incomplete reconnects.

/// udokmeci/yii2-beanstalk#44.
fn regress_yii2_beanstalk_44_a_worker_watches_its_tubes_again<F: WorkerFace>() {
    let server = Server::start().unwrap();
    let mut client: F = connect(server.address());
    let options = worker_options(server.address()).tubes(["mail", "sms"]).unwrap();
    let worker = F::start(options, |_| Ok(Outcome::Delete));
    for round in 1..=3 {
        worker.events.wait_for("connected", round);
        for tube in ["mail", "sms"] {
            client.use_tube(tube).unwrap();
            put(&mut client, tube, 60);
        }
        worker.events.wait_for("deleted", 2 * round);
        server.close_connections();
        client = connect(server.address());
    }
    worker.events.wait_for("connected", 4);
    put(&mut client, "default is not watched", 60);
    assert_eq!(worker.stop().finished, 6);
    assert_eq!(client.stats().unwrap().current_jobs_ready, 1);
}

/// burstable/node-beanstalkd-worker#5: the handler "silently dies".
fn regress_node_beanstalkd_worker_5_an_error_is_told_and_the_worker_goes_on<F: WorkerFace>() {
    let server = Server::start().unwrap();
    let mut client: F = connect(server.address());
    for verb in ["reserve-with-timeout", "stats-job", "delete", "watch", "stats"] {
        for reply in ["INTERNAL_ERROR", "OUT_OF_MEMORY", "NONSENSE 5"] {
            server.faults().add(Fault::nth(1).of(verb).reply(reply).unexecuted());
            client.use_tube("t").unwrap();
            put(&mut client, "x", 60);
            let options = worker_options(server.address()).tubes(["t"]).unwrap();
            let worker = F::start(options, |_| Ok(Outcome::Delete));
            worker.events.wait_for("deleted", 1);
            let told = worker.events.count("disconnected") + usize::from(verb == "stats");
            assert!(told >= 1, "{reply} to {verb}: {:?}", worker.events.all());
            worker.stop();
        }
    }
}

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

/// laravel/framework#20654, pabloroman/virtua-fc#363: the job came again while its handler still ran.
fn regress_laravel_20654_a_handler_longer_than_the_lease_is_not_run_twice<F: WorkerFace>() {
    let server = Server::start().unwrap();
    let mut client: F = connect(server.address());
    put(&mut client, "x", 4);
    let runs = Arc::new(AtomicU32::new(0));
    let counted = runs.clone();
    let worker = F::start(worker_options(server.address()).slots(3), move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        thread::sleep(6 * SECOND);
        Ok(Outcome::Delete)
    });
    worker.events.wait_for("deleted", 1);
    assert_eq!((worker.stop().finished, runs.load(Ordering::SeqCst)), (1, 1));
}

/// pheanstalk/pheanstalk#268: DEADLINE_SOON was swallowed, and the job ran twice.
fn regress_pheanstalk_268_deadline_soon_runs_no_job_twice<F: WorkerFace>(environment: Environment) {
    // A busy machine may be too slow for a time to run of one second; not every time.
    assert!((0..10).any(|_| deadline_soon_runs_no_job_twice::<F>(environment)));
}

/// Returns `false` if the job was not kept.
fn deadline_soon_runs_no_job_twice<F: WorkerFace>(environment: Environment) -> bool {
    let place = environment.start();
    let mut client: F = place.connect();
    // With prefetch a reserve can meet the last second of a job that is held.
    let ids = [put(&mut client, "long", 1), put(&mut client, "short", 60)];
    let runs = Arc::new(Mutex::new(Vec::new()));
    let seen = runs.clone();
    let worker = F::start(worker_options(place.address()).prefetch(2), move |job| {
        seen.lock().unwrap().push(job.id().get());
        if job.body() == b"long" {
            thread::sleep(2 * SECOND);
        }
        Ok(Outcome::Delete)
    });
    worker.events.wait_for("deleted", 2);
    let report = worker.stop();
    let stats = client.stats().unwrap();
    if stats.job_timeouts > 0 {
        return false;
    }
    assert_eq!(report.finished, 2);
    assert_eq!(*runs.lock().unwrap(), ids);
    assert!(stats.cmd_reserve_with_timeout < 20, "{} reserves", stats.cmd_reserve_with_timeout);
    true
}

/// nesquena/backburner#82: NOT_FOUND to a bury ended the worker.
fn regress_backburner_82_burying_after_the_time_to_run_is_no_error_of_the_worker<F: WorkerFace>(
    environment: Environment,
) {
    let place = environment.start();
    let mut client: F = place.connect();
    put(&mut client, "late", 1);
    let next = put(&mut client, "next", 60);
    let options = worker_options(place.address()).heartbeat(Heartbeat::Never);
    let worker = F::start(options, |job| {
        if job.body() == b"late" && job.stats().unwrap().timeouts == 0 {
            job.wait_lost();
            return Ok(Outcome::bury());
        }
        Ok(Outcome::Delete)
    });
    worker.events.wait_for(&format!("deleted {next}"), 1);
    // And the late one, when it comes again.
    worker.events.wait_for("deleted", 2);
    assert_eq!(worker.events.count("disconnected"), 0);
    let report = worker.stop();
    assert_eq!((report.lost, report.finished, report.total()), (1, 2, 3));
}

/// beanstalkd/beanstalkd#262, #380: a job stayed reserved with negative time-left, because its connection was quiet.
fn regress_beanstalkd_262_a_quiet_connection_does_not_keep_a_job_that_is_over<F: WorkerFace>(
    environment: Environment,
) {
    let place = environment.start();
    let mut client: F = place.connect();
    let id = put(&mut client, "x", 1);
    let (open, door) = Door::new();
    let options = worker_options(place.address()).heartbeat(Heartbeat::Never);
    let worker = F::start(options, move |_| {
        door.pass();
        Ok(Outcome::Delete)
    });
    // Nobody but the worker's connection says anything.
    worker.events.wait_for("lost", 1);
    let other = client.reserve_with_timeout(PATIENCE / 2).unwrap().job().unwrap();
    assert_eq!(other.id.get(), id);
    open.send(()).unwrap();
    client.delete(&other).unwrap();
    worker.stop();
}

/// contribsys/faktory_worker_go#57, opt-elixir/faktory_worker#201: one error, and no heartbeat was sent any more.
fn regress_faktory_worker_go_57_a_heartbeat_goes_on_after_one_error<F: WorkerFace>() {
    let server = Server::start().unwrap();
    let mut client: F = connect(server.address());
    // A third of it has to be time enough on a busy machine.
    put(&mut client, "x", 8);
    server.faults().add(Fault::nth(1).of("touch").reply("INTERNAL_ERROR").unexecuted());
    let worker = F::start(worker_options(server.address()), |job| {
        thread::sleep(10 * SECOND);
        assert!(!job.is_lost());
        Ok(Outcome::Delete)
    });
    worker.events.wait_for("deleted", 1);
    assert_eq!(worker.stop().finished, 1);
    assert_eq!(client.stats().unwrap().job_timeouts, 0);
}

/// amqp-rs/lapin#401: the heartbeat went on after the connection's loop had died.
fn regress_lapin_401_a_heartbeat_ends_with_its_connection<F: WorkerFace>() {
    let server = Server::start().unwrap();
    let mut client: F = connect(server.address());
    put(&mut client, "x", 1);
    let (open, door) = Door::new();
    let reason = Arc::new(Mutex::new(None));
    let seen = reason.clone();
    let worker = F::start(worker_options(server.address()).limit(JobLimit::new(1)), move |job| {
        door.pass();
        *seen.lock().unwrap() = job.wait_lost();
        Ok(Outcome::Delete)
    });
    worker.events.wait_for("started", 1);
    server.close_connections();
    worker.events.wait_for("lost", 1);
    let touches = || server.requests().iter().filter(|r| r.text().starts_with("touch")).count();
    let before = touches();
    thread::sleep(SECOND);
    assert_eq!(touches(), before);
    open.send(()).unwrap();
    worker.stop();
    assert_eq!(*reason.lock().unwrap(), Some(LostReason::ConnectionLost));
}

/// jennings/Turbocharged.Beanstalk#3, beanstalkd/beanstalkd#647: everything waited behind a reserve.
fn regress_turbocharged_beanstalk_3_a_touch_is_read_at_once<F: WorkerFace>() {
    let server = Server::start().unwrap();
    let mut client: F = connect(server.address());
    put(&mut client, "x", 60);
    let took = Arc::new(Mutex::new(Duration::MAX));
    let measured = took.clone();
    let worker = F::start(worker_options(server.address()).prefetch(10), move |job| {
        let start = Instant::now();
        job.touch().unwrap();
        *measured.lock().unwrap() = start.elapsed();
        Ok(Outcome::Delete)
    });
    worker.events.wait_for("deleted", 1);
    worker.stop();
    let took = *took.lock().unwrap();
    assert!(took < 5 * SECOND, "{took:?}: a reserve waits for 15 s");
}

/// symfony/symfony#65923: a touch from a signal handler read the reply of the command that it had interrupted.
fn regress_symfony_65923_a_touch_takes_no_other_commands_reply<F: WorkerFace>() {
    let server = Server::start().unwrap();
    let mut client: F = connect(server.address());
    for n in 0..8 {
        put(&mut client, &format!("body {n}"), 4);
    }
    // Heartbeats, touches, stats and reserves of two jobs at a time share a connection.
    let worker = F::start(worker_options(server.address()).prefetch(4), |job| {
        let (start, body) = (Instant::now(), job.body());
        while start.elapsed() < SECOND / 2 {
            job.touch().unwrap();
            assert_eq!((job.stats().unwrap().id, job.body()), (job.id(), body.clone()));
        }
        Ok(Outcome::Delete)
    });
    worker.events.wait_for("deleted", 8);
    assert_eq!(worker.stop().finished, 8);
    assert_eq!(server.view().jobs, 0);
}

/// symfony/symfony#66057: the keepalive of a job was dropped while a reserve waited.
fn regress_symfony_66057_a_job_is_kept_while_others_are_waited_for<F: WorkerFace>() {
    let server = Server::start().unwrap();
    let mut client: F = connect(server.address());
    put(&mut client, "x", 4);
    let worker = F::start(worker_options(server.address()).prefetch(10), |job| {
        thread::sleep(6 * SECOND);
        assert!(!job.is_lost());
        Ok(Outcome::Delete)
    });
    worker.events.wait_for("deleted", 1);
    assert_eq!(worker.stop().finished, 1);
    assert_eq!(client.stats().unwrap().job_timeouts, 0);
}

/// symfony/symfony#65922: a delete that met a lost connection was sent again on the next one, where the job is
/// anybody's.
fn regress_symfony_65922_an_outcome_is_not_sent_on_a_new_connection_unasked<F: WorkerFace>() {
    let server = Server::start().unwrap();
    let mut client: F = connect(server.address());
    put(&mut client, "x", 60);
    let (open, door) = Door::new();
    let worker = F::start(worker_options(server.address()).limit(JobLimit::new(1)), move |_| {
        door.pass();
        Ok(Outcome::Delete)
    });
    worker.events.wait_for("started", 1);
    server.close_connections();
    worker.events.wait_for("lost", 1);
    open.send(()).unwrap();
    let report = worker.stop();
    assert_eq!((report.finished, report.lost), (0, 1));
    assert!(server.requests().iter().all(|request| !request.text().starts_with("delete")));
    assert_eq!(server.view().jobs, 1);
}

// G. Life cycle.

/// apalis-dev/apalis#639, #30, leo91000/graphile_worker_rs#338: a panic ended the worker.
fn regress_apalis_639_a_panic_does_not_end_the_worker<F: WorkerFace>() {
    let server = Server::start().unwrap();
    let mut client: F = connect(server.address());
    for _ in 0..20 {
        put(&mut client, "panic", 60);
    }
    let last = put(&mut client, "fine", 60);
    let worker = F::start(worker_options(server.address()).slots(2), |job| {
        assert_eq!(job.body(), b"fine");
        Ok(Outcome::Delete)
    });
    worker.events.wait_for(&format!("deleted {last}"), 1);
    // On a busy machine, the other slot may be late.
    worker.events.wait_for("released", 20);
    let report = worker.stop();
    assert_eq!((report.released, report.finished), (20, 1));
}

/// contribsys/faktory#300: after a panic the job was busy forever.
fn regress_faktory_300_a_job_whose_handler_panicked_is_not_held_for_ever<F: WorkerFace>() {
    let server = Server::start().unwrap();
    let mut client: F = connect(server.address());
    let id = put(&mut client, "x", 60);
    let at_once = Retries::default().backoff(Duration::ZERO, 1, Duration::ZERO).releases(2);
    let worker = F::start(worker_options(server.address()).retries(at_once), |_| {
        std::panic::panic_any("always")
    });
    worker.events.wait_for(&format!("buried {id}"), 1);
    assert_eq!(worker.stop().released, 2);
    assert_eq!(client.stats_job(id).unwrap().unwrap().state, JobState::Buried);
}

/// beanstalkd/beanstalkd#407, beanstalkd/go-beanstalk#47: how is a reserve cancelled? By ending the sending side.
fn regress_beanstalkd_407_a_waiting_reserve_can_be_cancelled<F: WorkerFace>(
    environment: Environment,
) {
    let place = environment.start();
    let mut client: F = place.connect();
    for _ in 0..5 {
        let options = worker_options(place.address()).reserve_wait(3600 * SECOND);
        let worker = F::start(options, |_| Ok(Outcome::Delete));
        let deadline = Instant::now() + PATIENCE;
        while client.stats().unwrap().current_waiting == 0 {
            assert!(Instant::now() < deadline);
        }
        assert_eq!(worker.stop().total(), 0);
        assert_eq!(client.stats().unwrap().current_waiting, 0);
    }
}
