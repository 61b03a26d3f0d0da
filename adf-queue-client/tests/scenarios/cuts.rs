//! Connections that break at any byte of the server's answers.

use std::time::{Duration, Instant};

use adf_queue_client::{
    Address, ConnectOptions, Delivery, ErrorKind, Fate, QueueName, Refusal, Result, RetryPolicy,
    Transport,
};
use fixtures::{adf_queue::Server, fault::Fault};

use crate::{
    face::{Face, both_faces, in_memory_over_each_transport},
    support::{PATIENCE, World, queue_name},
};

in_memory_over_each_transport!(an_answer_that_breaks_at_any_byte_leaves_the_next_call_its_own);

both_faces!(
    a_question_whose_answer_breaks_at_any_byte_is_asked_again,
    a_pull_whose_message_breaks_at_any_byte_gets_it_again,
    calls_to_a_server_that_is_gone_wait_only_for_their_own_delays,
    a_message_whose_answer_breaks_at_any_byte_is_recovered_by_its_id,
);

const TRANSPORTS: [Transport; 2] = [Transport::WsBin, Transport::WsJson];

fn client<F: Face>(server: &Server, transport: Transport) -> F {
    let address: Address = server.address().parse().unwrap();
    let retry = RetryPolicy::new(5).backoff(Duration::from_millis(1), Duration::from_millis(2));
    let options = ConnectOptions::new(address.with_transport(transport));
    F::connect(options.retry(retry).reply_timeout(PATIENCE)).unwrap()
}

/// How a connection breaks.
fn breaks(fault: &Fault, at: usize) -> [Fault; 2] {
    [fault.clone().cut_after(at), fault.clone().reset_after(at)]
}

/// As long as the answers here, and no longer: a fault after the last byte strikes none of them.
fn longest(transport: Transport) -> usize {
    match transport {
        Transport::WsJson => 60,
        _ => 22,
    }
}

/// Breaks each answer to this action one byte later than the one before, alternately by a close and by a reset, until
/// one is whole; returns how many were not.
fn break_each(server: &Server, action: &str, mut ask: impl FnMut(usize) -> bool) -> usize {
    for at in 0.. {
        let fault = Fault::nth(1).of(action);
        server.faults().add(match at % 2 {
            0 => fault.cut_after(at),
            _ => fault.reset_after(at),
        });
        if ask(at) {
            server.faults().clear();
            return at;
        }
    }
    unreachable!("no answer is endless")
}

/// A request that changes something on the server: the state before, the request, and the state after one execution.
/// None of them answers a second execution by closing the connection.
struct Change<F> {
    action: &'static str,
    before: Before,
    ask: fn(&mut F, &QueueName, Option<&Delivery>) -> Result<()>,
    /// Number of ready messages, if the queue exists.
    after: Option<u32>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Before {
    NoQueue,
    Empty,
    Ready,
    Pulled,
}

fn changes<F: Face>() -> [Change<F>; 8] {
    use Before::{Empty, NoQueue, Pulled, Ready};
    type Ask<F> = fn(&mut F, &QueueName, Option<&Delivery>) -> Result<()>;
    let change = |action, before, ask: Ask<F>, after| Change { action, before, ask, after };
    [
        change("lpush", Empty, |it, queue, _| it.lpush(queue, "x".into()).map(drop), Some(1)),
        change("rpush", Empty, |it, queue, _| it.rpush(queue, "x".into()).map(drop), Some(1)),
        change("delete", Pulled, |it, _, pulled| it.delete(pulled.unwrap()), Some(0)),
        change("lcancel", Pulled, |it, _, pulled| it.lcancel(pulled.unwrap()), Some(1)),
        change("rcancel", Pulled, |it, _, pulled| it.rcancel(pulled.unwrap()), Some(1)),
        change("clear", Ready, |it, queue, _| it.clear(queue).map(drop), Some(0)),
        change("createqueue", NoQueue, |it, queue, _| it.create_queue(queue), Some(0)),
        change("deletequeue", Empty, |it, queue, _| it.delete_queue(queue), None),
    ]
}

fn an_answer_that_breaks_at_any_byte_leaves_the_next_call_its_own<F: Face>(world: &World) {
    let (server, transport) = (world.server.as_ref().unwrap(), world.address.transport());
    for Change { action, before, ask, after } in changes::<F>() {
        let mut client: F = client(server, transport);
        let broken = break_each(server, action, |at| {
            let case = format!("{action} cut after {at}");
            let queue = queue_name();
            if before != Before::NoQueue {
                client.create_queue(&queue).unwrap();
            }
            if matches!(before, Before::Ready | Before::Pulled) {
                client.rpush(&queue, "x".into()).unwrap();
            }
            let pulled = (before == Before::Pulled).then(|| client.pull(&queue).unwrap());
            let outcome = ask(&mut client, &queue, pulled.as_ref());
            if let Err(error) = &outcome {
                assert_eq!(error.fate(), Fate::Unknown, "{case}: {error}");
                assert_eq!(*error.kind(), ErrorKind::ConnectionLost, "{case}");
            }
            assert_eq!(client.count(&queue).ok(), after, "{case}");
            assert!(server.wait_for(PATIENCE, |view| view.pulled == 0), "{case}");
            outcome.is_ok()
        });
        assert!(broken > 10, "{action}: {broken}");
    }
}

fn a_question_whose_answer_breaks_at_any_byte_is_asked_again<F: Face>() {
    for transport in TRANSPORTS {
        let server = Server::builder().queue("/q").start().unwrap();
        let mut client: F = client(&server, transport);
        let queue = "/q".parse().unwrap();
        for at in 0..longest(transport) {
            for fault in breaks(&Fault::nth(1).of("count"), at) {
                server.faults().add(fault);
                assert_eq!(client.count(&queue).unwrap(), 0);
            }
        }
        for at in 0..2 {
            for fault in breaks(&Fault::nth(1).of("ping"), at) {
                server.faults().add(fault);
                client.ping().unwrap();
            }
        }
    }
}

/// The server gives the message back when the connection ends.
fn a_pull_whose_message_breaks_at_any_byte_gets_it_again<F: Face>() {
    for transport in TRANSPORTS {
        let server = Server::builder().queue("/q").start().unwrap();
        let mut client: F = client(&server, transport);
        let queue = "/q".parse().unwrap();
        for at in 0..longest(transport) {
            for fault in breaks(&Fault::nth(1).of("pull"), at) {
                client.rpush(&queue, "the body".into()).unwrap();
                server.faults().add(fault);
                let pulled = client.pull(&queue).unwrap();
                assert_eq!(
                    (&pulled.body()[..], pulled.duplications()),
                    (&b"the body"[..], 2),
                    "{transport} cut after {at}"
                );
                client.delete(&pulled).unwrap();
            }
        }
        assert!(server.wait_for(PATIENCE, |view| view.ready + view.pulled == 0));
    }
}

fn calls_to_a_server_that_is_gone_wait_only_for_their_own_delays<F: Face>() {
    let retry = RetryPolicy::new(3).backoff(Duration::from_millis(5), Duration::from_secs(60));
    for transport in [Transport::WsBin, Transport::HttpBin] {
        let server = Server::start().unwrap();
        let address: Address = server.address().parse().unwrap();
        let options = ConnectOptions::new(address.with_transport(transport)).retry(retry);
        let mut client = F::connect(options).unwrap();
        drop(server);
        let started = Instant::now();
        for _ in 0..8 {
            client.ping().unwrap_err();
        }
        // Up to 5, 10 and 20 ms for each call. If they went on growing, the last call alone would take minutes.
        assert!(started.elapsed() < PATIENCE, "{transport}: {:?}", started.elapsed());
    }
}

/// Row 2: the server gives back no message on its own.
fn a_message_whose_answer_breaks_at_any_byte_is_recovered_by_its_id<F: Face>() {
    for transport in [Transport::HttpBin, Transport::HttpJson] {
        let (server, queue) =
            (Server::builder().queue("/q").start().unwrap(), "/q".parse().unwrap());
        let mut client: F = client(&server, transport);
        let broken = break_each(&server, "pull", |at| {
            client.rpush(&queue, "the body".into()).unwrap();
            let error = match client.pull(&queue) {
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
            assert_eq!(client.count(&queue).unwrap(), 0);
            client.recover(&queue, &id).unwrap();
            let again = client.recover(&queue, &id).unwrap_err();
            assert_eq!(*again.kind(), ErrorKind::Refused(Refusal::NotPulled));
            let pulled = client.try_pull(&queue).unwrap().unwrap();
            assert_eq!((&pulled.body()[..], pulled.duplications()), (&b"the body"[..], 2));
            client.delete(&pulled).unwrap();
            false
        });
        assert!(broken > 100, "{broken}");
        assert!(server.wait_for(PATIENCE, |view| view.ready + view.pulled == 0));
    }
}
