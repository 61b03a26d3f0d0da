//! Connections over HTTP that break at any byte of an answer, and answers that arrive byte by byte.

use std::time::Duration;

use adf_queue_client::{ErrorKind, Fate, QueueName, Refusal, Transport};
use fixtures::{adf_queue::Server, fault::Fault};

use crate::{
    cuts::{break_each, client},
    face::{Face, both_faces},
    support::PATIENCE,
};

both_faces!(
    a_count_whose_answer_breaks_before_its_first_byte_is_asked_again,
    a_message_whose_answer_breaks_at_any_byte_is_recovered_by_its_id,
    answers_over_http_may_come_byte_by_byte,
    a_connection_that_was_idle_for_10_seconds_is_replaced,
);

const TRANSPORTS: [Transport; 2] = [Transport::HttpBin, Transport::HttpJson];

fn queue() -> QueueName {
    "/q".parse().unwrap()
}

/// The server may have closed a kept connection just before; a read-only request is repeated.
fn a_count_whose_answer_breaks_before_its_first_byte_is_asked_again<F: Face>() {
    for transport in TRANSPORTS {
        let server = Server::builder().queue("/q").start().unwrap();
        let mut client: F = client(&server, transport);
        let broken = break_each(&server, "count", |at| {
            // Over a connection that has served.
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

/// Row 2: the server gives back no message on its own.
fn a_message_whose_answer_breaks_at_any_byte_is_recovered_by_its_id<F: Face>() {
    for transport in TRANSPORTS {
        let server = Server::builder().queue("/q").start().unwrap();
        let mut client: F = client(&server, transport);
        let broken = break_each(&server, "pull", |at| {
            client.rpush(&queue(), "the body".into()).unwrap();
            let error = match client.pull(&queue()) {
                Ok(pulled) => {
                    // The connection ends after its answer, or just now.
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
