//! A connection is lost while the handler of a job runs, and the next one may take the job back.

use super::*;
use crate::SlotState;

fn reclaiming() -> WorkerOptions {
    options(1).reclaim(true)
}

/// The handler of job 7 runs, its connection is lost, and the next one is to the same server.
fn back(options: &WorkerOptions) -> Bench {
    let mut bench = Bench::running(options, 7, 60);
    bench.lose();
    bench.did();
    assert_eq!(bench.opens(), "stats\r\n", "it asks for no other job");
    assert_eq!(bench.hear(&server("1a")), "stats-job 7\r\n");
    assert_eq!(bench.did(), ["connected 1a"]);
    bench
}

/// The same, and the server has the job ready as it was.
fn retaking(options: &WorkerOptions) -> Bench {
    let mut bench = back(options);
    assert_eq!(bench.hear(&counters(7, &[("state", "ready")])), "reserve-job 7\r\nstats-job 7\r\n");
    bench
}

const LOST: [&str; 2] = ["lost 7: ConnectionLost", "job 7 lost: the connection was lost"];

#[test]
fn a_job_that_nobody_had_in_the_meantime_is_held_again_and_its_outcome_counts() {
    let mut bench = Bench::running(&reclaiming(), 7, 60);
    bench.lose();
    assert_eq!(bench.did()[1..], ["hand back"], "the handler knows nothing of it");
    assert!(bench.slot().helps_handlers() && !bench.slot().is_connected());
    bench.hand.now += 25 * SECOND;
    bench.opens();
    bench.hear(&server("1a"));
    assert_eq!(bench.hear(&counters(7, &[("state", "ready")])), "reserve-job 7\r\nstats-job 7\r\n");
    let did = bench.did();
    assert!(!did.iter().any(|did| did.starts_with("lost")), "{did:?}");
    let sent = bench.hand.now;
    bench.hand.now += SECOND;
    bench.hand.comes(reserved(7).as_bytes());
    bench.hear(&counters(7, &[("reserves", 2)]));
    let actions = std::iter::from_fn(|| bench.slot().next_action()).collect::<Vec<_>>();
    let end = sent + 60 * SECOND;
    assert!(matches!(actions[0], Action::Update(_, Change::Touched(Some(at))) if at == end));
    assert!(matches!(actions[1], Action::Tell(WorkerEventKind::Reclaimed(id)) if id == 7.into()));
    assert_eq!(actions.len(), 2);
    assert_eq!(bench.slot().state(), SlotState::Busy(1));
    // From now on it is kept alive as before, and taken back as before.
    bench.hand.now = sent + 20 * SECOND;
    assert_eq!(bench.says(), "touch 7\r\n");
    bench.hear("TOUCHED\r\n");
    bench.lose();
    bench.opens();
    bench.hear(&server("1a"));
    let ready = [("state", "ready"), ("reserves", "2")];
    assert_eq!(bench.hear(&counters(7, &ready)), "reserve-job 7\r\nstats-job 7\r\n");
    bench.hear(&reserved(7));
    bench.hear(&counters(7, &[("reserves", 3)]));
    bench.did();
    assert_eq!(bench.finish(7, Outcome::Delete), "delete 7\r\nreserve-with-timeout 15\r\n");
    bench.hear("DELETED\r\n");
    assert_eq!(bench.did(), ["job 7 deleted"]);
}

#[test]
fn a_server_that_has_not_noticed_the_loss_is_asked_again_four_times_a_second() {
    let mut bench = back(&reclaiming());
    for _ in 0..3 {
        assert_eq!(bench.hear(&counters(7, &as_usual())), "");
        let again = bench.hand.now + Duration::from_millis(250);
        assert_eq!(bench.hand.turn().until(), Some(again));
        assert_eq!(bench.wait(Duration::from_millis(249)), "");
        assert_eq!(bench.wait(Duration::from_millis(1)), "stats-job 7\r\n");
    }
    assert_eq!(bench.did(), [""; 0]);
    assert_eq!(bench.hear(&counters(7, &[("state", "ready")])), "reserve-job 7\r\nstats-job 7\r\n");
}

/// Whatever happened to the job, one of its counters tells it.
#[test]
fn a_job_that_somebody_else_had_or_changed_is_lost() {
    for change in [
        ("state", "buried"),
        ("reserves", "2"),
        ("reserves", "0"),
        ("timeouts", "1"),
        ("releases", "1"),
        ("buries", "1"),
        ("kicks", "1"),
        ("tube", "other"),
        ("pri", "78"),
        ("ttr", "61"),
        ("age", "4"),
    ] {
        let mut bench = back(&reclaiming());
        let ready = [("state", "ready"), change];
        let changes = if change.0 == "state" { &ready[1..] } else { &ready };
        assert_eq!(bench.hear(&counters(7, changes)), "", "{change:?}");
        assert_eq!(bench.did(), LOST, "{change:?}");
        assert_eq!(bench.finish(7, Outcome::Delete), "reserve-with-timeout 15\r\n");
    }
    let mut bench = back(&reclaiming());
    bench.hear("NOT_FOUND\r\n");
    assert_eq!(bench.did(), LOST);
}

#[test]
fn another_server_and_one_that_does_not_say_who_it_is_have_other_jobs() {
    for (first, next) in [("1a", "1b"), ("1a", ""), ("", "")] {
        let greeting =
            |id: &str| if id.is_empty() { "UNKNOWN_COMMAND\r\n".into() } else { server(id) };
        let mut bench = Bench::new(&reclaiming());
        bench.opens();
        bench.hear(&greeting(first));
        bench.hear(&reserved(7));
        bench.hear(&counters(7, &as_usual()));
        bench.did();
        bench.lose();
        let did = bench.did();
        if first.is_empty() {
            assert!(did.starts_with(&LOST.map(String::from)), "{did:?}");
            continue;
        }
        bench.opens();
        assert_eq!(bench.hear(&greeting(next)), "", "{next}");
        assert_eq!(bench.did(), [LOST[0], LOST[1], &format!("connected {next}")]);
    }
}

#[test]
fn a_job_that_cannot_be_reserved_again_is_lost() {
    for refusal in ["NOT_FOUND\r\n", "UNKNOWN_COMMAND\r\n"] {
        let mut bench = retaking(&reclaiming());
        bench.hear(refusal);
        assert_eq!(bench.did(), LOST, "{refusal}");
        bench.hear(&counters(7, &[("state", "ready")]));
        assert_eq!(bench.did(), [""; 0]);
    }
    let mut bench = retaking(&reclaiming());
    bench.hear(&reserved(7));
    bench.hear(&counters(7, &[("state", "ready"), ("reserves", "2")]));
    assert_eq!(bench.did(), LOST, "it is not reserved");
}

/// The body is known, so it does not matter what becomes of it.
#[test]
fn a_job_is_held_again_whatever_its_body_is_like_now() {
    let mut small: ConnectOptions = "127.0.0.1:1".parse().unwrap();
    small = small.max_body_size(4);
    let options = WorkerOptions::from(small).seed(1).reclaim(true);
    for body in ["RESERVED 7 5\r\nlarge\r\n", "RESERVED 7 4\r\nbody\0\0"] {
        let mut bench = retaking(&options);
        bench.hear(body);
        bench.hear(&counters(7, &[("reserves", 2)]));
        assert_eq!(bench.did(), ["touched 7", "job 7 was reclaimed"], "{body}");
        assert!(bench.finish(7, Outcome::Delete).starts_with("delete 7\r\n"));
    }
}

/// Between the check and the reservation, another worker had the job: it is in the state in which that one left it.
#[test]
fn a_job_that_another_worker_had_just_before_is_put_back_as_it_was() {
    for (change, said) in [
        (("timeouts", 1), "release 7 5 0\r\n"),
        (("releases", 1), "release 7 5 30\r\n"),
        (("buries", 1), "bury 7 5\r\n"),
    ] {
        let mut bench = retaking(&reclaiming());
        bench.hear(&reserved(7));
        let found = [("reserves", 3), ("pri", 5), ("delay", 30), change];
        let answer = bench.hear(&counters(7, &found));
        assert_eq!(answer, said);
        assert_eq!(bench.did(), LOST);
    }
}

#[test]
fn the_outcome_of_a_handler_that_ended_without_a_connection_is_sent_on_the_next() {
    let mut bench = Bench::running(&reclaiming(), 7, 60);
    bench.lose();
    bench.finish(7, Outcome::Delete);
    assert_eq!(bench.did()[1..], ["hand back"]);
    bench.opens();
    bench.hear(&server("1a"));
    bench.hear(&counters(7, &[("state", "ready")]));
    bench.hear(&reserved(7));
    assert!(bench.hear(&counters(7, &[("reserves", 2)])).starts_with("delete 7\r\n"));
    // If the job is lost after all, its handler need not be told.
    let mut bench = Bench::running(&reclaiming(), 7, 60);
    bench.lose();
    bench.finish(7, Outcome::Delete);
    bench.opens();
    bench.did();
    bench.hear(&server("1b"));
    assert_eq!(bench.did(), [LOST[1], "connected 1b"]);
}

/// It was given to the face, which had not started its handler.
#[test]
fn a_job_that_was_only_prefetched_is_not_taken_back() {
    let mut bench = Bench::connected(&reclaiming().prefetch(2));
    assert_eq!(bench.hear(&reserved(7)), "stats-job 7\r\nreserve-with-timeout 0\r\n");
    bench.hear(&counters(7, &as_usual()));
    bench.hear(&reserved(8));
    bench.hear(&counters(8, &as_usual()));
    assert_eq!(bench.did(), ["run 7", "run 8"]);
    bench.lose();
    bench.did();
    let (key, now) = (bench.key(8), bench.hand.now);
    bench.slot().give_back(key, now);
    assert_eq!(bench.did(), ["job 8 lost: the connection was lost"]);
    bench.opens();
    assert_eq!(bench.hear(&server("1a")), "stats-job 7\r\n");
}

#[test]
fn a_job_is_given_up_when_its_reservation_would_have_expired() {
    let mut bench = Bench::running(&reclaiming(), 7, 60);
    let end = bench.hand.now + 60 * SECOND;
    bench.lose();
    bench.did();
    // The server is away.
    loop {
        let pulse = bench.hand.turn();
        let wakes = match pulse {
            Pulse::Dial { ask, .. } => ask,
            pulse => pulse.until(),
        };
        if wakes == Some(end) {
            break;
        }
        if let Pulse::Dial { .. } = pulse {
            let refused = Error::new(ErrorKind::Connect, Fate::NotSent, "refused");
            bench.hand.ends(End::NotConnected(refused));
        } else {
            bench.hand.now = wakes.unwrap();
        }
        assert!(bench.hand.now < end && bench.slot().helps_handlers());
    }
    bench.hand.now = end;
    bench.hand.turn();
    assert!(!bench.slot().helps_handlers());
    assert!(bench.did().ends_with(&LOST.map(String::from)));
    // The same on a connection whose server has not noticed the loss.
    let mut bench = back(&reclaiming());
    bench.hand.now += 59 * SECOND;
    bench.hear(&counters(7, &as_usual()));
    bench.did();
    bench.wait(2 * SECOND);
    assert_eq!(bench.did(), LOST);
}

#[test]
fn a_second_loss_ends_only_an_attempt_that_may_have_reserved_the_job() {
    let mut bench = back(&reclaiming());
    bench.lose();
    assert!(!bench.did().iter().any(|did| did.starts_with("lost")));
    bench.opens();
    assert_eq!(bench.hear(&server("1a")), "stats-job 7\r\n");
    bench.hear(&counters(7, &[("state", "ready")]));
    bench.did();
    bench.lose();
    assert!(bench.did().starts_with(&LOST.map(String::from)));
}

/// What its handler had asked for was not answered.
#[test]
fn a_job_that_was_taken_back_may_be_asked_about_again() {
    let mut bench = Bench::running(&reclaiming(), 7, 60);
    let (key, now) = (bench.key(7), bench.hand.now);
    bench.slot().look(key, now);
    assert_eq!(bench.says(), "stats-job 7\r\n");
    bench.lose();
    bench.opens();
    bench.hear(&server("1a"));
    bench.hear(&counters(7, &[("state", "ready")]));
    bench.hear(&reserved(7));
    bench.hear(&counters(7, &[("reserves", 2)]));
    let now = bench.hand.now;
    bench.slot().look(key, now);
    assert_eq!(bench.says(), "stats-job 7\r\n");
}

#[test]
fn a_stop_without_a_connection_gives_up_what_might_have_been_taken_back() {
    let mut bench = Bench::running(&reclaiming(), 7, 60);
    bench.lose();
    bench.did();
    bench.stop();
    assert!(!bench.slot().helps_handlers());
    assert_eq!(bench.did(), ["hand back", LOST[0], LOST[1]]);
    // While the connection is there, the job is still taken back, so that its outcome counts.
    let mut bench = back(&reclaiming());
    assert_eq!(bench.stop(), "");
    assert_eq!(bench.hear(&counters(7, &[("state", "ready")])), "reserve-job 7\r\nstats-job 7\r\n");
    bench.hear(&reserved(7));
    bench.hear(&counters(7, &[("reserves", 2)]));
    assert_eq!(bench.did(), ["hand back", "touched 7", "job 7 was reclaimed"]);
    assert_eq!(bench.finish(7, Outcome::Delete), "delete 7\r\n");
    // A stop that is to be at once does not wait for that.
    for has_ended in [false, true] {
        let mut bench = back(&reclaiming());
        if has_ended {
            bench.finish(7, Outcome::Delete);
        }
        let now = bench.hand.now;
        bench.slot().stop_now(now);
        bench.says();
        let told: &[&str] = if has_ended { &LOST[1..] } else { &["lost 7: Stopped", LOST[1]] };
        assert_eq!(bench.did(), [&["hand back"], told].concat());
    }
}
