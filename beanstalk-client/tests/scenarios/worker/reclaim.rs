//! Jobs whose connection is lost while their handler runs, and that are held again.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use beanstalk_client::{
    Heartbeat, Inspect, JobFate, JobState, LostReason, Outcome, PutOptions, WorkerOptions,
};
use fixtures::{proxy::Proxy, real::Beanstalkd};

use super::{
    faces::{Door, WorkerFace},
    world::World,
};
use crate::support::{
    both_faces,
    place::{PATIENCE, connect, options as at},
};

const SECOND: Duration = Duration::from_secs(1);

fn options() -> WorkerOptions {
    WorkerOptions::new("127.0.0.1:1").unwrap().seed(7).reclaim(true)
}

const LOST: JobFate = JobFate::Lost(LostReason::ConnectionLost);

/// A worker that runs one job, whose connection is lost.
fn cut_off(options: &WorkerOptions, ttr: u32) -> (World, usize, u64) {
    let mut world = World::new();
    let worker = world.worker(options);
    let job = world.put(ttr);
    world.pass(SECOND / 10);
    assert_eq!(world.seen(worker).running.len(), 1);
    world.cut(worker);
    assert_eq!(world.stat(job, "state"), "ready");
    (world, worker, job)
}

#[test]
fn a_job_that_nobody_had_is_held_again_and_its_outcome_counts() {
    for inspect in [Inspect::Before, Inspect::OnDemand] {
        let mut world = World::new();
        let worker = world.worker(&options().inspect(inspect));
        let job = world.put(9);
        world.pass(SECOND);
        for round in 1..=3 {
            world.cut(worker);
            assert_eq!(world.stat(job, "state"), "ready");
            world.pass(SECOND);
            assert_eq!(world.seen(worker).said("lost: "), 0);
            world.come_back(worker);
            assert_eq!(
                world.seen(worker).said("reclaimed 1"),
                round,
                "{:?}",
                world.seen(worker).actions
            );
            assert_eq!(world.stat(job, "reserves"), (round + 1).to_string());
            // Its time starts again, and it is kept.
            world.pass(30 * SECOND);
            assert_eq!(world.stat(job, "timeouts"), "0");
        }
        let running = world.seen(worker).said("run ");
        world.finish(worker, Outcome::bury());
        assert_eq!(world.seen(worker).settled, [(job, JobFate::Buried)]);
        assert_eq!((running, world.stat(job, "state").as_str()), (1, "buried"));
        assert_eq!(world.stat(job, "pri"), "77");
        // And the next one arrives.
        world.put(9);
        assert_eq!(world.seen(worker).running.len(), 1);
    }
}

#[test]
fn an_outcome_that_came_while_there_was_no_connection_is_applied_once() {
    for (outcome, fate, state) in [
        (Outcome::Delete, JobFate::Deleted, "gone"),
        (Outcome::release(), JobFate::Released(Duration::ZERO), "reserved"),
        (Outcome::bury(), JobFate::Buried, "buried"),
    ] {
        let (mut world, worker, job) = cut_off(&options(), 60);
        world.finish(worker, outcome);
        world.pass(SECOND);
        assert_eq!(world.seen(worker).settled, []);
        world.come_back(worker);
        assert_eq!(world.seen(worker).settled, [(job, fate)]);
        assert_eq!(world.stat(job, "state"), state);
    }
}

#[test]
fn without_the_option_a_job_is_lost_with_its_connection() {
    let (mut world, worker, job) = cut_off(&options().reclaim(false), 60);
    assert_eq!(world.seen(worker).settled, [(job, LOST)]);
    world.come_back(worker);
    assert_eq!(world.seen(worker).count("reserve-job"), 0);
}

/// Somebody else does something with the job in the meantime, so the worker does nothing to it.
#[test]
fn a_job_that_another_worker_has_or_had_is_left_alone() {
    for (meanwhile, state) in [
        (&["reserve-job 1"][..], "reserved"),
        (&["reserve-job 1", "delete 1"], "gone"),
        (&["reserve-job 1", "bury 1 5"], "buried"),
        (&["reserve-job 1", "release 1 5 0"], "ready"),
        (&["reserve-job 1", "release 1 5 100"], "delayed"),
        (&["reserve-job 1", "bury 1 5", "kick-job 1"], "ready"),
    ] {
        for ends in [false, true] {
            let (mut world, worker, job) = cut_off(&options(), 60);
            let blind = WorkerOptions::new("127.0.0.1:1").unwrap().tubes(["none"]).unwrap();
            assert_ne!(world.worker(&blind), worker);
            if ends {
                world.finish(worker, Outcome::Delete);
            }
            for line in meanwhile {
                world.ask(line);
            }
            let counters = world.ask("stats-job 1");
            // It takes no job itself, as its handler has not ended.
            world.come_back(worker);
            let seen = world.seen(worker);
            assert_eq!(seen.settled, [(job, LOST)], "{meanwhile:?}");
            assert_eq!(seen.said("lost: the connection was lost"), usize::from(!ends));
            assert_eq!((seen.count("reserve-job"), seen.count("delete")), (0, 0));
            if !ends {
                assert_eq!(world.stat(job, "state"), state);
                assert_eq!(world.ask("stats-job 1"), counters);
                world.finish(worker, Outcome::Delete);
                assert_eq!(world.seen(worker).count("delete"), 0);
            }
        }
    }
}

/// Between the check and the reservation: it goes back unchanged.
#[test]
fn a_job_that_another_worker_had_at_the_last_moment_goes_back_as_it_was() {
    for (meanwhile, state, pri) in [
        (&["reserve-job 1", "bury 1 5"][..], "buried", "5"),
        (&["reserve-job 1", "release 1 5 100"], "delayed", "5"),
        (&["reserve-job 1", "release 1 5 0"], "ready", "5"),
    ] {
        let (mut world, worker, job) = cut_off(&options(), 60);
        world.latency(worker, SECOND);
        world.come_back(worker);
        world.pass(SECOND + SECOND / 2);
        assert_eq!(
            (world.seen(worker).count("stats-job"), world.seen(worker).count("reserve-job")),
            (2, 0)
        );
        for line in meanwhile {
            world.ask(line);
        }
        world.pass(2 * SECOND);
        assert_eq!(world.seen(worker).count("reserve-job"), 1, "{:?}", world.seen(worker).lines);
        assert_eq!(world.seen(worker).settled, [(job, LOST)]);
        assert_eq!(
            (world.stat(job, "state").as_str(), world.stat(job, "pri").as_str()),
            (state, pri)
        );
    }
}

#[test]
fn another_server_at_the_address_is_left_alone() {
    for stats in ["OK 16\r\n---\nid: another\n", "UNKNOWN_COMMAND"] {
        let (mut world, worker, job) = cut_off(&options(), 60);
        world.fault(worker, move |line| (line == "stats").then_some(stats));
        world.come_back(worker);
        assert_eq!(world.seen(worker).settled, [(job, LOST)]);
        assert_eq!(world.seen(worker).said("lost: "), 1);
        assert_eq!(
            (world.seen(worker).count("stats-job"), world.stat(job, "reserves").as_str()),
            (1, "1")
        );
    }
}

/// 1.11 and older.
#[test]
fn a_server_without_reserve_job_loses_the_job_as_before() {
    for refusal in ["UNKNOWN_COMMAND", "BAD_FORMAT", "NOT_FOUND", "INTERNAL_ERROR"] {
        let (mut world, worker, job) = cut_off(&options(), 60);
        world.fault(worker, move |line| line.starts_with("reserve-job").then_some(refusal));
        world.come_back(worker);
        assert_eq!(world.seen(worker).settled, [(job, LOST)]);
        assert_eq!(
            (world.seen(worker).said("lost: "), world.stat(job, "state").as_str()),
            (1, "ready")
        );
        world.finish(worker, Outcome::Delete);
        assert_eq!(world.seen(worker).count("delete"), 0);
    }
}

/// The old connection still stands for the server, which gives the job to nobody, not even to us.
#[test]
fn a_server_that_has_not_noticed_the_loss_is_asked_again_until_the_reservation_ends() {
    for notices in [true, false] {
        let mut world = World::new();
        let worker = world.worker(&options());
        let job = world.put(9);
        world.pass(SECOND);
        world.cut_unnoticed(worker);
        world.come_back(worker);
        world.pass(5 * SECOND);
        let looks = world.seen(worker).count("stats-job");
        assert!((5..40).contains(&looks), "{looks} looks in 5 s");
        assert_eq!(world.seen(worker).settled, []);
        if notices {
            world.notice();
        }
        world.pass(5 * SECOND);
        assert_eq!(world.seen(worker).said("reclaimed"), usize::from(notices));
        world.finish(worker, Outcome::Delete);
        let fate = if notices { JobFate::Deleted } else { LOST };
        assert_eq!(world.seen(worker).settled, [(job, fate)]);
    }
}

#[test]
fn a_job_is_given_up_when_its_reservation_would_have_ended() {
    for heartbeat in [Heartbeat::Always, Heartbeat::Never] {
        let (mut world, worker, job) = cut_off(&options().heartbeat(heartbeat), 9);
        world.pass(8 * SECOND);
        assert_eq!(world.seen(worker).settled, []);
        world.pass(SECOND);
        assert_eq!(world.seen(worker).settled, [(job, LOST)]);
        assert_eq!(world.seen(worker).said("lost: the connection was lost"), 1);
        world.come_back(worker);
        assert_eq!(
            (world.stat(job, "reserves").as_str(), world.stat(job, "state").as_str()),
            ("1", "ready")
        );
        world.finish(worker, Outcome::Delete);
        assert_eq!(world.seen(worker).running.len(), 1, "and then it is run again");
    }
}

/// It is no longer possible to know whether it was taken.
#[test]
fn a_connection_that_is_lost_while_a_job_is_taken_back_loses_it() {
    let (mut world, worker, job) = cut_off(&options(), 60);
    let mut is_silent = false;
    world.fault(worker, move |line| {
        is_silent |= line.starts_with("reserve-job");
        is_silent.then_some("")
    });
    world.come_back(worker);
    assert_eq!(world.seen(worker).settled, []);
    world.cut(worker);
    assert_eq!(world.seen(worker).settled, [(job, LOST)]);
}

#[test]
fn an_outcome_that_was_sent_before_the_connection_was_lost_is_not_sent_again() {
    let mut world = World::new();
    let worker = world.worker(&options());
    let job = world.put(60);
    world.fault(worker, |line| line.starts_with("delete").then_some(""));
    world.finish(worker, Outcome::Delete);
    world.cut(worker);
    world.come_back(worker);
    assert_eq!(world.seen(worker).settled, [(job, JobFate::Unknown)]);
}

#[test]
fn a_stop_waits_for_a_job_that_is_being_taken_back_and_its_end_gives_it_up() {
    for abandons in [false, true] {
        let (mut world, worker, job) = cut_off(&options(), 60);
        world.latency(worker, SECOND);
        world.come_back(worker);
        world.with(worker, |machine, now| machine.stop(now));
        if abandons {
            world.with(worker, |machine, now| machine.stop_now(now));
            assert_eq!(world.seen(worker).settled, [(job, LOST)]);
            assert_eq!(world.seen(worker).said("lost: the worker was stopped"), 1);
            continue;
        }
        world.pass(5 * SECOND);
        assert_eq!(world.seen(worker).said("reclaimed"), 1);
        world.finish(worker, Outcome::Delete);
        world.pass(5 * SECOND);
        assert_eq!(world.seen(worker).settled, [(job, JobFate::Deleted)]);
        assert_eq!(world.seen(worker).closed, Some(Ok(())));
    }
}

both_faces!(
    a_lost_connection_costs_no_second_run,
    a_job_that_another_worker_has_meanwhile_is_left_to_it,
    a_restarted_server_is_left_alone,
);

fn put<F: WorkerFace>(client: &mut F) -> u64 {
    client.put(b"x", PutOptions::default().priority(77)).unwrap().id().get()
}

/// Through a proxy that cuts it off again and again while the handler runs, and once more after the handler has ended.
fn a_lost_connection_costs_no_second_run<F: WorkerFace>() {
    for ends_while_away in [false, true] {
        let Some(server) = Beanstalkd::start() else { return };
        let proxy = Proxy::start(server.socket_addr().unwrap()).unwrap();
        let mut client: F = connect(server.address());
        let id = put(&mut client);
        let runs = Arc::new(AtomicU32::new(0));
        let (counted, (open, door)) = (runs.clone(), Door::new());
        let options = WorkerOptions::new(at(&proxy.address().to_string())).unwrap();
        let worker = F::start(options.reclaim(true), move |job| {
            counted.fetch_add(1, Ordering::SeqCst);
            door.pass();
            // It was held again, or is about to be: the touch waits for that.
            job.touch().unwrap();
            assert!(!job.is_lost() && job.stats().unwrap().reserves >= 1);
            Ok(Outcome::Delete)
        });
        worker.events.wait_for("started", 1);
        let rounds = if ends_while_away { 1 } else { 3 };
        for round in 1..=rounds {
            if ends_while_away {
                proxy.refuse_connections();
                open.send(()).unwrap();
            }
            proxy.reset_connections();
            worker.events.wait_for("disconnected", round);
            proxy.accept_connections();
            worker.events.wait_for(&format!("reclaimed {id}"), round);
        }
        if !ends_while_away {
            assert_eq!(client.stats_job(id).unwrap().unwrap().state, JobState::Reserved);
            open.send(()).unwrap();
        }
        worker.events.wait_for(&format!("deleted {id}"), 1);
        assert_eq!(client.stats_job(id).unwrap(), None);
        let report = worker.stop();
        assert_eq!((report.finished, report.reclaimed, report.total()), (1, rounds as u64, 1));
        assert_eq!(runs.load(Ordering::SeqCst), 1);
    }
}

fn a_job_that_another_worker_has_meanwhile_is_left_to_it<F: WorkerFace>() {
    let Some(server) = Beanstalkd::start() else { return };
    let proxy = Proxy::start(server.socket_addr().unwrap()).unwrap();
    let mut client: F = connect(server.address());
    let id = put(&mut client);
    let (open, door) = Door::new();
    let options = WorkerOptions::new(at(&proxy.address().to_string())).unwrap();
    let worker = F::start(options.reclaim(true), move |job| {
        assert_eq!(job.wait_lost(), Some(LostReason::ConnectionLost));
        door.pass();
        Ok(Outcome::Delete)
    });
    worker.events.wait_for("started", 1);
    proxy.refuse_connections();
    proxy.reset_connections();
    let job = client.reserve_with_timeout(PATIENCE).unwrap().job().unwrap();
    assert_eq!(job.id.get(), id);
    proxy.accept_connections();
    worker.events.wait_for(&format!("lost {id}"), 1);
    open.send(()).unwrap();
    let report = worker.stop();
    assert_eq!((report.lost, report.reclaimed, report.total()), (1, 0, 1));
    client.delete(&job).unwrap();
}

/// Without a log its ids start again at 1.
fn a_restarted_server_is_left_alone<F: WorkerFace>() {
    let Some(mut server) = Beanstalkd::start() else { return };
    let proxy = Proxy::start(server.socket_addr().unwrap()).unwrap();
    let mut client: F = connect(server.address());
    let id = put(&mut client);
    let (open, door) = Door::new();
    let options = WorkerOptions::new(at(&proxy.address().to_string())).unwrap();
    let worker = F::start(options.reclaim(true), move |_| {
        door.pass();
        Ok(Outcome::Delete)
    });
    worker.events.wait_for("started", 1);
    proxy.refuse_connections();
    server.kill();
    server.restart().unwrap();
    let mut client: F = connect(server.address());
    // Another job, of another tube, and of the same number and counters.
    client.use_tube("others").unwrap();
    assert_eq!(put(&mut client), id);
    let deletes = client.stats().unwrap().cmd_delete;
    proxy.accept_connections();
    worker.events.wait_for(&format!("lost {id}"), 1);
    open.send(()).unwrap();
    let report = worker.stop();
    assert_eq!((report.lost, report.reclaimed, report.total()), (1, 0, 1));
    let stats = client.stats_job(id).unwrap().unwrap();
    assert_eq!((stats.state, stats.reserves), (JobState::Ready, 0));
    assert_eq!(client.stats().unwrap().cmd_delete, deletes);
}
