//! Doing jobs.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use gearman_client::{
    Client, ConnectionState, Failure, JobEvent, JobLimit, Outcome, RetryPolicy, Servers, Worker,
    WorkerEventKind, WorkerOptions, blocking,
};

use super::face::{Face, WorkFace, scenarios};
use super::handlers::HandlerFace;
use super::support::{Background, PATIENCE, each_server, each_server_async, options, worker_of};

each_server!(
    the_caller_maps_errors_to_outcomes,
    a_refused_withdrawal_changes_nothing_at_any_server,
    no_result_waits_for_the_handler_of_the_next_job,
    results_in_a_batch_are_all_written_when_the_worker_stops,
    a_thousand_functions_are_served_and_an_idle_worker_is_woken,
);

scenarios!(
    until_empty_runs_all_jobs_and_gives_up_an_absent_server,
    a_worker_knows_when_no_job_is_left,
    handlers_run_in_parallel,
    a_function_with_a_limit_leaves_the_other_slots_to_others,
);

each_server_async!(
    the_caller_maps_errors_to_outcomes_of_async_jobs,
    a_dropped_job_is_failed,
    stopping_finishes_running_jobs_and_returns_the_rest,
);

async fn a_dropped_job_is_failed(address: String) {
    let client = Client::connect(&address).await.unwrap();
    let mut worker = worker_of("dropped", &address).await;
    let job = client.submit("dropped", "", options()).await.unwrap();
    drop(worker.next_job().await);
    assert_eq!(job.outcome().await.unwrap(), Outcome::Fail);
    worker.echo_barrier().await.unwrap();
    assert_eq!(worker.stop().await.failed, 1);
}

/// In addition to an in-memory server.
fn a_refused_withdrawal_changes_nothing_at_any_server(address: &str) {
    let other = fixtures::gearmand::Server::start().unwrap();
    let mut worker = blocking::Worker::of("kept", format!("{address},{}", other.address()));
    let submit = |address: &str| {
        let mut client = blocking::Client::connect(address).unwrap();
        client.submit_background("kept", address, options()).unwrap();
    };
    submit(other.address());
    let held = worker.next_job(PATIENCE).unwrap().unwrap();
    assert!(worker.cant_do("kept").is_err());
    assert!(worker.reset_abilities().is_err());
    submit(address);
    let job = worker.next_job(Duration::from_secs(2)).unwrap().expect("it serves it no more");
    for job in [held, job] {
        worker.complete(job, "").unwrap();
    }
    assert_eq!(worker.stop().completed, 2);
}

/// A blocking worker of `f` with several jobs in its inbox at a time, for the twenty that are queued.
fn queue_twenty(address: &str) -> WorkerOptions {
    let mut client = blocking::Client::connect(address).unwrap();
    for n in 1..=20 {
        client.submit_background("f", n.to_string(), options()).unwrap();
    }
    address.parse::<WorkerOptions>().unwrap().slots(8).limit(JobLimit::new(20))
}

fn no_result_waits_for_the_handler_of_the_next_job(address: &str) {
    let mut worker = blocking::Worker::connect(queue_twenty(address)).unwrap();
    let server = address.to_owned();
    worker
        .register("f", move |job| {
            let mut admin = blocking::Admin::connect(&server)?;
            let number: i64 = std::str::from_utf8(&job.workload)?.parse()?;
            let patience = Instant::now() + PATIENCE;
            while admin.status()?[0].total + number > 21 {
                assert!(Instant::now() < patience, "an earlier one has not ended");
            }
            Ok::<_, Failure>("")
        })
        .unwrap();
    assert_eq!(worker.run().unwrap().completed, 20);
}

fn results_in_a_batch_are_all_written_when_the_worker_stops(address: &str) {
    let options = queue_twenty(address).batch_results(true);
    let mut worker = blocking::Worker::connect(options).unwrap();
    let (stop, handled) = (worker.handle(), AtomicUsize::new(0));
    worker
        .register("f", move |_| {
            if handled.fetch_add(1, Ordering::SeqCst) == 4 {
                stop.stop();
            }
        })
        .unwrap();
    let report = worker.run().unwrap();
    assert!(report.completed >= 5 && report.unknown == 0, "{report}");
    let left = blocking::Admin::connect(address).unwrap().status().unwrap()[0].total;
    assert_eq!(i64::try_from(report.completed).unwrap() + left, 20);
}

async fn stopping_finishes_running_jobs_and_returns_the_rest(address: String) {
    let client = Client::connect(&address).await.unwrap();
    let mut worker = Worker::connect(&address).await.unwrap();
    let started = Arc::new(tokio::sync::Notify::new());
    let go = Arc::new(tokio::sync::Notify::new());
    worker
        .register("slow", {
            let (started, go) = (started.clone(), go.clone());
            move |job| {
                let (started, go) = (started.clone(), go.clone());
                async move {
                    if job.workload.is_empty() {
                        started.notify_one();
                        go.notified().await;
                    }
                    "late"
                }
            }
        })
        .unwrap();
    let mut job = client.submit("slow", "", options()).await.unwrap();
    client.submit_background("slow", "second", options()).await.unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(worker.run_until(stopped));
    started.notified().await;
    stop.send(()).unwrap();
    go.notify_one();
    assert_eq!(job.next().await.unwrap().unwrap(), JobEvent::Complete("late".into()));
    let report = running.await.unwrap();
    assert_eq!((report.unknown, report.abandoned), (0, 0));
    // Whether it grabbed the second one before the stop is open; none is lost.
    let mut admin = gearman_client::Admin::connect(&address).await.unwrap();
    let queued = admin.status().await.unwrap()[0].queued();
    assert_eq!(report.completed, u64::try_from(2 - queued).unwrap());
}

/// Beside a server that cannot be reached.
fn beside_nobody(address: &str) -> WorkerOptions {
    WorkerOptions::new(format!("{address},127.0.0.1:1")).unwrap()
}

fn a_worker_knows_when_no_job_is_left<F: Face>(address: &str) {
    let mut client = F::to(address);
    let mut worker = F::Worker::of("left", beside_nobody(address));
    let handle = worker.handle();
    assert!(!handle.is_asleep(), "it has not asked yet");
    for jobs in [3, 1] {
        for _ in 0..jobs {
            client.submit_background("left", b"", options()).unwrap();
        }
        // The server wakes the worker.
        let mut next = Some(worker.next());
        while let Some(job) = next {
            assert!(!handle.is_asleep());
            worker.complete(job, "").unwrap();
            next = None;
            while next.is_none() && !handle.is_asleep() {
                next = worker.next_within(Duration::from_millis(1));
            }
        }
    }
    assert_eq!(worker.stop().completed, 4);
    assert!(!handle.is_asleep(), "it has ended");
}

/// Beside a server that cannot be reached, which is soon given up.
pub(super) fn until_empty_beside_an_absent_server(address: &str) -> WorkerOptions {
    let retry = RetryPolicy::new(2).backoff(Duration::from_millis(1), Duration::from_millis(1));
    let servers = beside_nobody(address).servers().clone();
    let servers = servers.options().iter().map(|server| server.clone().retry(retry));
    WorkerOptions::from(Servers::new(servers).unwrap()).until_empty()
}

/// A handler may submit further jobs.
fn until_empty_runs_all_jobs_and_gives_up_an_absent_server<F: HandlerFace>(address: &str) {
    let mut client = blocking::Client::connect(address).unwrap();
    for _ in 0..20 {
        client.submit_background("f", "more", options()).unwrap();
    }
    let given_up = Arc::new(AtomicUsize::new(0));
    let told = given_up.clone();
    let to = until_empty_beside_an_absent_server(address).slots(3).on_event(move |event| {
        if let WorkerEventKind::GivenUp = event.what {
            told.fetch_add(1, Ordering::SeqCst);
        }
    });
    let client = Mutex::new(client);
    let worker = F::start(to, move |job| {
        if job.workload() == b"more" {
            client.lock().unwrap().submit_background("f", "last", options()).unwrap();
        }
        Ok(String::new())
    });
    let report = worker.end();
    assert_eq!((report.completed, report.given_up), (40, 1), "{report}");
    assert_eq!(given_up.load(Ordering::SeqCst), 1);
    // A worker that finds nothing ends at once.
    let options = address.parse::<WorkerOptions>().unwrap().until_empty();
    let report = F::start(options, |_| Ok(String::new())).end();
    assert_eq!((report.completed, report.given_up), (0, 0), "{report}");
}

/// It sent no grab, and so never got NO_JOB.
#[test]
fn until_empty_ends_without_a_function() {
    let server = fixtures::gearmand::Server::start().unwrap();
    let to = server.address().parse::<WorkerOptions>().unwrap().until_empty();
    let mut worker = blocking::Worker::connect(to.clone()).unwrap();
    assert!(worker.next_job(PATIENCE).unwrap().is_none());
    let states = worker.handle().connection_states();
    assert_eq!(states, [ConnectionState::Closed], "it has ended, and was not only late");
    super::face::runtime().block_on(async {
        let run = Worker::connect(to).await.unwrap().run();
        let report = tokio::time::timeout(PATIENCE, run).await.expect("it does not end");
        assert_eq!((report.completed, report.given_up), (0, 0), "{report}");
    });
}

fn a_thousand_functions_are_served_and_an_idle_worker_is_woken(address: &str) {
    let mut worker = blocking::Worker::connect(address).unwrap();
    for n in 0..1000 {
        worker.register(format!("f{n}"), move |_| n.to_string()).unwrap();
    }
    let worker = Background::start(worker);
    let mut client = blocking::Client::connect(address).unwrap();
    for n in [0, 500, 999] {
        let outcome = client.run(format!("f{n}"), "", options()).unwrap();
        assert_eq!(outcome, Outcome::Complete(n.to_string().into()));
    }
    assert_eq!(worker.stop().completed, 3);
}

fn a_function_with_a_limit_leaves_the_other_slots_to_others<F: Face>(address: &str) {
    let mut client = F::to(address);
    for function in ["slow", "quick"] {
        for _ in 0..4 {
            client.submit_background(function, b"w", options()).unwrap();
        }
    }
    let to: WorkerOptions = address.parse().unwrap();
    let mut worker = F::Worker::new(to.slots(4).slots_for("slow", 1).unwrap());
    worker.can_do("slow");
    worker.can_do("quick");
    let held: Vec<_> = (0..4).map(|_| worker.next()).collect();
    let is_slow = |job: &_| F::Worker::assignment(job).function == "slow";
    let (slow, mut quick): (Vec<_>, Vec<_>) = held.into_iter().partition(is_slow);
    assert_eq!((slow.len(), quick.len()), (1, 3));
    worker.complete(quick.pop().unwrap(), "").unwrap();
    quick.push(worker.next());
    for job in quick {
        assert!(!is_slow(&job), "a second one beside the first");
        worker.complete(job, "").unwrap();
    }
    for job in slow {
        worker.complete(job, "").unwrap();
    }
    for _ in 0..3 {
        worker.completes_next("");
    }
    assert_eq!(worker.stop().completed, 8);
}

/// As many long-running handlers as the concurrency allows, on one connection; and a panic costs no slot.
fn handlers_run_in_parallel<F: HandlerFace>(address: &str) {
    let together = Arc::new(std::sync::Barrier::new(4));
    let worker = F::start(address.parse::<WorkerOptions>().unwrap().slots(4), move |job| {
        assert!(!job.workload().is_empty(), "on purpose");
        together.wait();
        job.data(b"piece");
        Ok(String::new())
    });
    let mut client = F::to(address);
    for workload in ["", "x", "x", "x", "x", "", "x", "x", "x", "x"] {
        client.submit_background("f", workload.as_bytes(), options()).unwrap();
    }
    let mut admin = blocking::Admin::connect(address).unwrap();
    let patience = Instant::now() + PATIENCE;
    while admin.status().unwrap()[0].total > 0 {
        assert!(Instant::now() < patience, "they wait for each other");
    }
    let report = worker.stop();
    assert_eq!((report.completed, report.failed), (8, 2), "{report}");
}

fn classify(error: u8) -> Failure {
    if error == 0 { Failure::Fail } else { Failure::exception(error.to_string()) }
}

fn the_caller_maps_errors_to_outcomes(address: &str) {
    let mut worker = blocking::Worker::connect(address).unwrap();
    let fails = |_: &mut blocking::JobContext<'_>| Err::<String, u8>(0);
    worker.register_classified("fails", fails, classify).unwrap();
    worker.register("shown", |_| Err::<(), _>("why")).unwrap();
    let worker = Background::start(worker);
    let mut client = blocking::Client::connect(address).unwrap();
    assert_eq!(client.run("fails", "", options()).unwrap(), Outcome::Fail);
    assert_eq!(client.run("shown", "", options()).unwrap(), Outcome::Exception("why".into()));
    assert_eq!(worker.stop().failed, 2);
}

async fn the_caller_maps_errors_to_outcomes_of_async_jobs(address: String) {
    let mut worker = Worker::connect(&address).await.unwrap();
    let answer = |_| async { Err::<String, u8>(42) };
    worker.register_classified("answer", answer, classify).unwrap();
    let blocks = |job: gearman_client::JobContext| {
        tokio::runtime::Handle::current().block_on(job.status(1, 2))?;
        assert!(!job.workload.is_empty(), "on purpose");
        std::thread::sleep(Duration::from_millis(1));
        Ok::<_, Failure>(job.workload.to_vec())
    };
    worker.register_blocking("blocks", blocks).unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(worker.run_until(stopped));
    let client = Client::connect(&address).await.unwrap();
    let answer = client.run("answer", "", options()).await.unwrap();
    assert_eq!(answer, Outcome::Exception("42".into()));
    let same = client.run("blocks", "same", options()).await.unwrap();
    assert_eq!(same, Outcome::Complete("same".into()));
    assert_eq!(client.run("blocks", "", options()).await.unwrap(), Outcome::Fail);
    stop.send(()).unwrap();
    let report = running.await.unwrap();
    assert_eq!((report.completed, report.failed), (1, 2));
}
