//! Connections over HTTP that break at any byte of an answer, and answers that come byte by byte.

use std::time::Duration;

use adf_queue_client::{
    Address, ConnectOptions, ErrorKind, Fate, QueueName, Refusal, RetryPolicy, Transport,
};
use fixtures::{adf_queue::Server, fault::Fault};

use crate::{
    face::{Face, both_faces},
    support::PATIENCE,
};

both_faces!(
    a_push_whose_answer_breaks_at_any_byte_has_an_unknown_fate,
    a_count_whose_answer_breaks_before_its_first_byte_is_asked_again,
    a_message_whose_answer_breaks_at_any_byte_is_recovered_by_its_id,
    answers_over_http_may_come_byte_by_byte,
    a_connection_that_was_idle_for_10_seconds_is_replaced,
);

const TRANSPORTS: [Transport; 2] = [Transport::HttpBin, Transport::HttpJson];

fn client<F: Face>(server: &Server, transport: Transport) -> F {
    let address: Address = server.address().parse().unwrap();
    let retry = RetryPolicy::new(5).backoff(Duration::from_millis(1), Duration::from_millis(2));
    let options = ConnectOptions::new(address.with_transport(transport));
    F::connect(options.retry(retry).reply_timeout(PATIENCE)).unwrap()
}

fn queue() -> QueueName {
    "/q".parse().unwrap()
}

/// Breaks each answer to this action one byte later than the one before, in turns by an end and by a reset, until one is whole:
/// how many were not.
fn break_each(server: &Server, action: &str, mut ask: impl FnMut(usize) -> bool) -> usize {
    for at in 0.. {
        for fault in
            [Fault::nth(1).of(action).cut_after(at), Fault::nth(1).of(action).reset_after(at)]
        {
            server.faults().add(fault);
            if ask(at) {
                server.faults().clear();
                return at;
            }
        }
    }
    unreachable!("no answer is endless")
}

fn a_push_whose_answer_breaks_at_any_byte_has_an_unknown_fate<F: Face>() {
    for transport in TRANSPORTS {
        let server = Server::builder().queue("/q").start().unwrap();
        let mut client: F = client(&server, transport);
        let mut pushed = 0;
        let broken = break_each(&server, "rpush", |at| {
            pushed += 1;
            match client.rpush(&queue(), "x".into()) {
                Ok(id) => {
                    assert_eq!(id.get(), u64::from(pushed));
                    return true;
                }
                Err(error) => {
                    assert_eq!(error.fate(), Fate::Unknown, "{transport} after {at}: {error}");
                    assert_eq!(*error.kind(), ErrorKind::ConnectionLost);
                }
            }
            assert_eq!(client.count(&queue()).unwrap(), pushed, "{transport} after {at}");
            false
        });
        assert!(broken > 100, "{broken}");
    }
}

/// The server may have closed a kept connection just before; what only asks is asked once more.
fn a_count_whose_answer_breaks_before_its_first_byte_is_asked_again<F: Face>() {
    for transport in TRANSPORTS {
        let server = Server::builder().queue("/q").start().unwrap();
        let mut client: F = client(&server, transport);
        let broken = break_each(&server, "count", |at| {
            // By a connection that has served.
            client.ping().unwrap();
            match client.count(&queue()) {
                Ok(count) => {
                    assert_eq!(count, 0);
                    at > 0
                }
                Err(error) => {
                    assert!(at > 0, "{transport}: {error}");
                    assert_eq!(error.fate(), Fate::Unknown, "{transport} after {at}: {error}");
                    false
                }
            }
        });
        assert!(broken > 100, "{broken}");
    }
}

/// Row 2: the server gives no message back by itself.
fn a_message_whose_answer_breaks_at_any_byte_is_recovered_by_its_id<F: Face>() {
    for transport in TRANSPORTS {
        let server = Server::builder().queue("/q").start().unwrap();
        let mut client: F = client(&server, transport);
        let broken = break_each(&server, "pull", |at| {
            client.rpush(&queue(), "the body".into()).unwrap();
            let error = match client.pull(&queue()) {
                Ok(pulled) => {
                    // The connection ends behind its answer, or just now.
                    client.reconnect().unwrap();
                    client.delete(&pulled).unwrap();
                    return true;
                }
                Err(error) => error,
            };
            assert_eq!(error.fate(), Fate::Unknown, "{transport} after {at}: {error}");
            let id = *error.request_id().expect("the message is found by it");
            assert_eq!(client.count(&queue()).unwrap(), 0);
            client.recover(&queue(), &id).unwrap();
            let again = client.recover(&queue(), &id).unwrap_err();
            assert_eq!(*again.kind(), ErrorKind::Refused(Refusal::NotPulled));
            let pulled = client.try_pull(&queue()).unwrap().unwrap();
            assert_eq!((&pulled.body()[..], pulled.duplications()), (&b"the body"[..], 2));
            client.delete(&pulled).unwrap();
            false
        });
        assert!(broken > 100, "{broken}");
        assert!(server.wait_for(PATIENCE, |view| view.ready + view.pulled == 0));
    }
}

fn answers_over_http_may_come_byte_by_byte<F: Face>() {
    for transport in TRANSPORTS {
        let server = Server::builder().start().unwrap();
        server.faults().add(Fault::always().chunks(1));
        let mut client: F = client(&server, transport);
        client.create_queue(&queue()).unwrap();
        client.rpush(&queue(), "x".repeat(300).into()).unwrap();
        let pulled = client.pull(&queue()).unwrap();
        assert_eq!(pulled.body().len(), 300);
        client.delete(&pulled).unwrap();
        assert_eq!(client.stats().unwrap().queues.len(), 1);
        client.delete_queue(&queue()).unwrap();
    }
}

/// Row 11.
fn a_connection_that_was_idle_for_10_seconds_is_replaced<F: Face>() {
    let server = Server::builder().queue("/q").virtual_clock().start().unwrap();
    let mut client: F = client(&server, Transport::HttpBin);
    assert_eq!(client.count(&queue()).unwrap(), 0);
    server.advance(Duration::from_millis(9_900));
    assert_eq!(server.view().connections, 1);
    server.advance(Duration::from_millis(200));
    assert!(server.wait_for(PATIENCE, |view| view.connections == 0));
    // Neither is lost on the connection that has ended.
    assert_eq!(client.rpush(&queue(), "x".into()).unwrap().get(), 1);
    assert_eq!(client.count(&queue()).unwrap(), 1);
    assert_eq!(client.metrics().connections, 3);
}
