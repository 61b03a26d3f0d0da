//! Keeping reservations alive, and noticing when they end.

use super::*;
use crate::{Heartbeat, Inspect};

const MILLISECOND: Duration = Duration::from_millis(1);
const EXPIRED: &str = "job 7 lost: its time to run expired";

#[test]
fn a_reservation_is_extended_at_each_third_of_its_time() {
    let mut bench = Bench::running(&options(1), 7, 9);
    for _ in 0..5 {
        assert_eq!(bench.wait(3 * SECOND - MILLISECOND), "");
        assert_eq!(bench.wait(MILLISECOND), "touch 7\r\n");
        assert_eq!(bench.hear("TOUCHED\r\n"), "");
        assert_eq!(bench.did(), ["touched 7"]);
    }
    // A touch without an answer extends nothing.
    bench.wait(3 * SECOND);
    bench.wait(6 * SECOND - MILLISECOND);
    assert_eq!(bench.did(), [""; 0]);
    bench.wait(MILLISECOND);
    assert_eq!(bench.did(), ["lost 7: TimeToRun", EXPIRED]);
}

/// A handler blocks the thread that moves the bytes.
#[test]
fn a_heartbeat_that_comes_late_or_too_late_is_an_event() {
    let late = |time| {
        let mut bench = Bench::running(&options(1), 7, 9);
        let says = bench.wait(3 * SECOND + time);
        (says, bench.did())
    };
    let event = |late| format!("the heartbeat of job 7 was {late} late");
    assert_eq!(late(3 * SECOND - MILLISECOND), ("touch 7\r\n".into(), vec![]));
    assert_eq!(late(3 * SECOND), ("touch 7\r\n".into(), vec![event("3s")]));
    let expired = [event("6s"), "lost 7: TimeToRun".into(), EXPIRED.into()];
    assert_eq!(late(6 * SECOND), (String::new(), expired.to_vec()));
    // The handler that has blocked ends first.
    let mut bench = Bench::running(&options(1), 7, 9);
    bench.hand.now += 9 * SECOND;
    bench.finish(7, Outcome::Delete);
    assert_eq!(bench.did()[0], event("6s"));
}

/// Some releases of the server forget the timer of a quiet connection, and the job would stay reserved.
#[test]
fn a_slot_keeps_pinging_while_the_handler_of_an_expired_job_runs() {
    let mut bench = Bench::running(&options(1).heartbeat(Heartbeat::Never), 7, 9);
    assert_eq!(bench.wait(9 * SECOND - MILLISECOND), "");
    assert_eq!(bench.wait(MILLISECOND), "");
    assert_eq!(bench.did(), ["lost 7: TimeToRun", EXPIRED], "and the handler goes on");
    for _ in 0..3 {
        assert_eq!(bench.wait(SECOND - MILLISECOND), "");
        assert_eq!(bench.wait(MILLISECOND), "list-tube-used\r\n");
        bench.hear("USING default\r\n");
    }
    assert_eq!(bench.wait(10 * SECOND), "");
    let mut bench = Bench::running(&options(1).heartbeat(Heartbeat::Never), 7, 9);
    bench.wait(9 * SECOND);
    assert_eq!(bench.wait(SECOND), "list-tube-used\r\n");
    assert_eq!(bench.hand.turn(), Pulse::Go(Some(bench.hand.now + SECOND)));
    bench.hear("USING default\r\n");
    assert_eq!(bench.finish(7, Outcome::Delete), "reserve-with-timeout 15\r\n");
    assert_eq!(bench.wait(SECOND), "", "nobody runs it any more");
}

#[test]
fn a_handler_that_runs_for_too_long_loses_its_job_and_is_aborted() {
    let mut bench = Bench::running(&options(1).heartbeat(Heartbeat::AtMost(6 * SECOND)), 7, 9);
    assert_eq!(bench.wait(3 * SECOND), "touch 7\r\n");
    bench.hear("TOUCHED\r\n");
    assert_eq!(bench.wait(3 * SECOND), "", "it has run for that long");
    bench.wait(6 * SECOND - MILLISECOND);
    assert_eq!(bench.did(), ["touched 7"]);
    bench.wait(MILLISECOND);
    assert_eq!(bench.did(), ["lost 7: TimeToRun", EXPIRED, "abort 7"]);
    // The loss of the connection is not the handler's fault.
    let mut bench = Bench::running(&options(1).heartbeat(Heartbeat::AtMost(6 * SECOND)), 7, 9);
    bench.lose();
    assert!(!bench.did().iter().any(|did| did.starts_with("abort")));
}

/// Jobs 7 and 8 are with the face, and the handler of 7 runs.
fn two(options: &WorkerOptions) -> Bench {
    let mut bench = Bench::running(&options.clone().prefetch(2), 7, 9);
    bench.hear(&reserved(8));
    bench.hear(&counters(8, &[("ttr", 9)]));
    assert_eq!(bench.did(), ["run 8"]);
    bench
}

#[test]
fn a_prefetched_job_is_kept_alive_until_its_own_time_begins_with_its_handler() {
    let mut bench = two(&options(1).heartbeat(Heartbeat::AtMost(6 * SECOND)));
    assert_eq!(bench.wait(3 * SECOND), "touch 7\r\ntouch 8\r\n");
    bench.hear("TOUCHED\r\nTOUCHED\r\n");
    assert_eq!(bench.wait(3 * SECOND), "touch 8\r\n");
    bench.hear("TOUCHED\r\n");
    bench.hand.now += 3 * SECOND;
    let said = bench.finish(7, Outcome::Delete);
    assert_eq!(said, "delete 7\r\ntouch 8\r\nreserve-with-timeout 0\r\n");
    bench.hear("DELETED\r\nTOUCHED\r\nTIMED_OUT\r\n");
    assert_eq!(bench.wait(3 * SECOND), "touch 8\r\n");
    bench.hear("TOUCHED\r\n");
    assert_eq!(bench.wait(3 * SECOND), "", "six seconds after its handler began");
    bench.did();
    bench.wait(6 * SECOND);
    assert_eq!(bench.did()[0], "lost 8: TimeToRun");
    let mut bench = two(&options(1).heartbeat(Heartbeat::Never));
    assert_eq!(bench.wait(3 * SECOND), "touch 8\r\n", "the other one runs");
}

/// An idle slot checks its connection once a second, and sleeps meanwhile.
#[test]
fn a_slot_with_a_running_handler_checks_its_connection_every_second() {
    let mut bench = Bench::running(&options(1), 7, 60);
    let begun = bench.hand.now;
    for second in 1..4 {
        let look = begun + second * SECOND;
        assert_eq!(bench.hand.turn(), Pulse::Rest(Some(look)), "{second}");
        bench.hand.now = look;
        assert_eq!(bench.hand.turn(), Pulse::Peek, "{second}");
        bench.hand.looked();
    }
}

/// The network holds back the second of two reserves for longer than the job's time to run, so both bring the same job.
#[test]
fn a_job_that_comes_twice_runs_once() {
    let mut bench = Bench::connected(&options(1).prefetch(2));
    for job in [1, 2] {
        bench.hear(&reserved(job));
        bench.hear(&counters(job, &as_usual()));
    }
    bench.did();
    let (keys, now) = ([1, 2].map(|job| bench.key(job)), bench.hand.now);
    keys.into_iter().for_each(|key| bench.slot().finish(key, Outcome::Delete, 0, now));
    let said = bench.says();
    assert!(said.ends_with("reserve-with-timeout 15\r\nreserve-with-timeout 0\r\n"), "{said}");
    bench.hand.now += 6 * SECOND;
    bench.hear(&format!("DELETED\r\nDELETED\r\n{}", reserved(3).repeat(2)));
    for _ in 0..2 {
        bench.hear("TOUCHED\r\n");
        bench.hear(&counters(3, &[("ttr", 5)]));
    }
    assert_eq!(bench.did().iter().filter(|did| *did == "run 3").count(), 1);
    assert!(bench.finish(3, Outcome::Delete).starts_with("delete 3\r\n"));
}

#[test]
fn a_job_that_goes_back_before_its_turn_leaves_the_turns_of_the_others() {
    let options = options(1).heartbeat(Heartbeat::AtMost(6 * SECOND)).prefetch(3);
    let mut bench = Bench::running(&options, 7, 9);
    bench.hear(&reserved(8));
    bench.hear(&reserved(9));
    bench.hear(&counters(8, &[("ttr", 9)]));
    bench.hear(&counters(9, &[("ttr", 9)]));
    assert_eq!(bench.did(), ["run 8", "run 9"]);
    let (key, now) = (bench.key(9), bench.hand.now);
    bench.slot().give_back(key, now);
    assert_eq!(bench.says(), "release 9 77 0\r\nreserve-with-timeout 0\r\n");
    bench.hear("RELEASED\r\nTIMED_OUT\r\n");
    assert_eq!(bench.wait(3 * SECOND), "touch 7\r\ntouch 8\r\n");
    bench.hear("TOUCHED\r\nTOUCHED\r\n");
    assert_eq!(bench.wait(3 * SECOND), "touch 8\r\n", "its handler has not begun");
    bench.hear("TOUCHED\r\n");
    assert_eq!(bench.finish(7, Outcome::Delete), "delete 7\r\n");
    bench.hear("DELETED\r\n");
    assert_eq!(bench.wait(3 * SECOND), "touch 8\r\n");
    bench.hear("TOUCHED\r\n");
    assert_eq!(bench.wait(3 * SECOND), "", "its handler began with the end of the first");
    assert!(bench.slot().is_connected());
}

/// Answers may come in another order than the decisions to run a job.
#[test]
fn a_job_whose_counters_come_before_the_answer_to_its_touch_is_run_after_that() {
    let mut bench = Bench::running(&options(1).prefetch(4), 7, 60);
    let said = bench.hear(&reserved(8));
    assert!(said.starts_with("stats-job 8\r\n"), "{said}");
    // The rest of what is under way: one reserve from before, and those that were sent now.
    assert_eq!(bench.hear("DEADLINE_SOON\r\n"), "touch 7\r\ntouch 8\r\n");
    bench.hear(&counters(8, &as_usual()));
    assert!(!bench.did().contains(&"run 8".to_owned()));
    let rest = said.matches("reserve-with-timeout").count();
    bench.hear(&"TIMED_OUT\r\n".repeat(rest));
    bench.hear("TOUCHED\r\n");
    assert!(!bench.did().contains(&"run 8".to_owned()));
    bench.hear("TOUCHED\r\n");
    assert_eq!(bench.did(), ["run 8"]);
}

#[test]
fn a_handler_may_touch_its_job_and_ask_for_its_counters_once_at_a_time() {
    let mut bench = Bench::running(&options(1), 7, 60);
    let (key, now) = (bench.key(7), bench.hand.now);
    for _ in 0..2 {
        bench.slot().touch(key, now);
        bench.slot().look(key, now);
    }
    assert_eq!(bench.says(), "touch 7\r\nstats-job 7\r\n");
    bench.hear("TOUCHED\r\n");
    bench.hear(&counters(7, &as_usual()));
    assert_eq!(bench.did(), ["touched 7", "known 7"]);
    // A job that is lost, or is being settled, is left alone.
    bench.wait(60 * SECOND);
    bench.hear("NOT_FOUND\r\n");
    let now = bench.hand.now;
    bench.slot().touch(key, now);
    bench.slot().look(key, now);
    let said = bench.says();
    assert!(!said.contains("touch") && !said.contains("stats"), "{said}");
}

#[test]
fn a_touch_that_is_refused_is_repeated_once() {
    let mut bench = Bench::running(&options(1), 7, 9);
    bench.wait(3 * SECOND);
    bench.hear("OUT_OF_MEMORY\r\n");
    assert_eq!(bench.did(), ["not touched 7"]);
    assert_eq!(bench.wait(3 * SECOND), "touch 7\r\n");
    bench.hear("OUT_OF_MEMORY\r\n");
    let did = bench.did();
    assert_eq!(did[0], "lost 7: Refused");
    assert!(did[2].starts_with("touch was answered OUT_OF_MEMORY (1 in a row)"), "{did:?}");
}

#[test]
fn a_touch_of_a_missing_job_reports_its_loss() {
    let mut bench = Bench::running(&options(1), 7, 9);
    bench.wait(3 * SECOND);
    bench.hear("NOT_FOUND\r\n");
    let did = bench.did();
    assert_eq!(did[0], "lost 7: NotFound");
    assert!(did[2].starts_with("touch was answered NOT_FOUND (1 in a row)"), "{did:?}");
}

#[test]
fn the_counters_of_a_job_that_was_not_inspected_are_read_after_a_quarter_of_a_second() {
    let mut bench = Bench::connected(&options(1).inspect(Inspect::OnDemand).prefetch(2));
    bench.hear(&reserved(7));
    assert_eq!(bench.did(), ["run 7"]);
    bench.hear("TIMED_OUT\r\n");
    bench.hand.looked();
    let then = bench.hand.now + Duration::from_millis(250);
    assert_eq!(bench.hand.turn().until(), Some(then));
    assert_eq!(bench.wait(Duration::from_millis(249)), "");
    assert_eq!(bench.wait(MILLISECOND), "stats-job 7\r\n");
    assert_eq!(bench.wait(SECOND), "", "once");
    bench.hear(&counters(7, &as_usual()));
    assert_eq!(bench.did(), ["known 7"]);
    // From now on, it is kept alive.
    bench.hand.now = then + 20 * SECOND;
    assert!(bench.says().contains("touch 7\r\n"));
}

#[test]
fn a_short_time_to_run_is_reported_once_per_connection() {
    let warning = "job 7 has a time to run of only 3s";
    for (ttr, warns) in [(3, true), (4, false)] {
        let mut bench = Bench::connected(&options(1));
        bench.hear(&reserved(7));
        bench.hear(&counters(7, &[("ttr", ttr)]));
        assert_eq!(bench.did().iter().any(|did| did == warning), warns, "{ttr}");
        bench.finish(7, Outcome::Delete);
        bench.hear("DELETED\r\n");
        bench.hear(&reserved(8));
        bench.hear(&counters(8, &[("ttr", ttr)]));
        assert_eq!(bench.did(), ["job 7 deleted", "run 8"]);
        bench.lose();
        bench.finish(8, Outcome::Delete);
        bench.opens();
        bench.hear(&server("1a"));
        bench.hear(&reserved(7));
        bench.hear(&counters(7, &[("ttr", ttr)]));
        assert_eq!(bench.did().iter().any(|did| did == warning), warns, "{ttr}");
    }
}

/// It may have been assigned long ago, so its time to run may be over.
#[test]
fn a_job_that_arrives_late_is_touched_and_inspected_before_it_is_run() {
    let mut bench = Bench::connected(&options(1).inspect(Inspect::OnDemand));
    bench.hand.now += Duration::from_millis(250);
    assert_eq!(bench.hear(&reserved(7)), "touch 7\r\nstats-job 7\r\n");
    bench.hear("TOUCHED\r\n");
    assert_eq!(bench.did(), [""; 0], "the handler has nothing of it yet");
    bench.hear(&counters(7, &as_usual()));
    assert_eq!(bench.did(), ["run 7"]);
    let mut bench = Bench::connected(&options(1).inspect(Inspect::OnDemand));
    bench.hand.now += Duration::from_millis(249);
    bench.hear(&reserved(7));
    assert_eq!(bench.did(), ["run 7"]);
}

#[test]
fn a_job_that_turns_out_to_be_expired_is_not_run() {
    let mut bench = Bench::connected(&options(1));
    bench.hear(&reserved(7));
    bench.hand.now += SECOND;
    assert_eq!(bench.hear(&counters(7, &[("ttr", 1)])), "reserve-with-timeout 15\r\n");
    assert_eq!(bench.did().iter().filter(|did| did.starts_with("run")).count(), 0);
    // The same with an outcome that comes too late.
    let mut bench = Bench::running(&options(1).heartbeat(Heartbeat::Never), 7, 9);
    bench.hand.now += 9 * SECOND;
    assert_eq!(bench.finish(7, Outcome::Delete), "reserve-with-timeout 15\r\n");
    assert_eq!(bench.did(), ["lost 7: TimeToRun", EXPIRED]);
    bench.hear(&reserved(7));
    bench.hear("NOT_FOUND\r\n");
    bench.did();
    bench.wait(10 * SECOND);
    for gone in ["NOT_FOUND\r\n", &counters(8, &[("state", "ready")])] {
        bench.hear(&reserved(8));
        bench.hear(gone);
        let did = bench.did();
        assert!(did[0].starts_with("stats-job was answered"), "{did:?}");
        let said = bench.wait(10 * SECOND);
        assert_eq!(said, "reserve-with-timeout 15\r\n", "after a pause");
        bench.did();
    }
}
