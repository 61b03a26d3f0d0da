//! What a worker does and when, on a clock that is turned by hand. Both faces drive this same state machine.

use std::time::Duration;

use beanstalk_client::{Heartbeat, Inspect, JobFate, JobLimit, LostReason, Outcome, WorkerOptions};

use super::world::World;

const SECOND: Duration = Duration::from_secs(1);

fn options() -> WorkerOptions {
    WorkerOptions::new("127.0.0.1:1").unwrap()
}

fn seconds(times: &[Duration]) -> Vec<f64> {
    times.iter().map(Duration::as_secs_f64).collect()
}

/// B11: every possible time to run can be kept, even the shortest.
#[test]
fn any_time_to_run_is_kept() {
    for ttr in [0, 1, 2, 3, 4, 10, 60, 3_600, u32::MAX] {
        let mut world = World::new();
        let worker = world.worker(&options());
        let job = world.put(ttr);
        world.pass(3 * Duration::from_secs(u64::from(ttr.clamp(1, 10_000))));
        assert_eq!(world.stat(job, "timeouts"), "0", "{ttr}");
        assert_eq!(world.stat(job, "state"), "reserved", "{ttr}");
        assert_eq!(world.seen(worker).said("lost"), 0, "{ttr}");
    }
}

/// A touch and a delete that reach the server late: it finds the job ready again, so it refuses the touch, and deletes
/// the job all the same.
#[test]
fn a_delete_is_judged_by_its_own_reply() {
    for (answer, fate, state) in [
        (None, JobFate::Deleted, "gone"),
        (Some("NOT_FOUND"), JobFate::Lost(LostReason::NotFound), "reserved"),
    ] {
        let mut world = World::new();
        let worker = world.worker(&options());
        let job = world.put(9);
        world.latency(worker, SECOND);
        world.fault(worker, move |line| match line.split(' ').next() {
            Some("touch") => Some("NOT_FOUND"),
            Some("delete") => answer,
            _ => None,
        });
        world.pass(3 * SECOND + SECOND / 2);
        assert_eq!(world.seen(worker).count("touch"), 1);
        world.finish(worker, Outcome::Delete);
        world.pass(2 * SECOND);
        assert_eq!(world.seen(worker).settled, [(job, fate)]);
        assert_eq!(world.stat(job, "state"), state);
    }
}

/// B6, F4: a RESERVED that was pending for longer than the job's time to run.
#[test]
fn a_job_whose_time_was_over_before_it_was_read_is_not_run() {
    for inspect in [Inspect::Before, Inspect::OnDemand] {
        let mut world = World::new();
        let worker = world.worker(&options().inspect(inspect));
        world.latency(worker, 3 * SECOND);
        let job = world.put(2);
        // Another takes it as soon as it is free, and keeps it.
        world.pass(2 * SECOND + SECOND / 10);
        assert!(world.ask("reserve-with-timeout 0").starts_with(&format!("RESERVED {job}")));
        world.latency(worker, Duration::ZERO);
        world.pass(SECOND);
        assert_eq!(world.seen(worker).said("run"), 0, "{:?}", world.seen(worker).actions);
        assert_eq!(world.seen(worker).count("touch"), 1);
        assert_eq!(world.seen(worker).settled, []);
        assert_eq!(world.stat(job, "state"), "reserved");
    }
}

/// A timer is late, so that the last beat is due before the heartbeat's end and seen after it.
#[test]
fn a_last_beat_that_is_late_is_a_touch() {
    let mut world = World::new();
    let worker = world.worker(&options().heartbeat(Heartbeat::AtMost(4 * SECOND)));
    let job = world.put(9);
    world.sleep_through(5 * SECOND);
    world.pass(60 * SECOND);
    assert_eq!(seconds(&world.seen(worker).times("touch")), [5.0]);
    assert_eq!(world.seen(worker).settled, [(job, JobFate::Lost(LostReason::TimeToRun))]);
    let lost =
        world.seen(worker).actions.iter().find(|(_, said)| said.starts_with("lost")).unwrap();
    assert_eq!(lost.0, 14 * SECOND);
}

/// Idle cost, B10: a time to run of a second is in its last second all the time. The server answers every reserve at
/// once, however often the jobs are touched, and a reserve and its answer are two packets.
#[test]
fn a_storm_of_deadline_soon_costs_two_packets_a_second() {
    let seconds = 60;
    for inspect in [Inspect::Before, Inspect::OnDemand] {
        let mut world = World::new();
        let worker = world.worker(&options().prefetch(16).inspect(inspect));
        for _ in 0..3 {
            world.put(1);
        }
        world.pass(SECOND);
        let reserves = |world: &World| world.seen(worker).count("reserve-with-timeout");
        let before = reserves(&world);
        world.pass(seconds as u32 * SECOND);
        assert_eq!(world.seen(worker).running.len(), 3, "all of them were kept");
        let in_vain = reserves(&world) - before;
        assert!((1..=seconds).contains(&in_vain), "{in_vain} reserves in {seconds} s");
        // And then it continues at once.
        for _ in 0..3 {
            world.finish(worker, Outcome::Delete);
        }
        world.put(60);
        assert_eq!(world.seen(worker).running.len(), 1);
    }
}

/// B10: one job is in its last second, and another can be touched: that does not start it all over again.
#[test]
fn touches_of_other_jobs_end_no_storm() {
    let mut world = World::new();
    world.put(4);
    for _ in 0..4 {
        world.put(60);
    }
    let worker = world.worker(&options().prefetch(3).heartbeat(Heartbeat::AtMost(SECOND)));
    let stubborn = world.hold_back(worker);
    world.pass(3 * SECOND - SECOND / 10);
    world.finish(worker, Outcome::Delete);
    world.finish(worker, Outcome::Delete);
    world.pass(SECOND / 5);
    let before = world.seen(worker).count("reserve-with-timeout");
    world.finish(worker, Outcome::Delete);
    world.pass(SECOND / 2);
    let asked = world.seen(worker).count("reserve-with-timeout") - before;
    assert!((1..=2).contains(&asked), "{asked} reserves in half a second");
    assert_eq!(world.seen(worker).running.len(), 1);
    assert!(world.seen(worker).count("touch") > 0, "it was worth a try");
    world.pass(SECOND);
    let lost = (stubborn, JobFate::Lost(LostReason::TimeToRun));
    assert!(world.seen(worker).settled.contains(&lost));
}

/// Idle cost: one command per wait, however much may be prefetched.
#[test]
fn an_idle_worker_sends_little() {
    let mut world = World::new();
    let worker = world.worker(&options().prefetch(500));
    world.pass(3600 * SECOND);
    let sent = world.seen(worker).lines.len();
    assert!(sent <= 3600 / 15 + 3, "{sent} commands in an hour");
    assert_eq!((world.seen(worker).said("refused"), world.seen(worker).connections), (0, 1));
}

/// Idle cost: nothing waits in the server for less than a second.
#[test]
fn a_reserve_without_a_wait_does_not_hammer_an_idle_server() {
    let mut world = World::new();
    world.put(60);
    let worker = world.worker(&options().reserve_wait(Duration::ZERO));
    world.latency(worker, SECOND / 100);
    world.finish(worker, Outcome::Delete);
    world.pass(60 * SECOND);
    let asked = world.seen(worker).count("reserve-with-timeout");
    assert!((30..=61).contains(&asked), "{asked} reserves in a minute");
    world.put(60);
    world.pass(SECOND / 10);
    assert_eq!(world.seen(worker).running.len(), 1);
}

/// A run ends with the last job of its limit, also in a pause after refusals.
#[test]
fn a_pause_does_not_outlast_the_limit() {
    let mut world = World::new();
    let options = options().limit(JobLimit::new(1)).seed(3);
    let paused = world.worker(&options);
    world.fault(paused, |line| line.starts_with("reserve").then_some("TIMED_OUT"));
    world.pass(120 * SECOND);
    let worker = world.worker(&options);
    world.put(60);
    world.pass(SECOND / 10);
    world.finish(worker, Outcome::Delete);
    assert_eq!(world.seen(worker).closed, Some(Ok(())));
    world.pass(SECOND / 10);
    assert_eq!(world.seen(paused).closed, Some(Ok(())));
}

/// B16: any refusal of any command of a worker.
#[test]
fn refusals_of_any_command_lose_no_job() {
    for verb in ["stats", "stats-job", "touch", "delete", "release", "bury", "reserve-with-timeout"]
    {
        for refusal in
            ["OUT_OF_MEMORY", "INTERNAL_ERROR", "BAD_FORMAT", "UNKNOWN_COMMAND", "DRAINING"]
        {
            let mut world = World::new();
            let worker = world.worker(&options());
            world.fault(worker, move |line| {
                (line.split(' ').next() == Some(verb)).then_some(refusal)
            });
            let job = world.put(6);
            world.pass(2 * SECOND + SECOND / 2);
            if !world.seen(worker).running.is_empty() && world.seen(worker).closed.is_none() {
                let outcome = match verb {
                    "bury" => Outcome::bury(),
                    "release" => Outcome::release(),
                    _ => Outcome::Delete,
                };
                world.finish(worker, outcome);
            }
            world.pass(20 * SECOND);
            let what = format!("{refusal} to {verb}: {:?}", world.seen(worker).actions);
            let is_deleted = world.seen(worker).settled.contains(&(job, JobFate::Deleted));
            let state = world.stat(job, "state");
            assert_eq!(state, if is_deleted { "gone" } else { "ready" }, "{what}");
        }
    }
}
