//! When workers of several servers are connected, and what their barriers wait for.

use std::time::Duration;

use fixtures::{fault::Fault, gearmand::Server};
use gearman_client::{ConnectOptions, ErrorKind, RetryPolicy, Servers, WorkerOptions, blocking};

use super::{
    face::{Face, WorkFace, both_faces},
    support::options,
};

both_faces!(
    a_check_asks_each_server_until_one_answers,
    a_barrier_connects_to_all_servers,
    a_barrier_leaves_out_a_server_that_cannot_be_reached,
    a_result_that_is_lost_fails_the_next_barrier_and_no_other,
);

/// A server that gets connections only after others have had their turns.
fn late(address: &str) -> ConnectOptions {
    let retry = RetryPolicy::new(2).backoff(Duration::from_millis(5), Duration::from_millis(50));
    let options: ConnectOptions = address.parse().unwrap();
    options.retry(retry).connector(|address| async move {
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        tokio::net::TcpStream::connect(address.to_string()).await
    })
}

fn worker<F: Face>(list: impl IntoIterator<Item = ConnectOptions>) -> F::Worker {
    let mut worker = F::Worker::new(WorkerOptions::from(Servers::new(list).unwrap()));
    worker.can_do("f");
    worker
}

fn submit(server: &Server) {
    let mut client = blocking::Client::connect(server.address()).unwrap();
    client.submit_background("f", "x", options()).unwrap();
}

/// One that answers is enough, and nothing is opened but what asks.
fn a_check_asks_each_server_until_one_answers<F: Face>() {
    let (gone, server) = (Server::start().unwrap(), Server::start().unwrap());
    let addresses = [gone.address().to_owned(), server.address().to_owned()];
    drop(gone);
    let both = addresses.join(",");
    let worker = F::Worker::connect(both.as_str()).unwrap();
    worker.check().unwrap();
    let status = worker.handle().servers();
    assert!(status.iter().all(|server| !server.never_connected), "{status:?}");
    let asked = server.requests();
    assert!(asked.iter().all(|request| request.name() != "CAN_DO"), "{asked:?}");
    assert_eq!(worker.stop().never_connected, 0, "it has wanted no connection");
    drop(server);
    let error = F::Worker::connect(both.as_str()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Connect);
    for address in &addresses {
        assert!(error.to_string().contains(address.as_str()), "{error}");
    }
}

fn a_barrier_connects_to_all_servers<F: Face>() {
    let servers = [(); 3].map(|()| Server::start().unwrap());
    let first = servers[0].address().parse().unwrap();
    let others = servers[1..].iter().map(|server| late(server.address()));
    let mut worker = worker::<F>([first].into_iter().chain(others));
    assert_eq!(worker.connected(), 0);
    worker.barrier().unwrap();
    assert_eq!(worker.connected(), 3);
    for server in &servers {
        let said: Vec<_> = server.requests().iter().map(|request| request.name()).collect();
        assert_eq!(said, ["CAN_DO", "ECHO_REQ"]);
    }
    worker.stop();
}

fn a_barrier_leaves_out_a_server_that_cannot_be_reached<F: Face>() {
    let (gone, server) = (Server::start().unwrap(), Server::start().unwrap());
    let list = [&gone, &server].map(|server| late(server.address()));
    drop(gone);
    let mut worker = worker::<F>(list);
    worker.barrier().unwrap();
    assert_eq!(worker.connected(), 1);
    submit(&server);
    worker.completes_next("");
    worker.barrier().unwrap();
    drop(server);
    // It was reachable, and then it is not; a late caller only finds that it cannot be reached again.
    let kind = worker.barrier().unwrap_err().kind();
    assert!(matches!(kind, ErrorKind::ConnectionLost | ErrorKind::Connect), "{kind:?}");
    assert!(worker.barrier().is_err());
    let report = worker.stop();
    assert_eq!((report.completed, report.unknown), (1, 0), "{report}");
}

fn a_result_that_is_lost_fails_the_next_barrier_and_no_other<F: Face>() {
    let (bad, good) = (Server::start().unwrap(), Server::start().unwrap());
    let mut worker = worker::<F>([&bad, &good].map(|server| late(server.address())));
    bad.faults().add(Fault::nth(1).of("WORK_COMPLETE").reset_after(0));
    submit(&bad);
    worker.completes_next("lost");
    // By the time this one has arrived, the loss may have been noticed, and the connection restored.
    submit(&good);
    worker.completes_next("");
    assert_eq!(worker.barrier().unwrap_err().kind(), ErrorKind::ConnectionLost);
    worker.barrier().unwrap();
    let report = worker.stop();
    assert_eq!((report.completed, report.unknown), (1, 1), "{report}");
}
