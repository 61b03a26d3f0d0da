//! Producers whose callers go away: dropped futures, dropped receipts, runtimes that end.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use beanstalk_client::{
    Client, ConnectionState, Delivery, ErrorKind, Fate, Producer, ProducerOptions, PutOptions,
    blocking,
};
use fixtures::{beanstalkd::Server, fault::Fault};
use queue_core::proof::{drop_after, runtime};

use super::producer::{drain, producer_options};
use crate::support::{
    place::{PATIENCE, options},
    producing::run,
};

/// C14, and redis/redis-py#2624: the answer to a dropped put goes to no other.
#[test]
fn any_put_dropped_at_any_poll_leaves_the_next_its_own_answer() {
    run(async {
        let server = Server::start().unwrap();
        let producer = Producer::connect(producer_options(server.address())).await.unwrap();
        let mut look = Client::connect(server.address()).await.unwrap();
        for delay in [Duration::ZERO, Duration::from_millis(3)] {
            server.faults().clear();
            server.faults().add(Fault::every(2).of("put").delay(delay));
            for polls in 0..6 {
                let dropped = format!("dropped {polls}");
                let outcome =
                    drop_after(polls, producer.put("a", &dropped, PutOptions::default())).await;
                if let Some(inserted) = outcome {
                    let job = look.peek(inserted.unwrap().id()).await.unwrap().unwrap();
                    assert_eq!(job.body, dropped);
                }
                let kept = format!("kept {polls}");
                let inserted = producer.put("b", &kept, PutOptions::default()).await.unwrap();
                let job = look.peek(inserted.id()).await.unwrap().unwrap();
                assert_eq!(job.body, kept, "after {polls} polls");
            }
        }
        let report = producer.close().await;
        assert_eq!(report.accepted, report.inserted, "a dropped put is carried out");
        // A put that was never polled has sent nothing.
        assert_eq!(report.accepted, 2 * (5 + 6));
        assert_eq!(report.connections, 1);
    });
}

#[test]
fn dropped_waits_for_room_put_nothing_and_leave_the_room_to_others() {
    run(async {
        let server = Server::start().unwrap();
        let options = producer_options(server.address()).max_jobs(1);
        let producer = Producer::connect(options).await.unwrap();
        for round in 0..20 {
            server.faults().add(Fault::nth(1).of("put").delay(Duration::from_millis(2)));
            let first = producer.try_put("a", "first", PutOptions::default()).unwrap();
            let waits = producer.put("a", "waits", PutOptions::default());
            assert!(drop_after(1, waits).await.is_none());
            let (second, third) = tokio::join!(
                producer.put("a", "second", PutOptions::default()),
                drop_after(round % 3, producer.put("a", "third", PutOptions::default())),
            );
            let _ = (first.await.unwrap(), second.unwrap(), third);
        }
        producer.flush().await;
        let report = producer.close().await;
        assert_eq!(report.accepted, report.inserted);
        let found = drain_in(server.address()).await;
        assert!(!found.contains_key("waits"));
        assert_eq!((found["first"], found["second"]), (20, 20));
    });
}

/// How many jobs there are with each body.
async fn drain_in(address: &str) -> HashMap<String, u64> {
    let address = address.to_owned();
    let found = tokio::task::spawn_blocking(move || drain(&address)).await.unwrap();
    let mut counts = HashMap::new();
    for body in found.into_values().flatten() {
        *counts.entry(String::from_utf8(body).unwrap()).or_default() += 1;
    }
    counts
}

#[test]
fn a_dropped_connect_leaves_no_connection_behind() {
    run(async {
        let server = Server::start().unwrap();
        for polls in 0..5 {
            let connect = Producer::connect(producer_options(server.address()));
            drop(drop_after(polls, connect).await);
        }
        let mut look = Client::connect(server.address()).await.unwrap();
        let patience = Instant::now() + PATIENCE;
        while look.stats().await.unwrap().current_connections > 1 {
            assert!(Instant::now() < patience);
            tokio::task::yield_now().await;
        }
    });
}

#[test]
fn receipts_and_pipelines_may_be_dropped_at_any_poll() {
    run(async {
        let server = Server::start().unwrap();
        let producer = Producer::connect(producer_options(server.address())).await.unwrap();
        let mut taken = 0;
        for polls in 0..5 {
            let mut receipt =
                producer.enqueue("a", "receipt", PutOptions::default()).await.unwrap();
            let first = drop_after(polls, &mut receipt).await;
            if first.is_none() {
                let _ = receipt.await.unwrap();
            }
            let bodies = (0..50).map(|n| n.to_string());
            let mut many = producer.put_many("b", bodies, PutOptions::default()).unwrap().window(7);
            let mut answers = 0;
            loop {
                match drop_after(polls.max(1), many.next()).await {
                    Some(Some(answer)) => answers += usize::from(answer.is_ok()),
                    Some(None) => break,
                    None => tokio::task::yield_now().await,
                }
            }
            assert_eq!(answers, 50, "a dropped `next` loses no answer");
            taken += 51;
        }
        assert_eq!(producer.close().await.inserted, taken);
    });
}

#[test]
fn a_dropped_close_or_flush_is_finished_by_the_next() {
    run(async {
        let server = Server::start().unwrap();
        server.faults().add(Fault::every(1).of("put").delay(Duration::from_millis(5)));
        let producer = Producer::connect(producer_options(server.address())).await.unwrap();
        let receipt = producer.try_put("a", "x", PutOptions::default()).unwrap();
        assert!(drop_after(1, producer.flush()).await.is_none());
        assert!(drop_after(1, producer.close()).await.is_none());
        let error = producer.put("a", "y", PutOptions::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Closed);
        assert_eq!(producer.close().await.inserted, 1);
        let _ = receipt.await.unwrap();
    });
}

/// C15.
#[test]
fn a_runtime_that_ends_fails_every_caller() {
    let server = Server::start().unwrap();
    server.faults().add(Fault::nth(2).of("put").hang());
    let drives = Arc::new(runtime());
    let producer = drives.block_on(Producer::connect(producer_options(server.address()))).unwrap();
    let put = |body: &'static str| producer.put("a", body, PutOptions::default());
    let _ = drives.block_on(put("x")).unwrap();
    let hangs = producer.try_put("a", "y", PutOptions::default()).unwrap();
    drives.block_on(async {
        // Until it is written.
        while server.requests().len() < 4 {
            tokio::task::yield_now().await;
        }
    });
    drop(drives);
    let other = runtime();
    let error = other.block_on(hangs).unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::ConnectionLost, Fate::Unknown));
    assert!(error.to_string().contains("runtime"), "{error}");
    let error = other.block_on(put("z")).unwrap_err();
    assert_eq!((error.kind(), error.fate()), (ErrorKind::Closed, Fate::NotSent));
    assert_eq!(producer.state(), ConnectionState::Closed);
    other.block_on(producer.flush());
    let report = other.block_on(producer.close());
    assert_eq!((report.inserted, report.unknown), (1, 1));
}

#[test]
fn an_async_producer_needs_a_runtime() {
    let error = Producer::new("127.0.0.1:1").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("runtime"), "{error}");
}

/// Drops a great many puts at random moments, over connections that break, and counts what became of them.
#[test]
fn dropped_puts_are_put_at_most_once_and_kept_ones_exactly_once() {
    run(async {
        let server = Server::start().unwrap();
        server.faults().add(Fault::every(40).of("put").cut_after(3).executed());
        let options = ProducerOptions::from(options(server.address())).seed(1);
        let producer = Producer::connect(options.max_jobs(8)).await.unwrap();
        let tasks: Vec<_> = (0..40_usize)
            .map(|task| {
                let producer = producer.clone();
                tokio::spawn(async move {
                    let mut kept = Vec::new();
                    for job in 0..25 {
                        let body = format!("{task} {job}");
                        let polls = (task * 7 + job * 3) % 5 + 1;
                        let put = producer.put("a", &body, PutOptions::default());
                        match drop_after(polls, put).await {
                            Some(Ok(_)) => kept.push(body),
                            Some(Err(error)) => assert_eq!(error.fate(), Fate::Unknown),
                            None => {}
                        }
                    }
                    kept
                })
            })
            .collect();
        let mut kept = Vec::new();
        for task in tasks {
            kept.extend(task.await.unwrap());
        }
        let report = producer.close().await;
        assert_eq!(report.accepted, report.inserted + report.unknown);
        assert!(report.connections > 2, "{report:?}");
        let found = drain_in(server.address()).await;
        assert!(found.values().all(|copies| *copies == 1));
        assert!(kept.iter().all(|body| found.contains_key(body)));
    });
}

#[test]
fn dropping_the_last_clone_ends_the_tasks_once_everything_is_answered() {
    run(async {
        let server = Server::start().unwrap();
        server.faults().add(Fault::nth(3).of("put").cut_after(0).unexecuted());
        let options = producer_options(server.address()).delivery(Delivery::AtLeastOnce);
        let producer = Producer::connect(options).await.unwrap();
        for body in ["1", "2", "3", "4"] {
            drop(producer.try_put("a", body, PutOptions::default()).unwrap());
        }
        drop(producer);
        let patience = Instant::now() + PATIENCE;
        let address = server.address().to_owned();
        let mut look = Client::connect(&*address).await.unwrap();
        loop {
            let stats = look.stats().await.unwrap();
            if stats.total_jobs == 4 && stats.current_connections == 1 {
                break;
            }
            assert!(Instant::now() < patience, "{stats:?}");
            tokio::task::yield_now().await;
        }
    });
}

/// An iterator may have more behind its end, which a pipeline that has ended must not yield.
#[test]
fn a_put_pipeline_stays_ended() {
    let bodies = || {
        let mut pulls = 0;
        std::iter::from_fn(move || {
            pulls += 1;
            (pulls % 3 != 0).then(|| pulls.to_string())
        })
    };
    let server = Server::start().unwrap();
    let options = PutOptions::default();
    let producer = blocking::Producer::connect(server.address()).unwrap();
    let mut many = producer.put_many("a", bodies(), options).unwrap();
    let answers = (0..9).filter(|_| many.next().is_some()).count();
    assert_eq!(answers, 2, "blocking");
    run(async {
        let producer = Producer::connect(server.address()).await.unwrap();
        let mut many = producer.put_many("a", bodies(), options).unwrap();
        let mut answers = 0;
        for _ in 0..9 {
            answers += usize::from(many.next().await.is_some());
        }
        assert_eq!(answers, 2, "async");
    });
}
