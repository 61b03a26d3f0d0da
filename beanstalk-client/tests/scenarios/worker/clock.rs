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

/// B11.
#[test]
fn touches_come_at_thirds_of_the_time_to_run() {
    let mut world = World::new();
    let worker = world.worker(&options());
    let job = world.put(9);
    world.pass(100 * SECOND);
    let touches = seconds(&world.seen(worker).times("touch"));
    let expected: Vec<f64> = (1..34).map(|n| f64::from(n) * 3.0).collect();
    assert_eq!(touches, expected);
    assert_eq!(world.stat(job, "timeouts"), "0");
    world.finish(worker, Outcome::Delete);
    assert_eq!(world.seen(worker).settled, [(job, JobFate::Deleted)]);
    assert_eq!(world.stat(job, "state"), "gone");
}

/// B11: every possible time to run can be kept, even the shortest.
#[test]
fn any_time_to_run_is_kept() {
    for ttr in [0, 1, 2, 3, 4, 10, 60, 86_400, u32::MAX] {
        let mut world = World::new();
        let worker = world.worker(&options());
        let job = world.put(ttr);
        world.pass(3 * Duration::from_secs(u64::from(ttr.clamp(1, 100_000))));
        assert_eq!(world.stat(job, "timeouts"), "0", "{ttr}");
        assert_eq!(world.stat(job, "state"), "reserved", "{ttr}");
        assert_eq!(world.seen(worker).said("lost"), 0, "{ttr}");
    }
}

/// A touch and a delete that reach the server late: it finds the job ready again, so it refuses the touch, and deletes
/// the job all the same.
#[test]
fn a_delete_is_judged_by_its_own_answer_whatever_the_touch_before_it_was_told() {
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

/// F4: the server's clock started when it assigned the job, which may be long after the reserve was sent.
#[test]
fn a_job_that_came_late_is_touched_before_it_is_run() {
    let mut world = World::new();
    let worker = world.worker(&options());
    world.pass(10 * SECOND);
    let job = world.put(5);
    let lines: Vec<&str> = world.seen(worker).lines.iter().map(|(_, line)| line.as_str()).collect();
    let at = lines.iter().position(|line| line.starts_with("touch")).unwrap();
    assert_eq!(&lines[at..], [format!("touch {job}"), format!("stats-job {job}")]);
    assert_eq!(world.seen(worker).said("run"), 1);
    world.pass(20 * SECOND);
    assert_eq!(world.stat(job, "timeouts"), "0");
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

/// B11: one refusal is survived, two are not.
#[test]
fn a_refused_touch_is_tried_again_and_two_end_the_reservation() {
    for (refusals, lost) in [(1, 0), (2, 1)] {
        let mut world = World::new();
        let worker = world.worker(&options());
        let mut left = refusals;
        world.fault(worker, move |line| {
            (line.starts_with("touch") && left > 0).then(|| {
                left -= 1;
                "INTERNAL_ERROR"
            })
        });
        let job = world.put(9);
        world.pass(8 * SECOND);
        assert_eq!(world.seen(worker).said("touch refused"), 1, "{refusals}");
        assert_eq!(world.seen(worker).said("lost: the server refused"), lost, "{refusals}");
        assert_eq!(seconds(&world.seen(worker).times("touch"))[..2], [3.0, 6.0]);
        world.finish(worker, Outcome::Delete);
        let deleted = usize::from(lost == 0);
        assert_eq!(world.seen(worker).count("delete"), deleted, "{refusals}");
        if lost == 1 {
            assert_eq!(world.seen(worker).settled, [(job, JobFate::Lost(LostReason::Refused))]);
        }
    }
}

/// B11: the server gave the job to somebody else.
#[test]
fn a_touch_that_finds_nothing_ends_the_reservation_at_once() {
    let mut world = World::new();
    let worker = world.worker(&options());
    world.fault(worker, |line| line.starts_with("touch").then_some("NOT_FOUND"));
    let job = world.put(9);
    world.pass(3 * SECOND + SECOND / 2);
    assert_eq!(world.seen(worker).settled, [(job, JobFate::Lost(LostReason::NotFound))]);
}

/// B11: unanswered touches do not keep anything.
#[test]
fn unanswered_touches_end_with_the_time_to_run() {
    let mut world = World::new();
    let worker = world.worker(&options());
    world.fault(worker, |line| line.starts_with("touch").then_some(""));
    let job = world.put(9);
    world.pass(9 * SECOND - SECOND / 100);
    assert_eq!((world.seen(worker).count("touch"), world.seen(worker).said("lost")), (1, 0));
    world.pass(SECOND);
    assert_eq!(world.seen(worker).settled, [(job, JobFate::Lost(LostReason::TimeToRun))]);
}

/// B12: past its own deadline nothing is sent, even if the server would still take it.
#[test]
fn an_outcome_after_the_end_is_refused_here() {
    let mut world = World::new();
    let worker = world.worker(&options().heartbeat(Heartbeat::Never));
    let job = world.put(5);
    // The process was stopped, and nobody polled: no timer has reported the end.
    world.sleep_through(5 * SECOND + SECOND / 10);
    world.finish(worker, Outcome::Delete);
    assert_eq!(world.seen(worker).settled, [(job, JobFate::Lost(LostReason::TimeToRun))]);
    assert_eq!(
        (world.seen(worker).count("delete"), world.stat(job, "timeouts").as_str()),
        (0, "1")
    );
}

/// C16: after a suspension, every held job counts as lost.
#[test]
fn a_clock_that_jumps_ends_reservations_before_anything_is_sent() {
    let mut world = World::new();
    let worker = world.worker(&options());
    world.put(60);
    world.pass(30 * SECOND);
    let sent = world.seen(worker).lines.len();
    world.sleep_through(3600 * SECOND);
    world.with(worker, |_, _| {});
    assert_eq!(world.seen(worker).said("lost: its time to run"), 1);
    assert_eq!(world.seen(worker).lines.len(), sent);
}

#[test]
fn a_bounded_heartbeat_ends() {
    let mut world = World::new();
    let worker = world.worker(&options().heartbeat(Heartbeat::AtMost(10 * SECOND)));
    let job = world.put(9);
    world.pass(60 * SECOND);
    assert_eq!(seconds(&world.seen(worker).times("touch")), [3.0, 6.0, 9.0]);
    assert_eq!(world.seen(worker).settled, [(job, JobFate::Lost(LostReason::TimeToRun))]);
    let lost =
        world.seen(worker).actions.iter().find(|(_, said)| said.starts_with("lost")).unwrap();
    assert_eq!(lost.0, 18 * SECOND);
    assert_eq!(world.stat(job, "timeouts"), "1");
}

/// What is bounded is the handler's time: a job that waits for its turn keeps all of its own.
#[test]
fn a_bounded_heartbeat_begins_with_the_handler() {
    for heartbeat in [Heartbeat::AtMost(5 * SECOND), Heartbeat::Never] {
        let mut world = World::new();
        let jobs: Vec<u64> = (0..6).map(|_| world.put(9)).collect();
        let worker = world.worker(&options().prefetch(6).heartbeat(heartbeat));
        for _ in &jobs {
            world.pass(4 * SECOND);
            world.finish(worker, Outcome::Delete);
        }
        let done: Vec<_> = jobs.iter().map(|job| (*job, JobFate::Deleted)).collect();
        assert_eq!(world.seen(worker).settled, done, "{heartbeat}");
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

/// B10, F8: a job in its last second makes every reserve return at once, forever.
#[test]
fn deadline_soon_never_spins() {
    let mut world = World::new();
    // The first one is about to be over; the others end one after the other, and each end asks for more.
    world.put(3);
    for _ in 0..19 {
        world.put(600);
    }
    let worker = world.worker(&options().prefetch(20).heartbeat(Heartbeat::Never));
    world.pass(2 * SECOND + SECOND / 10);
    assert_eq!(world.seen(worker).running.len(), 20, "it is full, and has not seen the tube empty");
    let stubborn = world.hold_back(worker);
    let before = world.seen(worker).count("reserve-with-timeout");
    for _ in 0..16 {
        world.finish(worker, Outcome::Delete);
        world.pass(SECOND / 20);
    }
    let asked = world.seen(worker).count("reserve-with-timeout") - before;
    assert!((1..=5).contains(&asked), "{asked} reserves within a second");
    assert!(world.seen(worker).settled.iter().all(|(_, fate)| *fate == JobFate::Deleted));
    world.pass(SECOND);
    let lost = (stubborn, JobFate::Lost(LostReason::TimeToRun));
    assert!(world.seen(worker).settled.contains(&lost));
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

/// C2, B8: the server's own time decides first, and then the silence ends the connection.
#[test]
fn a_silent_server_ends_the_connection_by_the_reserves_time_and_the_grace() {
    let mut world = World::new();
    let worker = world.worker(&options());
    world.fault(worker, |line| line.starts_with("reserve").then_some(""));
    // The first reserve was answered before the fault.
    world.pass(15 * SECOND + SECOND / 2);
    assert!(world.seen(worker).closed.is_none());
    world.pass(25 * SECOND - SECOND);
    assert!(world.seen(worker).closed.is_none());
    world.pass(SECOND);
    let closed = world.seen(worker).closed.clone().unwrap().unwrap_err();
    assert!(closed.contains("no reply"), "{closed}");
}

/// F1, house rule: one write.
#[test]
fn the_end_of_a_job_and_the_next_reserve_are_one_write() {
    let mut world = World::new();
    let worker = world.worker(&options());
    let (first, second) = (world.put(60), world.put(60));
    world.finish(worker, Outcome::Delete);
    world.finish(worker, Outcome::bury());
    let writes = &world.seen(worker).writes;
    for line in [format!("delete {first}\r\n"), format!("bury {second} 77\r\n")] {
        let expected = format!("{line}reserve-with-timeout 15\r\n");
        assert!(writes.contains(&expected), "{writes:?}");
    }
}

/// F1: never a reserve that waits while a job is held.
#[test]
fn a_reserve_waits_only_while_nothing_is_held() {
    let mut world = World::new();
    for _ in 0..3 {
        world.put(60);
    }
    let worker = world.worker(&options().prefetch(4));
    world.pass(30 * SECOND);
    assert_eq!(world.seen(worker).running.len(), 3, "all that there are");
    let waits = |world: &World| {
        let lines = world.seen(worker).lines.iter();
        lines.filter(|(_, line)| line == "reserve-with-timeout 15").count()
    };
    let before = waits(&world);
    world.finish(worker, Outcome::Delete);
    world.finish(worker, Outcome::Delete);
    assert_eq!(waits(&world), before);
    world.finish(worker, Outcome::Delete);
    assert_eq!(waits(&world), before + 1);
    // All of them were kept alive meanwhile.
    assert_eq!(world.seen(worker).settled.len(), 3);
    assert!(world.seen(worker).settled.iter().all(|(_, fate)| *fate == JobFate::Deleted));
}

/// Idle cost: one command per wait, however much may be prefetched.
#[test]
fn an_idle_worker_sends_little() {
    let mut world = World::new();
    let worker = world.worker(&options().prefetch(500));
    world.pass(3600 * SECOND);
    let sent = world.seen(worker).lines.len();
    assert!(sent <= 3600 / 15 + 3, "{sent} commands in an hour");
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

/// Idle cost: the handler of a lost job keeps the worker from its end, and an empty tube is not polled all the time.
#[test]
fn an_empty_tube_is_looked_at_once_more_when_the_handler_of_a_lost_job_has_ended() {
    let mut world = World::new();
    let lost = world.put(9);
    let worker = world.worker(&options().prefetch(2).until_empty());
    world.latency(worker, SECOND / 100);
    world.fault(worker, |line| line.starts_with("touch").then_some("NOT_FOUND"));
    world.pass(4 * SECOND);
    let reason = JobFate::Lost(LostReason::NotFound);
    assert_eq!(world.seen(worker).settled, [(lost, reason)]);
    let looks = |world: &World| world.seen(worker).count("reserve-with-timeout");
    let before = looks(&world);
    world.pass(60 * SECOND);
    assert!(looks(&world) - before <= 1, "{} reserves in a minute", looks(&world) - before);
    assert!(world.seen(worker).closed.is_none());
    // By now the server has given up waiting for it, and it is ready again.
    world.fault(worker, |_| None);
    world.finish(worker, Outcome::Delete);
    world.pass(SECOND);
    world.finish(worker, Outcome::Delete);
    world.pass(SECOND);
    assert_eq!(world.seen(worker).settled[1..], [(lost, JobFate::Deleted)]);
    assert_eq!(world.seen(worker).closed, Some(Ok(())));
}

#[test]
fn what_is_held_is_bounded() {
    let mut world = World::new();
    for _ in 0..100 {
        world.put(60);
    }
    let worker = world.worker(&options().prefetch(10));
    for _ in 0..20 {
        world.pass(SECOND / 10);
        assert!(world.seen(worker).running.len() <= 10);
    }
    assert_eq!(world.seen(worker).running.len(), 10);
}

/// B23, F2: a job that is faster than the half-close goes back with the connection, as if nobody had taken it.
#[test]
fn a_job_that_wins_the_race_against_a_stop_goes_back_unchanged() {
    let mut world = World::new();
    let worker = world.worker(&options());
    world.latency(worker, SECOND / 2);
    let job = world.put(60);
    // It was assigned, and its RESERVED is under way.
    assert_eq!(world.stat(job, "state"), "reserved");
    world.with(worker, |machine, now| machine.stop(now));
    world.pass(3 * SECOND);
    assert_eq!(world.seen(worker).closed, Some(Ok(())));
    assert_eq!(world.seen(worker).said("run"), 0);
    assert_eq!(world.seen(worker).settled, [(job, JobFate::Abandoned)]);
    assert_eq!(
        (world.stat(job, "state").as_str(), world.stat(job, "pri").as_str()),
        ("ready", "77")
    );
}

#[test]
fn a_silent_server_does_not_hold_up_a_stop() {
    let mut world = World::new();
    let worker = world.worker(&options());
    world.latency(worker, 3600 * SECOND);
    world.with(worker, |machine, now| machine.stop(now));
    world.pass(2 * SECOND + SECOND / 10);
    assert_eq!(world.seen(worker).closed, Some(Ok(())));
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

/// B23: the handler of a job that was lost before the stop may finish within the grace, whether the connection stands
/// or not.
#[test]
fn a_stop_leaves_the_handler_of_a_lost_job_its_grace() {
    for is_cut in [true, false] {
        for finishes in [true, false] {
            let mut world = World::new();
            let options = options().heartbeat(Heartbeat::Never).grace(20 * SECOND);
            let worker = world.worker(&options);
            world.put(3);
            world.pass(4 * SECOND);
            assert_eq!(world.seen(worker).said("lost: its time to run"), 1);
            if is_cut {
                world.cut(worker);
            }
            world.with(worker, |machine, now| machine.stop(now));
            world.pass(19 * SECOND);
            assert_ne!(world.seen(worker).closed, Some(Ok(())), "cut: {is_cut}");
            if finishes {
                world.finish(worker, Outcome::Delete);
            } else {
                world.pass(SECOND + SECOND / 10);
            }
            assert_eq!(world.seen(worker).closed, Some(Ok(())), "{is_cut} {finishes}");
        }
    }
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
