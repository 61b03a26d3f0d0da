//! A client over HTTP, whatever the server does.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use adf_queue_client::{Client, ConnectOptions, Deadline, ErrorKind, Fate, QueueName};
use fixtures::Dark;
use tokio::time::timeout;

use crate::{
    face::{Face, both_faces, runtime},
    scripted::{Asked, Say, Scripted, head},
    support::PATIENCE,
};

both_faces!(
    a_kept_connection_that_the_server_has_closed_is_replaced,
    a_pull_that_came_too_late_for_a_message_brings_the_next_one,
    a_pull_with_a_deadline_waits_no_longer_for_a_connection,
);

fn options(server: &Scripted) -> ConnectOptions {
    format!("http+json://{}", server.address).parse().unwrap()
}

fn queue() -> QueueName {
    "q".parse().unwrap()
}

/// Counts seven messages in every queue, and numbers what is pushed.
fn well(asked: &Asked) -> Say {
    match asked.action() {
        "count" => Say::Keep(asked.json(r#","count":7"#)),
        "rpush" => Say::Close(asked.json(r#","messageid":1"#).replace("keep-alive", "close")),
        _ => Say::Keep(asked.json("")),
    }
}

fn message(asked: &Asked) -> String {
    asked.json(r#","body":"hi","duplications":1,"messageid":8"#)
}

/// Row 11.
fn a_kept_connection_that_the_server_has_closed_is_replaced<F: Face>() {
    let server = Scripted::start(|asked| match well(asked) {
        Say::Keep(answer) => Say::Close(answer),
        other => other,
    });
    let mut client = F::new(options(&server)).unwrap();
    for round in 0..4 {
        assert_eq!(client.count(&queue()).unwrap(), 7);
        server.ended(2 * round + 1);
        assert_eq!(client.rpush(&queue(), "a".into()).unwrap().get(), 1);
        server.ended(2 * round + 2);
    }
    let asked = server.asked(8);
    assert!(asked.iter().map(|asked| asked.connection).eq(1..=8), "{asked:?}");
}

/// Row 2: another client was quicker.
fn a_pull_that_came_too_late_for_a_message_brings_the_next_one<F: Face>() {
    let [comes, waits] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let (has_come, is_waiting) = (comes.clone(), waits.clone());
    let server = Scripted::start(move |asked| match asked.action() {
        "pull" => {
            is_waiting.store(true, Ordering::Release);
            while !has_come.load(Ordering::Acquire) {
                thread::sleep(Duration::from_millis(5));
            }
            Say::Keep(message(asked))
        }
        _ => well(asked),
    });
    let options = options(&server).reply_timeout(Duration::from_secs(3));
    let mut client = F::new(options).unwrap();
    // On a busy machine its time may be over before it is sent.
    while !waits.load(Ordering::Acquire) {
        assert!(client.pull_within(&queue(), Duration::from_millis(10)).unwrap().is_none());
    }
    comes.store(true, Ordering::Release);
    let pulled = client.pull(&queue()).unwrap();
    let asked = server.asked(2);
    let pulls: Vec<_> = asked.iter().filter(|asked| asked.action() == "pull").collect();
    assert_eq!((pulls.len(), pulled.request_id().as_str()), (1, pulls[0].query("requestid")));
}

/// It had each attempt of the retry policy, with the whole connect timeout.
fn a_pull_with_a_deadline_waits_no_longer_for_a_connection<F: Face>() {
    let dark = Dark::start().unwrap();
    for scheme in ["http", "http+json", "adf"] {
        let options: ConnectOptions = format!("{scheme}://{}", dark.address()).parse().unwrap();
        let mut client = F::new(options.connect_timeout(PATIENCE)).unwrap();
        let start = Instant::now();
        let error = client.pull_within(&queue(), Duration::from_millis(100)).unwrap_err();
        assert!(start.elapsed() < PATIENCE, "{scheme}: {:?}", start.elapsed());
        assert_eq!(
            (error.kind(), error.fate()),
            (&ErrorKind::Timeout(Deadline::Connect), Fate::NotSent)
        );
    }
}

#[test]
fn callers_have_their_turn_in_the_order_in_which_they_came() {
    let server = Scripted::start(well);
    runtime().block_on(async {
        let options = options(&server).max_connections(1);
        let client = Client::new(options).unwrap();
        let names: Vec<String> = (0..20).map(|n| format!("q{n}")).collect();
        let mut calls = tokio::task::JoinSet::new();
        for name in names.clone() {
            let (client, (begun, has_begun)) = (client.clone(), tokio::sync::oneshot::channel());
            calls.spawn(async move {
                let count = client.count(name);
                tokio::pin!(count);
                // It has asked for its turn before the next one arrives.
                if let Ok(outcome) = timeout(Duration::ZERO, &mut count).await {
                    begun.send(()).unwrap();
                    return outcome;
                }
                begun.send(()).unwrap();
                count.await
            });
            has_begun.await.unwrap();
        }
        assert!(calls.join_all().await.into_iter().all(|count| count.unwrap() == 7));
        let asked = server.asked(20);
        assert!(asked.iter().map(|asked| asked.query("queue")).eq(&names), "{asked:?}");
        assert!(asked.iter().all(|asked| asked.connection == 1));
    });
}

#[test]
fn connections_stay_within_the_limit() {
    let (busy, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (is_busy, at_most) = (busy.clone(), most.clone());
    let server = Scripted::start(move |asked| {
        at_most.fetch_max(is_busy.fetch_add(1, Ordering::AcqRel) + 1, Ordering::AcqRel);
        thread::sleep(Duration::from_millis(5));
        is_busy.fetch_sub(1, Ordering::AcqRel);
        well(asked)
    });
    runtime().block_on(async {
        let client = Client::new(options(&server).max_connections(3)).unwrap();
        let mut calls = tokio::task::JoinSet::new();
        for _ in 0..30 {
            let client = client.clone();
            calls.spawn(async move { client.count("q").await });
        }
        assert!(calls.join_all().await.into_iter().all(|count| count.unwrap() == 7));
        assert!(client.metrics().connections <= 3);
    });
    assert!(most.load(Ordering::Acquire) <= 3, "{most:?}");
    assert_eq!(busy.load(Ordering::Acquire), 0);
}

/// Row 19, on our side of it.
#[test]
fn no_request_waits_for_a_pull() {
    let server = Scripted::start(|asked| match asked.action() {
        "pull" => Say::Hang(head("application/octet-stream")),
        _ => well(asked),
    });
    runtime().block_on(async {
        let client = Client::new(options(&server).max_connections(1)).unwrap();
        let pulls = tokio::spawn({
            let client = client.clone();
            async move { client.pull("q").await }
        });
        while server.asked(0).iter().all(|asked| asked.action() != "pull") {
            tokio::task::yield_now().await;
        }
        assert_eq!(client.count("q").await.unwrap(), 7);
        pulls.abort();
    });
}

#[test]
fn a_request_that_is_dropped_closes_its_connection() {
    let server = Scripted::start(|_| Say::Hang(String::new()));
    runtime().block_on(async {
        let client = Client::new(options(&server)).unwrap();
        let mut count = Box::pin(client.count("q"));
        while server.asked(0).is_empty() {
            timeout(Duration::from_millis(5), &mut count).await.unwrap_err();
        }
        drop(count);
        server.ended(1);
    });
}

/// Row 2: the server would keep each of them forever.
#[test]
fn pulls_are_refused_once_too_many_were_given_up() {
    let server = Scripted::start(|_| Say::Hang(head("application/octet-stream")));
    runtime().block_on(async {
        let address = format!("http://{}", server.address);
        let client = Client::new(address).unwrap();
        for n in 0..16 {
            let mut pull = Box::pin(client.pull(format!("q{n}")));
            while server.asked(0).len() <= n {
                timeout(Duration::from_millis(5), &mut pull).await.unwrap_err();
            }
        }
        let error = client.pull("another").await.unwrap_err();
        assert_eq!((error.kind(), error.fate()), (&ErrorKind::Unsupported, Fate::NotSent));
        let mut again = Box::pin(client.pull("q3"));
        timeout(Duration::from_millis(50), &mut again).await.expect_err("it waits with the first");
        drop(again);
        assert_eq!(server.asked(16).len(), 16);
        drop(client);
        server.ended(16);
    });
}
