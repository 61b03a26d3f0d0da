//! Futures of the async worker that are dropped anywhere, and the reports that name what others got wrong.

use std::{
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
        mpsc,
    },
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use beanstalk_client::{
    ErrorKind, Inspect, JobContext, LostReason, PutOptions, Worker, WorkerOptions, blocking,
    blocking::Client,
};
use fixtures::beanstalkd::Server;
use queue_core::proof::runtime;
use tokio::{runtime::Handle, time::timeout};

use crate::support::place::{PATIENCE, options};

fn filled(jobs: usize) -> (Server, Client) {
    let server = Server::start().unwrap();
    let mut client = Client::connect(server.address()).unwrap();
    for _ in 0..jobs {
        let _ = client.put("x", PutOptions::default().priority(77)).unwrap();
    }
    (server, client)
}

fn worker_options(server: &Server) -> WorkerOptions {
    WorkerOptions::from(options(server.address()))
}

/// Waits until no job is reserved, and returns how many are ready.
fn ready_again(client: &mut Client) -> u64 {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let stats = client.stats().unwrap();
        if stats.current_jobs_reserved == 0 && stats.current_connections == 1 {
            return stats.current_jobs_ready;
        }
        assert!(Instant::now() < deadline, "{stats:?}");
    }
}

/// C14, section "cancellation": `Worker::run`.
#[test]
fn a_worker_dropped_at_any_moment_loses_no_job() {
    for moment in 0..60 {
        let (server, mut client) = filled(3);
        let finished = Arc::new(AtomicU32::new(0));
        runtime().block_on(async {
            let mut worker = Worker::new(worker_options(&server)).unwrap();
            let handle = worker.handle();
            let handler = |job: JobContext| async move {
                job.touch().await.unwrap();
                tokio::time::sleep(Duration::from_millis(1)).await;
            };
            worker.register("default", handler).unwrap();
            let mut run = Box::pin(worker.run());
            for _ in 0..moment {
                if futures_poll(&mut run).await {
                    break;
                }
            }
            drop(run);
            // Slots and handlers are ended at their next await.
            tokio::time::sleep(Duration::from_millis(1)).await;
            finished.store(u32::try_from(handle.report().finished).unwrap(), Ordering::SeqCst);
        });
        let ready = ready_again(&mut client);
        let deleted = client.stats().unwrap().cmd_delete;
        // A delete that was carried out may have lost its answer with the worker.
        assert_eq!(ready + deleted, 3, "moment {moment}");
        assert!(u64::from(finished.load(Ordering::SeqCst)) <= deleted);
    }
}

/// Polls once, and lets the runtime do something; whether it is ready.
async fn futures_poll<T>(future: &mut std::pin::Pin<Box<impl Future<Output = T>>>) -> bool {
    let ready = std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx).is_ready())).await;
    tokio::time::sleep(Duration::from_micros(200)).await;
    ready
}

/// C14: `touch`, `stats` and `lost`.
#[test]
fn waits_of_a_handler_may_be_dropped_at_any_poll() {
    let (server, mut client) = filled(40);
    let report = runtime().block_on(async {
        let mut worker = Worker::new(worker_options(&server).until_empty().prefetch(4)).unwrap();
        let handler = |job: JobContext| async move {
            for polls in 0..4 {
                poll_some(job.touch(), polls).await;
                poll_some(job.stats(), polls).await;
                poll_some(job.lost(), polls).await;
            }
            job.touch().await.unwrap();
            assert_eq!(job.stats().await.unwrap().pri.get(), 77);
            assert!(!job.is_lost());
        };
        worker.register("default", handler).unwrap();
        worker.run().await
    });
    assert_eq!((report.finished, report.total()), (40, 40));
    assert_eq!(ready_again(&mut client), 0);
}

async fn poll_some<T>(future: impl Future<Output = T>, polls: usize) {
    let mut future = pin!(future);
    for _ in 0..polls {
        let ready = future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        tokio::task::yield_now().await;
        if ready {
            return;
        }
    }
}

/// The end of the runtime ends everything.
#[test]
fn a_runtime_that_shuts_down_gives_all_jobs_back() {
    let (server, mut client) = filled(3);
    let runtime = runtime();
    let mut worker = Worker::new(worker_options(&server).slots(2)).unwrap();
    worker.register("default", |_: JobContext| std::future::pending::<()>()).unwrap();
    runtime.spawn(worker.run());
    let deadline = Instant::now() + PATIENCE;
    while client.stats().unwrap().current_jobs_reserved < 2 {
        runtime.block_on(async { tokio::time::sleep(Duration::from_millis(1)).await });
        assert!(Instant::now() < deadline);
    }
    drop(runtime);
    assert_eq!(ready_again(&mut client), 3);
}

/// `Worker::register_blocking`: a handler cannot be interrupted, and has to learn that its job went back.
#[test]
fn a_handler_that_outlives_its_worker_learns_it() {
    let (server, mut client) = filled(1);
    let (began, begun) = mpsc::channel();
    let (tell, told) = mpsc::channel();
    let runtime = runtime();
    runtime.block_on(async {
        let mut worker = Worker::new(worker_options(&server)).unwrap();
        let handler = move |job: JobContext| {
            began.send(()).unwrap();
            let within = Duration::from_secs(5);
            let lost = Handle::current().block_on(async { timeout(within, job.lost()).await });
            let touched = Handle::current().block_on(async { timeout(within, job.touch()).await });
            let kind = touched.map(|touched| touched.unwrap_err().kind());
            tell.send((lost.ok(), job.is_lost(), kind.ok())).unwrap();
        };
        worker.register_blocking("default", handler).unwrap();
        let mut run = Box::pin(worker.run());
        while begun.try_recv().is_err() {
            assert!(!futures_poll(&mut run).await);
        }
        drop(run);
        let end = Instant::now() + PATIENCE;
        let told = loop {
            match told.try_recv() {
                Ok(told) => break told,
                Err(_) => assert!(Instant::now() < end),
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        };
        assert_eq!(told, (Some(LostReason::Stopped), true, Some(ErrorKind::JobLost)));
    });
    assert_eq!(ready_again(&mut client), 1);
}

/// A clone of a job's context may outlive the handler: its requests get no answer then.
#[test]
fn queries_of_an_ended_job_fail() {
    let (server, _client) = filled(2);
    let (tell, told) = mpsc::channel();
    let options = worker_options(&server).until_empty().inspect(Inspect::OnDemand);
    let kept = tell.clone();
    let handler = move |job: &blocking::JobContext| {
        let (later, tell) = (job.clone(), kept.clone());
        std::thread::spawn(move || {
            while later.touch().is_ok() {}
            let asked = [later.touch().err(), later.stats().err()];
            tell.send(asked.map(|error| error.map(|error| error.kind()))).unwrap();
        });
        std::thread::sleep(Duration::from_millis(20));
    };
    let mut worker = blocking::Worker::new(options).unwrap();
    worker.register("default", handler).unwrap();
    let _ = worker.run();
    let over = [Some(ErrorKind::JobLost); 2];
    for _ in 0..2 {
        assert_eq!(told.recv_timeout(Duration::from_secs(5)), Ok(over), "blocking");
    }
    let (server, _client) = filled(2);
    let options = worker_options(&server).until_empty().inspect(Inspect::OnDemand);
    runtime().block_on(async {
        let handler = move |job: JobContext| {
            let (later, tell) = (job.clone(), tell.clone());
            tokio::spawn(async move {
                while later.touch().await.is_ok() {}
                let asked = [later.touch().await.err(), later.stats().await.err()];
                tell.send(asked.map(|error| error.map(|error| error.kind()))).unwrap();
            });
            tokio::time::sleep(Duration::from_millis(20))
        };
        let mut worker = Worker::new(options).unwrap();
        worker.register("default", handler).unwrap();
        worker.run().await;
        let end = Instant::now() + Duration::from_secs(5);
        for _ in 0..2 {
            let asked = loop {
                match told.try_recv() {
                    Ok(asked) => break asked,
                    Err(_) => assert!(Instant::now() < end, "async"),
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            };
            assert_eq!(asked, over, "async");
        }
    });
}
