//! Futures that are dropped in the middle: the next call gets its own answer, and no job is lost.

use std::{collections::HashSet, fmt::Debug, time::Duration};

use fixtures::gearmand::Server;
use gearman_client::{
    Admin, Client, ConnectOptions, Failure, JobEvent, Outcome, Worker, WorkerOptions,
    protocol::{Echo, GetStatus, Request, Submit},
};
use queue_core::proof::{Choppy, drop_after, drop_after_turns};
use tokio::{net::TcpStream, runtime::Runtime};

use super::support::each_server_async;
use super::{
    catalogue::{self, VISITED, Visitor},
    support::{PATIENCE, function, options, real, worker_of},
};

each_server_async!(
    a_foreground_job_dropped_at_any_poll_leaves_the_connection_in_step,
    a_dropped_complete_fails_the_job_or_completes_it,
    a_dropped_stop_or_run_gives_jobs_back,
);

/// One thread: turns of the runtime are turns of the driver.
fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().event_interval(1).enable_all().build().unwrap()
}

async fn choppy_client(address: &str) -> Client {
    let stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let options: ConnectOptions = address.parse().unwrap();
    Client::from_stream(Choppy::new(stream, 5), options).await.unwrap()
}

/// The connection is in step if two requests get exactly their own answers.
async fn assert_in_step(client: &Client, case: &str) {
    for own in ["own 1", "own 2"] {
        let answer = client.echo(own).await.unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!(answer, own, "{case}");
    }
    let unknown = client.call(&GetStatus("H:x:9".parse().unwrap())).await;
    assert!(!unknown.unwrap_or_else(|error| panic!("{case}: {error}")).is_known, "{case}");
}

#[derive(Default)]
struct DropEverywhere {
    visited: usize,
    drops: usize,
}

impl Visitor for DropEverywhere {
    fn visit<R>(&mut self, request: R, _: &[Vec<u8>])
    where
        R: Request + Clone + Debug + Send + 'static,
        R::Reply: Debug + Send,
    {
        self.visited += 1;
        let server = Server::start().unwrap();
        let runtime = runtime();
        for turns in 0.. {
            let is_done = runtime.block_on(async {
                let client = choppy_client(server.address()).await;
                let epochs: Vec<_> = client.epochs().collect();
                let outcome = drop_after_turns(turns, client.call(&request)).await;
                let case = format!("{request:?} dropped after {turns} turns");
                assert_in_step(&client, &case).await;
                assert_eq!(client.epochs().collect::<Vec<_>>(), epochs, "{case}");
                outcome.is_some()
            });
            if is_done {
                break;
            }
            self.drops += 1;
        }
    }
}

/// C14.
#[test]
fn any_request_dropped_at_any_poll_leaves_the_next_its_own_answer() {
    let mut visitor = DropEverywhere::default();
    catalogue::each(&mut visitor);
    assert_eq!(visitor.visited, VISITED);
    assert!(visitor.drops > 8 * VISITED, "{} drops", visitor.drops);
}

#[test]
fn a_call_that_was_never_polled_has_sent_nothing() {
    let server = Server::start().unwrap();
    runtime().block_on(async {
        let client = Client::connect(server.address()).await.unwrap();
        // The connection's initial exchange is over.
        client.echo("first").await.unwrap();
        server.clear_requests();
        drop(client.submit_background("f", "x", options()));
        drop(client.run("f", "x", options()));
        drop(client.call_many([Echo("x")]));
        drop(client.submit_many([Submit::foreground(function("f"), "x", options()).unwrap()]));
        drop_after(0, client.echo("x")).await;
        assert_eq!(client.echo("only this").await.unwrap(), "only this");
        assert_eq!(server.requests().len(), 1);
    });
}

#[test]
fn a_dropped_connect_leaves_no_connection_behind() {
    let server = Server::start().unwrap();
    let address = server.address();
    runtime().block_on(async {
        for polls in 0..8 {
            drop(drop_after(polls, Client::connect(address)).await);
            drop(drop_after(polls, Worker::connect(address)).await);
            drop(drop_after(polls, Admin::connect(address)).await);
            drop(drop_after_turns(polls, Client::connect(address)).await);
            drop(drop_after_turns(polls, Worker::connect(address)).await);
        }
        // Drivers that are told to end need turns of the runtime for it.
        let gone = async {
            while server.view().connections > 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(PATIENCE, gone).await.expect("a connection is left behind");
    });
}

#[test]
fn a_dropped_reconnect_is_finished_by_the_next_call() {
    let server = Server::start().unwrap();
    runtime().block_on(async {
        let client = Client::connect(server.address()).await.unwrap();
        for turns in 0..12 {
            let _ = drop_after_turns(turns, client.reconnect()).await;
            assert_in_step(&client, &format!("reconnect dropped after {turns} turns")).await;
        }
    });
}

/// C14 for batches.
#[test]
fn a_batch_dropped_at_any_poll_leaves_the_connection_in_step() {
    let server = Server::start().unwrap();
    runtime().block_on(async {
        for polls in 0..40 {
            let client = choppy_client(server.address()).await;
            let whole = async {
                let mut answers = client.call_many((0..50).map(|n| Echo(n.to_string()))).window(7);
                while let Some(answer) = answers.next().await {
                    answer.unwrap();
                }
            };
            drop_after(polls * 5, whole).await;
            assert_in_step(&client, &format!("batch dropped after {} polls", polls * 5)).await;
        }
    });
}

/// G26: what still arrives for a job whose submitter went away is discarded.
async fn a_foreground_job_dropped_at_any_poll_leaves_the_connection_in_step(address: String) {
    let mut worker = Worker::connect(&address).await.unwrap();
    worker
        .register("chatty", |job| async move {
            for part in 0..4 {
                job.status(part, 4).await?;
                job.data("piece").await?;
            }
            Ok::<_, Failure>("done")
        })
        .unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(worker.run_until(stopped));
    let mut jobs = 0;
    let mut seen_whole = 0;
    for polls in 0..14 {
        let client = choppy_client(&address).await;
        let whole = async {
            let mut job = client.submit("chatty", "", options()).await.unwrap();
            let mut events = Vec::new();
            while let Some(event) = job.next().await {
                events.push(event.unwrap());
            }
            events
        };
        if let Some(events) = drop_after(polls, whole).await {
            assert_eq!(events.last(), Some(&JobEvent::Complete("done".into())));
            assert_eq!(events.len(), 9);
            seen_whole += 1;
        }
        drop_after(polls, client.run("chatty", "", options())).await;
        assert_in_step(&client, &format!("job dropped after {polls} polls")).await;
        // The same client, and its own job.
        let outcome = client.run("chatty", "", options()).await.unwrap();
        assert_eq!(outcome, Outcome::Complete("done".into()));
        jobs += 1;
    }
    assert!(seen_whole < jobs);
    stop.send(()).unwrap();
    assert!(running.await.unwrap().completed >= jobs);
}

/// The next event is the next event, however often the wait for it was abandoned.
#[test]
fn a_dropped_next_loses_no_event() {
    let server = Server::start().unwrap();

    runtime().block_on(async {
        let client = choppy_client(server.address()).await;
        let mut job = client.submit("f", "", options()).await.unwrap();
        let mut worker = worker_of("f", server.address()).await;
        let grabbed = worker.next_job().await;
        for n in 0..50 {
            grabbed.data(n.to_string()).await.unwrap();
        }
        grabbed.complete("end").await.unwrap();
        let mut seen = Vec::new();
        for turns in (0..).map(|n| n % 4) {
            match drop_after_turns(turns, job.next()).await {
                None => {}
                Some(Some(event)) => seen.push(event.unwrap()),
                Some(None) => break,
            }
            tokio::task::yield_now().await;
        }
        let expected = (0..50).map(|n| JobEvent::Data(n.to_string().into()));
        assert!(seen.into_iter().eq(expected.chain([JobEvent::Complete("end".into())])));
    });
}

/// A job that is submitted again between two waits for its events: the next wait continues with it.
#[test]
fn a_next_dropped_while_its_job_is_submitted_again_loses_no_job() {
    for turns in 0..40 {
        let server = Server::start().unwrap();
        runtime().block_on(async {
            let case = format!("dropped after {turns} turns");
            let client = Client::connect(server.address()).await.unwrap();
            let mut job = client.submit("f", "", options().idempotent(true)).await.unwrap();
            server.close_connections();
            assert!(drop_after_turns(turns, job.next()).await.is_none(), "{case}");
            let mut worker = Worker::connect(server.address()).await.unwrap();
            worker.register("f", |_| async { "done" }).unwrap();
            let event = tokio::select! {
                _ = worker.run() => unreachable!(),
                event = tokio::time::timeout(PATIENCE, job.next()) => event,
            };
            let event = event.unwrap_or_else(|_| panic!("{case}: the job is lost")).unwrap();
            assert_eq!(event.unwrap(), JobEvent::Complete("done".into()), "{case}");
        });
    }
}

/// Jobs that a worker has grabbed when the wait for them is abandoned: a later call returns each of them.
async fn no_grabbed_job_is_lost(address: &str, jobs: usize) {
    let client = Client::connect(address).await.unwrap();
    let mut worker = worker_of("kept", address.parse::<WorkerOptions>().unwrap().slots(3)).await;
    let mut seen = HashSet::new();
    let mut submitted = 0;
    while seen.len() < jobs {
        if submitted < jobs {
            client.submit_background("kept", submitted.to_string(), options()).await.unwrap();
            submitted += 1;
        }
        let turns = submitted % 5;
        let next = if submitted < jobs {
            drop_after_turns(turns, worker.next_job()).await
        } else {
            Some(tokio::time::timeout(PATIENCE, worker.next_job()).await.expect("a job is lost"))
        };
        if let Some(job) = next {
            assert!(seen.insert(job.workload.clone()), "given twice");
            job.complete("").await.unwrap();
        }
    }
    let report = worker.stop().await;
    assert_eq!((report.completed, report.rejected), (jobs as u64, 0), "{report}");
    let mut admin = Admin::connect(address).await.unwrap();
    assert!(admin.status().await.unwrap().iter().all(|row| row.total == 0));
}

#[test]
fn a_dropped_next_job_loses_no_job() {
    let server = Server::start().unwrap();
    runtime().block_on(no_grabbed_job_is_lost(server.address(), 300));
    if let Some(server) = real() {
        runtime().block_on(no_grabbed_job_is_lost(server.address(), 300));
    }
}

/// The end of a job that was abandoned before it was sent is a failure, never silence.
async fn a_dropped_complete_fails_the_job_or_completes_it(address: String) {
    let client = Client::connect(&address).await.unwrap();
    let mut worker = worker_of("dropped", &address).await;
    for polls in 0..4 {
        let waiting = client.submit("dropped", "", options()).await.unwrap();
        let job = worker.next_job().await;
        let done = drop_after(polls, job.complete("r")).await;
        let outcome = waiting.outcome().await.unwrap();
        match done {
            Some(done) => {
                done.unwrap();
                assert_eq!(outcome, Outcome::Complete("r".into()));
            }
            None => assert_eq!(outcome, Outcome::Fail),
        }
    }
    worker.echo_barrier().await.unwrap();
    let report = worker.stop().await;
    assert_eq!(report.completed + report.failed, 4);
}

/// An abandoned stop closes at once: running jobs go back to the server.
async fn a_dropped_stop_or_run_gives_jobs_back(address: String) {
    let client = Client::connect(&address).await.unwrap();
    let waiting = client.submit("held", "", options()).await.unwrap();
    for polls in 0..3 {
        let mut worker = worker_of("held", &address).await;
        let held = worker.next_job().await;
        drop_after_turns(polls, worker.stop()).await;
        assert!(held.complete("stale").await.is_err());
        let mut worker = Worker::connect(&address).await.unwrap();
        let (started, has_started) = tokio::sync::oneshot::channel();
        let started = std::sync::Mutex::new(Some(started));
        worker
            .register("held", move |_| {
                let started = started.lock().unwrap().take();
                async move {
                    if let Some(started) = started {
                        started.send(()).unwrap();
                    }
                    std::future::pending::<()>().await;
                    "never"
                }
            })
            .unwrap();
        tokio::select! {
            _ = worker.run() => unreachable!(),
            started = has_started => started.unwrap(),
        }
    }
    let mut worker = worker_of("held", &address).await;
    worker.next_job().await.complete("fresh").await.unwrap();
    assert_eq!(waiting.outcome().await.unwrap(), Outcome::Complete("fresh".into()));
}

/// Admin calls: the next one is not given the answer of a dropped one.
#[test]
fn a_dropped_admin_call_never_shifts_the_answers() {
    let server = Server::start().unwrap();
    runtime().block_on(async {
        let mut admin = Admin::connect(server.address()).await.unwrap();
        for turns in 0..8 {
            drop_after_turns(turns, admin.status()).await;
            drop_after_turns(turns, admin.getpid()).await;
            let version = admin.version().await.unwrap();
            assert!(version.starts_with("1.1"), "after {turns} turns: {version}");
        }
    });
}
