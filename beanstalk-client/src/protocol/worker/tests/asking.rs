//! How many jobs a slot asks for, and when it does not.

use super::*;
use crate::{Heartbeat, SlotState};

const LOOK: &str = "reserve-with-timeout 0\r\n";
const RESERVE: &str = "reserve-with-timeout 15\r\n";

#[test]
fn a_slot_asks_for_twice_as_many_jobs_while_there_are_some() {
    let mut bench = Bench::new(&options(1).prefetch(8).inspect(crate::Inspect::OnDemand));
    assert_eq!(bench.opens(), format!("stats\r\n{RESERVE}"), "one that waits");
    bench.hear(&server("1a"));
    assert_eq!(bench.hear(&reserved(1)), LOOK.repeat(2));
    assert_eq!(bench.hear(&reserved(2)), LOOK.repeat(3), "four are under way");
    assert_eq!(bench.hear(&reserved(3)), LOOK.repeat(2), "there is room for eight");
    assert_eq!(bench.hear("TIMED_OUT\r\n"), "", "there are no more");
    for _ in 0..4 {
        bench.hear("TIMED_OUT\r\n");
    }
    assert_eq!(bench.slot().state(), SlotState::Busy(3));
    bench.did();
    // While it holds some, none is asked for.
    assert_eq!(bench.finish(1, Outcome::Delete), "delete 1\r\n");
    assert_eq!(bench.finish(2, Outcome::Delete), "delete 2\r\n");
    assert_eq!(bench.finish(3, Outcome::Delete), format!("delete 3\r\n{RESERVE}"));
}

/// The handler of a lost job still occupies its place.
#[test]
fn a_handler_whose_job_is_lost_keeps_its_place() {
    let options = options(1).heartbeat(Heartbeat::Never);
    let mut bench = Bench::running(&options, 7, 9);
    assert_eq!(bench.wait(9 * SECOND), "");
    assert_eq!(bench.did()[0], "lost 7: TimeToRun");
    bench.hand.now += 10 * SECOND;
    assert_eq!(bench.hear(""), "list-tube-used\r\n");
    assert_eq!(bench.finish(7, Outcome::Delete), RESERVE);

    let mut bench = Bench::running(&options.clone().prefetch(3), 7, 9);
    bench.wait(9 * SECOND);
    bench.did();
    // Of its three places, two are left.
    assert_eq!(bench.hear("TIMED_OUT\r\nTIMED_OUT\r\n"), RESERVE);
    let said = bench.hear(&reserved(8));
    assert_eq!(said, format!("stats-job 8\r\n{LOOK}"));
    bench.hear(&counters(8, &as_usual()));
    let said = bench.hear(&reserved(9));
    assert_eq!(said, "stats-job 9\r\n");
    // The window of those that are asked for at once does not matter.
    let mut bench = Bench::running(&options.prefetch(2), 7, 9);
    bench.hear(&reserved(8));
    bench.hear(&counters(8, &as_usual()));
    bench.did();
    assert_eq!(bench.wait(9 * SECOND), "");
    assert_eq!(bench.finish(8, Outcome::Delete), format!("delete 8\r\n{RESERVE}"));
}

#[test]
fn a_new_connection_starts_from_nothing() {
    let mut bench = Bench::connected(&options(1).prefetch(8).inspect(crate::Inspect::OnDemand));
    bench.hear(&reserved(1));
    bench.hear(&reserved(2));
    bench.did();
    bench.lose();
    bench.finish(1, Outcome::Delete);
    bench.finish(2, Outcome::Delete);
    assert_eq!(bench.opens(), format!("stats\r\n{RESERVE}"), "one at a time");
    // The warning was about a job of the last connection.
    let mut bench = Bench::running(&options(1).prefetch(2), 7, 60);
    bench.hear("DEADLINE_SOON\r\n");
    bench.lose();
    bench.finish(7, Outcome::Delete);
    bench.opens();
    bench.hear(&server("1a"));
    assert_eq!(bench.hear(&reserved(8)), format!("stats-job 8\r\n{LOOK}"));
    bench.hear(&counters(8, &as_usual()));
    assert_eq!(bench.hear("DEADLINE_SOON\r\n"), "touch 8\r\n");
    assert_eq!(bench.hear("TOUCHED\r\n"), LOOK, "it is the first one here");
    // Nor is it known that nothing is ready.
    let shared = WorkerOptions::new("127.0.0.1:1,127.0.0.1:2").unwrap().seed(1);
    let mut bench = Bench::running(&shared.limit(JobLimit::new(5)).prefetch(2), 7, 60);
    bench.hear("TIMED_OUT\r\n");
    bench.lose();
    bench.finish(7, Outcome::Delete);
    assert_eq!(bench.opens(), format!("stats\r\n{LOOK}"));
}

fn until_empty() -> WorkerOptions {
    options(1).until_empty()
}

/// Its job is ready again by then, and may have to be run.
#[test]
fn until_empty_polls_again_after_the_handler_of_a_lost_job() {
    let mut bench = Bench::running(&until_empty().prefetch(2).heartbeat(Heartbeat::Never), 7, 9);
    bench.hear("TIMED_OUT\r\n");
    assert_eq!(bench.wait(9 * SECOND), "", "nothing was ready, and nothing waits");
    assert!(bench.slot().is_connected());
    assert_eq!(bench.finish(7, Outcome::Delete), LOOK);
    bench.hear("TIMED_OUT\r\n");
    assert_eq!(bench.hand.turn(), Pulse::Over);
}

/// The server answers every reserve like that, thousands of times a second.
#[test]
fn a_job_near_its_end_stops_the_reserves_until_it_is_touched() {
    let mut bench = Bench::running(&options(1).prefetch(4), 7, 9);
    assert_eq!(bench.hear("DEADLINE_SOON\r\n"), "touch 7\r\n");
    bench.did();
    assert_eq!(bench.hear("DEADLINE_SOON\r\n"), "", "once for all reserves under way");
    assert_eq!(bench.did(), [""; 0], "it knows which job that is about");
    assert_eq!(bench.hear("TOUCHED\r\n"), LOOK);
    // It goes on although the job was touched: it lasts no longer than a second.
    assert_eq!(bench.hear("DEADLINE_SOON\r\n"), "touch 7\r\n");
    assert_eq!(bench.hear("TOUCHED\r\n"), "");
    assert!(bench.hand.turn().until().is_some_and(|until| until <= bench.hand.now + SECOND));
    assert_eq!(bench.wait(SECOND), LOOK);
    // Once nothing is held, there is nothing to wait for.
    bench.hear("DEADLINE_SOON\r\n");
    assert_eq!(bench.finish(7, Outcome::Delete), format!("delete 7\r\n{RESERVE}"));
    bench.hear("TOUCHED\r\nDELETED\r\n");
    assert_eq!(bench.hear(&reserved(8)), format!("stats-job 8\r\n{LOOK}{LOOK}"));
}

#[test]
fn a_heartbeat_that_is_over_is_not_revived_by_the_end_of_a_reservation() {
    let mut bench = Bench::running(&options(1).prefetch(4).heartbeat(Heartbeat::Never), 7, 9);
    assert_eq!(bench.hear("DEADLINE_SOON\r\nDEADLINE_SOON\r\n"), "");
    assert_eq!(bench.wait(SECOND), LOOK);
    // Lost, the job may still be one that the server holds for this connection.
    let mut bench = Bench::running(&options(1).prefetch(4).heartbeat(Heartbeat::Never), 7, 9);
    bench.wait(9 * SECOND);
    bench.did();
    bench.hear("DEADLINE_SOON\r\n");
    assert_eq!(bench.did(), [""; 0]);
    assert_eq!(bench.hear("DEADLINE_SOON\r\n"), "");
}

/// A server that answers at once that it has waited would be asked again thousands of times a second.
#[test]
fn a_reserve_that_ends_much_too_early_is_followed_by_a_pause() {
    let refused = |waited: Duration| {
        let mut bench = Bench::connected(&options(1));
        bench.hand.now += waited;
        let said = bench.hear("TIMED_OUT\r\n");
        let did = bench.did();
        assert_eq!(said.is_empty(), !did.is_empty(), "{said} {did:?}");
        !did.is_empty()
    };
    assert!(refused(Duration::ZERO) && refused(7 * SECOND));
    assert!(!refused(7 * SECOND + SECOND / 2) && !refused(15 * SECOND));
    // Each is longer than the one before, until one has waited.
    let mut bench = Bench::connected(&options(1));
    let early = |bench: &mut Bench, nth: u32| {
        bench.hear("TIMED_OUT\r\n");
        let expected = format!("reserve-with-timeout was answered TIMED_OUT ({nth} in a row)");
        let did = bench.did();
        assert!(did[0].starts_with(&expected), "{did:?}");
        assert_eq!(bench.wait(10 * SECOND), RESERVE);
    };
    early(&mut bench, 1);
    early(&mut bench, 2);
    bench.hand.now += 15 * SECOND;
    assert_eq!(bench.hear("TIMED_OUT\r\n"), RESERVE);
    early(&mut bench, 1);
    // What a stop has ended early is as it should be.
    bench.stop();
    bench.did();
    bench.hear("TIMED_OUT\r\n");
    assert_eq!(bench.did(), [""; 0]);
}

fn limited(limit: &JobLimit) -> WorkerOptions {
    options(1).limit(limit.clone())
}

#[test]
fn slots_ask_for_no_more_jobs_than_are_left_and_end_with_the_last() {
    let limit = JobLimit::new(1);
    let mut one = Bench::connected(&limited(&limit));
    let mut other = Bench::new(&limited(&limit));
    assert_eq!(other.opens(), "stats\r\n", "the only job is asked for");
    other.hear(&server("1a"));
    let soon = other.hand.now + Duration::from_millis(10);
    assert_eq!(other.hand.turn().until(), Some(soon));
    other.hand.now += Duration::from_millis(5);
    assert_eq!(other.hand.turn().until(), Some(soon));
    one.hear(&reserved(7));
    assert!(limit.is_reached());
    other.hand.now = soon;
    assert_eq!(other.hand.turn(), Pulse::Over, "the job is another's");
    one.hear(&counters(7, &as_usual()));
    one.did();
    assert_eq!(one.finish(7, Outcome::Delete), "delete 7\r\n");
    assert!(one.slot().is_connected());
    one.hear("DELETED\r\n");
    assert_eq!(one.hand.turn(), Pulse::Over);
    // One without a connection makes none.
    assert_eq!(Bench::new(&limited(&limit)).hand.turn(), Pulse::Over);
}

#[test]
fn a_slot_that_finds_nothing_leaves_its_share_to_another() {
    let limit = JobLimit::new(1);
    let mut one = Bench::connected(&limited(&limit));
    let mut other = Bench::connected(&limited(&limit));
    other.hand.now = one.hand.now;
    assert_eq!(other.says(), "");
    one.hand.now += 15 * SECOND;
    other.hand.now = one.hand.now;
    assert_eq!(one.hear("TIMED_OUT\r\n"), "", "it is the other's turn");
    assert_eq!(other.says(), RESERVE);
    one.hand.now += Duration::from_millis(20);
    one.hand.looked();
    let again = one.hand.now + Duration::from_millis(10);
    assert_eq!(one.hand.turn(), Pulse::Rest(Some(again)));
    one.hand.now = again - Duration::from_millis(10);
    assert_eq!(one.says(), "");
    // A lost connection asks for nothing any more.
    other.lose();
    assert_eq!(one.wait(Duration::from_millis(10)), RESERVE);
}

/// The limit was reached while the connection was made.
#[test]
fn a_late_slot_identifies_its_server_and_ends() {
    let limit = JobLimit::new(1);
    let mut one = Bench::connected(&limited(&limit));
    let mut late = Bench::new(&limited(&limit));
    late.hand.turn();
    one.hear(&reserved(7));
    late.hand.opens();
    assert_eq!(late.says(), "stats\r\n");
    assert!(matches!(late.hand.turn(), Pulse::Go(_)));
    late.hear(&server("1a"));
    assert_eq!(late.hand.turn(), Pulse::Over);
}

#[test]
fn a_slot_wakes_the_waiters_for_the_last_job() {
    let limit = JobLimit::new(1);
    let mut one = Bench::connected(&limited(&limit));
    let mut other = Bench::connected(&limited(&limit));
    let task = std::sync::Arc::new(queue_core::proof::Woken::default());
    other.slot().wake_when_enough(&task.clone().into());
    one.hear(&reserved(7));
    one.hand.turn();
    assert_eq!(task.count(), 1);
    assert_eq!(std::sync::Arc::strong_count(&task), 1, "it is not kept");
}

#[test]
fn receiving_a_held_job_again_means_it_expired() {
    let options = options(1).prefetch(2).inspect(crate::Inspect::OnDemand);
    for (age, again) in [(250, true), (249, false)] {
        let mut bench = Bench::taken(&options, 7);
        bench.hand.now += Duration::from_millis(age);
        bench.hear(&reserved(7));
        let did = bench.did();
        assert_eq!(did.first().is_some_and(|did| did == "lost 7: TimeToRun"), again, "{did:?}");
        assert_eq!(did.iter().any(|did| did.contains("was answered RESERVED")), again, "{did:?}");
    }
    // Another job says nothing about it.
    let mut bench = Bench::taken(&options, 7);
    bench.hand.now += Duration::from_millis(250);
    bench.hear(&reserved(8));
    assert_eq!(bench.did(), [""; 0]);
}

/// A reserve that waits for a job would keep its share of the limit from a server with jobs.
#[test]
fn a_slot_with_a_shared_limit_polls_before_it_waits() {
    let (one, two) = ("127.0.0.1:1", "127.0.0.1:1,127.0.0.1:2");
    for (servers, limit, waits) in
        [(two, Some(5), ["0", "1"]), (two, None, ["15"; 2]), (one, Some(5), ["15"; 2])]
    {
        let mut options = WorkerOptions::new(servers).unwrap().seed(1);
        if let Some(jobs) = limit {
            options = options.limit(JobLimit::new(jobs));
        }
        let mut bench = Bench::new(&options);
        let first = bench.opens();
        bench.hear(&server("1a"));
        bench.hand.now += 15 * SECOND;
        let mut next = bench.hear("TIMED_OUT\r\n");
        while next.is_empty() {
            next = bench.wait(Duration::from_millis(10));
        }
        let reserves = waits.map(|wait| format!("reserve-with-timeout {wait}\r\n"));
        assert_eq!([first.strip_prefix("stats\r\n").unwrap(), &next], reserves, "{limit:?}");
    }
}
