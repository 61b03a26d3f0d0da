//! Tasks through the backend: the outcomes of jobs, whatever happens.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use apalis_beanstalk::{
    BeanstalkBackend, Error,
    beanstalk_client::{Client, ConnectOptions, JobContext, PutOptions, Retries, RetryPolicy},
};
use apalis_core::{
    backend::{TaskSink, TaskSinkError, queue::Queue},
    error::{AbortError, BoxDynError, RetryAfterError, WorkerError},
    task::{attempt::Attempt, builder::TaskBuilder, data::Data, task_id::TaskId},
    worker::{
        builder::WorkerBuilder, context::WorkerContext, event::Event,
        ext::event_listener::EventListenerExt,
    },
};
use fixtures::{
    beanstalkd::{JobState, Server},
    proxy::Proxy,
};
use tokio::{sync::Semaphore, task::JoinHandle, time::timeout};
use tower::{limit::ConcurrencyLimitLayer, timeout::TimeoutLayer};

/// Longer than anything takes here, even on a busy machine; only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a task may take: no time for one that never ends, and enough for others on a busy machine.
const TASK_LIMIT: Duration = Duration::from_secs(1);

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("{what} does not come"));
}

fn backend(address: &str) -> BeanstalkBackend<u32> {
    let retry = RetryPolicy::new(20).backoff(Duration::from_millis(5), Duration::from_millis(50));
    let options = address.parse::<ConnectOptions>().unwrap().retry(retry);
    BeanstalkBackend::new(options, "tasks").unwrap()
}

async fn end(run: JoinHandle<Result<(), WorkerError>>) {
    timeout(PATIENCE, run).await.expect("the worker does not end").unwrap().unwrap();
}

fn states(server: &Server) -> Vec<(String, JobState)> {
    let text = |body: &[u8]| String::from_utf8_lossy(body).into_owned();
    let mut states: Vec<_> = server.jobs().iter().map(|job| (text(&job.body), job.state)).collect();
    states.sort_by(|one, other| one.0.cmp(&other.0));
    states
}

async fn works_end_to_end(address: &str) {
    let mut backend = backend(address).count_attempts(true);
    backend.push_bulk((0..100).collect()).await.unwrap();
    let seen = Arc::<Mutex<BTreeSet<u32>>>::default();
    let task = {
        let seen = seen.clone();
        move |number: u32,
              id: TaskId,
              queue: Queue,
              job: Data<JobContext>,
              worker: WorkerContext| {
            let seen = seen.clone();
            async move {
                assert_eq!(id.to_string(), format!("{}//{}", job.server(), job.id));
                assert_eq!(queue.as_ref(), "tasks");
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
    let mut client = Client::connect(address).await.unwrap();
    let stats = client.stats().await.unwrap();
    let left = stats.current_jobs_ready + stats.current_jobs_reserved + stats.current_jobs_buried;
    assert_eq!((stats.cmd_delete, left, stats.current_jobs_delayed), (100, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_round_trip_in_memory() {
    works_end_to_end(Server::start().unwrap().address()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_round_trip_real() {
    if let Some(server) = fixtures::real::Beanstalkd::start() {
        works_end_to_end(server.address()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_task_is_released_or_buried() {
    let server = Server::start().unwrap();
    let mut client = Client::connect(server.address()).await.unwrap();
    client.use_tube("tasks").await.unwrap();
    for body in ["1", "2", "3", "4", "no number", "6"] {
        let _ = client.put(body, PutOptions::default()).await.unwrap();
    }
    let backend = backend(server.address()).worker(|options| {
        options.retries(Retries::default().backoff(
            Duration::from_secs(60),
            2,
            Duration::from_secs(600),
        ))
    });
    let told = Arc::<Mutex<Vec<String>>>::default();
    let tell = told.clone();
    let task = |number: u32, worker: WorkerContext| async move {
        match number {
            1 => Err(BoxDynError::from("no such picture")),
            2 => Err(AbortError::new("malformed").into()),
            3 => Err(RetryAfterError::new("busy", Duration::from_secs(7)).into()),
            4 => panic!("a task of a test"),
            _ => {
                worker.stop().unwrap();
                Ok(())
            }
        }
    };
    let worker = WorkerBuilder::new("w").backend(backend).on_event(move |_, event| {
        if let Event::Error(error) = event {
            tell.lock().unwrap().push(error.to_string());
        }
    });
    end(tokio::spawn(worker.build(task).run())).await;
    let expected = [
        ("1", JobState::Delayed),
        ("2", JobState::Buried),
        ("3", JobState::Delayed),
        ("4", JobState::Delayed),
        ("no number", JobState::Buried),
    ];
    assert_eq!(states(&server), expected.map(|(body, state)| (body.to_owned(), state)));
    let jobs = server.jobs();
    let delay = |body: &[u8]| jobs.iter().find(|job| job.body == body).unwrap().delay.as_secs();
    assert_eq!((delay(b"1"), delay(b"3"), delay(b"4")), (60, 7, 60));
    assert_eq!(told.lock().unwrap().len(), 4);
    assert_eq!(told.lock().unwrap()[3], "the task panicked: a task of a test");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_finishes_running_tasks_and_returns_the_rest() {
    let server = Server::start().unwrap();
    let mut backend = backend(server.address());
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
    let held = || server.jobs().iter().filter(|job| job.state == JobState::Reserved).count();
    until("all slots", async || held() == 6 && began.load(Ordering::SeqCst) == 2).await;
    context.stop().unwrap();
    // Jobs that no task has started are available to others while two tasks continue.
    until("what waits", async || held() == 2).await;
    assert_eq!((server.jobs().len(), began.load(Ordering::SeqCst)), (50, 2));
    gate.add_permits(50);
    end(run).await;
    let done = done.lock().unwrap().clone();
    let left: BTreeSet<u32> = states(&server)
        .iter()
        .map(|(body, state)| {
            assert_eq!(*state, JobState::Ready);
            body.parse().unwrap()
        })
        .collect();
    assert_eq!((done.len(), left.len()), (2, 48));
    assert_eq!(done.union(&left).copied().collect::<Vec<_>>(), (0..50).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_may_outlive_the_time_to_run() {
    // Time to run passes when the test says so: only touches keep the job.
    let server = Server::builder().virtual_clock().start().unwrap();
    let mut backend =
        backend(server.address()).put_options(PutOptions::default().ttr(Duration::from_secs(3)));
    backend.push(7).await.unwrap();
    let gate = Arc::new(Semaphore::new(0));
    let task = {
        let gate = gate.clone();
        move |_: u32, worker: WorkerContext| {
            let gate = gate.clone();
            async move {
                gate.acquire().await.unwrap().forget();
                worker.stop().unwrap();
            }
        }
    };
    let run = tokio::spawn(WorkerBuilder::new("w").backend(backend).build(task).run());
    let mut client = Client::connect(server.address()).await.unwrap();
    for touches in 1..=3 {
        until("a touch", async || client.stats().await.unwrap().cmd_touch >= touches).await;
        server.advance(Duration::from_secs(2));
    }
    assert_eq!((server.jobs()[0].state, server.jobs()[0].timeouts), (JobState::Reserved, 0));
    gate.add_permits(1);
    end(run).await;
    assert_eq!(server.jobs().len(), 0);
}

async fn survives_the_loss_of_its_connection(address: &str) {
    let proxy = Proxy::start(address.parse().unwrap()).unwrap();
    let mut backend = backend(&proxy.address().to_string()).count_attempts(true);
    backend.push(7).await.unwrap();
    let runs = Arc::<Mutex<Vec<usize>>>::default();
    let task = {
        let runs = runs.clone();
        move |_: u32, attempt: Attempt, job: Data<JobContext>, worker: WorkerContext| {
            let runs = runs.clone();
            async move {
                let is_first = {
                    let mut runs = runs.lock().unwrap();
                    runs.push(attempt.current());
                    runs.len() == 1
                };
                if is_first {
                    job.lost().await;
                } else {
                    worker.stop().unwrap();
                }
            }
        }
    };
    let run = tokio::spawn(WorkerBuilder::new("w").backend(backend).build(task).run());
    until("the task", async || runs.lock().unwrap().len() == 1).await;
    proxy.reset_connections();
    end(run).await;
    // The first poll counts the attempts before, and this one.
    assert_eq!(*runs.lock().unwrap(), [1, 2]);
    let stats = Client::connect(address).await.unwrap().stats().await.unwrap();
    assert_eq!(
        (stats.cmd_delete, stats.current_jobs_ready, stats.current_jobs_reserved),
        (1, 0, 0)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn reruns_a_task_after_a_lost_connection_in_memory() {
    survives_the_loss_of_its_connection(Server::start().unwrap().address()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reruns_a_task_after_a_lost_connection_real() {
    if let Some(server) = fixtures::real::Beanstalkd::start() {
        survives_the_loss_of_its_connection(server.address()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn layers_apply_limits_and_timeouts() {
    let server = Server::start().unwrap();
    let mut backend = backend(server.address());
    backend.push_bulk((0..20).collect()).await.unwrap();
    let (running, most, done) = (
        Arc::<AtomicUsize>::default(),
        Arc::<AtomicUsize>::default(),
        Arc::<AtomicUsize>::default(),
    );
    let task = {
        let (running, most, done) = (running.clone(), most.clone(), done.clone());
        move |number: u32, worker: WorkerContext| {
            let (running, most, done) = (running.clone(), most.clone(), done.clone());
            async move {
                if number == 0 {
                    std::future::pending::<()>().await;
                }
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(2)).await;
                running.fetch_sub(1, Ordering::SeqCst);
                if done.fetch_add(1, Ordering::SeqCst) == 18 {
                    worker.stop().unwrap();
                }
            }
        }
    };
    let worker = WorkerBuilder::new("w")
        .backend(backend.worker(|options| options.slots(8)))
        .layer(ConcurrencyLimitLayer::new(3))
        .layer(TimeoutLayer::new(TASK_LIMIT));
    end(tokio::spawn(worker.build(task).run())).await;
    assert!(most.load(Ordering::SeqCst) <= 3);
    assert_eq!(states(&server), [("0".to_owned(), JobState::Delayed)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn puts_tasks_with_their_options() {
    let server = Server::start().unwrap();
    let mut backend = backend(server.address());
    backend.push_task(TaskBuilder::new(1).run_in_seconds(3600).priority(9).build()).await.unwrap();
    let options = PutOptions::default().ttr(Duration::from_secs(5)).priority(3);
    let elsewhere = TaskBuilder::new(2).data(options).queue(Queue::from("elsewhere"));
    backend.push_task(elsewhere.build()).await.unwrap();
    let jobs = server.jobs();
    let late = &jobs[0];
    assert_eq!((late.tube.as_str(), late.priority, late.state), ("tasks", 9, JobState::Delayed));
    // The task knows whole seconds, and some of them may have passed.
    assert!((3540..=3600).contains(&late.delay.as_secs()), "{late:?}");
    let other = &jobs[1];
    assert_eq!((other.tube.as_str(), other.priority, other.ttr.as_secs()), ("elsewhere", 3, 5));
    let refused = backend.push_task(TaskBuilder::new(3).priority(usize::MAX).build()).await;
    let Err(TaskSinkError::PushError(error @ Error::Unsupported(_))) = refused else {
        panic!("{refused:?}")
    };
    assert!(error.to_string().contains("it is 0 to 4294967295"), "{error}");
    assert_eq!(server.jobs().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_worker_returns_its_jobs() {
    let server = Server::start().unwrap();
    let mut backend = backend(server.address());
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
    until("the jobs", async || server.jobs().iter().all(|job| job.state == JobState::Ready)).await;
    let jobs = server.jobs();
    assert!(jobs.len() == 4 && jobs.iter().all(|job| job.buries == 0), "{jobs:?}");
}
