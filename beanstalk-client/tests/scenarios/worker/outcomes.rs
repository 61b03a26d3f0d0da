//! The decisions of handlers, and the outcomes of failures.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use beanstalk_client::{
    JobState, Outcome, Priority, PutOptions, ReleaseOptions, Retries, WorkerOptions,
};

use super::faces::WorkerFace;
use crate::support::{Environment, Face, Place, place::options, scenarios};

const HOUR: Duration = Duration::from_secs(3600);

/// Works for this server until nothing is ready.
fn until_empty(place: &Place) -> WorkerOptions {
    WorkerOptions::new(options(place.address())).unwrap().until_empty()
}

scenarios!(
    every_job_is_run_once_and_deleted,
    a_handler_decides_the_outcome_of_its_job,
    a_failure_is_released_with_a_growing_delay_and_its_priority,
    a_panic_fails_the_job_and_the_slot_continues,
    a_dead_job_goes_to_its_tube_with_the_same_bytes,
    deferrals_do_not_count_as_failures,
    the_watch_list_is_the_requested_one,
    counters_are_there_before_and_on_demand,
);

/// Puts bodies, and returns their ids.
fn put<F: Face>(client: &mut F, bodies: &[&str]) -> Vec<u64> {
    let options = PutOptions::default().priority(77);
    bodies.iter().map(|body| client.put(body.as_bytes(), options).unwrap().id().get()).collect()
}

fn every_job_is_run_once_and_deleted<F: WorkerFace>(environment: Environment) {
    for (slots, prefetch) in [(1, 1), (4, 1), (1, 100), (3, 10)] {
        let (place, mut client) = environment.with_client::<F>();
        let count = 2_000;
        let numbers: Vec<String> = (0..count).map(|n| n.to_string()).collect();
        let puts = numbers.iter().map(|n| {
            beanstalk_client::protocol::Put::new(n.as_bytes(), PutOptions::default()).unwrap()
        });
        client.call_many(puts).into_iter().for_each(|put| assert!(put.is_ok()));
        let runs = Arc::new(Mutex::new(BTreeMap::<Vec<u8>, u32>::new()));
        let seen = runs.clone();
        let options = until_empty(&place).slots(slots).prefetch(prefetch);
        let worker = F::start(options, move |job| {
            *seen.lock().unwrap().entry(job.body()).or_default() += 1;
            Ok(Outcome::Delete)
        });
        let report = worker.end();
        assert_eq!((report.finished, report.total()), (count, count), "{slots} {prefetch}");
        let runs = runs.lock().unwrap();
        assert_eq!(runs.len() as u64, count);
        assert!(runs.values().all(|times| *times == 1));
        let stats = client.stats().unwrap();
        assert_eq!((stats.current_jobs_ready, stats.current_jobs_reserved), (0, 0));
        assert_eq!((stats.current_jobs_buried, stats.job_timeouts), (0, 0));
    }
}

fn a_handler_decides_the_outcome_of_its_job<F: WorkerFace>(environment: Environment) {
    let (place, mut client) = environment.with_client::<F>();
    let ids = put(&mut client, &["delete", "later", "urgent", "bury", "bury low"]);
    let report = F::start(until_empty(&place), |job| {
        Ok(match &*job.body() {
            b"delete" => Outcome::Delete,
            b"later" => Outcome::defer(Duration::from_secs(100)),
            b"urgent" => Outcome::Release {
                delay: Duration::from_secs(50),
                priority: Some(Priority::MOST_URGENT),
            },
            b"bury" => Outcome::bury(),
            _ => Outcome::Bury { priority: Some(9.into()) },
        })
    })
    .end();
    assert_eq!((report.finished, report.released, report.buried, report.total()), (1, 2, 2, 5));
    let mut after = |id: u64| client.stats_job(id).unwrap();
    assert_eq!(after(ids[0]), None);
    let expected = [
        (ids[1], JobState::Delayed, 77, 100),
        (ids[2], JobState::Delayed, 0, 50),
        (ids[3], JobState::Buried, 77, 0),
        (ids[4], JobState::Buried, 9, 0),
    ];
    for (id, state, pri, delay) in expected {
        let stats = after(id).unwrap();
        assert_eq!((stats.state, stats.pri.get(), stats.delay), (state, pri, delay), "{id}");
    }
}

/// B24: errors.
fn a_failure_is_released_with_a_growing_delay_and_its_priority<F: WorkerFace>(
    environment: Environment,
) {
    let (place, mut client) = environment.with_client::<F>();
    let ids = put(&mut client, &["new", "twice"]);
    for _ in 0..2 {
        let job = client.reserve_job(ids[1]).unwrap().unwrap();
        client.release(&job, ReleaseOptions::new(77)).unwrap();
    }
    let retries = Retries::default().backoff(Duration::from_secs(30), 2, Duration::from_secs(100));
    let worker = F::start(until_empty(&place).retries(retries), |_| Err("no luck".into()));
    let events = worker.events.clone();
    assert_eq!(worker.end().released, 2);
    for (id, delay, releases) in [(ids[0], 30, 1), (ids[1], 100, 3)] {
        let stats = client.stats_job(id).unwrap().unwrap();
        assert_eq!(
            (stats.state, stats.delay, stats.releases),
            (JobState::Delayed, delay, releases)
        );
        assert_eq!(stats.pri.get(), 77);
        assert_eq!(events.count(&format!("failed {id}: no luck")), 1);
    }
}

/// B24: panics.
fn a_panic_fails_the_job_and_the_slot_continues<F: WorkerFace>(environment: Environment) {
    let (place, mut client) = environment.with_client::<F>();
    let ids = put(&mut client, &["panic", "fine", "panic", "fine"]);
    let retries = Retries::default().backoff(Duration::from_secs(100), 2, Duration::from_secs(100));
    let worker = F::start(until_empty(&place).retries(retries), |job| {
        if job.body() == b"panic" {
            std::panic::panic_any("at the disco");
        }
        Ok(Outcome::Delete)
    });
    let events = worker.events.clone();
    let report = worker.end();
    assert_eq!((report.finished, report.released, report.total()), (2, 2, 4));
    for id in [ids[0], ids[2]] {
        let words = format!("failed {id}: the handler panicked: at the disco");
        assert_eq!(events.count(&words), 1, "{:?}", events.all());
        assert_eq!(client.stats_job(id).unwrap().unwrap().state, JobState::Delayed);
    }
}

/// Priority and time to run are those of the job, too.
fn a_dead_job_goes_to_its_tube_with_the_same_bytes<F: WorkerFace>(environment: Environment) {
    let (place, mut client) = environment.with_client::<F>();
    let bodies = [&b"failed\0\xff\r\n"[..], b"buried", b"done"];
    for body in bodies {
        let _ = client.put(body, PutOptions::default().priority(7).ttr(HOUR)).unwrap();
    }
    let options = until_empty(&place).retries(Retries::default().releases(0));
    let worker = F::start(options.dead_letter("dead".parse().unwrap()), |job| {
        match job.body().starts_with(b"failed") {
            true => Err("disk full".into()),
            false if job.body() == b"buried" => Ok(Outcome::bury()),
            false => Ok(Outcome::Delete),
        }
    });
    let events = worker.events.clone();
    let report = worker.end();
    assert_eq!((report.finished, report.dead_lettered, report.total()), (1, 2, 3));
    let told: Vec<String> = events.all().into_iter().filter(|it| it.starts_with("dead ")).collect();
    assert_eq!(told, ["dead 1: disk full (1)", "dead 2: its handler decided so (1)"]);
    assert_eq!(client.list_tubes().unwrap(), ["default", "dead"]);
    client.watch_only(vec!["dead"]).unwrap();
    for body in &bodies[..2] {
        let job = client.reserve_with_timeout(Duration::ZERO).unwrap().job().unwrap();
        let stats = client.stats_job(job.id).unwrap().unwrap();
        assert_eq!((&*job.body, stats.pri.get(), stats.ttr), (*body, 7, 3600));
    }
    assert_eq!(client.stats_tube("default").unwrap().unwrap().current_jobs_buried, 0);
}

/// Whichever slot has deferred it. Two failures are allowed.
fn deferrals_do_not_count_as_failures<F: WorkerFace>(environment: Environment) {
    let (place, mut client) = environment.with_client::<F>();
    put(&mut client, &["x"]);
    let retries = Retries::default().releases(1).backoff(Duration::ZERO, 1, Duration::ZERO);
    let options = WorkerOptions::new(options(place.address())).unwrap().slots(3).retries(retries);
    let runs = AtomicUsize::new(0);
    let worker = F::start(options.dead_letter("dead".parse().unwrap()), move |job| {
        match (runs.fetch_add(1, Ordering::SeqCst), job.deferrals()) {
            (before @ 0..5, deferrals) if before as u64 == deferrals => {
                Ok(Outcome::defer(Duration::ZERO))
            }
            (5.., 5) => Err("no luck".into()),
            (_, deferrals) => Err(format!("{deferrals} deferrals")),
        }
    });
    worker.events.wait_for("dead-lettered", 1);
    assert_eq!(worker.events.count("dead 1: no luck (2)"), 1, "{:?}", worker.events.all());
    assert_eq!(worker.stop().released, 6);
}

fn the_watch_list_is_the_requested_one<F: WorkerFace>(environment: Environment) {
    for (tubes, expected) in
        [(&["a", "b"][..], 2), (&["a", "default"][..], 2), (&["c"][..], 1), (&["default"][..], 1)]
    {
        let (place, mut client) = environment.with_client::<F>();
        for tube in ["a", "b", "c", "default"] {
            client.use_tube(tube).unwrap();
            put(&mut client, &[tube]);
        }
        let report = F::start_on(until_empty(&place), tubes, |job| {
            let tube = job.tube();
            assert_eq!(job.body(), tube.as_str().as_bytes(), "the body names the tube");
            Ok(Outcome::Delete)
        });
        assert_eq!(report.end().finished, expected);
        for tube in ["a", "b", "c", "default"] {
            // A tube without jobs, users and watchers ceases to exist.
            let left = client.stats_tube(tube).unwrap().map_or(0, |stats| stats.current_jobs_ready);
            assert_eq!(left, u64::from(!tubes.contains(&tube)), "{tube}");
        }
    }
}

fn counters_are_there_before_and_on_demand<F: WorkerFace>(environment: Environment) {
    use beanstalk_client::Inspect;
    for inspect in [Inspect::Before, Inspect::OnDemand] {
        let (place, mut client) = environment.with_client::<F>();
        put(&mut client, &["x"]);
        let report = F::start(until_empty(&place).inspect(inspect), |job| {
            let stats = job.stats().unwrap();
            assert_eq!((stats.pri.get(), stats.ttr, stats.reserves), (77, 60, 1));
            assert_eq!(job.tube(), "default");
            assert!(job.time_left().unwrap() > Duration::from_secs(50));
            job.touch().unwrap();
            assert!(!job.is_lost());
            Ok(Outcome::Delete)
        })
        .end();
        assert_eq!((report.finished, report.total()), (1, 1));
    }
}
