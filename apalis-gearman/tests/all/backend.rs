//! Tasks through the backend: the outcomes of jobs, whatever happens.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use apalis_core::{
    backend::{TaskSink, TaskSinkError},
    error::{BoxDynError, WorkerError},
    task::{builder::TaskBuilder, data::Data, task_id::TaskId},
    worker::{builder::WorkerBuilder, context::WorkerContext},
};
use apalis_gearman::{
    Error, GearmanBackend,
    gearman_client::{
        Client, ConnectOptions, JobContext, LostReason, Outcome, RetryPolicy, SubmitOptions,
        blocking,
    },
};
use fixtures::{gearmand::Server, proxy::Proxy};
use tokio::{sync::Semaphore, task::JoinHandle, time::timeout};
use tower::{limit::ConcurrencyLimitLayer, timeout::TimeoutLayer};

/// Longer than anything takes here, even on a busy machine; only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a task may take: no time for one that never ends, and enough for others on a busy machine.
const TASK_LIMIT: Duration = Duration::from_secs(1);

/// Makes two tests of each function of a server's address: in memory and real.
macro_rules! each_server {
    ($($name:ident),+ $(,)?) => {$(
        mod $name {
            #[tokio::test(flavor = "multi_thread")]
            async fn in_memory() {
                let server = fixtures::gearmand::Server::start().unwrap();
                super::$name(server.address()).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn real() {
                if let Some(server) = fixtures::real::Gearmand::start() {
                    super::$name(server.address()).await;
                }
            }
        }
    )+};
}

each_server!(
    tasks_round_trip,
    a_submitter_gets_the_result_of_its_task,
    a_stop_finishes_running_tasks_and_returns_the_rest,
    reruns_a_task_after_a_lost_connection,
    a_dropped_worker_returns_its_jobs,
);

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{what} does not come"));
}

fn backend(address: &str) -> GearmanBackend<u32> {
    let retry = RetryPolicy::new(20).backoff(Duration::from_millis(5), Duration::from_millis(50));
    let options = address.parse::<ConnectOptions>().unwrap().retry(retry);
    GearmanBackend::new(options, "f").unwrap()
}

async fn end(run: JoinHandle<Result<(), WorkerError>>) {
    timeout(PATIENCE, run).await.expect("the worker does not end").unwrap().unwrap();
}

/// The workloads of the remaining jobs, which a worker of the client removes.
async fn left(address: &str, jobs: usize) -> BTreeSet<u32> {
    let address = address.to_owned();
    let take = move || {
        let mut worker = blocking::Worker::connect(address.as_str()).unwrap();
        worker.can_do("f", None).unwrap();
        let mut left = BTreeSet::new();
        for _ in 0..jobs {
            let job = worker.next_job(PATIENCE).unwrap().expect("a job is missing");
            left.insert(String::from_utf8_lossy(&job.workload).parse().unwrap());
            worker.complete(job, "").unwrap();
        }
        let _ = worker.stop();
        left
    };
    tokio::task::spawn_blocking(take).await.unwrap()
}

async fn tasks_round_trip(address: &str) {
    let mut backend = backend(address);
    backend.push_bulk((0..100).collect()).await.unwrap();
    let seen = Arc::<Mutex<BTreeSet<u32>>>::default();
    let task = {
        let seen = seen.clone();
        move |number: u32, id: TaskId, job: Data<JobContext>, worker: WorkerContext| {
            let seen = seen.clone();
            async move {
                assert_eq!(id.to_string(), job.handle.to_string());
                let mut seen = seen.lock().unwrap();
                assert!(seen.insert(number));
                if seen.len() == 100 {
                    worker.stop().unwrap();
                }
            }
        }
    };
    let worker = WorkerBuilder::new("w").backend(backend.worker(|options| options.slots(4)));
    end(tokio::spawn(worker.build(task).run())).await;
    assert_eq!(seen.lock().unwrap().len(), 100);
    let mut admin = blocking::Admin::connect(address).unwrap();
    assert!(admin.status().unwrap().iter().all(|row| row.total == 0), "all are done");
}

async fn a_submitter_gets_the_result_of_its_task(address: &str) {
    let task = |number: u32, job: Data<JobContext>| async move {
        match number {
            1 => Err(BoxDynError::from("no such picture")),
            2 => panic!("a task of a test"),
            3 => std::future::pending().await,
            _ => {
                job.status(1, 2).await?;
                Ok(vec![number, number * number])
            }
        }
    };
    let context = WorkerContext::new("w");
    let worker = WorkerBuilder::new(&context)
        .backend(backend(address).worker(|options| options.slots(4)))
        .layer(ConcurrencyLimitLayer::new(2))
        .layer(TimeoutLayer::new(TASK_LIMIT));
    let run = tokio::spawn(worker.build(task).run());
    let client = Client::connect(address).await.unwrap();
    for (workload, outcome) in [
        ("1", Outcome::Exception("no such picture".into())),
        ("2", Outcome::Fail),
        ("3", Outcome::Exception("request timed out".into())),
        ("4", Outcome::Complete("[4,16]".into())),
    ] {
        assert_eq!(client.run("f", workload, SubmitOptions::default()).await.unwrap(), outcome);
    }
    let undecodable = client.run("f", "no number", SubmitOptions::default()).await.unwrap();
    let Outcome::Exception(words) = undecodable else { panic!("{undecodable:?}") };
    let words = String::from_utf8_lossy(&words).into_owned();
    assert!(words.starts_with("the workload cannot be decoded: expected ident"), "{words}");
    // The worker has survived all that.
    let last = client.run("f", "5", SubmitOptions::default()).await.unwrap();
    assert_eq!(last, Outcome::Complete("[5,25]".into()));
    context.stop().unwrap();
    end(run).await;
}

async fn a_stop_finishes_running_tasks_and_returns_the_rest(address: &str) {
    let mut backend = backend(address);
    backend.push_bulk((0..50).collect()).await.unwrap();
    let (gate, began, done) = (
        Arc::new(Semaphore::new(0)),
        Arc::<AtomicUsize>::default(),
        Arc::<Mutex<BTreeSet<u32>>>::default(),
    );
    let task = {
        let (gate, began, done) = (gate.clone(), began.clone(), done.clone());
        move |number: u32| {
            let (gate, began, done) = (gate.clone(), began.clone(), done.clone());
            async move {
                began.fetch_add(1, Ordering::SeqCst);
                gate.acquire().await.unwrap().forget();
                assert!(done.lock().unwrap().insert(number), "{number} is run twice");
            }
        }
    };
    let context = WorkerContext::new("w");
    let worker = WorkerBuilder::new(&context)
        .backend(backend.worker(|options| options.slots(6)))
        .layer(ConcurrencyLimitLayer::new(2))
        .build(task);
    let run = tokio::spawn(worker.run());
    let mut admin = blocking::Admin::connect(address).unwrap();
    let mut running = || admin.status().unwrap().iter().map(|row| row.running).sum::<i64>();
    until("all slots", async || running() == 6 && began.load(Ordering::SeqCst) == 2).await;
    context.stop().unwrap();
    gate.add_permits(50);
    end(run).await;
    let done = done.lock().unwrap().clone();
    let left = left(address, 50 - done.len()).await;
    assert_eq!((done.len(), left.len()), (2, 48));
    assert_eq!(done.union(&left).copied().collect::<Vec<_>>(), (0..50).collect::<Vec<_>>());
}

async fn reruns_a_task_after_a_lost_connection(address: &str) {
    let proxy = Proxy::start(address.parse().unwrap()).unwrap();
    let runs = Arc::<AtomicUsize>::default();
    let task = {
        let runs = runs.clone();
        move |_: u32, job: Data<JobContext>, worker: WorkerContext| {
            let runs = runs.clone();
            async move {
                if runs.fetch_add(1, Ordering::SeqCst) == 0 {
                    assert_eq!(job.lost().await, LostReason::ConnectionLost);
                } else {
                    worker.stop().unwrap();
                }
            }
        }
    };
    let run = tokio::spawn(
        WorkerBuilder::new("w").backend(backend(&proxy.address().to_string())).build(task).run(),
    );
    let client = Client::connect(address).await.unwrap();
    client.submit_background("f", "7", SubmitOptions::default()).await.unwrap();
    until("the task", async || runs.load(Ordering::SeqCst) == 1).await;
    proxy.reset_connections();
    end(run).await;
    assert_eq!(runs.load(Ordering::SeqCst), 2);
    let mut admin = blocking::Admin::connect(address).unwrap();
    assert!(admin.status().unwrap().iter().all(|row| row.total == 0), "it is done");
}

async fn a_dropped_worker_returns_its_jobs(address: &str) {
    let mut backend = backend(address);
    backend.push_bulk((0..4).collect()).await.unwrap();
    let began = Arc::<AtomicUsize>::default();
    let task = {
        let began = began.clone();
        move |_: u32| {
            began.fetch_add(1, Ordering::SeqCst);
            std::future::pending::<()>()
        }
    };
    let worker = WorkerBuilder::new("w").backend(backend.worker(|options| options.slots(2)));
    let run = tokio::spawn(worker.build(task).run());
    until("two tasks", async || began.load(Ordering::SeqCst) == 2).await;
    run.abort();
    assert_eq!(left(address, 4).await, (0..4).collect());
}

#[tokio::test(flavor = "multi_thread")]
async fn submits_tasks_with_their_options() {
    let server = Server::start().unwrap();
    let mut backend = backend(server.address());
    for _ in 0..2 {
        backend.push_task(TaskBuilder::new(1).idempotency_key("one").build()).await.unwrap();
    }
    assert_eq!(server.view().jobs, 1, "the second has joined the first");
    backend.push_task(TaskBuilder::new(2).run_in_seconds(3600).build()).await.unwrap();
    assert_eq!(server.view().jobs, 2);
    let refused = backend.push_task(TaskBuilder::new(3).priority(1).build()).await;
    let Err(TaskSinkError::PushError(error @ Error::Unsupported(_))) = refused else {
        panic!("{refused:?}")
    };
    assert!(error.to_string().starts_with("Gearman has no priority 1"), "{error}");
    assert_eq!(server.view().jobs, 2);
    // The one for later is not run yet.
    let ran = Arc::<Mutex<Vec<u32>>>::default();
    let task = {
        let ran = ran.clone();
        move |number: u32, worker: WorkerContext| {
            let ran = ran.clone();
            async move {
                ran.lock().unwrap().push(number);
                worker.stop().unwrap();
            }
        }
    };
    end(tokio::spawn(WorkerBuilder::new("w").backend(backend).build(task).run())).await;
    assert_eq!(*ran.lock().unwrap(), [1]);
}
