//! Servers that misbehave.

use std::time::Duration;

use gearman_client::{
    Client, ConnectOptions, Deadline, ErrorKind, Fate, JobEvent, RetryPolicy, Worker,
    WorkerOptions, blocking,
    protocol::{PacketType, Submit},
};
use queue_core::proof::runtime;

use super::{
    face::{Face, both_faces},
    support::{LATE, Peer, options},
};

both_faces!(quirk_a_request_that_is_never_answered_ends_its_connection,);

fn impatient(address: &str) -> ConnectOptions {
    let options: ConnectOptions = address.parse().unwrap();
    options.reply_timeout(LATE).retry(RetryPolicy::new(1))
}

/// Two conversations: the first goes wrong, the second shows that the client recovers.
fn server_that_then_echoes(
    wrong: impl FnOnce(Peer) + Send + 'static,
) -> (String, std::thread::JoinHandle<()>) {
    Peer::serve(vec![
        Box::new(wrong),
        Box::new(|mut peer: Peer| {
            peer.greet();
            peer.expect(PacketType::EchoReq);
            peer.write(PacketType::EchoRes, &["again"]);
            peer.wait_for_end();
        }),
    ])
}

/// C2.
fn quirk_a_request_that_is_never_answered_ends_its_connection<F: Face>() {
    let (address, server) = server_that_then_echoes(|mut peer: Peer| {
        peer.greet();
        peer.expect(PacketType::GetStatus);
        peer.wait_for_end();
    });
    let mut client = F::connect(impatient(&address)).unwrap();
    let unanswered = gearman_client::protocol::GetStatus("H:x:1".parse().unwrap());
    let error = client.call(&unanswered).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Timeout(Deadline::Reply));
    assert_eq!((error.fate(), error.command()), (Fate::Unknown, Some("GET_STATUS")));
    assert_eq!(client.echo("again").unwrap(), "again");
    drop(client);
    server.join().unwrap();
}

#[test]
fn quirk_text_where_a_packet_belongs_ends_the_connection_with_its_words() {
    let (address, server) = server_that_then_echoes(|mut peer| {
        peer.greet();
        peer.expect(PacketType::EchoReq);
        peer.write_bytes(b"ERR UNKNOWN_COMMAND what\r\n");
        peer.wait_for_end();
    });
    runtime().block_on(async {
        let client = Client::connect(impatient(&address)).await.unwrap();
        let error = client.echo("x").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Protocol);
        assert!(error.to_string().contains("ERR UNKNOWN_COMMAND what"), "{error}");
        assert_eq!(client.echo("again").await.unwrap(), "again");
    });
    server.join().unwrap();
}

#[test]
fn an_unread_backlog_is_bounded() {
    let (address, server) = Peer::serve(vec![Box::new(|mut peer: Peer| {
        peer.greet();
        peer.expect(PacketType::SubmitJob);
        peer.write(PacketType::JobCreated, &["H:x:1"]);
        let piece = "x".repeat(10_000);
        for _ in 0..100 {
            peer.write(PacketType::WorkData, &["H:x:1", &piece]);
        }
        peer.expect(PacketType::EchoReq);
        peer.write(PacketType::EchoRes, &["after"]);
        peer.wait_for_end();
    })]);
    runtime().block_on(async {
        let options = impatient(&address).max_backlog(50_000);
        let client = Client::connect(options).await.unwrap();
        let mut job = client.submit("f", "x", super::support::options()).await.unwrap();
        assert_eq!(client.echo("after").await.unwrap(), "after");
        let mut pieces = 0;
        let error = loop {
            match job.next().await.unwrap() {
                Ok(_) => pieces += 1,
                Err(error) => break error,
            }
        };
        assert_eq!((error.kind(), pieces), (ErrorKind::Backlog, 4));
    });
    server.join().unwrap();
}

/// The blocking face reads on its own only while a write is stuck.
#[test]
fn an_unread_backlog_is_bounded_in_the_blocking_face() {
    let (address, server) = Peer::serve(vec![Box::new(|mut peer: Peer| {
        peer.greet();
        peer.expect(PacketType::SubmitJob);
        peer.write(PacketType::JobCreated, &["H:x:1"]);
        // More than fits into socket buffers: the client has to read it before its second job is read.
        let piece = "x".repeat(10_000);
        for _ in 0..2_000 {
            peer.write(PacketType::WorkData, &["H:x:1", &piece]);
        }
        peer.expect(PacketType::SubmitJob);
        peer.write(PacketType::JobCreated, &["H:x:2"]);
        peer.write(PacketType::WorkComplete, &["H:x:1", "one"]);
        peer.write(PacketType::WorkComplete, &["H:x:2", "two"]);
        peer.wait_for_end();
    })]);
    let to: ConnectOptions = address.parse().unwrap();
    let mut client = blocking::Client::connect(to.max_backlog(50_000)).unwrap();
    let jobs = [0, 15 << 20].map(|size| {
        let name = super::support::function("f");
        Submit::foreground(name, vec![b'x'; size], options()).unwrap()
    });
    let mut pieces = 0;
    let mut ends = Vec::new();
    for (number, event) in client.submit_many(jobs) {
        match event {
            Ok(JobEvent::Data(_)) => pieces += 1,
            Ok(JobEvent::Created(_)) => {}
            Ok(event) => ends.push((number, Ok(event))),
            Err(error) => ends.push((number, Err(error.kind()))),
        }
    }
    let two = Ok(JobEvent::Complete("two".into()));
    assert_eq!(ends, vec![(0, Err(ErrorKind::Backlog)), (1, two)]);
    // Four may wait; those that arrived with the answer to the first job were handed over before.
    assert!((4..40).contains(&pieces), "{pieces} pieces");
    drop(client);
    server.join().unwrap();
}

#[test]
fn lazy_clients_and_workers_may_start_before_their_server() {
    let Some(mut server) = super::support::real() else { return };
    server.kill();
    let often =
        RetryPolicy::new(600).backoff(Duration::from_millis(20), Duration::from_millis(100));
    let options: ConnectOptions = server.address().parse().unwrap();
    let options = options.total_timeout(None).retry(often);
    let mut at_once = blocking::Client::new(options.clone().retry(RetryPolicy::new(0))).unwrap();
    assert_eq!(at_once.echo("x").unwrap_err().kind(), ErrorKind::Connect);
    let mut worker = blocking::Worker::new(WorkerOptions::from(options.clone())).unwrap();
    worker.register("blocking", |job| job.workload.clone()).unwrap();
    let stop = worker.handle();
    let working = std::thread::spawn(move || worker.run());
    let mut client = blocking::Client::new(options.clone()).unwrap();
    let running =
        std::thread::spawn(move || client.run("blocking", "x", super::support::options()));
    runtime().block_on(async {
        let mut worker = Worker::new(WorkerOptions::from(options.clone())).unwrap();
        worker.register("async", |job| async move { job.workload.clone() }).unwrap();
        let client = Client::new(options).unwrap();
        let runs = client.run("async", "x", super::support::options());
        let starts = async {
            // All of them have been refused by now, or will be.
            tokio::time::sleep(Duration::from_millis(100)).await;
            server.restart().unwrap();
        };
        let asked = async { tokio::join!(runs, starts).0 };
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let serves = worker.run_until(stopped);
        let outcome = async {
            let outcome = asked.await;
            stop.send(()).unwrap();
            outcome
        };
        let (outcome, report) = tokio::join!(outcome, serves);
        assert!(outcome.unwrap().is_complete(), "{report}");
    });
    assert!(running.join().unwrap().unwrap().is_complete());
    stop.stop();
    drop(working.join().unwrap());
    let outside = Worker::new(server.address()).map(drop).unwrap_err();
    assert_eq!(outside.kind(), ErrorKind::InvalidInput);
}
