//! A server that keeps refusing what a worker has to request.

use std::time::Duration;

use beanstalk_client::{JobFate, Outcome, Retries, WorkerOptions};

use super::world::{CLOSES, World};

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

fn options() -> WorkerOptions {
    // However often it is reserved, no job is treated as poison.
    let patient = Retries::default().reserves(u64::MAX);
    WorkerOptions::new("127.0.0.1:1").unwrap().seed(7).retries(patient)
}

/// What a worker needs in every cycle, and what it may be answered instead: 40,000 commands a second and more, or a new
/// connection every 50 ms.
const REFUSALS: [(&str, &str); 17] = [
    ("watch", "UNKNOWN_COMMAND"),
    ("watch", CLOSES),
    ("stats", "OK 3\r\nx y"),
    ("reserve-with-timeout", "INTERNAL_ERROR"),
    ("reserve-with-timeout", "TIMED_OUT"),
    ("reserve-with-timeout", "DEADLINE_SOON"),
    ("reserve-with-timeout", "NOT_FOUND"),
    ("reserve-with-timeout", CLOSES),
    ("stats-job", "NOT_FOUND"),
    ("stats-job", "UNKNOWN_COMMAND"),
    ("stats-job", "OK 3\r\nx y"),
    ("stats-job", CLOSES),
    ("delete", "NOT_FOUND"),
    ("delete", "INTERNAL_ERROR"),
    ("delete", "OUT_OF_MEMORY"),
    ("delete", "BURIED"),
    ("delete", CLOSES),
];

/// The server gives its job out again and again, as it would if it did what it says.
fn refuse(verb: &str, refusal: &'static str, line: &str) -> Option<&'static str> {
    match line.split(' ').next() {
        Some(asked) if asked == verb => Some(refusal),
        Some("reserve-with-timeout") if matches!(verb, "stats-job" | "delete") => {
            Some("RESERVED 1 1\r\nx")
        }
        // A job without server-side trouble still works.
        Some("stats-job") if verb == "delete" => Some(STATS),
        _ => None,
    }
}

const STATS: &str = "OK 42\r\n---\nid: 1\nstate: reserved\nttr: 600\npri: 7\n";

#[test]
fn refusals_in_a_row_back_off() {
    for (verb, refusal) in REFUSALS {
        for prefetch in [1, 16] {
            let mut world = World::new();
            let worker = world.worker_of(&options().prefetch(prefetch), &["default", "another"]);
            world.reconnects(worker);
            world.finish_at_once(worker, Outcome::Delete);
            world.fault(worker, move |line| refuse(verb, refusal, line));
            world.cut(worker);
            for _ in 0..prefetch {
                world.put(600);
            }
            world.pass(10 * MINUTE);
            let seen = world.seen(worker);
            let what = format!("{refusal} to {verb}, prefetch {prefetch}");
            // About one pause in five seconds at last; a handful of commands for each, and with prefetch for each job.
            // There are two rounds to a pause, as the reserve goes out with the delete that will be refused.
            let most = 250 * (6 + 3 * prefetch);
            let (lines, connections) = (seen.lines.len(), seen.connections);
            assert!((20..most).contains(&lines), "{what}: {lines} commands");
            assert!(connections < 300, "{what}: {connections} connections");
            // And then it recovers, within one pause.
            world.fault(worker, |_| None);
            world.pass(25 * SECOND);
            let deleted = world.seen(worker).settled.iter();
            let deleted = deleted.filter(|(_, fate)| *fate == JobFate::Deleted).count();
            assert_eq!(deleted, prefetch, "{what}");
        }
    }
}

#[test]
fn a_refusal_is_reported_once_per_pause() {
    let mut world = World::new();
    let worker = world.worker(&options().prefetch(4));
    world.reconnects(worker);
    world.cut(worker);
    world.finish_at_once(worker, Outcome::Delete);
    world.fault(worker, |line| refuse("stats-job", "NOT_FOUND", line));
    for _ in 0..8 {
        world.put(600);
    }
    world.pass(MINUTE);
    let told = world.seen(worker).said("refused");
    assert!((8..60).contains(&told), "{told} times in a minute");
    for step in 1..=told {
        let words = format!("refused {step}: NOT_FOUND to stats-job");
        assert_eq!(world.seen(worker).said(&words), 1, "{words}");
    }
    world.fault(worker, |_| None);
    world.pass(MINUTE);
    assert_eq!(world.seen(worker).settled.len(), 8);
    world.fault(worker, |line| refuse("stats-job", "NOT_FOUND", line));
    world.pass(MINUTE);
    assert_eq!(world.seen(worker).said("refused 1: "), 2, "a new row");
}

/// A pause concerns only further jobs: held ones are kept, and end as they should.
#[test]
fn jobs_that_are_held_are_looked_after_in_a_pause() {
    let mut world = World::new();
    let worker = world.worker(&options().prefetch(2));
    world.fault(worker, |line| match line {
        "reserve-with-timeout 0" => Some("RESERVED 2 1\r\nx"),
        "stats-job 2" => Some("NOT_FOUND"),
        _ => None,
    });
    let kept = world.put(3);
    world.pass(MINUTE);
    assert!(world.seen(worker).said("refused") > 3);
    assert_eq!(world.stat(kept, "timeouts"), "0");
    world.finish(worker, Outcome::Delete);
    assert_eq!(world.seen(worker).settled, [(kept, JobFate::Deleted)]);
}
