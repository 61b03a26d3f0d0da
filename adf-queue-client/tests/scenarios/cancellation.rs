//! Futures that are dropped in the middle: the next call gets its own answer, and no message is lost.

use std::{
    pin::{Pin, pin},
    task::Poll,
    time::Duration,
};

use adf_queue_client::{Client, ErrorKind, QueueName, RequestId, Result, protocol::Request};
use fixtures::adf_queue::Server;
use queue_core::proof::drop_after_turns;
use queue_core::proof::runtime;

use crate::face::async_with_queue;
use crate::support::{PATIENCE, World, on_each_server, on_servers, queue_name};

/// As many turns of the runtime, which has one thread, as a call takes here, and more.
const TURNS: usize = 24;

async fn in_step(client: &Client, case: &str) {
    client.ping().await.unwrap_or_else(|error| panic!("{case}: {error}"));
    let queue = queue_name();
    client.create_queue(&queue).await.unwrap_or_else(|error| panic!("{case}: {error}"));
    assert_eq!(client.count(&queue).await.unwrap(), 0, "{case}");
    client.delete_queue(&queue).await.unwrap_or_else(|error| panic!("{case}: {error}"));
}

type Call = for<'a> fn(&'a Client, &'a str) -> Pin<Box<dyn Future<Output = ()> + 'a>>;

/// The names of calls, and each call with its outcome dropped.
macro_rules! calls {
    ($(|$client:ident, $queue:pat_param| $name:literal: $call:expr;)+) => {
        [$(($name, |$client, $queue| Box::pin(async move { drop($call.await) }))),+]
    };
}

fn calls() -> [(&'static str, Call); 14] {
    calls! {
        |client, queue| "rpush": client.rpush(queue, "x");
        |client, queue| "lpush": client.lpush(queue, "x");
        |client, queue| "count": client.count(queue);
        |client, queue| "clear": client.clear(queue);
        |client, queue| "try_pull": client.try_pull(queue);
        |client, queue| "pull_within": client.pull_within(queue, PATIENCE);
        |client, queue| "ensure_queue": client.ensure_queue(queue);
        |client, queue| "create_queue": client.create_queue(queue);
        |client, queue| "delete_queue": async {
            drop(client.delete_queue(queue).await);
            client.ensure_queue(queue).await
        };
        |client, queue| "call": client.call(Request::count(RequestId::unique(), queue.parse().unwrap()));
        |client, _| "stats": client.stats();
        |client, queue| "queue_stats": client.queue_stats(queue);
        |client, _| "ping": client.ping();
        |client, _| "reconnect": client.reconnect();
    }
}

fn every_call_may_be_dropped_at_any_turn(world: &World) {
    runtime().block_on(async {
        for (name, call) in calls() {
            let (client, queue) = async_with_queue(world).await;
            for turns in 0..TURNS {
                drop_after_turns(turns, call(&client, queue.as_str())).await;
                in_step(&client, &format!("{name} dropped after {turns} turns")).await;
            }
            // A dropped call may have deleted it.
            if let Err(error) = client.delete_queue(&queue).await {
                assert_eq!(error.kind().name(), "queue_not_found", "{name}");
            }
        }
    });
}

/// A message that a dropped pull had, or was about to get, goes to the next pull, over the same connection.
fn a_pull_may_be_dropped_at_any_turn_and_no_message_is_lost(world: &World) {
    runtime().block_on(async {
        let (client, queue) = async_with_queue(world).await;
        let epoch = client.epoch();
        for turns in 0..TURNS {
            let body = turns.to_string();
            client.rpush(&queue, body.clone()).await.unwrap();
            let pulled = match drop_after_turns(turns, client.pull(&queue)).await {
                Some(pulled) => pulled.unwrap(),
                None => client.pull(&queue).await.unwrap(),
            };
            assert_eq!((&pulled.body()[..], pulled.duplications()), (body.as_bytes(), 1));
            client.delete(&pulled).await.unwrap();
        }
        assert_eq!(client.epoch(), epoch);
        client.delete_queue(&queue).await.unwrap();
    });
}

/// The actions on a pulled message by the id of its pull, and the number of ready messages afterwards.
type ById = for<'a> fn(
    &'a Client,
    &'a QueueName,
    &'a RequestId,
) -> Pin<Box<dyn Future<Output = Result<()>> + 'a>>;

fn calls_by_id() -> [(&'static str, ById, u32); 4] {
    [
        ("delete_pulled", |it, queue, id| Box::pin(it.delete_pulled(queue, id)), 0),
        ("lcancel_pulled", |it, queue, id| Box::pin(it.lcancel_pulled(queue, id)), 1),
        ("rcancel_pulled", |it, queue, id| Box::pin(it.rcancel_pulled(queue, id)), 1),
        ("recover", |it, queue, id| Box::pin(it.recover(queue, id)), 1),
    ]
}

/// It is executed, or can still be executed; and never twice.
fn calls_by_id_may_be_dropped_at_any_turn(world: &World) {
    runtime().block_on(async {
        for (name, call, ready) in calls_by_id() {
            let (client, queue) = async_with_queue(world).await;
            for turns in 0..TURNS {
                let case = format!("{name} dropped after {turns} turns");
                client.rpush(&queue, "x").await.unwrap();
                let id = RequestId::unique();
                client.pull_with_id(&queue, id).await.unwrap();
                let dropped = drop_after_turns(turns, call(&client, &queue, &id)).await;
                let again = call(&client, &queue, &id).await;
                let gone = again.as_ref().err().map(|error| error.kind().name());
                match dropped {
                    Some(outcome) => {
                        outcome.unwrap_or_else(|error| panic!("{case}: {error}"));
                        assert_eq!(gone, Some("not_pulled"), "{case}");
                    }
                    None => assert!(matches!(gone, None | Some("not_pulled")), "{case}: {gone:?}"),
                }
                assert_eq!(client.count(&queue).await.unwrap(), ready, "{case}");
                assert_eq!(client.clear(&queue).await.unwrap(), ready, "{case}");
            }
            client.delete_queue(&queue).await.unwrap();
        }
    });
}

/// The message goes to this client's next pull, or is found by the id.
fn a_pull_with_an_id_may_be_dropped_at_any_turn_and_no_message_is_lost(world: &World) {
    runtime().block_on(async {
        let (client, queue) = async_with_queue(world).await;
        for turns in 0..TURNS {
            let (body, id) = (turns.to_string(), RequestId::unique());
            client.rpush(&queue, body.clone()).await.unwrap();
            let pull = client.pull_with_id(&queue, id);
            let mut pulled = drop_after_turns(turns, pull).await.map(Result::unwrap);
            if pulled.is_none() && turns % 2 == 0 {
                // Without mentioning the abandoned pull, if the server has it.
                match client.recover(&queue, &id).await {
                    Ok(()) => assert_eq!(client.count(&queue).await.unwrap(), 1, "{turns}"),
                    Err(error) => assert_eq!(error.kind().name(), "not_pulled", "{turns}"),
                }
            }
            if pulled.is_none() {
                pulled = client.pull_within(&queue, PATIENCE).await.unwrap();
            }
            let pulled = pulled.unwrap_or_else(|| panic!("the message is lost after {turns}"));
            assert_eq!(pulled.body(), body.as_bytes());
            client.delete(&pulled).await.unwrap();
            assert_eq!(client.count(&queue).await.unwrap(), 0, "{turns}");
        }
        client.delete_queue(&queue).await.unwrap();
    });
}

/// The server forgets a pull with its queue, and the message for a later one is the first caller's.
fn every_pull_from_a_recreated_queue_is_served(world: &World) {
    runtime().block_on(async {
        let client = Client::connect(world.options()).await.unwrap();
        let other = Client::connect(world.options()).await.unwrap();
        let queue = queue_name();
        other.create_queue(&queue).await.unwrap();
        let mut pulls = [(); 3].map(|()| Box::pin(client.pull(&queue)));
        for (number, pull) in pulls.iter_mut().enumerate() {
            if number > 0 {
                other.delete_queue(&queue).await.unwrap();
                other.create_queue(&queue).await.unwrap();
            }
            assert!(drop_after_turns(1, pull).await.is_none());
            // Two answers later, the pull has followed the count before it.
            for _ in 0..2 {
                client.count(&queue).await.unwrap();
            }
        }
        for pull in pulls {
            other.rpush(&queue, "x").await.unwrap();
            let pulled = tokio::time::timeout(PATIENCE, pull).await.expect("it waits").unwrap();
            client.delete(&pulled).await.unwrap();
        }
        other.delete_queue(&queue).await.unwrap();
    });
}

on_each_server!(
    every_call_may_be_dropped_at_any_turn,
    a_pull_may_be_dropped_at_any_turn_and_no_message_is_lost,
);

on_servers!(every_pull_from_a_recreated_queue_is_served:
    ws_bin_in_memory = in_memory WsBin,
    ws_json_in_memory = in_memory WsJson,
    ws_bin_real = real WsBin,
    ws_json_real = real WsJson,
);

on_servers!(calls_by_id_may_be_dropped_at_any_turn:
    http_bin_in_memory = in_memory HttpBin,
    http_json_in_memory = in_memory HttpJson,
    http_bin_real = real HttpBin,
    http_json_real = real HttpJson,
);

on_servers!(a_pull_with_an_id_may_be_dropped_at_any_turn_and_no_message_is_lost:
    http_bin_in_memory = in_memory HttpBin,
    http_json_in_memory = in_memory HttpJson,
    http_bin_real = real HttpBin,
    http_json_real = real HttpJson,
);

#[test]
fn a_connect_that_was_dropped_closes_its_connection() {
    let server = Server::start().unwrap();
    runtime().block_on(async {
        for turns in 0..TURNS {
            drop(drop_after_turns(turns, Client::connect(server.address())).await);
        }
    });
    assert!(server.wait_for(PATIENCE, |view| view.connections == 0));
}

#[test]
fn calls_of_a_client_whose_runtime_has_ended_fail_and_it_serves_on_another() {
    let server = Server::builder().queue("/q").start().unwrap();
    let one = runtime();
    let client = one.block_on(Client::connect(server.address())).unwrap();
    drop(one);
    let other = runtime();
    other.block_on(async {
        client.rpush("/q", "x").await.unwrap();
        assert_eq!(client.metrics().connections, 2);
        let pulled = client.pull_within("/q", Duration::from_secs(20)).await.unwrap().unwrap();
        client.delete(&pulled).await.unwrap();
    });
    let outside = Client::new(server.address()).unwrap();
    let mut call = pin!(outside.count("/q"));
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    let Poll::Ready(Err(error)) = call.as_mut().poll(&mut cx) else { panic!("it has no runtime") };
    assert_eq!(*error.kind(), ErrorKind::InvalidInput);
}
