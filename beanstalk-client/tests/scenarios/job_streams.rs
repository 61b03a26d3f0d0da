//! Jobs and events as streams: what a dropped wait leaves behind, how they end, and what they leave out.

use std::{collections::HashSet, time::Duration};

use beanstalk_client::{
    CallManyStream, Client, ErrorKind, EventStream, Inserted, JobId, Producer, ProducerEvent,
    ProducerEventKind, ProducerOptions, PutManyStream, PutOptions, ReserveStream, Reserved,
    RetryPolicy, Worker, WorkerEvent, WorkerEventKind, WorkerOptions, protocol::Put,
};
use fixtures::{beanstalkd::Server, fault::Fault};
use futures_util::{StreamExt, TryStreamExt};
use queue_core::proof::{drop_after, runtime};

use crate::support::{
    Environment,
    connectors::choppy_client,
    each_server,
    place::{PATIENCE, options},
};

each_server!(
    a_stream_of_jobs_dropped_at_any_poll_loses_no_job,
    a_stream_of_jobs_yields_deadline_soon_and_continues,
    a_stream_of_jobs_ends_after_an_error_and_can_be_replaced,
    event_streams_end_with_their_source,
);

async fn client(address: &str) -> Client {
    Client::connect(options(address)).await.unwrap()
}

/// The action after a wait for a job was dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Then {
    /// The same stream is waited for again.
    Wait,
    /// The stream is dropped, and another one made.
    Another,
    /// The stream is dropped, and the client reserves.
    Reserve,
    /// Its client touches a job that does not exist, which waits for the reserve to end.
    Touch,
}

fn a_stream_of_jobs_dropped_at_any_poll_loses_no_job(environment: Environment) {
    let place = environment.start();
    runtime().block_on(async {
        let mut putting = client(place.address()).await;
        for then in [Then::Wait, Then::Another, Then::Reserve, Then::Touch] {
            let mut polls = 0;
            loop {
                let case = format!("{then:?} after {polls} polls");
                let inserted = putting.put("x", PutOptions::default().priority(7)).await.unwrap();
                let mut client = choppy_client(place.address(), 3).await;
                let mut jobs = client.reserve_stream();
                let first = drop_after(polls, jobs.next()).await;
                let is_done = first.is_some();
                let reserved = match (first, then) {
                    (Some(first), _) => first.unwrap().unwrap(),
                    (None, Then::Wait) => jobs.next().await.unwrap().unwrap(),
                    (None, Then::Another) => {
                        drop(jobs);
                        client.reserve_stream().next().await.unwrap().unwrap()
                    }
                    (None, Then::Reserve) => {
                        drop(jobs);
                        client.reserve().await.unwrap()
                    }
                    (None, Then::Touch) => {
                        let gone = jobs.client().touch(u64::MAX).await.unwrap_err();
                        assert_eq!(gone.kind(), ErrorKind::NotFound, "{case}");
                        jobs.next().await.unwrap().unwrap()
                    }
                };
                let job = reserved.job().unwrap();
                assert_eq!(job.id, inserted.id(), "{case}");
                let stats = client.stats_job(job.id).await.unwrap().unwrap();
                assert_eq!((stats.pri.get(), stats.releases, stats.timeouts), (7, 0, 0), "{case}");
                client.delete(&job).await.unwrap();
                if is_done {
                    break;
                }
                polls += 1;
            }
            assert!(polls > 5, "{then:?}: ready after {polls} polls");
        }
        let stats = putting.stats().await.unwrap();
        assert_eq!((stats.current_jobs_ready, stats.current_jobs_reserved), (0, 0));
    });
}

/// Commands of the client end a wait that was dropped: what arrives for it goes back, and is given to the next.
#[test]
fn commands_between_dropped_waits_of_a_stream_lose_no_job() {
    let server = Server::start().unwrap();
    runtime().block_on(async {
        let mut client = client(server.address()).await;
        let mut delivered: HashSet<JobId> = HashSet::new();
        let mut jobs = client.reserve_stream();
        for polls in 0..40_usize {
            if let Some(reserved) = drop_after(polls % 5, jobs.next()).await {
                let job = reserved.unwrap().unwrap().job().unwrap();
                assert!(delivered.insert(job.id), "job {} was delivered twice", job.id);
                jobs.client().delete(&job).await.unwrap();
            }
            let _ = jobs.client().put("x", PutOptions::default().priority(7)).await.unwrap();
        }
        while delivered.len() < 40 {
            let job = jobs.try_next().await.unwrap().unwrap().job().unwrap();
            assert!(delivered.insert(job.id), "job {} was delivered twice", job.id);
            let stats = jobs.client().stats_job(job.id).await.unwrap().unwrap();
            assert_eq!((stats.pri.get(), stats.releases, stats.buries), (7, 0, 0));
            jobs.client().delete(&job).await.unwrap();
        }
    });
    assert_eq!(server.view().jobs, 0);
}

fn a_stream_of_jobs_yields_deadline_soon_and_continues(environment: Environment) {
    let place = environment.start();
    runtime().block_on(async {
        let mut client = client(place.address()).await;
        // The whole of a one-second time to run is the safety margin.
        let short = PutOptions::default().ttr(Duration::from_secs(1));
        let id = client.put("short", short).await.unwrap().id();
        let mut jobs = client.reserve_stream();
        let job = jobs.try_next().await.unwrap().unwrap().job().unwrap();
        assert_eq!(job.id, id);
        assert_eq!(jobs.try_next().await.unwrap(), Some(Reserved::DeadlineSoon));
        jobs.client().delete(&job).await.unwrap();
        let next = jobs.client().put("next", PutOptions::default()).await.unwrap().id();
        let job = jobs.try_next().await.unwrap().unwrap().job().unwrap();
        assert_eq!(job.id, next);
        jobs.client().delete(&job).await.unwrap();
    });
}

fn a_stream_of_jobs_ends_after_an_error_and_can_be_replaced(environment: Environment) {
    let place = environment.start();
    runtime().block_on(async {
        let mut client = Client::connect(options(place.address()).max_body_size(4)).await.unwrap();
        for body in ["too long", "fits"] {
            let _ = client.put(body, PutOptions::default()).await.unwrap();
        }
        let mut jobs = client.reserve_stream();
        let error = jobs.next().await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BodyTooLarge);
        assert!(jobs.next().await.is_none() && jobs.next().await.is_none());
        jobs.client().delete(error.job().unwrap()).await.unwrap();
        let mut jobs = client.reserve_stream();
        let job = jobs.try_next().await.unwrap().unwrap().job().unwrap();
        assert_eq!(job.body, "fits");
        jobs.client().delete(&job).await.unwrap();
    });
}

fn event_streams_end_with_their_source(environment: Environment) {
    let place = environment.start();
    runtime().block_on(async {
        let (told, also) = (std::sync::Arc::new(std::sync::Mutex::new(0)), 1);
        let counts = told.clone();
        let options_ = ProducerOptions::from(options(place.address()));
        let options_ = options_.on_event(move |_| *counts.lock().unwrap() += also);
        let (options_, events) = options_.event_stream(8);
        let producer = Producer::connect(options_).await.unwrap();
        let _ = producer.put("t", "job", PutOptions::default()).await.unwrap();
        let _ = producer.close().await;
        drop(producer);
        let events: Vec<ProducerEvent> = events.collect().await;
        assert!(matches!(events[0].what, ProducerEventKind::Connected), "{events:?}");
        assert_eq!(events.len(), *told.lock().unwrap());

        let options_ = WorkerOptions::from(options(place.address()));
        // Fewer than there are: started and settled push the connection out.
        let (options_, events) = options_.until_empty().event_stream(2);
        let mut worker = Worker::new(options_).unwrap();
        worker.register("t", |_| async { Ok::<_, &str>(()) }).unwrap();
        let report = worker.run().await;
        assert_eq!(report.finished, 1);
        assert_eq!(events.missed(), 1);
        let events: Vec<WorkerEvent> = events.collect().await;
        let [started, settled] = &events[..] else { panic!("{events:?}") };
        assert!(matches!(started.what, WorkerEventKind::Started(_)));
        assert!(matches!(settled.what, WorkerEventKind::Settled { .. }));
    });
}

/// The types can be named, kept, and moved to another task.
struct Kept<'a> {
    puts: PutManyStream<'a>,
    events: EventStream<ProducerEvent>,
}

#[test]
fn streams_have_names_and_may_move_to_another_thread() {
    fn moves<T: Send + Unpin>(it: T) -> T {
        it
    }
    let server = Server::start().unwrap();
    runtime().block_on(async {
        let options_: ProducerOptions = server.address().parse().unwrap();
        let (options_, events) = options_.event_stream(1);
        let producer = Producer::connect(options_).await.unwrap();
        let puts = producer.put_many("t", ["a", "b"], PutOptions::default()).unwrap();
        let mut kept = moves(Kept { puts: puts.into_stream(), events });
        let inserted: Vec<Inserted> = (&mut kept.puts).try_collect().await.unwrap();
        assert_eq!(inserted.len(), 2);
        assert!(kept.events.next().await.is_some());
        let mut client = client(server.address()).await;
        let puts = ["c"].map(|body| Put::new(body, PutOptions::default()).unwrap());
        let many: CallManyStream<'_, Inserted> = moves(client.call_many(puts).into_stream());
        assert_eq!(many.count().await, 1);
        let jobs: ReserveStream<'_> = moves(client.reserve_stream());
        assert!(format!("{jobs:?}").contains("is_waiting: false"));
    });
}

/// It was asked thousands of times a second, and its caller did not see that.
#[test]
fn a_server_that_ends_every_wait_at_once_is_not_hammered() {
    let server = Server::start().unwrap();
    server.faults().add(Fault::always().of("reserve-with-timeout").reply("TIMED_OUT").unexecuted());
    runtime().block_on(async {
        let mut client = client(server.address()).await;
        let retry = RetryPolicy::new(3).backoff(Duration::from_millis(50), Duration::from_secs(5));
        let mut waits = Client::connect(options(server.address()).retry(retry)).await.unwrap();
        let _ =
            tokio::time::timeout(Duration::from_millis(500), waits.reserve_stream().next()).await;
        let asked = server.faults().struck();
        assert!((2..40).contains(&asked), "{asked} times in half a second");
        // And then it goes on.
        server.faults().clear();
        let _ = client.put("x", PutOptions::default()).await.unwrap();
        let job = tokio::time::timeout(PATIENCE, waits.reserve_stream().next()).await.unwrap();
        assert!(matches!(job, Some(Ok(Reserved::Job(_)))), "{job:?}");
    });
}
