//! How jobs end, how the slot is stopped, and what follows on a connection.

use std::sync::{Arc, Mutex};

use super::*;
use crate::{Inspect, LostReason, SlotState};

/// It has no memory to queue it.
#[test]
fn a_server_may_bury_a_job_that_is_released() {
    let mut bench = Bench::running(&options(1), 7, 60);
    let said = bench.finish(7, Outcome::retry_after(9 * SECOND));
    assert_eq!(said, "release 7 77 9\r\nreserve-with-timeout 15\r\n");
    bench.hear("BURIED\r\n");
    assert_eq!(bench.did(), ["job 7 buried"]);
    assert!(bench.slot().is_connected());
}

#[test]
fn only_failures_are_counted() {
    for (outcome, said) in [
        (Outcome::Retry, "bury 7 77"),
        (Outcome::retry_after(9 * SECOND), "bury 7 77"),
        (Outcome::defer(9 * SECOND), "release 7 77 9"),
    ] {
        let options = options(1).retries(Retries::default().releases(0));
        let mut bench = Bench::running(&options, 7, 60);
        assert_eq!(bench.finish(7, outcome).lines().next(), Some(said));
    }
}

#[test]
fn a_job_that_is_no_longer_held_when_it_is_settled_is_lost_and_followed_by_a_pause() {
    for (outcome, verb) in
        [(Outcome::Delete, "delete"), (Outcome::Retry, "release"), (Outcome::bury(), "bury")]
    {
        let mut bench = Bench::running(&options(1), 7, 60);
        bench.finish(7, outcome);
        bench.hear("NOT_FOUND\r\nTIMED_OUT\r\n");
        let did = bench.did();
        assert!(
            did[0].starts_with(&format!("{verb} was answered NOT_FOUND (1 in a row)")),
            "{did:?}"
        );
        assert_eq!(did[1], format!("job 7 lost: {}", LostReason::NotFound));
        let Some(until) = bench.hand.turn().until() else { panic!("it goes on later") };
        assert!(until > bench.hand.now);
    }
}

#[test]
fn an_outcome_that_needs_the_priority_of_the_job_waits_for_its_counters() {
    let mut bench = Bench::taken(&options(1).inspect(Inspect::OnDemand), 7);
    assert_eq!(bench.finish(7, Outcome::bury()), "stats-job 7\r\n");
    assert_eq!(bench.hear(&counters(7, &as_usual())), "bury 7 77\r\nreserve-with-timeout 15\r\n");
    // While it is certainly held, nothing else has to be known for a delete.
    let mut bench = Bench::taken(&options(1).inspect(Inspect::OnDemand), 7);
    bench.hand.now += Duration::from_millis(249);
    assert!(bench.finish(7, Outcome::Delete).starts_with("delete 7\r\n"));
    // Later, the time to run may have expired, and the job may be another's.
    let mut bench = Bench::taken(&options(1).inspect(Inspect::OnDemand), 7);
    bench.hand.now += Duration::from_millis(250);
    assert_eq!(bench.finish(7, Outcome::Delete), "stats-job 7\r\n");
    let said = bench.hear(&counters(7, &as_usual()));
    assert!(said.starts_with("delete 7\r\n"), "{said}");
}

#[test]
fn an_idle_slot_that_is_stopped_ends_its_reserve_and_then_itself() {
    let mut bench = Bench::connected(&options(1));
    bench.stop();
    let until = bench.hand.now + 2 * SECOND;
    assert_eq!(bench.hand.turn(), Pulse::HalfClose(Some(until)));
    // The server answers the reserve, and hangs up.
    bench.hear("TIMED_OUT\r\n");
    bench.hand.loses(std::io::ErrorKind::UnexpectedEof);
    assert_eq!(bench.hand.turn(), Pulse::Over);
    assert_eq!(bench.did(), ["hand back"], "nothing has failed");
    assert_eq!(bench.slot().state(), SlotState::Ended);
    // A job that it had assigned goes back with the connection.
    let mut bench = Bench::connected(&options(1));
    bench.stop();
    bench.hear(&reserved(7));
    assert_eq!(bench.did(), ["hand back", "job 7 abandoned"]);
    // A silent server is waited for, but not for ever.
    let mut bench = Bench::connected(&options(1));
    bench.stop();
    bench.wait(2 * SECOND - Duration::from_millis(1));
    assert!(bench.slot().is_connected());
    bench.wait(Duration::from_millis(1));
    assert!(!bench.slot().is_connected());
}

#[test]
fn a_connection_that_is_made_after_a_stop_asks_for_nothing() {
    let mut bench = Bench::new(&options(1));
    assert!(matches!(bench.hand.turn(), Pulse::Dial { .. }));
    let now = bench.hand.now;
    bench.slot().stop(now);
    bench.hand.opens();
    assert_eq!(bench.says(), "stats\r\n");
    assert!(matches!(bench.hand.turn(), Pulse::HalfClose(_)));
}

#[test]
fn an_immediate_stop_abandons_running_jobs() {
    let mut bench = Bench::running(&options(1), 7, 60);
    let now = bench.hand.now;
    bench.slot().stop_now(now);
    assert_eq!(bench.hand.turn(), Pulse::Over);
    assert_eq!(bench.did(), ["hand back", "lost 7: Stopped", "job 7 abandoned"]);
    // The answer to its last command may be on its way.
    let mut bench = Bench::running(&options(1), 7, 60);
    bench.finish(7, Outcome::Delete);
    let now = bench.hand.now;
    bench.slot().stop_now(now);
    bench.says();
    assert_eq!(bench.did(), ["hand back", "job 7 unknown"]);
    // It has not run.
    let mut bench = Bench::connected(&options(1));
    bench.hear(&reserved(7));
    let now = bench.hand.now;
    bench.slot().stop_now(now);
    bench.says();
    assert_eq!(bench.did(), ["hand back", "job 7 abandoned"]);
}

#[test]
fn a_job_that_a_stop_finds_being_inspected_is_released_as_it_was() {
    let mut bench = Bench::connected(&options(1));
    bench.hear(&reserved(7));
    assert_eq!(bench.stop(), "");
    assert_eq!(bench.hear(&counters(7, &as_usual())), "release 7 77 0\r\n");
    bench.hear("RELEASED\r\n");
    assert_eq!(bench.did(), ["hand back", "job 7 abandoned"]);
    assert_eq!(bench.hand.turn(), Pulse::Over);
    // The counters were on their way when the stop came.
    let mut bench = Bench::connected(&options(1));
    bench.hear(&reserved(7));
    let now = bench.hand.now;
    bench.slot().stop(now);
    assert_eq!(bench.hear(&counters(7, &as_usual())), "release 7 77 0\r\n");
    assert_eq!(bench.did(), ["hand back"], "it is not run");
}

/// The handler of a lost job can be helped no more, but it has until the end of the grace, whether the connection
/// stands or not.
#[test]
fn a_stopped_slot_waits_for_the_handler_of_a_lost_job() {
    let mut bench = Bench::running(&options(1).grace(5 * SECOND), 7, 60);
    bench.lose();
    bench.did();
    bench.stop();
    let end = bench.hand.now + 5 * SECOND;
    assert_eq!(bench.hand.turn(), Pulse::Close(Some(end)));
    assert_eq!(bench.slot().state(), SlotState::BackingOff);
    bench.finish(7, Outcome::Delete);
    assert_eq!(bench.hand.turn(), Pulse::Over);

    let mut bench = Bench::running(&options(1).grace(5 * SECOND), 7, 60);
    bench.stop();
    bench.lose();
    assert_eq!(bench.slot().state(), SlotState::BackingOff);
    bench.hand.now = end.max(bench.hand.now + 5 * SECOND);
    assert_eq!(bench.hand.turn(), Pulse::Over);

    let late = options(1).grace(20 * SECOND).heartbeat(crate::Heartbeat::Never);
    let mut bench = Bench::running(&late, 7, 3);
    bench.wait(3 * SECOND);
    assert_eq!(bench.did()[0], "lost 7: TimeToRun");
    bench.stop();
    assert_eq!(bench.wait(19 * SECOND), "");
    assert_eq!(bench.slot().state(), SlotState::BackingOff);
    bench.finish(7, Outcome::Delete);
    assert_eq!(bench.hand.turn(), Pulse::Over);
}

#[test]
fn a_connection_starts_with_the_watch_list() {
    for (tubes, said) in [
        (&["default"][..], ""),
        (&["mail"], "watch mail\r\nignore default\r\n"),
        (&["mail", "default"], "watch mail\r\n"),
        (&["a", "b"], "watch a\r\nwatch b\r\nignore default\r\n"),
    ] {
        let mut bench = Bench::watching(&options(1), tubes);
        assert_eq!(bench.opens(), format!("stats\r\n{said}reserve-with-timeout 15\r\n"));
        bench.hear(&server("1a"));
        assert_eq!(bench.did(), ["connected 1a"]);
        assert_eq!(bench.slot().state(), SlotState::Waiting);
        bench.lose();
        assert_eq!(bench.opens(), format!("stats\r\n{said}reserve-with-timeout 15\r\n"));
    }
    let mut bench = Bench::watching(&options(1), &["a"]);
    bench.opens();
    bench.hear(&server("1a"));
    bench.hear("OUT_OF_MEMORY\r\n");
    assert!(!bench.slot().is_connected(), "it would take jobs from other tubes");
}

fn with_dead_letter(retries: Retries) -> WorkerOptions {
    options(1).retries(retries).dead_letter("dead".parse().unwrap())
}

/// No reserve waits meanwhile: the server would not read the delete.
#[test]
fn a_dead_job_is_deleted_once_its_copy_is_there() {
    let options = with_dead_letter(Retries::default().releases(0));
    let (dead, buried) = ("delete 7\r\n", "bury 7 77\r\n");
    for (answer, last, done) in [
        ("INSERTED 9", dead, "DELETED"),
        ("BURIED 9", dead, "DELETED"),
        ("DRAINING", buried, "BURIED"),
        ("JOB_TOO_BIG", buried, "BURIED"),
        // To use the tube: the copy would go into another one.
        ("OUT_OF_MEMORY", buried, "BURIED"),
    ] {
        let mut bench = Bench::connected(&options);
        bench.hear(&reserved(7));
        bench.hear(&counters(7, &[("reserves", 3)]));
        bench.did();
        assert_eq!(bench.finish(7, Outcome::Retry.because("disk full")), "use dead\r\n");
        if answer != "OUT_OF_MEMORY" {
            assert_eq!(bench.hear("USING dead\r\n"), "put 77 0 60 4\r\nbody\r\n");
        }
        assert!(bench.hear(&format!("{answer}\r\n")).starts_with(last), "{answer}");
        bench.hear(&format!("{done}\r\n"));
        let did = bench.did().join("; ");
        let said = match last == dead {
            true => {
                "job 7 went to the dead-letter tube after 3 attempts: disk full; job 7 dead-lettered"
            }
            false => "job 7 buried",
        };
        assert!(did.ends_with(said), "{answer}: {did}");
        assert_eq!(did.contains("was answered"), last == buried, "{did}");
    }
}

#[test]
fn a_job_whose_copy_may_not_be_there_is_kept() {
    let mut bench = Bench::connected(&with_dead_letter(Retries::default()));
    bench.hear(&reserved(7));
    bench.hear(&counters(7, &as_usual()));
    bench.did();
    bench.finish(7, Outcome::bury());
    // It is kept alive meanwhile.
    assert_eq!(bench.wait(20 * SECOND), "touch 7\r\n");
    bench.lose();
    let did = bench.did().join("; ");
    assert!(did.contains("job 7 lost: the connection was lost"), "{did}");
}

#[test]
fn a_job_that_is_not_run_goes_to_the_dead_letter_tube() {
    let mut bench = Bench::connected(&with_dead_letter(Retries::default().reserves(2)));
    bench.hear(&reserved(7));
    assert_eq!(bench.hear(&counters(7, &[("reserves", 3)])), "use dead\r\n");
    assert_eq!(bench.hear("USING dead\r\n"), "put 77 0 60 4\r\nbody\r\n");
    bench.hear("INSERTED 9\r\n");
    bench.hear("DELETED\r\n");
    let did = bench.did().join("; ");
    assert!(did.contains("3 attempts: it was reserved 3 times without a release"), "{did}");
}

#[test]
fn a_job_knows_its_tube_before_it_runs() {
    for (tubes, of, asked) in
        [(&["mail"][..], "mail", ""), (&["mail", "sms"], "sms", "stats-job 7")]
    {
        let mut bench = Bench::watching(&options(1).inspect(Inspect::OnDemand), tubes);
        bench.opens();
        bench.hear(&server("1a"));
        tubes.iter().for_each(|_| drop(bench.hear("WATCHING 2\r\n")));
        bench.hear("WATCHING 1\r\n");
        assert_eq!(bench.hear(&reserved(7)).lines().next().unwrap_or_default(), asked);
        if !asked.is_empty() {
            bench.hear(&counters_in(of, 7, &as_usual()));
        }
        let taken =
            std::iter::from_fn(|| bench.slot().next_action()).find_map(|action| match action {
                Action::Run(taken) => Some(taken),
                _ => None,
            });
        assert_eq!(taken.unwrap().tube, *of);
    }
}

#[test]
fn a_job_of_another_tube_ends_the_connection() {
    let mut bench = Bench::watching(&options(1), &["default", "sms"]);
    bench.opens();
    bench.hear(&server("1a"));
    bench.hear("WATCHING 2\r\n");
    bench.hear(&reserved(7));
    bench.hear(&counters_in("mail", 7, &as_usual()));
    assert!(!bench.slot().is_connected(), "no handler of this worker is for it");
}

/// It would run the job a second time, next to a handler that cannot be told to stop.
#[test]
fn a_slot_whose_connection_is_lost_makes_another_when_its_handler_has_ended() {
    for (end, why) in [
        (std::io::ErrorKind::ConnectionReset, "the connection was lost"),
        (std::io::ErrorKind::UnexpectedEof, "the server closed the connection"),
    ] {
        let mut bench = Bench::running(&options(1), 7, 60);
        bench.hand.loses(end);
        bench.hand.turn();
        bench.hand.now += 3600 * SECOND;
        assert_eq!(bench.hand.turn(), Pulse::Close(None));
        assert!(!bench.slot().is_connected());
        let did = bench.did();
        assert_eq!(did[0], "lost 7: ConnectionLost");
        assert!(did[2].starts_with(&format!("disconnected: {why}")), "{did:?}");
        assert_eq!(did[3], "hand back");
        bench.finish(7, Outcome::Delete);
        assert_eq!(bench.did(), [""; 0], "its outcome is not sent");
        assert_eq!(bench.opens(), "stats\r\nreserve-with-timeout 15\r\n");
        let metrics = bench.slot().take_metrics();
        assert_eq!((metrics.connections, metrics.reconnects), (2, 1));
        assert_eq!(bench.slot().take_metrics().connections, 0, "since the last call");
    }
}

/// The longest pause before a new connection, if each one ends like this.
fn longest_pause(end: impl Fn(&mut Bench)) -> Duration {
    let (base, cap) = (Duration::from_millis(100), 100 * SECOND);
    let mut bench = Bench::new(&options(1).reconnect_backoff(base, cap));
    let mut longest = Duration::ZERO;
    for _ in 0..20 {
        let before = bench.hand.now;
        bench.opens();
        longest = longest.max(bench.hand.now - before);
        end(&mut bench);
        if bench.slot().is_connected() {
            bench.lose();
        }
    }
    longest
}

#[test]
fn a_server_that_keeps_closing_is_retried_less_unless_it_served() {
    let base = Duration::from_millis(100);
    let serves = |bench: &mut Bench| {
        bench.hear(&server("1a"));
        bench.hear(&reserved(7));
        bench.hear(&counters(7, &as_usual()));
        bench.did();
        bench.finish(7, Outcome::Delete);
        bench.hear("DELETED\r\n");
    };
    assert!(longest_pause(serves) <= base, "it has served");
    let lasts = |bench: &mut Bench| {
        bench.hear(&server("1a"));
        bench.wait(SECOND);
    };
    assert!(longest_pause(lasts) <= base, "it has lasted");
    assert!(longest_pause(|bench| drop(bench.hear(&server("1a")))) > SECOND, "it only greets");
    assert!(longest_pause(|bench| drop(bench.wait(SECOND))) > SECOND, "it does not even greet");
}

#[test]
fn the_fate_of_a_job_is_unknown_only_if_its_last_command_was_sent_whole() {
    let lost = "lost: the connection was lost";
    for (sent, fate) in [(0, lost), ("delete 7\r".len(), lost), ("delete 7\r\n".len(), "unknown")] {
        let mut bench = Bench::running(&options(1), 7, 60);
        let (key, now) = (bench.key(7), bench.hand.now);
        bench.slot().finish(key, Outcome::Delete, 0, now);
        bench.hand.turn();
        bench.hand.takes(sent);
        bench.lose();
        assert_eq!(bench.did()[0], format!("job 7 {fate}"));
        assert_eq!(bench.opens(), "stats\r\nreserve-with-timeout 15\r\n");
        bench.hear(&server("1a"));
        assert_eq!(bench.slot().state(), SlotState::Waiting);
    }
}

/// The handler has asked for a delay that no server understands.
#[test]
fn a_job_whose_outcome_cannot_be_sent_goes_back_with_the_connection() {
    let mut bench = Bench::running(&options(1), 7, 60);
    bench.finish(7, Outcome::defer(Duration::MAX));
    assert!(!bench.slot().is_connected());
    let did = bench.did();
    assert_eq!(did[0], "job 7 lost: the connection was lost", "nothing was sent");
    assert!(did[1].starts_with("disconnected: "), "{did:?}");
}

#[test]
fn a_reserve_gets_the_reply_timeout_on_top_of_its_own() {
    let connect: ConnectOptions = "127.0.0.1:1".parse().unwrap();
    let options = WorkerOptions::from(connect.reply_timeout(10 * SECOND)).seed(1);
    let mut bench = Bench::connected(&options);
    let late = bench.hand.now + 25 * SECOND;
    assert_eq!(bench.hand.turn(), Pulse::Go(Some(late)));
    bench.hand.now = late;
    bench.hand.turn();
    assert!(!bench.slot().is_connected());
    assert!(bench.did()[0].starts_with("disconnected: "));
    // The server begins with it when it has answered what was before.
    let mut bench = Bench::new(&options);
    bench.opens();
    bench.hand.now += 9 * SECOND;
    bench.hear(&server("1a"));
    assert_eq!(bench.hand.turn(), Pulse::Go(Some(bench.hand.now + 25 * SECOND)));
}

#[test]
fn a_slot_resumes_with_received_data_after_sigstop() {
    let mut bench = Bench::connected(&options(1));
    bench.hand.now += 3600 * SECOND;
    assert_eq!(bench.hear(&reserved(7)), "touch 7\r\nstats-job 7\r\n");
    bench.hear("TOUCHED\r\n");
    bench.hear(&counters(7, &as_usual()));
    assert_eq!(bench.did(), ["run 7"]);
}

#[test]
fn the_commands_of_a_worker_are_measured_with_their_failures() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = seen.clone();
    let options = options(1).on_measurement(move |seen| {
        let error = seen.error_type().unwrap_or("well");
        notes.lock().unwrap().push(format!("{} {error}", seen.operation()));
    });
    let take = || std::mem::take(&mut *seen.lock().unwrap());
    let mut bench = Bench::running(&options, 7, 60);
    assert_eq!(take(), ["reserve-with-timeout well"]);
    bench.finish(7, Outcome::Delete);
    bench.hear("DELETED\r\n");
    assert_eq!(take(), ["delete well"]);
    bench.hear(&reserved(8));
    bench.hear(&counters(8, &as_usual()));
    bench.did();
    take();
    bench.finish(8, Outcome::Delete);
    bench.hear("NOT_FOUND\r\n");
    assert_eq!(take(), ["delete not_found"]);
    bench.lose();
    assert_eq!(take(), ["reserve-with-timeout connection_lost"]);
}
